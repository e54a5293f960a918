/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct trajectory_setpoint_s {
	uint64_t timestamp;
	float position[3], velocity[3], acceleration[3], jerk[3];
	float yaw, yawspeed;
};

extern trajectory_setpoint_s orb_trajectory_setpoint;
