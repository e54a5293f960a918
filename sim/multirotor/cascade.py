"""The cascaded flight controller of one drone, compiled: the single source of its onboard behavior on every engine.

Levels of the cascade, from the outside in, with the four numbers of a setpoint at each:

    4 position    x, y, z (m, world), yaw (rad)
    3 velocity    vx, vy, vz (m/s, world), yaw rate (rad/s)
    2 attitude    roll, pitch (rad), yaw rate (rad/s), collective thrust (N)
    1 rates       wx, wy, wz (rad/s, body), collective thrust (N)
    0 motors      normalized rotor speed commands u1..u4 in [0, 1]

The rate loop, its mixer and its saturation are the Crazyflie firmware's (bitcraze/crazyflie-firmware 2a18fc29), in SI units
and in the body frame x forward, y left, z up: `stabilizer` runs it at 500 Hz on the vehicle, here at every physics step.

Arguments of all functions: `x`, `m`, `c` are flat arrays with a drone's state (see World.Bodies.state), controller memory
and setpoint; number f of each stands at ``x[xi + f * n]``: the `rotor` engine keeps lanes side by side (n = LANES), others
rows (n = 1). `k` is the row of constants (layout.type_row). Below positions and yaw angles nothing takes sines or tangents:
loops over lanes become vector instructions.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit

from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.layout import POS, QUAT, RATE, VEL

POSITION = 4
VELOCITY = 3
ATTITUDE = 2
RATES = 1
MOTORS = 0
DIRECT = -1
"""Below the motors: the four thrusts (N) and the reaction torque (N m) themselves, without rotors."""

# places in a drone's controller memory
RATE_SUM = 0
RATE_BEFORE = 3
ATTITUDE_SUM = 6
VELOCITY_SUM = 9
YAW_WANTED = 12
STARTED = 13
YAW_BEFORE = 14
MEMORY = 15

GRAVITY = 9.81  # m/s^2, what the controller believes

FAST = {"contract", "nsz", "arcp", "reassoc"}
"""Freedoms of the compiler that keep NaN and infinity what they are: diverged worlds are found by them."""

scalar = njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST, forceinline=True)


@scalar
def clip(x, low, high):
    return min(max(x, low), high)


@scalar
def wrap(a):
    """An angle in [-pi, pi)."""
    return a - 2.0 * math.pi * math.floor((a + math.pi) / (2.0 * math.pi))


@scalar
def speed_for_thrust(thrust, c0, c1, c2):
    """Normalized rotor speed for a thrust in N: the thrust curve solved for u, within [0, 1]."""
    root = math.sqrt(max(c1 * c1 + 4.0 * c2 * (thrust - c0), 0.0))
    return clip((root - c1) / (2.0 * c2), 0.0, 1.0)


@scalar
def yaw_of(x, xi, n):
    w, i, j, k = x[xi + QUAT * n], x[xi + (QUAT + 1) * n], x[xi + (QUAT + 2) * n], x[xi + (QUAT + 3) * n]
    return math.atan2(2.0 * (w * k + i * j), 1.0 - 2.0 * (j * j + k * k))


@scalar
def position_to_velocity(x, xi, c, ci, n, k):
    """Proportional on position with a bounded speed; yaw error becomes a yaw rate."""
    vx = k[at.POSITION_KP] * (c[ci] - x[xi + POS * n])
    vy = k[at.POSITION_KP + 1] * (c[ci + n] - x[xi + (POS + 1) * n])
    vz = k[at.POSITION_KP + 2] * (c[ci + 2 * n] - x[xi + (POS + 2) * n])
    speed = math.sqrt(vx * vx + vy * vy + vz * vz)
    share = k[at.MAX_VELOCITY] / max(speed, k[at.MAX_VELOCITY])
    c[ci] = share * vx
    c[ci + n] = share * vy
    c[ci + 2 * n] = share * vz
    c[ci + 3 * n] = 2.0 * wrap(c[ci + 3 * n] - yaw_of(x, xi, n))


@scalar
def _velocity_axis(x, xi, m, mi, c, ci, n, k, dt, i):
    e = c[ci + i * n] - x[xi + (VEL + i) * n]
    limit = k[at.VELOCITY_INTEGRAL + i]
    total = clip(m[mi + (VELOCITY_SUM + i) * n] + e * dt, -limit, limit)
    m[mi + (VELOCITY_SUM + i) * n] = total
    return k[at.VELOCITY_KP + i] * e + k[at.VELOCITY_KI + i] * total


@scalar
def _lean(x, xi, m, mi, c, ci, n, k, dt):
    """PI on velocity gives a wanted acceleration; thrust has to supply it and carry the weight.

    Returns (forward, left, up) of the wanted thrust per mass at the present heading, and puts the yaw rate and the
    collective thrust at their places for the attitude level.
    """
    ax = _velocity_axis(x, xi, m, mi, c, ci, n, k, dt, 0)
    ay = _velocity_axis(x, xi, m, mi, c, ci, n, k, dt, 1)
    az = _velocity_axis(x, xi, m, mi, c, ci, n, k, dt, 2)
    up = max(az + GRAVITY, 0.3 * GRAVITY)  # never ask to fall freely: attitude needs thrust to act on
    most = k[at.MAX_SLOPE] * up
    share = most / max(math.sqrt(ax * ax + ay * ay), most)
    qw, qx, qy, qz = x[xi + QUAT * n], x[xi + (QUAT + 1) * n], x[xi + (QUAT + 2) * n], x[xi + (QUAT + 3) * n]
    sine, cosine = 2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz)  # of yaw, times the same
    share /= math.sqrt(max(sine * sine + cosine * cosine, 1e-24))
    # thrust acts along the body's z as it is now; the tilt still to come is the attitude loop's affair
    cos_tilt = max(1.0 - 2.0 * (qx * qx + qy * qy), 0.5)
    highest = 4.0 * (k[at.THRUST_CURVE] + k[at.THRUST_CURVE + 1] + k[at.THRUST_CURVE + 2])
    c[ci + 2 * n] = c[ci + 3 * n]  # the yaw rate keeps its value and moves to its place at the attitude level
    c[ci + 3 * n] = clip(k[at.NOMINAL_MASS] * up / cos_tilt, 0.0, highest)
    return share * (cosine * ax + sine * ay), share * (cosine * ay - sine * ax), up


@scalar
def velocity_to_attitude(x, xi, m, mi, c, ci, n, k, dt):
    """From velocity to the angles that would give it."""
    forward, left, up = _lean(x, xi, m, mi, c, ci, n, k, dt)
    c[ci + n] = math.atan2(forward, up)
    c[ci] = math.atan2(-left * up / math.sqrt(forward * forward + up * up), up)


@scalar
def velocity_to_rates(x, xi, m, mi, c, ci, n, k, dt):
    """`velocity_to_attitude` and `attitude_to_rates` in one: the angles appear only by their half's sines and cosines."""
    forward, left, up = _lean(x, xi, m, mi, c, ci, n, k, dt)
    length = math.sqrt(forward * forward + up * up)
    cosine = up / length
    cp = math.sqrt(0.5 + 0.5 * cosine)
    sp = 0.5 * forward / (length * cp)
    side = -left * cosine
    length = math.sqrt(side * side + up * up)
    cr = math.sqrt(0.5 + 0.5 * up / length)
    sr = 0.5 * side / (length * cr)
    _tilt(x, xi, m, mi, c, ci, n, k, dt, cr, sr, cp, sp)


