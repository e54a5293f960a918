/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct vehicle_local_position_s {
	uint64_t timestamp;
	uint64_t timestamp_sample;
	bool xy_valid, z_valid, v_xy_valid, v_z_valid;
	float x, y, z, vx, vy, vz, heading;
};

extern vehicle_local_position_s orb_vehicle_local_position;
