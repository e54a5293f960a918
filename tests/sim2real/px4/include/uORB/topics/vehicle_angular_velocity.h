/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct vehicle_angular_velocity_s {
	uint64_t timestamp;
	uint64_t timestamp_sample;
	float xyz[3], xyz_derivative[3];
};

extern vehicle_angular_velocity_s orb_vehicle_angular_velocity;
