/* The module with topics that a test fills and reads. */
#include "Rookery.hpp"
#include <drivers/drv_hrt.h>
#include <uORB/topics/vehicle_attitude_setpoint.h>
#include <uORB/topics/vehicle_rates_setpoint.h>
#include <uORB/topics/trajectory_setpoint.h>
#include <string.h>
float px4::values[3] = {0.5f, 60.f, 3.f};
offboard_control_mode_s orb_offboard_control_mode;
vehicle_rates_setpoint_s orb_vehicle_rates_setpoint;
vehicle_attitude_setpoint_s orb_vehicle_attitude_setpoint;
trajectory_setpoint_s orb_trajectory_setpoint;
vehicle_angular_velocity_s orb_vehicle_angular_velocity;
vehicle_attitude_s orb_vehicle_attitude;
vehicle_local_position_s orb_vehicle_local_position;
vehicle_status_s orb_vehicle_status;
static uint64_t now_us = 1000000;
extern "C" {
hrt_abstime hrt_absolute_time() { return now_us; }
int begin() { return Rookery::task_spawn(0, nullptr); }
unsigned interval() { return Rookery::get_instance()->interval; }
void aim(float n, float e, float d) { Rookery::get_instance()->aim(n, e, d); }
/* x: position 3, velocity 3, quaternion 4, rates 3, in PX4's axes; heading. age in us, of all but the newest; apart in us, since the tick before. */
void tick(const float x[14], unsigned age_us, unsigned apart_us, int armed, int mode)
{
	now_us += apart_us;
	orb_vehicle_local_position = {now_us, now_us - age_us, true, true, true, true, x[0], x[1], x[2], x[3], x[4], x[5], x[13]};
	orb_vehicle_attitude.timestamp = now_us;
	orb_vehicle_attitude.timestamp_sample = now_us - age_us;
	memcpy(orb_vehicle_attitude.q, x + 6, 16);
	orb_vehicle_angular_velocity.timestamp = orb_vehicle_angular_velocity.timestamp_sample = now_us;
	memcpy(orb_vehicle_angular_velocity.xyz, x + 10, 12);
	orb_vehicle_status.timestamp = now_us;
	orb_vehicle_status.arming_state = armed ? 2 : 1;
	orb_vehicle_status.nav_state = static_cast<uint8_t>(mode);
	static_cast<px4::ScheduledWorkItem *>(Rookery::get_instance())->Run();
}
/* Whether in this tick the mode, and the set-points, were published. */
int said_mode() { return orb_offboard_control_mode.timestamp == now_us; }
int mode_flags()
{
	const auto &m = orb_offboard_control_mode;
	return m.position | m.velocity << 1 | m.attitude << 2 | m.body_rate << 3;
}
int rates(float out[4])
{
	const auto &s = orb_vehicle_rates_setpoint;
	out[0] = s.roll; out[1] = s.pitch; out[2] = s.yaw; out[3] = s.thrust_body[2];
	return s.timestamp == now_us;
}
}