@scalar
def _sine(a):
    """sin(a) to 1e-11 for |a| <= pi / 2, without a call: loops over lanes stay vector code."""
    s = a * a
    t = 1.0 - s / 210.0 * (1.0 - s / 272.0)
    t = 1.0 - s / 110.0 * (1.0 - s / 156.0 * t)
    return a * (1.0 - s / 6.0 * (1.0 - s / 20.0 * (1.0 - s / 42.0 * (1.0 - s / 72.0 * t))))


@scalar
def attitude_to_rates(x, xi, m, mi, c, ci, n, k, dt):
    """PI on the tilt error, taken as twice the vector part of the error quaternion at the present yaw; angles in [-pi, pi]."""
    half = 0.5 * math.pi
    roll = clip(0.5 * c[ci], -half, half)
    pitch = clip(0.5 * c[ci + n], -half, half)
    _tilt(x, xi, m, mi, c, ci, n, k, dt, _sine(half - abs(roll)), _sine(roll), _sine(half - abs(pitch)), _sine(pitch))


@scalar
def _tilt(x, xi, m, mi, c, ci, n, k, dt, cr, sr, cp, sp):
    """Roll and pitch rates from cosines and sines of half the wanted roll and pitch."""
    qw, qx, qy, qz = x[xi + QUAT * n], x[xi + (QUAT + 1) * n], x[xi + (QUAT + 2) * n], x[xi + (QUAT + 3) * n]
    # half the yaw angle without trigonometry: yaw = atan2(s, g)
    s, g = 2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz)
    cosine = g / math.sqrt(max(s * s + g * g, 1e-24))
    cy = math.sqrt(max(0.5 + 0.5 * cosine, 0.0))
    sy = math.sqrt(max(0.5 - 0.5 * cosine, 0.0))
    sy = -sy if s < 0.0 else sy
    dw, dx = cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy
    dy, dz = cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy
    ew = qw * dw + qx * dx + qy * dy + qz * dz
    sign = -2.0 if ew < 0.0 else 2.0
    ex = sign * (qw * dx - qx * dw - qy * dz + qz * dy)
    ey = sign * (qw * dy - qy * dw - qz * dx + qx * dz)
    limit = k[at.ATTITUDE_INTEGRAL]
    total_x = clip(m[mi + ATTITUDE_SUM * n] + ex * dt, -limit, limit)
    limit = k[at.ATTITUDE_INTEGRAL + 1]
    total_y = clip(m[mi + (ATTITUDE_SUM + 1) * n] + ey * dt, -limit, limit)
    m[mi + ATTITUDE_SUM * n] = total_x
    m[mi + (ATTITUDE_SUM + 1) * n] = total_y
    c[ci] = k[at.ATTITUDE_KP] * ex + k[at.ATTITUDE_KI] * total_x
    c[ci + n] = k[at.ATTITUDE_KP + 1] * ey + k[at.ATTITUDE_KI + 1] * total_y


