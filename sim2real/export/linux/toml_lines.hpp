/* Lines of a small TOML file, as the settings and the controls take them. */
#ifndef FLIGHT_TOML_LINES_HPP
#define FLIGHT_TOML_LINES_HPP

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "link.hpp"

namespace flight {

inline std::string stripped(const std::string &text)
{
    const std::size_t first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/* A line without its comment, which a # outside of a string begins. */
inline std::string without_comment(const std::string &line)
{
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); i++) {
        quoted = quoted != (line[i] == '"');
        if (line[i] == '#' && !quoted) {
            return stripped(line.substr(0, i));
        }
    }
    return stripped(line);
}

/* The lines of a file without comments and spaces around them; Refused where it cannot be read. `what` it is, for people. */
inline std::vector<std::string> toml_lines(const std::string &path, const std::string &what)
{
    constexpr std::size_t largest_file = 1 << 16;
    std::ifstream file(path, std::ios::binary);
    std::string text(largest_file + 1, '\0');
    if (!file || !(file.read(&text[0], largest_file + 1), file.eof())) {
        throw Refused("cannot read the " + what + " " + path + ": give a TOML file of at most 64 KiB.");
    }
    text.resize(static_cast<std::size_t>(file.gcount()));
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        out.push_back(without_comment(text.substr(at, end - at)));
        at = end + 1;
    }
    return out;
}

} // namespace flight

#endif
