"""Rotor lag and the cascaded flight controller of one drone, compiled, and the loops that run them over all drones.

The scalar functions are the single source of the drone's onboard behaviour. Levels of the cascade, from the outside in,
with the four numbers of a setpoint at each:

    4 position    x, y, z (m, world), yaw (rad)
    3 velocity    vx, vy, vz (m/s, world), yaw rate (rad/s)
    2 attitude    roll, pitch (rad), yaw rate (rad/s), collective thrust (N)
    1 rates       wx, wy, wz (rad/s, body), collective thrust (N)
    0 motors      normalised rotor speed commands u1..u4 in [0, 1]

The rate loop, its mixer and its saturation are the Crazyflie firmware's (facts/drones.md 7.3), in SI units and in the
body frame x forward, y left, z up: `stabilizer` runs it at 500 Hz on the vehicle, here at every physics step.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

from rookery.robots.drones.parameters import GRAVITY

POSITION, VELOCITY, ATTITUDE, RATES, MOTORS = 4, 3, 2, 1, 0

# columns of a drone's controller memory
_RATE_INT, _RATE_PREV, _ATT_INT, _VEL_INT, _YAW_DES, _STARTED, _YAW_PREV = 0, 3, 6, 9, 12, 13, 14
MEMORY_SIZE = 15

# columns of a drone's rotor parameters: factors on the thrust and torque curves, and the lags in s
THRUST_SCALE, TORQUE_SCALE, TAU_UP, TAU_DOWN = 0, 1, 2, 3

_fast = njit(cache=True, nogil=True, error_model="numpy", inline="always")
_loop = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def _clip(x, low, high):
    return min(max(x, low), high)


@_fast
def _wrap(a):
    return a - 2.0 * math.pi * math.floor((a + math.pi) / (2.0 * math.pi))


@_fast
def _speed_for_thrust(thrust, curve):
    """Normalised rotor speed for a thrust in N: the thrust curve solved for u, within [0, 1]."""
    root = math.sqrt(max(curve[1] * curve[1] + 4.0 * curve[2] * (thrust - curve[0]), 0.0))
    return _clip((root - curve[1]) / (2.0 * curve[2]), 0.0, 1.0)


@_fast
def _yaw(q):
    return math.atan2(2.0 * (q[0] * q[3] + q[1] * q[2]), 1.0 - 2.0 * (q[2] * q[2] + q[3] * q[3]))


@_fast
def _position_to_velocity(x, sp, g):
    """Proportional on position with a bounded speed; yaw error becomes a yaw rate."""
    for i in range(3):
        sp[i] = g.position_kp[i] * (sp[i] - x[i])
    speed = math.sqrt(sp[0] * sp[0] + sp[1] * sp[1] + sp[2] * sp[2])
    if speed > g.max_velocity:
        for i in range(3):
            sp[i] *= g.max_velocity / speed
    sp[3] = 2.0 * _wrap(sp[3] - _yaw(x[3:7]))


@_fast
def _velocity_to_attitude(x, sp, mem, g, dt, mass, max_thrust):
    """PI on velocity gives a wanted acceleration; thrust has to supply it and carry the weight."""
    acc = np.empty(3)
    for i in range(3):
        e = sp[i] - x[7 + i]
        limit = g.velocity_integral_limit[i]
        mem[_VEL_INT + i] = _clip(mem[_VEL_INT + i] + e * dt, -limit, limit)
        acc[i] = g.velocity_kp[i] * e + g.velocity_ki[i] * mem[_VEL_INT + i]
    up = max(acc[2] + GRAVITY, 0.3 * GRAVITY)  # never ask to fall freely: attitude needs thrust to act on
    lateral = math.sqrt(acc[0] * acc[0] + acc[1] * acc[1])
    most = math.tan(g.max_tilt) * up
    if lateral > most:
        acc[0] *= most / lateral
        acc[1] *= most / lateral
    yaw = _yaw(x[3:7])
    forward = math.cos(yaw) * acc[0] + math.sin(yaw) * acc[1]
    left = -math.sin(yaw) * acc[0] + math.cos(yaw) * acc[1]
    sp[0] = math.atan2(-left * math.cos(math.atan2(forward, up)), up)
    sp[1] = math.atan2(forward, up)
    # thrust acts along the body's z as it is now; the tilt still to come is the attitude loop's affair
    q = x[3:7]
    cos_tilt = max(1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2]), 0.5)
    sp[2] = sp[3]  # the yaw rate keeps its value and moves to its place at the attitude level
    sp[3] = _clip(mass * up / cos_tilt, 0.0, max_thrust)


@_fast
def _attitude_to_rates(x, sp, mem, g, dt):
    """PI on the tilt error, taken as twice the vector part of the error quaternion at the present yaw."""
    q, yaw = x[3:7], 0.5 * _yaw(x[3:7])
    cr, sr, cp, sp_ = math.cos(0.5 * sp[0]), math.sin(0.5 * sp[0]), math.cos(0.5 * sp[1]), math.sin(0.5 * sp[1])
    cy, sy = math.cos(yaw), math.sin(yaw)
    dw, dx = cr * cp * cy + sr * sp_ * sy, sr * cp * cy - cr * sp_ * sy
    dy, dz = cr * sp_ * cy + sr * cp * sy, cr * cp * sy - sr * sp_ * cy
    ew = q[0] * dw + q[1] * dx + q[2] * dy + q[3] * dz
    ex = q[0] * dx - q[1] * dw - q[2] * dz + q[3] * dy
    ey = q[0] * dy + q[1] * dz - q[2] * dw - q[3] * dx
    sign = 2.0 if ew >= 0.0 else -2.0
    for i in range(2):
        e = sign * (ex if i == 0 else ey)
        limit = g.attitude_integral_limit[i]
        mem[_ATT_INT + i] = _clip(mem[_ATT_INT + i] + e * dt, -limit, limit)
        sp[i] = g.attitude_kp[i] * e + g.attitude_ki[i] * mem[_ATT_INT + i]


@_fast
def _integrate_yaw(x, sp, mem, g, dt):
    """The firmware's PID controller does not track a yaw rate: it moves a yaw angle by it and tracks that angle."""
    yaw = _yaw(x[3:7])
    if mem[_STARTED] == 0.0:
        mem[_YAW_DES] = yaw
        mem[_YAW_PREV] = yaw
    mem[_YAW_DES] = _wrap(mem[_YAW_DES] + sp[2] * dt)
    e = _wrap(mem[_YAW_DES] - yaw)
    limit = g.attitude_integral_limit[2]
    mem[_ATT_INT + 2] = _clip(mem[_ATT_INT + 2] + e * dt, -limit, limit)
    slope = -_wrap(yaw - mem[_YAW_PREV]) / dt
    mem[_YAW_PREV] = yaw
    sp[2] = g.attitude_kp[2] * e + g.attitude_ki[2] * mem[_ATT_INT + 2] + g.attitude_kd[2] * slope


