"""Texts of `--target px4`; what stands between @ is filled in by px4_target.py. Tabs and braces as in PX4's own code."""

from __future__ import annotations

OUTER_CMAKE = """# PX4 reads this of EXTERNAL_MODULES_LOCATION.
set(config_module_list_external
	modules/rookery
	PARENT_SCOPE)
"""

CMAKE = """px4_add_module(
	MODULE modules__rookery
	MAIN rookery
	EXTERNAL
	COMPILE_FLAGS
	SRCS
		Rookery.cpp
		Rookery.hpp
		policy.c
		safety.c
	MODULE_CONFIG
		module.yaml
	DEPENDS
		px4_work_queue
	)
"""

KCONFIG = """menuconfig MODULES_ROOKERY
	bool "rookery"
	default y
	---help---
		A policy exported by Rookery.
"""

YAML = """module_name: Rookery

parameters:
    - group: Rookery
      definitions:
        RKY_TILT_MAX:
            description:
                short: Tilt at which the policy is left
            type: float
            unit: deg
            min: 5
            max: 180
            default: @TILT@
        RKY_FENCE:
            description:
                short: Distance from the target at which the policy is left
            type: float
            unit: m
            min: 0.1
            max: 1000
            default: @FENCE@
"""

MODULE_HEADER = """/* Flies a policy of Rookery in Offboard mode. A skeleton: it was not compiled against PX4's tree. */
#pragma once

#include <px4_platform_common/module.h>
#include <px4_platform_common/module_params.h>
#include <px4_platform_common/px4_work_queue/ScheduledWorkItem.hpp>
#include <uORB/Publication.hpp>
#include <uORB/Subscription.hpp>
#include <uORB/topics/offboard_control_mode.h>
#include <uORB/topics/@TOPIC@.h>
#include <uORB/topics/vehicle_angular_velocity.h>
#include <uORB/topics/vehicle_attitude.h>
#include <uORB/topics/vehicle_local_position.h>
#include <uORB/topics/vehicle_status.h>

#include "@HEADER@"
#include "safety.h"

class Rookery : public ModuleBase<Rookery>, public ModuleParams, public px4::ScheduledWorkItem
{
public:
	Rookery();
	~Rookery() override = default;

	static int task_spawn(int argc, char *argv[]);
	static int custom_command(int argc, char *argv[]);
	static int print_usage(const char *reason = nullptr);

	/* False where the network answers otherwise than in training. */
	bool init();

	/* A place for the target, m, north, east, down of the local frame. */
	void aim(float north, float east, float down);

private:
	void Run() override;

	/* Newest measurements in the contract's axes: world x east, y north, z up; body x forward, y left, z up. */
	bool measure(safety_sample &sample);
	bool follow(bool flying);
	void publish(const float command[@COMMANDS@]);
	float thrust(float newton) const;

	uORB::Subscription _angular_velocity_sub{ORB_ID(vehicle_angular_velocity)};
	uORB::Subscription _attitude_sub{ORB_ID(vehicle_attitude)};
	uORB::Subscription _local_position_sub{ORB_ID(vehicle_local_position)};
	uORB::Subscription _status_sub{ORB_ID(vehicle_status)};
	uORB::Publication<offboard_control_mode_s> _mode_pub{ORB_ID(offboard_control_mode)};
	uORB::Publication<@TOPIC@_s> _setpoint_pub{ORB_ID(@TOPIC@)};

	DEFINE_PARAMETERS(
		(ParamFloat<px4::params::MPC_THR_HOVER>) _hover,
		(ParamFloat<px4::params::RKY_TILT_MAX>) _tilt_max,
		(ParamFloat<px4::params::RKY_FENCE>) _fence
	)

	@P@_controller _policy{};
	@P@_state _state{};
	safety_limits _limits{};
	safety_memory _memory{};
	float _values[13] {};
	float *const _position{_values};
	float *const _velocity{_values + 3};
	float *const _rotation{_values + 6};
	float *const _angular_velocity{_values + 10};
	float _target[3] {};
	float _heading{0.f}; /* rad, of PX4 */
	bool _aimed{false};  /* somebody gave a target */
	bool _held{false};   /* it was too far, and was told */
	bool _flying{false};
	int _fault{SAFETY_OK}; /* that ended the policy; until Offboard mode is left */
};
"""

HOLD = """
	if (safety_hold(_state.@MEMBER@, TARGET_LOW, TARGET_HIGH, @ORIGIN@, 3) > 0 && !_held) {
		_held = true;
		PX4_WARN("the target is held within what the policy was trained with");
	}
"""
"""Lines after those that fill the state."""

