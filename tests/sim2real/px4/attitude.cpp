/* The function that publishes an attitude, alone; PUBLISH is its file. */
#include <math.h>
#include <string.h>

struct vehicle_attitude_setpoint_s {
	float q_d[4];
	float yaw_sp_move_rate;
	float thrust_body[3];
	unsigned long timestamp;
};

static float _heading;
static float result[4];

static float thrust(float newton) { return newton; }
static unsigned long hrt_absolute_time() { return 0; }

static struct {
	void publish(const vehicle_attitude_setpoint_s &s) { memcpy(result, s.q_d, sizeof(result)); }
} _setpoint_pub;

#include PUBLISH

extern "C" const float *attitude(const float command[4], float heading)
{
	_heading = heading;
	publish(command);
	return result;
}