@_fast
def _rates_to_motors(x, sp, mem, g, dt, mix, thrust_curve):
    """The firmware's rate PID, X mixer and saturation. sp becomes the four motor commands."""
    out = np.empty(3)
    for i in range(3):
        w = x[10 + i]
        e = sp[i] - w
        limit = g.rate_integral_limit[i]
        mem[_RATE_INT + i] = _clip(mem[_RATE_INT + i] + e * dt, -limit, limit)
        slope = 0.0 if mem[_STARTED] == 0.0 else (w - mem[_RATE_PREV + i]) / dt
        mem[_RATE_PREV + i] = w
        pid = g.rate_kp[i] * e + g.rate_ki[i] * mem[_RATE_INT + i] - g.rate_kd[i] * slope
        out[i] = _clip(pid, -g.rate_output_limit[i], g.rate_output_limit[i])
    mem[_STARTED] = 1.0
    base = _speed_for_thrust(0.25 * sp[3], thrust_curve)
    highest = 0.0
    for m in range(4):
        sp[m] = base + mix[m, 0] * out[0] + mix[m, 1] * out[1] + mix[m, 2] * out[2]
        highest = max(highest, sp[m])
    excess = max(highest - 1.0, 0.0)  # attitude before altitude: thrust gives way to the differences
    for m in range(4):
        sp[m] = _clip(sp[m] - excess, 0.0, 1.0)