@scalar
def integrate_yaw(x, xi, m, mi, c, ci, n, k, dt):
    """The firmware's PID controller does not track a yaw rate: it moves a yaw angle by it and tracks that angle."""
    yaw = yaw_of(x, xi, n)
    if m[mi + STARTED * n] == 0.0:
        m[mi + YAW_WANTED * n] = yaw
        m[mi + YAW_BEFORE * n] = yaw
    wanted = wrap(m[mi + YAW_WANTED * n] + c[ci + 2 * n] * dt)
    e = wrap(wanted - yaw)
    limit = k[at.ATTITUDE_INTEGRAL + 2]
    total = clip(m[mi + (ATTITUDE_SUM + 2) * n] + e * dt, -limit, limit)
    slope = -wrap(yaw - m[mi + YAW_BEFORE * n]) / dt
    m[mi + YAW_WANTED * n] = wanted
    m[mi + (ATTITUDE_SUM + 2) * n] = total
    m[mi + YAW_BEFORE * n] = yaw
    kp, ki, kd = k[at.ATTITUDE_KP + 2], k[at.ATTITUDE_KI + 2], k[at.ATTITUDE_KD + 2]
    c[ci + 2 * n] = kp * e + ki * total + kd * slope


@scalar
def _rate_axis(x, xi, m, mi, c, ci, n, k, dt, i):
    w = x[xi + (RATE + i) * n]
    e = c[ci + i * n] - w
    limit = k[at.RATE_INTEGRAL + i]
    total = clip(m[mi + (RATE_SUM + i) * n] + e * dt, -limit, limit)
    started = m[mi + STARTED * n]
    slope = started * (w - m[mi + (RATE_BEFORE + i) * n]) / dt
    m[mi + (RATE_SUM + i) * n] = total
    m[mi + (RATE_BEFORE + i) * n] = w
    limit = k[at.RATE_OUTPUT + i]
    return clip(k[at.RATE_KP + i] * e + k[at.RATE_KI + i] * total - k[at.RATE_KD + i] * slope, -limit, limit)


@scalar
def rates_to_motors(x, xi, m, mi, c, ci, n, k, dt):
    """The firmware's rate PID, X mixer and saturation: attitude before altitude, thrust gives way to the differences."""
    roll = _rate_axis(x, xi, m, mi, c, ci, n, k, dt, 0)
    pitch = _rate_axis(x, xi, m, mi, c, ci, n, k, dt, 1)
    yaw = _rate_axis(x, xi, m, mi, c, ci, n, k, dt, 2)
    m[mi + STARTED * n] = 1.0
    base = speed_for_thrust(0.25 * c[ci + 3 * n], k[at.THRUST_CURVE], k[at.THRUST_CURVE + 1], k[at.THRUST_CURVE + 2])
    b = at.MIX
    u0 = base + k[b] * roll + k[b + 1] * pitch + k[b + 2] * yaw
    u1 = base + k[b + 3] * roll + k[b + 4] * pitch + k[b + 5] * yaw
    u2 = base + k[b + 6] * roll + k[b + 7] * pitch + k[b + 8] * yaw
    u3 = base + k[b + 9] * roll + k[b + 10] * pitch + k[b + 11] * yaw
    excess = max(max(max(u0, u1), max(u2, u3)) - 1.0, 0.0)
    c[ci] = clip(u0 - excess, 0.0, 1.0)
    c[ci + n] = clip(u1 - excess, 0.0, 1.0)
    c[ci + 2 * n] = clip(u2 - excess, 0.0, 1.0)
    c[ci + 3 * n] = clip(u3 - excess, 0.0, 1.0)


@scalar
def cascade(level, to, x, xi, m, mi, c, ci, n, k, dt):
    """Take one drone's setpoint from one level to another, in place; levels are the same for all who call together."""
    if level >= POSITION and to < POSITION:
        position_to_velocity(x, xi, c, ci, n, k)
    if level >= VELOCITY and to < ATTITUDE:
        velocity_to_rates(x, xi, m, mi, c, ci, n, k, dt)
    elif level >= VELOCITY and to < VELOCITY:
        velocity_to_attitude(x, xi, m, mi, c, ci, n, k, dt)
    elif level >= ATTITUDE and to < ATTITUDE:
        attitude_to_rates(x, xi, m, mi, c, ci, n, k, dt)
    if level >= RATES and to < RATES:
        if k[at.YAW_INTEGRATED] > 0.0:
            integrate_yaw(x, xi, m, mi, c, ci, n, k, dt)
        rates_to_motors(x, xi, m, mi, c, ci, n, k, dt)


@scalar
def follow(u, command, rise, fall):
    """A rotor's speed after a step: what is left of the distance to its command is `rise` or `fall` of it."""
    return command + (u - command) * (rise if command > u else fall)
