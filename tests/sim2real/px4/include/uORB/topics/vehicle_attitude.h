/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct vehicle_attitude_s {
	uint64_t timestamp;
	uint64_t timestamp_sample;
	float q[4];
};

extern vehicle_attitude_s orb_vehicle_attitude;
