/* Limits of the safety filter and what each fault leads to: the contract's, with a user's file over them. */
#ifndef FLIGHT_SETTINGS_HPP
#define FLIGHT_SETTINGS_HPP

#include <string>
#include <vector>

#include "robot.hpp"

namespace flight {

extern const char *const fault_names[SAFETY_FAULTS];
extern const char *const fault_texts[SAFETY_FAULTS];

/* Least and greatest values of a command, by its name or the beginning of it. */
struct Span {
    std::string name;
    std::vector<float> low, high;
};

struct Settings {
    Limits limits;
    Reaction reactions[SAFETY_FAULTS];
    std::vector<Span> ranges; /* of the operator, in place of the contract's */
};

/* The contract's. */
Reaction first_reaction(const Robot &robot); /* to a fault, where nothing else is said */
Settings settings_of(const Robot &robot);

/* With those of a TOML file over them: [limits] and [reactions], a `key = value` a line; Refused, naming the line, where it
   says what is not known or not allowed. */
void read_settings(Settings &settings, const Robot &robot, const std::string &path);

/* The [ranges] of a TOML file of controls, as `rookery fly` takes it: NAME = [[least, ...], [greatest, ...]]; Refused, naming the
   line. Whether they fit the policy is for the pilot. */
std::vector<Span> read_ranges(const std::string &path);

/* As the filter takes them. */
safety_limits filter_limits(const Robot &robot, const Limits &limits);

} // namespace flight

#endif
