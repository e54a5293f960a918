#include "settings.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "frames.hpp"
#include "toml_lines.hpp"

namespace flight {

const char *const family_names[3] = {"multirotor", "joints", "arm"};
const char *const reaction_names[reactions] = {"land", "stop", "damp", "hold", "sit"};

const char *const fault_names[SAFETY_FAULTS] = {
    "", "operator", "not_finite", "silent", "stale", "frozen", "clock", "ground", "hung", "tilt", "fence", "height", "spin",
    "jump", "joint", "torque", "speed", "collision", "disarmed", "deadline", "battery", "command",
};

const char *const fault_texts[SAFETY_FAULTS] = {
    "",
    "the operator asked for a stop",
    "a measured value is NaN or infinite",
    "the vehicle is silent",
    "measurements are too old",
    "measurements do not change",
    "the vehicle's clock jumped",
    "the map of the ground is too old",
    "the policy's step did not return in time",
    "the body leans too far",
    "it is too far from its target",
    "it is too low or too high",
    "it turns too fast",
    "its place or attitude jumped",
    "a joint is outside its limits",
    "a joint pushes harder than its limit",
    "a joint moves faster than its limit",
    "something pushes against the arm",
    "the vehicle no longer follows",
    "too many control steps in a row were late",
    "the battery is low",
    "the policy's command is not finite",
};

namespace {

struct Key {
    const char *name;
    double Limits::*value;
    bool time; /* or a count: 0 switches it off, and it is never below */
};

constexpr Key keys[] = {
    {"stale_ms", &Limits::stale_ms, true},       {"silent_ms", &Limits::silent_ms, true},
    {"frozen_ms", &Limits::frozen_ms, true},     {"clock_ms", &Limits::clock_ms, true},
    {"policy_ms", &Limits::policy_ms, true},     {"ground_ms", &Limits::ground_ms, true},
    {"misses", &Limits::misses, true},
    {"tilt_deg", &Limits::tilt_deg, false},      {"fence_m", &Limits::fence_m, false},
    {"lowest_m", &Limits::lowest_m, false},      {"highest_m", &Limits::highest_m, false},
    {"spin_deg_s", &Limits::spin_deg_s, false},  {"battery", &Limits::battery, false},
    {"jump_m", &Limits::jump_m, false},          {"jump_deg", &Limits::jump_deg, false},
    {"collision", &Limits::collision, false},    {"command_change", &Limits::command_change, false},
};

class Reader {
public:
    Reader(Settings &settings, const Robot &robot, const std::string &path) : settings_(settings), robot_(robot), path_(path) {}

    void read()
    {
        for (const std::string &line : toml_lines(path_, "safety settings")) {
            number_++;
            take(line);
        }
    }

private:
    [[noreturn]] void refuse(const std::string &why) const
    {
        throw Refused("line " + std::to_string(number_) + " of the safety settings " + path_ + ": " + why + ".");
    }

    void take(const std::string &line)
    {
        if (line.empty()) {
            return;
        }
        if (line == "[limits]" || line == "[reactions]") {
            table_ = line;
            return;
        }
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos || line[0] == '[') {
            refuse("write [limits] or [reactions], and below them key = value");
        }
        const std::string key = stripped(line.substr(0, equals)), value = stripped(line.substr(equals + 1));
        if (table_.empty()) {
            refuse("write [limits] or [reactions] above it");
        }
        table_ == "[limits]" ? limit(key, value) : reaction(key, value);
    }