MODULE = """#include "Rookery.hpp"

#include <drivers/drv_hrt.h>
#include <math.h>
#include <px4_platform_common/getopt.h>
#include <px4_platform_common/log.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

static constexpr uint32_t PERIOD = @PERIOD@; /* us */
static constexpr float WEIGHT = @WEIGHT@; /* N, of the drone that the policy was trained for */
@TARGETS@
Rookery::Rookery() : ModuleParams(nullptr), ScheduledWorkItem(MODULE_NAME, px4::wq_configurations::nav_and_controllers)
{
@LIMITS@
	_limits.commands = @COMMANDS@;
}

bool Rookery::init()
{
	if (!(@P@_golden_error() <= @U@_GOLDEN_MOST)) {
		PX4_ERR("the network answers otherwise than in training");
		return false;
	}

	ScheduleOnInterval(PERIOD);
	return true;
}

void Rookery::aim(float north, float east, float down)
{
	_target[0] = east;
	_target[1] = north;
	_target[2] = -down;
	_aimed = true;
}

bool Rookery::measure(safety_sample &sample)
{
	vehicle_local_position_s p{};
	vehicle_attitude_s a{};
	vehicle_angular_velocity_s w{};

	if (!_local_position_sub.copy(&p) || !_attitude_sub.copy(&a) || !_angular_velocity_sub.copy(&w)
		|| !p.xy_valid || !p.z_valid || !p.v_xy_valid || !p.v_z_valid) {
		return false;
	}

	_position[0] = p.y;
	_position[1] = p.x;
	_position[2] = -p.z;
	_velocity[0] = p.vy;
	_velocity[1] = p.vx;
	_velocity[2] = -p.vz;
	/* half a turn about x + y of the world, and about x of the body */
	const float half = 0.70710678f;
	_rotation[0] = half * (a.q[0] + a.q[3]);
	_rotation[1] = half * (a.q[1] + a.q[2]);
	_rotation[2] = half * (a.q[1] - a.q[2]);
	_rotation[3] = half * (a.q[0] - a.q[3]);
	_angular_velocity[0] = w.xyz[0];
	_angular_velocity[1] = -w.xyz[1];
	_angular_velocity[2] = -w.xyz[2];
	_heading = p.heading;

	const hrt_abstime oldest = (p.timestamp_sample < a.timestamp_sample) ? p.timestamp_sample : a.timestamp_sample;
	sample.now = 1e-6 * static_cast<double>(hrt_absolute_time());
	sample.measured = 1e-6 * static_cast<double>((w.timestamp_sample < oldest) ? w.timestamp_sample : oldest);
	sample.received = sample.measured;
	sample.heard = sample.measured;
	sample.policy = -1.0;
	sample.battery = -1.0;
	sample.count = 13;
	sample.values = _values;
	sample.position = _position;
	sample.velocity = _velocity;
	sample.rotation = _rotation;
	sample.angular_velocity = _angular_velocity;
	return true;
}

float Rookery::thrust(float newton) const
{
	const float share = _hover.get() * newton / WEIGHT;
	return (share > 1.f) ? 1.f : ((share < 0.f) ? 0.f : share);
}

@PUBLISH@
/* A step; false where nothing may be published. */
bool Rookery::follow(bool flying)
{
	safety_sample sample{};

	if (!measure(sample)) {
		_fault = _flying ? SAFETY_STALE : _fault;
		return false;
	}

	if (flying && !_flying) { /* Offboard mode begins */
		safety_reset(&_memory);
		@P@_start(&_policy);
		_fault = SAFETY_OK;
		_held = false;

		if (!_aimed) {
			memcpy(_target, _position, sizeof(_target));
		}
	}

	_flying = flying;
	_limits.tilt = static_cast<double>(_tilt_max.get()) * 0.017453292519943295;
	_limits.fence = static_cast<double>(_fence.get());
	sample.target = flying ? _target : nullptr;
	const int fault = safety_check(&_limits, &_memory, &sample, nullptr);

	if (!flying) {
		return fault == SAFETY_OK;
	}

	_fault = (_fault == SAFETY_OK) ? fault : _fault;

	if (_fault != SAFETY_OK) {
		return false;
	}

	float command[@COMMANDS@];
@FILL@

	if (@P@_step(&_policy, &_state, command) == 0 || safety_command(&_limits, &_memory, command) != SAFETY_OK) {
		_fault = SAFETY_COMMAND;
		return false;
	}

	publish(command);
	return true;
}

void Rookery::Run()
{
	if (should_exit()) {
		ScheduleClear();
		exit_and_cleanup();
		return;
	}

	updateParams();
	vehicle_status_s status{};
	_status_sub.copy(&status);
	const bool flying = status.arming_state == vehicle_status_s::ARMING_STATE_ARMED
			&& status.nav_state == vehicle_status_s::NAVIGATION_STATE_OFFBOARD;

	if (!flying && _flying) { /* somebody else has it again */
		_flying = false;
		_fault = SAFETY_OK;
	}

	/* Without this topic PX4 refuses Offboard mode, and leaves it after COM_OF_LOSS_T: its answer to a fault. */
	if (follow(flying)) {
		offboard_control_mode_s mode{};
		mode.@FLAG@ = true;
		mode.timestamp = hrt_absolute_time();
		_mode_pub.publish(mode);
	}
}

int Rookery::task_spawn(int argc, char *argv[])
{
	Rookery *instance = new Rookery();

	if (instance == nullptr) {
		PX4_ERR("alloc failed");

	} else {
		_object.store(instance);
		_task_id = task_id_is_work_queue;

		if (instance->init()) {
			return PX4_OK;
		}
	}

	delete instance;
	_object.store(nullptr);
	_task_id = -1;
	return PX4_ERROR;
}

int Rookery::custom_command(int argc, char *argv[])
{
	if (argc == 4 && strcmp(argv[0], "target") == 0 && is_running()) {
		get_instance()->aim(strtof(argv[1], nullptr), strtof(argv[2], nullptr), strtof(argv[3], nullptr));
		return 0;
	}

	return print_usage("unknown command");
}

int Rookery::print_usage(const char *reason)
{
	if (reason) {
		PX4_WARN("%s", reason);
	}

	PRINT_MODULE_DESCRIPTION("Flies a policy exported by Rookery, in Offboard mode, to a target in the local frame.");
	PRINT_MODULE_USAGE_NAME("rookery", "controller");
	PRINT_MODULE_USAGE_COMMAND("start");
	PRINT_MODULE_USAGE_COMMAND_DESCR("target", "north, east, down in m");
	PRINT_MODULE_USAGE_DEFAULT_COMMANDS();
	return 0;
}

extern "C" __EXPORT int rookery_main(int argc, char *argv[])
{
	return Rookery::main(argc, argv);
}
"""

