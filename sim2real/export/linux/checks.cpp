/* The contract against the vehicle, before anything moves: what does not fit is refused by its line. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "pilot.hpp"

namespace flight {
namespace {

constexpr double first_reading = 1.0; /* s, for a vehicle's first measurements: commands are held against where it is */
const std::string commanded = "commanded "; /* begins names of commands whose 0 means: stay */
const std::string commanded_velocity = "commanded velocity forward, velocity left"; /* and of one that says how to walk */

template <typename Names> std::string listed(const Names &names)
{
    std::string out;
    for (const auto &name : names) {
        out += (out.empty() ? "" : ", ") + std::string(name);
    }
    return out.empty() ? "none" : out;
}

bool has(const std::vector<std::string> &names, const std::string &name)
{
    return std::find(names.begin(), names.end(), name) != names.end();
}

/* True where a quantity has this name, or begins with it, whether or not after "commanded ". */
bool begins(const std::string &quantity, const std::string &name)
{
    return quantity.compare(0, name.size(), name) == 0 || quantity.compare(0, commanded.size() + name.size(), commanded + name) == 0;
}

std::string number(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

std::string hertz(double rate) { return number(rate) + " Hz"; }

} // namespace

void Pilot::refuse(const std::string &line, const std::string &wants, const std::string &has) const
{
    throw Refused("the vehicle does not fit the contract's " + line + ": it wants " + wants + ", and the vehicle has " + has + ".");
}

void Pilot::check(const std::map<std::string, std::vector<float>> &given)
{
    const Identity identity = link_.open();
    const std::string line = std::string("groups.") + robot_.group;
    if (identity.family != robot_.family) {
        refuse(line + ".actuation", std::string("a robot of the family ") + family_names[static_cast<int>(robot_.family)],
               std::string("one of the family ") + family_names[static_cast<int>(identity.family)]);
    }
    if (!has(identity.kinds, robot_.kind)) {
        refuse(line + ".action.kind", robot_.kind, listed(identity.kinds));
    }
    if (1.0 / period() > identity.rate * (1.0 + 1e-6)) {
        refuse("control_dt", "commands at " + hertz(1.0 / period()), "at most " + hertz(identity.rate));
    }
    for (int i = 0; robot_.holds_joints && i < robot_.joint_count; i++) {
        if (!has(identity.joints, robot_.joints[i].name)) {
            refuse(line + ".actuation.joints", std::string("also ") + robot_.joints[i].name, listed(identity.joints));
        }
    }
    const std::vector<bool> commands = take_commands(given, identity);
    check_quantities(identity, commands);
    entry_ = make_entry(robot_, identity);
    take_ranges(commands);
    check_ranges(commands);
    to(Phase::checked, clock_.now());
}

const Quantity &Pilot::quantity_for(const std::string &name, const std::map<std::string, std::vector<float>> &given) const
{
    const Quantity *found = robot_.find(name.c_str());
    int count = found != nullptr;
    for (int i = 0; found == nullptr && !name.empty() && i < robot_.quantity_count; i++) {
        const std::string full = robot_.quantities[i].name;
        if (full.compare(0, name.size(), name) == 0 || full.compare(0, commanded.size() + name.size(), commanded + name) == 0) {
            found = &robot_.quantities[i];
            for (int k = i + 1; k < robot_.quantity_count; k++) {
                const std::string other = robot_.quantities[k].name;
                count += other.compare(0, name.size(), name) == 0 || other.compare(0, commanded.size() + name.size(), commanded + name) == 0;
            }
            count += 1;
        }
    }
    if (count != 1 || (found->name != name && given.count(found->name) > 0)) {
        std::vector<std::string> names;
        for (int i = 0; i < robot_.quantity_count; i++) {
            names.push_back(robot_.quantities[i].name);
        }
        throw Refused("the policy takes no single command " + name + "; its quantities are " + listed(names) + ".");
    }
    return *found;
}

std::vector<bool> Pilot::take_commands(const std::map<std::string, std::vector<float>> &given, const Identity &identity)
{
    std::vector<bool> out(measured_.size());
    for (const auto &[name, values] : given) {
        const Quantity &q = quantity_for(name, given);
        if (has(identity.quantities, q.name)) {
            throw Refused("the vehicle measures " + std::string(q.name) + ": it cannot be a command, too.");
        }
        if (values.size() != static_cast<std::size_t>(q.size)) {
            throw Refused("the command " + std::string(q.name) + " has " + std::to_string(q.size) + " values (" + q.unit + "), got " +
                          std::to_string(values.size()) + ".");
        }
        std::copy(values.begin(), values.end(), &reading_.values[static_cast<std::size_t>(q.at)]);
        out[static_cast<std::size_t>(&q - robot_.quantities)] = true;
        target_given_ = target_given_ || std::strcmp(q.name, "target") == 0;
    }
    return out;
}

