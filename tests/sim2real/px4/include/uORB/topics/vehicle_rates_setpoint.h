/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct vehicle_rates_setpoint_s {
	uint64_t timestamp;
	float roll, pitch, yaw;
	float thrust_body[3];
	bool reset_integral;
};

extern vehicle_rates_setpoint_s orb_vehicle_rates_setpoint;