_RATES = """void Rookery::publish(const float command[@COMMANDS@])
{
	vehicle_rates_setpoint_s setpoint{};
	setpoint.roll = command[0];
	setpoint.pitch = -command[1];
	setpoint.yaw = -command[2];
	setpoint.thrust_body[2] = -thrust(command[3]);
	setpoint.timestamp = hrt_absolute_time();
	_setpoint_pub.publish(setpoint);
}
"""

_ATTITUDE = """void Rookery::publish(const float command[@COMMANDS@])
{
	/* roll and pitch at the present heading; pitch has the other sign in PX4's axes */
	const float cr = cosf(0.5f * command[0]), sr = sinf(0.5f * command[0]);
	const float cp = cosf(-0.5f * command[1]), sp = sinf(-0.5f * command[1]);
	const float cy = cosf(0.5f * _heading), sy = sinf(0.5f * _heading);
	vehicle_attitude_setpoint_s setpoint{};
	setpoint.q_d[0] = cr * cp * cy + sr * sp * sy;
	setpoint.q_d[1] = sr * cp * cy - cr * sp * sy;
	setpoint.q_d[2] = cr * sp * cy + sr * cp * sy;
	setpoint.q_d[3] = cr * cp * sy - sr * sp * cy;
	setpoint.yaw_sp_move_rate = -command[2];
	setpoint.thrust_body[2] = -thrust(command[3]);
	setpoint.timestamp = hrt_absolute_time();
	_setpoint_pub.publish(setpoint);
}
"""

_TRAJECTORY = """void Rookery::publish(const float command[@COMMANDS@])
{
	trajectory_setpoint_s setpoint{};

	for (int i = 0; i < 3; i++) {
		setpoint.position[i] = setpoint.velocity[i] = setpoint.acceleration[i] = setpoint.jerk[i] = NAN;
	}

	setpoint.@WHAT@[0] = command[1];
	setpoint.@WHAT@[1] = command[0];
	setpoint.@WHAT@[2] = -command[2];
	setpoint.yaw = @YAW@;
	setpoint.yawspeed = @YAWSPEED@;
	setpoint.timestamp = hrt_absolute_time();
	_setpoint_pub.publish(setpoint);
}
"""


def _trajectory(what: str, yaw: str, speed: str) -> str:
    return _TRAJECTORY.replace("@WHAT@", what).replace("@YAW@", yaw).replace("@YAWSPEED@", speed)


PUBLISH = {
    "ctbr": _RATES,
    "attitude": _ATTITUDE,
    "velocity": _trajectory("velocity", "NAN", "-command[3]"),
    "position": _trajectory("position", "1.57079633f - command[3]", "NAN"),
}
"""The function that sends a command, by action kind."""
