"""Flying a drone through a state at a time: what it takes to hit a moving ball. Compiled.

A reference (position, velocity, acceleration) runs ahead of each drone. At every control step it is led on along a polynomial
from where the reference is to where it has to be when the ball comes (the idea of Mueller, Hehn, D'Andrea: "A computationally
efficient motion primitive for quadrocopter trajectory generation", T-RO 2015; of least snap here). A drone's
acceleration also fixes how it is tilted, so a racket of a wanted normal, place and velocity is an end of such a polynomial.
The drone follows by a geometric controller (Lee, Leok, McClamroch, CDC 2010, on the thrust direction alone; the heading is
left as it is), with the turning that the jerk asks for fed forward and the known lag of the rotors taken back.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

from numba import njit

from rookery.sim.rotor.parameters import GRAVITY

REFERENCE = 20  # columns: position, velocity, acceleration, jerk, snap (m, s, world); five for the player's own use

_fast = njit(cache=True, nogil=True, error_model="numpy")


class FlightGains(NamedTuple):
    """Gains of the geometric controller and limits of what it asks for."""

    position: float = 9.0  # 1/s^2
    velocity: float = 5.0  # 1/s
    attitude: float = 200.0  # 1/s^2
    rate: float = 28.0  # 1/s
    yaw_rate: float = 2.0  # 1/s
    correction: float = 4.0  # m/s^2, most that is asked for against errors
    steady: float = 0.1  # factor on corrections sideways just before contact, when the racket's tilt matters more
    lag: float = 0.03  # s, by which attitude follows its command
    jerk: float = 40.0  # m/s^3, most of a reference
    lost: float = 0.6  # m, at which a reference that the drone cannot follow is given up and starts where the drone is
    least_thrust: float = 0.4  # of the weight, that a reference may ask for: attitude needs thrust to act on
    most_thrust: float = 0.84  # of what the rotors can give


@_fast
def lead(r, end, sideways, upright, hold, dt, most, gains):
    """Move a reference [20] on by dt towards the state `end` [9].

    x and y follow the polynomial of least snap to the wanted position, velocity and acceleration without jerk, so that the
    drone turns smoothly and is still at the end. z follows the one of least jerk to the wanted position and velocity: the end's
    acceleration is left open, since thrust needs no turning.

    Args:
        sideways, upright: s until x and y, and until z, shall be there; with less than dt left the acceleration stays.
        hold: s, see _least_snap; `end` gets the velocities in x and y that there will be.
        most: m/s^2, thrust over mass that the reference may ask for; sideways acceleration gives way to height.
    """
    for i in range(3):
        time = upright if i == 2 else sideways
        p, v, a, j = r[i], r[3 + i], r[6 + i], r[9 + i]
        if time < dt:
            r[i] = p + dt * (v + 0.5 * dt * a)
            r[3 + i] = v + dt * a
            r[9 + i] = 0.0
            r[12 + i] = 0.0
            continue
        t2 = time * time
        t3 = t2 * time
        if i < 2:
            end[3 + i] = _least_snap(r, end, i, time, dt, hold)
        else:
            dp = end[2] - p - time * (v + 0.5 * time * a)
            dv = time * (end[5] - v - a * time)
            c3, c4, c5 = (
                (40.0 * dp - 12.0 * dv) / 6.0,
                (-200.0 * dp + 72.0 * dv) / 24.0,
                (320.0 * dp - 120.0 * dv) / 120.0,
            )
            s = dt / time
            s2 = s * s
            r[2] = p + dt * (v + 0.5 * dt * a) + s2 * s * (c3 + s * (c4 + s * c5))
            r[5] = v + dt * a + s2 * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)) / time
            r[8] = a + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5)) / t2
            r[11] = (6.0 * c3 + s * (24.0 * c4 + s * 60.0 * c5)) / t3
            r[14] = 0.0
        if abs(r[9 + i]) > gains.jerk:  # more than the drone could follow: as far as it goes
            j = gains.jerk if r[9 + i] > 0.0 else -gains.jerk
            r[9 + i] = j
            r[6 + i] = a + dt * j
            r[i] = p + dt * (v + dt * (a / 2.0 + dt * j / 6.0))
            r[3 + i] = v + dt * (a + 0.5 * dt * j)
            r[12 + i] = 0.0
    _limit(r, dt, most, gains)


@_fast
def _least_snap(r, end, i, time, dt, hold):
    """Move axis i of a reference on by dt along the polynomial of seventh order of least snap to the position, velocity and
    acceleration of `end`, without jerk there. With hold >= 0 the velocity is left open, and the position is that which is
    reached `hold` s later if velocity and acceleration stay; the way due to the acceleration is not counted in it.

    Returns:
        m/s, velocity at the end.
    """
    p, v, a, j = r[i], r[3 + i], r[6 + i], r[9 + i]
    t2 = time * time
    t3 = t2 * time
    d0 = end[i] - p - time * (v + time * (a / 2.0 + time * j / 6.0))
    d2 = t2 * (end[6 + i] - a - time * j)
    d3 = -t3 * j
    coast = v + time * (a + time * j / 2.0)
    if (
        hold >= 0.0
    ):  # where position and velocity at the end are free along a line, the costates are at right angles to it
        h = hold / time
        k = -7.0 * (1.0 + h)
        a1, a2, a3 = 1.0 + 4.0 * h, 1.0 + 5.0 * h, k * (1.0 + 6.0 * h) + 1.0 + 7.0 * h
        left = d0 - hold * coast - a1 * (3.0 * d2 - d3) / 12.0 - a2 * (d3 - 2.0 * d2) / 20.0
        c7 = left / (a1 * (30.0 * k + 84.0) / 12.0 - a2 * (60.0 * k + 126.0) / 20.0 + a3)
        c6 = k * c7
        c5 = (d3 - 2.0 * d2 - (60.0 * k + 126.0) * c7) / 20.0
        c4 = (3.0 * d2 - d3 + (30.0 * k + 84.0) * c7) / 12.0
    else:
        d1 = time * (end[3 + i] - coast)
        c4 = 35.0 * d0 - 15.0 * d1 + 2.5 * d2 - d3 / 6.0
        c5 = -84.0 * d0 + 39.0 * d1 - 7.0 * d2 + 0.5 * d3
        c6 = 70.0 * d0 - 34.0 * d1 + 6.5 * d2 - 0.5 * d3
        c7 = -20.0 * d0 + 10.0 * d1 - 2.0 * d2 + d3 / 6.0
    s = dt / time
    s2 = s * s
    last = coast + (4.0 * c4 + 5.0 * c5 + 6.0 * c6 + 7.0 * c7) / time
    r[i] = p + dt * (v + dt * (a / 2.0 + dt * j / 6.0)) + s2 * s2 * (c4 + s * (c5 + s * (c6 + s * c7)))
    r[3 + i] = v + dt * (a + dt * j / 2.0) + s2 * s * (4.0 * c4 + s * (5.0 * c5 + s * (6.0 * c6 + s * 7.0 * c7))) / time
    r[6 + i] = a + dt * j + s2 * (12.0 * c4 + s * (20.0 * c5 + s * (30.0 * c6 + s * 42.0 * c7))) / t2
    r[9 + i] = j + s * (24.0 * c4 + s * (60.0 * c5 + s * (120.0 * c6 + s * 210.0 * c7))) / t3
    r[12 + i] = (24.0 * c4 + s * (120.0 * c5 + s * (360.0 * c6 + s * 840.0 * c7))) / (t2 * t2)
    return last


@_fast
def _limit(r, dt, most, gains):
    """Bound the acceleration of a reference that was just moved on by dt, and what its last change did to the velocity."""
    up = min(max(r[8] + GRAVITY, gains.least_thrust * GRAVITY), most)
    if up != r[8] + GRAVITY:
        r[5] += 0.5 * dt * (up - GRAVITY - r[8])
        r[8] = up - GRAVITY
        r[11] = 0.0
        r[14] = 0.0
    lateral = math.sqrt(r[6] * r[6] + r[7] * r[7])
    room = math.sqrt(max(most * most - up * up, 0.0))
    if lateral > room:
        for i in range(2):
            r[3 + i] -= 0.5 * dt * r[6 + i] * (1.0 - room / lateral)
            r[6 + i] *= room / lateral
            r[9 + i] = 0.0
            r[12 + i] = 0.0


@_fast
def glide(r, left, dt):
    """Move a reference [20] on by dt with nothing new: its jerk dies away within `left` s."""
    for i in range(3):
        r[i] += dt * (r[3 + i] + dt * (r[6 + i] / 2.0 + dt * r[9 + i] / 6.0))
        r[3 + i] += dt * (r[6 + i] + 0.5 * dt * r[9 + i])
        r[6 + i] += dt * r[9 + i]
        r[9 + i] *= max(1.0 - dt / left, 0.0)
        r[12 + i] = 0.0


@_fast
def rotate_back(q, v, out):
    """out [3] = v [3] in the body frame of the quaternion q [4] wxyz."""
    w, x, y, z = q[0], -q[1], -q[2], -q[3]
    tx = 2.0 * (y * v[2] - z * v[1])
    ty = 2.0 * (z * v[0] - x * v[2])
    tz = 2.0 * (x * v[1] - y * v[0])
    out[0] = v[0] + w * tx + y * tz - z * ty
    out[1] = v[1] + w * ty + z * tx - x * tz
    out[2] = v[2] + w * tz + x * ty - y * tx


@_fast
def _across(force, change, q, spin, out):
    """out [3], body frame of q: the turning that a change of the force [3] means, force x change / |force|^2."""
    square = force[0] ** 2 + force[1] ** 2 + force[2] ** 2
    spin[0] = (force[1] * change[2] - force[2] * change[1]) / square
    spin[1] = (force[2] * change[0] - force[0] * change[2]) / square
    spin[2] = (force[0] * change[1] - force[1] * change[0]) / square
    rotate_back(q, spin, out)


@_fast
def follow(x, r, gains, care, s, out):
    """Thrust and turning with which a drone follows its reference.

    Args:
        x: [13] the drone's state, see Bodies.state.
        r: [20] reference.
        care: factor on what is asked for sideways against errors.
        s: [6, 3] scratch.
        out: [8]: thrust over mass (m/s^2); wanted angular acceleration (rad/s^2, body) 3; wanted angular velocity that an
            onboard rate loop shall follow (rad/s, body) 3; cosine of the tilt still to be made.
    """
    force, spin, body, rate, bend = s[0], s[1], s[2], s[3], s[4]
    size = 0.0
    for i in range(3):
        force[i] = gains.position * (r[i] - x[i]) + gains.velocity * (r[3 + i] - x[7 + i])
        size += force[i] * force[i]
    scale = min(1.0, gains.correction / max(math.sqrt(size), 1e-9))
    for i in range(3):
        force[i] = (scale if i == 2 else scale * care) * force[i] + r[6 + i]
    force[2] = max(force[2] + GRAVITY, 0.15 * GRAVITY)
    size = math.sqrt(force[0] ** 2 + force[1] ** 2 + force[2] ** 2)
    for i in range(3):
        bend[i] = r[9 + i] + gains.lag * r[12 + i]
    _across(force, bend, x[3:7], spin, rate)
    _across(force, r[12:15], x[3:7], spin, bend)
    rotate_back(x[3:7], force, body)  # the wanted thrust as the body sees it: (0, 0, size) once aligned
    cosine = min(max(body[2] / size, -1.0), 1.0)
    ex, ey = -body[1] / size, body[0] / size  # the axis about which to turn, times the sine of the angle
    sine = math.sqrt(ex * ex + ey * ey)
    stretch = math.acos(cosine) / sine if sine > 1e-6 else 1.0
    out[0] = size * max(cosine, 0.3)
    damp = gains.rate
    out[1] = gains.attitude * ex * stretch + damp * (rate[0] - x[10]) + bend[0]
    out[2] = gains.attitude * ey * stretch + damp * (rate[1] - x[11]) + bend[1]
    out[3] = -gains.yaw_rate * x[12]
    out[4] = rate[0] + gains.attitude / gains.rate * ex * stretch
    out[5] = rate[1] + gains.attitude / gains.rate * ey * stretch
    out[6] = 0.0
    out[7] = cosine


@_fast
def rotor_thrusts(command, x, airframe, u, command_dt, out):
    """The four thrust commands (N) that give a `follow` command.

    Args:
        command: [8], see `follow`.
        airframe: Airframe.
        u: [4] normalised rotor speeds now.
        command_dt: s for which the command is held.
        out: [4].
    """
    a = airframe
    wx, wy, wz = x[10], x[11], x[12]
    jx, jy, jz = a.inertia
    tx = jx * command[1] + (jz - jy) * wy * wz
    ty = jy * command[2] + (jx - jz) * wz * wx
    tz = jz * command[3] + (jy - jx) * wx * wy
    tz = min(max(tz, -a.most_yaw), a.most_yaw)
    rise, sink = 1.0 - math.exp(-command_dt / a.tau_up), 1.0 - math.exp(-command_dt / a.tau_down)
    c0, c1, c2 = a.thrust_curve
    base = min(max(0.25 * a.mass * command[0], 0.0), a.max_thrust)
    scale, high, low = 1.0, 0.0, 0.0
    for m in range(4):  # torques take what a step can give up and down, and a little of the collective thrust
        t = a.share[m][1] * tx + a.share[m][2] * ty + a.share[m][3] * tz
        out[m] = t
        s = u[m] + rise * (1.0 - u[m]) if t > 0.0 else u[m] * (1.0 - sink)
        room = c0 + s * (c1 + s * c2) - base if t > 0.0 else base - (c0 + s * (c1 + s * c2))
        scale = min(scale, (max(room, 0.0) + 0.1 * a.max_thrust) / max(abs(t), 1e-9))
        high, low = max(high, t), min(low, t)
    base -= max(base + scale * high - a.max_thrust, 0.0)
    base += max(-base - scale * low, 0.0)
    for m in range(4):
        t = min(max(base + scale * out[m], 0.0), a.max_thrust)
        want = (math.sqrt(max(c1 * c1 + 4.0 * c2 * (t - c0), 0.0)) - c1) / (2.0 * c2)
        s = min(max(u[m] + (want - u[m]) / (rise if want > u[m] else sink), 0.0), 1.0)
        out[m] = c0 + s * (c1 + s * c2)


class Airframe(NamedTuple):
    """What the controller knows of a drone. `share` [4][4]: each rotor's thrust for a collective thrust of 1 N and for
    torques of 1 N m about x, y, z."""

    mass: float  # kg
    inertia: tuple[float, float, float]  # kg m^2
    max_thrust: float  # N, one rotor
    thrust_curve: tuple[float, float, float]  # N
    tau_up: float  # s
    tau_down: float  # s
    most_yaw: float  # N m, spent on yaw at most
    share: tuple[tuple[float, ...], ...]
