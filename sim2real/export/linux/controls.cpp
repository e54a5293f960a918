#include "settings.hpp"

#include <cmath>
#include <cstdlib>

#include "toml_lines.hpp"

namespace flight {
namespace {

/* Reads the [ranges] of a file of controls; its other tables are of keys and gamepads, which the program has none of. */
class RangeReader {
public:
    explicit RangeReader(const std::string &path) : path_(path) {}

    std::vector<Span> read()
    {
        std::string table, entry;
        for (const std::string &line : toml_lines(path_, "controls")) {
            number_++;
            if (entry.empty() && !line.empty() && line[0] == '[') {
                table = line;
            } else if (table == "[ranges]" && !line.empty()) {
                entry += line;
                if (depth(entry) == 0) { /* an array may go over several lines */
                    take(entry);
                    entry.clear();
                }
            }
        }
        if (!entry.empty()) {
            refuse(form);
        }
        return spans_;
    }

private:
    static constexpr const char *form = "a range is NAME = [[least, ...], [greatest, ...]]";

    [[noreturn]] void refuse(const std::string &why) const
    {
        throw Refused("line " + std::to_string(number_) + " of the controls " + path_ + ": " + why + ".");
    }

    /* Brackets that are open at the end of a text. */
    static int depth(const std::string &text)
    {
        int out = 0;
        bool quoted = false;
        for (const char c : text) {
            quoted = quoted != (c == '"');
            out += quoted ? 0 : (c == '[') - (c == ']');
        }
        return out;
    }

    void take(const std::string &entry)
    {
        const std::size_t equals = entry.find('=', entry[0] == '"' ? entry.find('"', 1) : 0);
        if (equals == std::string::npos) {
            refuse(form);
        }
        std::string name = stripped(entry.substr(0, equals));
        if (name.size() > 1 && name.front() == '"' && name.back() == '"') {
            name = name.substr(1, name.size() - 2);
        }
        for (const Span &span : spans_) {
            if (span.name == name) {
                refuse("the range of " + name + " is there twice");
            }
        }
        text_ = entry.substr(equals + 1);
        at_ = 0;
        Span span{name, {}, {}};
        expect('[');
        span.low = numbers();
        expect(',');
        span.high = numbers();
        if (next() == ',') {
            at_++;
        }
        expect(']');
        if (name.empty() || next() != '\0') {
            refuse(form);
        }
        spans_.push_back(span);
    }

    /* The next character that is no space; 0 at the end. */
    char next()
    {
        at_ = std::min(text_.find_first_not_of(" \t\r", at_), text_.size());
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    void expect(char wanted)
    {
        if (next() != wanted) {
            refuse(form);
        }
        at_++;
    }

    std::vector<float> numbers()
    {
        std::vector<float> out;
        expect('[');
        while (next() != ']') {
            const char *begin = text_.c_str() + at_;
            char *end = nullptr;
            const double value = std::strtod(begin, &end);
            if (end == begin || !std::isfinite(value)) {
                refuse(form);
            }
            out.push_back(static_cast<float>(value));
            at_ += static_cast<std::size_t>(end - begin);
            if (next() != ']') {
                expect(',');
            }
        }
        at_++;
        return out;
    }

    std::string path_, text_;
    std::vector<Span> spans_;
    std::size_t at_ = 0;
    int number_ = 0;
};

} // namespace

std::vector<Span> read_ranges(const std::string &path) { return RangeReader(path).read(); }

} // namespace flight