void Pilot::check_quantities(const Identity &identity, const std::vector<bool> &commands)
{
    for (int i = 0; i < robot_.quantity_count; i++) {
        const Quantity &q = robot_.quantities[i];
        const std::size_t n = static_cast<std::size_t>(i);
        const std::string name = q.name;
        measured_[n] = has(identity.quantities, name);
        /* where it takes off to, or standing still, unless the operator says otherwise */
        const bool known = (name == "target" && identity.entry) || name.compare(0, commanded.size(), commanded) == 0;
        if (q.needed && !measured_[n] && !commands[n] && !known) {
            refuse(std::string("groups.") + robot_.group + ".observation",
                   name + ", a measured quantity or a command (--command \"" + name + "=...\")", listed(identity.quantities));
        }
        const int at = measured_[n] ? q.at : -1;
        position_ = name == "position" ? at : position_;
        moves_ = name == "velocity" ? at : moves_;
        rotation_ = name == "rotation" ? at : rotation_;
        angular_velocity_ = name == "angular velocity" ? at : angular_velocity_;
        angles_ = name == "joint angles" && q.size == robot_.joint_count ? at : angles_;
        torques_ = name == "joint torques" && q.size == robot_.joint_count ? at : torques_;
        speeds_ = name == "joint velocities" && q.size == robot_.joint_count ? at : speeds_;
        external_ = name == "external torques" && q.size == robot_.joint_count ? at : external_;
        velocity_ = name.compare(0, commanded_velocity.size(), commanded_velocity) == 0 ? &q : velocity_;
        target_ = name == "target" && q.size == 3 ? q.at : target_;
        target_given_ = target_given_ || (name == "target" && measured_[n]);
    }
}

/* Put the operator's ranges in force, of the commands that the operator gives. */
void Pilot::take_ranges(const std::vector<bool> &commands)
{
    std::vector<std::string> given;
    std::vector<bool> used(settings_.ranges.size());
    for (int i = 0; i < robot_.quantity_count; i++) {
        const Quantity &q = robot_.quantities[i];
        if (!commands[static_cast<std::size_t>(i)] && (measured_[static_cast<std::size_t>(i)] || !q.needed)) {
            continue;
        }
        given.push_back(q.name);
        bool first = true;
        for (std::size_t k = 0; k < settings_.ranges.size(); k++) {
            const Span &span = settings_.ranges[k];
            if (begins(q.name, span.name)) {
                used[k] = true;
                if (first) {
                    take_range(span, i);
                }
                first = false;
            }
        }
    }
    for (std::size_t k = 0; k < used.size(); k++) {
        if (!used[k]) {
            throw Refused("[ranges] of --controls names " + settings_.ranges[k].name +
                          ", which is no command of this policy that the operator gives: " + listed(given) + ".");
        }
    }
    told_.assign(ranges_.size(), false);
}

void Pilot::take_range(const Span &span, int quantity)
{
    const Quantity &q = robot_.quantities[quantity];
    const std::size_t size = static_cast<std::size_t>(q.size);
    bool fits = span.low.size() == size && span.high.size() == size;
    for (std::size_t i = 0; fits && i < size; i++) {
        fits = span.low[i] <= span.high[i];
    }
    if (!fits) {
        throw Refused("the range of " + std::string(q.name) + " must be " + std::to_string(q.size) + " least and " + std::to_string(q.size) +
                      " greatest values (" + q.unit + ").");
    }
    const auto old = std::find_if(ranges_.begin(), ranges_.end(), [&](const CommandRange &r) { return r.quantity == quantity; });
    if (old == ranges_.end()) {
        ranges_.push_back({quantity, span.low.data(), span.high.data(), -1});
    } else {
        old->low = span.low.data();
        old->high = span.high.data();
    }
}

void Pilot::check_ranges(const std::vector<bool> &commands)
{
    bool read = false;
    for (const CommandRange &range : ranges_) {
        if (!commands[static_cast<std::size_t>(range.quantity)]) {
            continue;
        }
        if (range.origin >= 0) {
            const double until = monotonic() + first_reading;
            while (!read && !(read = link_.read(reading_)) && monotonic() < until) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
            if (!read || !measured_[static_cast<std::size_t>(range.origin)]) {
                continue; /* nobody tells yet where that is; it is held there in flight */
            }
        }
        check_range(range);
    }
}

void Pilot::check_range(const CommandRange &range) const
{
    const Quantity &q = robot_.quantities[range.quantity];
    const float *asked = place(q.at), *origin = range.origin < 0 ? nullptr : place(robot_.quantities[range.origin].at);
    const bool motion = std::strncmp(q.name, commanded.c_str(), commanded.size()) == 0; /* 0 of it: stay */
    for (int i = 0; i < q.size; i++) {
        float low = range.low[i], high = range.high[i];
        std::string where;
        if (origin != nullptr) {
            const bool rises = entry_ != nullptr && robot_.family == Family::multirotor && robot_.quantities[range.origin].at == position_ && i == 2;
            const float begins = origin[i] + (rises ? static_cast<float>(take_off) : 0.0f), slack = static_cast<float>(near);
            low += begins - slack;
            high += begins + slack;
            where = std::string(" from where it begins (") + robot_.quantities[range.origin].name + ")";
        }
        if ((motion && asked[i] == 0.0f) || (asked[i] >= low && asked[i] <= high)) {
            continue;
        }
        throw Refused("value " + std::to_string(i) + " of the command " + q.name + " is " + number(asked[i]) + ", out of its range, " + number(low) +
                      " to " + number(high) + " (" + q.unit + "): give one within. The policy was trained with " + number(range.low[i]) +
                      " to " + number(range.high[i]) + where + "; [ranges] of --controls may say another.");
    }
}

} // namespace flight
