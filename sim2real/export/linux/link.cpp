#include "link.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace flight {
namespace {

std::map<std::string, MakeLink> &protocols()
{
    static std::map<std::string, MakeLink> all;
    return all;
}

/* "a, b, c" */
template <typename Names> std::string listed(const Names &names)
{
    std::string out;
    for (const auto &name : names) {
        out += (out.empty() ? "" : ", ") + std::string(name);
    }
    return out;
}

std::map<std::string, std::string> parse_options(const std::string &url, const std::string &text)
{
    std::map<std::string, std::string> out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('&', at), text.size());
        const std::string word = text.substr(at, end - at);
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos || equals == 0) {
            throw Refused(url + ": options are written name=value, joined by &.");
        }
        out[word.substr(0, equals)] = word.substr(equals + 1);
        at = end + 1;
    }
    return out;
}

} // namespace

const Quantity *Robot::find(const char *name) const
{
    for (int i = 0; i < quantity_count; i++) {
        if (std::strcmp(quantities[i].name, name) == 0) {
            return &quantities[i];
        }
    }
    return nullptr;
}

double Address::number(const char *option, double otherwise) const
{
    const auto found = options.find(option);
    if (found == options.end()) {
        return otherwise;
    }
    char *end = nullptr;
    const double out = std::strtod(found->second.c_str(), &end);
    if (found->second.empty() || *end != '\0' || !std::isfinite(out)) {
        throw Refused(std::string(option) + " must be a number in " + url + ".");
    }
    return out;
}

void Address::allow(std::initializer_list<const char *> names) const
{
    for (const auto &[name, value] : options) {
        bool known = false;
        for (const char *one : names) {
            known = known || name == one;
        }
        if (!known) {
            throw Refused(protocol + ":// has no option " + name + "; it has " + listed(names) + ".");
        }
    }
}

Address parse_address(const std::string &url)
{
    Address out;
    out.url = url;
    const std::size_t scheme = url.find("://");
    if (scheme == std::string::npos || scheme == 0) {
        throw Refused(url + " is no address: write protocol://host:port, such as mavlink://:14540.");
    }
    out.protocol = url.substr(0, scheme);
    std::string rest = url.substr(scheme + 3);
    const std::size_t question = rest.find('?');
    if (question != std::string::npos) {
        out.options = parse_options(url, rest.substr(question + 1));
        rest = rest.substr(0, question);
    }
    const std::size_t slash = rest.find('/');
    if (slash != std::string::npos) {
        out.path = rest.substr(slash);
        rest = rest.substr(0, slash);
    }
    const std::size_t colon = rest.find(':');
    out.host = rest.substr(0, colon);
    if (colon != std::string::npos) {
        const std::string port = rest.substr(colon + 1);
        char *end = nullptr;
        const long number = std::strtol(port.c_str(), &end, 10);
        if (port.empty() || *end != '\0' || number < 1 || number > 65535) {
            throw Refused(url + " has no port: give a number from 1 to 65535.");
        }
        out.port = static_cast<int>(number);
    }
    return out;
}

Protocol::Protocol(const char *name, MakeLink make) { protocols()[name] = make; }

std::unique_ptr<Link> make_link(const std::string &url, const Robot &robot)
{
    const Address address = parse_address(url);
    const auto found = protocols().find(address.protocol);
    if (found == protocols().end()) {
        std::vector<std::string> names;
        for (const auto &[name, make] : protocols()) {
            names.push_back(name);
        }
        throw Refused("there is no protocol " + address.protocol + "; there are " + listed(names) + ".");
    }
    return found->second(address, robot);
}

} // namespace flight