@_fast
def _cascade(level, to, x, sp, mem, g, dt, mix, thrust_curve, mass, integrated_yaw):
    """Take one drone's setpoint from one level to another, in place."""
    if level >= 4 and to < 4:
        _position_to_velocity(x, sp, g)
    if level >= 3 and to < 3:
        _velocity_to_attitude(x, sp, mem, g, dt, mass, 4.0 * (thrust_curve[0] + thrust_curve[1] + thrust_curve[2]))
    if level >= 2 and to < 2:
        _attitude_to_rates(x, sp, mem, g, dt)
    if level >= 1 and to < 1:
        if integrated_yaw:
            _integrate_yaw(x, sp, mem, g, dt)
        _rates_to_motors(x, sp, mem, g, dt, mix, thrust_curve)


@_fast
def _rotors(u, command, p, thrust_curve, torque_curve, directions, decay_up, decay_down, out):
    """One step of rotor lag; out gets the four thrusts (N) and the reaction torque about body z (N m)."""
    torque = 0.0
    for m in range(4):
        c = _clip(command[m], 0.0, 1.0)
        v = c + (u[m] - c) * (decay_up if c > u[m] else decay_down)
        u[m] = v
        out[m] = p[THRUST_SCALE] * (thrust_curve[0] + v * (thrust_curve[1] + v * thrust_curve[2]))
        torque += directions[m] * (torque_curve[0] + v * (torque_curve[1] + v * torque_curve[2]))
    out[4] = p[TORQUE_SCALE] * torque


@_loop
def cascade(level, to, state, setpoint, memory, gains, dt, mix, thrust_curve, mass, integrated_yaw):
    """Take the setpoints of all drones from one level to another.

    Args:
        level, to: levels of the cascade, see the module.
        state: [D, 13], see Bodies.state; D counts drones in all worlds.
        setpoint: [D, 4], overwritten.
        memory: [D, MEMORY_SIZE] integrals and previous values, zero at the start of an episode.
        gains: CascadeGains.
        dt: s since the last call.
        mix: [4, 3], share of the roll, pitch and yaw outputs in each motor.
        thrust_curve: [3].
        mass: kg, nominal: what the controller believes.
        integrated_yaw: whether yaw rate setpoints move a yaw angle that is tracked, as in the firmware.
    """
    for d in range(state.shape[0]):
        _cascade(level, to, state[d], setpoint[d], memory[d], gains, dt, mix, thrust_curve, mass, integrated_yaw)


@_loop
def fly(
    level, state, setpoint, memory, gains, dt, mix, thrust_curve, torque_curve, directions, mass, yaw, u, rotor, out
):
    """One physics step of all drones' onboard controllers and rotors.

    Args:
        setpoint: [D, 4] at `level`; left as it is.
        u: [D, 4] rotor speeds, advanced by dt.
        rotor: [D, 4] rotor parameters.
        out: [D, 5] float32: thrusts (N) and reaction torque (N m).
        Others as in `cascade`.
    """
    sp = np.empty(4)
    for d in range(state.shape[0]):
        for i in range(4):
            sp[i] = setpoint[d, i]
        _cascade(level, MOTORS, state[d], sp, memory[d], gains, dt, mix, thrust_curve, mass, yaw)
        up, down = math.exp(-dt / rotor[d, TAU_UP]), math.exp(-dt / rotor[d, TAU_DOWN])
        _rotors(u[d], sp, rotor[d], thrust_curve, torque_curve, directions, up, down, out[d])


@_loop
def rotor_schedule(thrust, dt, thrust_curve, torque_curve, directions, u, rotor, out):
    """Thrusts of the K coming physics steps for per-rotor thrust commands: nothing in it depends on the state.

    Args:
        thrust: [N, R, A, 4] commanded thrust in N, with R = 1 (held) or R = K rows.
        u: [N, A, 4] rotor speeds, advanced by K steps.
        rotor: [N, A, 4] rotor parameters.
        out: [N, K, A, 5] float32.
    """
    command = np.empty(4)
    for n in range(out.shape[0]):
        for a in range(out.shape[2]):
            up, down = math.exp(-dt / rotor[n, a, TAU_UP]), math.exp(-dt / rotor[n, a, TAU_DOWN])
            for k in range(out.shape[1]):
                if k < thrust.shape[1]:
                    for m in range(4):
                        command[m] = _speed_for_thrust(thrust[n, k, a, m], thrust_curve)
                _rotors(u[n, a], command, rotor[n, a], thrust_curve, torque_curve, directions, up, down, out[n, k, a])