    void limit(const std::string &name, const std::string &text)
    {
        for (const Key &key : keys) {
            if (name == key.name) {
                char *end = nullptr;
                const double value = std::strtod(text.c_str(), &end);
                if (text.empty() || *end != '\0' || std::isnan(value)) {
                    refuse(name + " must be a number");
                }
                if ((key.time && value < 0.0) || (name == "misses" && (value != std::floor(value) || value > 1e6))) {
                    refuse(name + " must not be below 0 (0 switches it off), and misses is a whole number");
                }
                for (const char *positive : {"command_change", "tilt_deg", "fence_m", "spin_deg_s", "jump_m", "jump_deg", "collision"}) {
                    if (name == positive && !(value > 0.0)) {
                        refuse(name + " must be above 0 (inf switches it off)");
                    }
                }
                if (name == "battery" && !(value < 1.0)) {
                    refuse("battery must be a share below 1");
                }
                settings_.limits.*key.value = value;
                if ((name == "lowest_m" || name == "highest_m") && !(settings_.limits.lowest_m < settings_.limits.highest_m)) {
                    refuse("lowest_m must be below highest_m");
                }
                return;
            }
        }
        refuse("there is no limit of this name");
    }

    void reaction(const std::string &name, const std::string &text)
    {
        const bool flies = robot_.family == Family::multirotor;
        for (int fault = 1; fault < SAFETY_FAULTS; fault++) {
            if (name != fault_names[fault]) {
                continue;
            }
            for (int r = flies ? 0 : 2; r < (flies ? 2 : reactions); r++) {
                if (text == std::string("\"") + reaction_names[r] + "\"") {
                    settings_.reactions[fault] = static_cast<Reaction>(r);
                    return;
                }
            }
            refuse(flies ? "the reaction must be \"land\" or \"stop\"" : "the reaction must be \"damp\", \"hold\" or \"sit\"");
        }
        refuse("there is no fault of this name");
    }

    Settings &settings_;
    const Robot &robot_;
    std::string path_, table_;
    int number_ = 0;
};

} // namespace

Reaction first_reaction(const Robot &robot)
{
    switch (robot.family) {
        case Family::multirotor: return Reaction::land;
        case Family::arm: return Reaction::hold;
        case Family::joints: break;
    }
    return Reaction::damp;
}

Settings settings_of(const Robot &robot)
{
    Settings out{robot.limits, {}, {}};
    for (Reaction &reaction : out.reactions) {
        reaction = first_reaction(robot);
    }
    return out;
}

void read_settings(Settings &settings, const Robot &robot, const std::string &path) { Reader(settings, robot, path).read(); }

safety_limits filter_limits(const Robot &robot, const Limits &limits)
{
    safety_limits out{};
    out.stale_s = limits.stale_ms / 1e3;
    out.silent_s = limits.silent_ms / 1e3;
    out.frozen_s = limits.frozen_ms / 1e3;
    out.clock_s = limits.clock_ms / 1e3;
    out.policy_s = limits.policy_ms / 1e3;
    out.ground_s = limits.ground_ms / 1e3;
    out.tilt = limits.tilt_deg * pi / 180.0;
    out.fence = limits.fence_m;
    out.lowest = limits.lowest_m;
    out.highest = limits.highest_m;
    out.spin = limits.spin_deg_s * pi / 180.0;
    out.jump = limits.jump_m;
    out.jump_angle = limits.jump_deg * pi / 180.0;
    out.battery = limits.battery;
    out.misses = static_cast<int>(limits.misses);
    out.joints = robot.joint_count;
    out.commands = robot.commands;
    for (int i = 0; i < robot.commands; i++) {
        out.command_low[i] = robot.command_low[i];
        out.command_high[i] = robot.command_high[i];
        out.command_step[i] = static_cast<float>(limits.command_change * (static_cast<double>(robot.command_high[i]) - static_cast<double>(robot.command_low[i])));
    }
    for (int i = 0; i < robot.joint_count; i++) {
        out.joint_low[i] = robot.joint_low[i];
        out.joint_high[i] = robot.joint_high[i];
        out.torque[i] = robot.joint_torque[i];
        out.speed[i] = robot.joint_speed[i];
        out.external[i] = static_cast<float>(limits.collision) * robot.drive_torque[i];
    }
    return out;
}

} // namespace flight
