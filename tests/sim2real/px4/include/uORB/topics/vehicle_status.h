/* A stand-in: fields of the messages of PX4 1.15 that the module uses, and some more. */
#pragma once
#include <stdint.h>

struct vehicle_status_s {
	uint64_t timestamp;
	static constexpr uint8_t ARMING_STATE_ARMED = 2;
	static constexpr uint8_t NAVIGATION_STATE_OFFBOARD = 14;
	uint8_t arming_state, nav_state;
};

extern vehicle_status_s orb_vehicle_status;
