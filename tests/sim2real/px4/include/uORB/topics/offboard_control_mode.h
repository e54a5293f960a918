/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct offboard_control_mode_s {
	uint64_t timestamp;
	bool position, velocity, acceleration, attitude, body_rate, thrust_and_torque, direct_actuator;
};

extern offboard_control_mode_s orb_offboard_control_mode;
