/* Limits of the safety filter and what each fault leads to: the contract's, with a user's file over them. */
#ifndef FLIGHT_SETTINGS_HPP
#define FLIGHT_SETTINGS_HPP

#include <string>

#include "robot.hpp"

namespace flight {

extern const char *const fault_names[SAFETY_FAULTS];
extern const char *const fault_texts[SAFETY_FAULTS];

struct Settings {
    Limits limits;
    Reaction reactions[SAFETY_FAULTS];
};

/* The contract's. */
Reaction first_reaction(const Robot &robot); /* to a fault, where nothing else is said */
Settings settings_of(const Robot &robot);

/* With those of a TOML file over them: [limits] and [reactions], a `key = value` a line; Refused, naming the line, where it
   says what is not known or not allowed. */
void read_settings(Settings &settings, const Robot &robot, const std::string &path);

/* As the filter takes them. */
safety_limits filter_limits(const Robot &robot, const Limits &limits);

} // namespace flight

#endif
