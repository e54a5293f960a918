"""A pad's motion, and what a drone does on it, compiled, in exact arithmetic: a world's numbers do not depend on the others."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit

from rookery.sim.random_kernels import inlined

_loop = njit(cache=True, nogil=True, error_model="numpy")

X, Y, Z, ROLL, PITCH = range(5)
MOTIONS = 5
"""What of a pad swings: three places and two angles."""


@inlined
def _swing(wave, w, k, time):
    return wave[w, k, 0] * math.sin(wave[w, k, 1] * time + wave[w, k, 2])


@inlined
def _attitude(roll, pitch):
    """Quaternion of a pad that is pitched about y, then rolled about x (world)."""
    cr, sr, cp, sp = math.cos(0.5 * roll), math.sin(0.5 * roll), math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    return cr * cp, sr * cp, cr * sp, sr * sp


@_loop
def move_pads(worlds, wave, clock, place, dt, state):
    """Poses of pads, and the even velocities that lead to their poses a control step later.

    Args:
        worlds: [m] int64 which.
        wave: [N, MOTIONS, 3] float64 amplitude in m or rad, angular frequency in rad/s, phase in rad.
        clock: [N] int64 control steps since the episode began.
        place: [3] m, world, around which the pads swing.
        dt: s, of a control step.
        state: [N, 1, 13] see Bodies.state, written.
    """
    for w in worlds:
        now = clock[w] * dt
        then = now + dt
        s = state[w, 0]
        for k in range(3):
            here = _swing(wave, w, k, now)
            s[k] = place[k] + here
            s[7 + k] = (_swing(wave, w, k, then) - here) / dt
        a, b, c, d = _attitude(_swing(wave, w, ROLL, now), _swing(wave, w, PITCH, now))
        e, f, g, h = _attitude(_swing(wave, w, ROLL, then), _swing(wave, w, PITCH, then))
        # from now to then, in the pad's own axes: conjugate(now) times then
        u = a * e + b * f + c * g + d * h
        x = a * f - b * e - c * h + d * g
        y = a * g + b * h - c * e - d * f
        z = a * h - b * g + c * f - d * e
        size = math.sqrt(x * x + y * y + z * z)
        rate = 2.0 * math.atan2(size, u) / (size * dt) if size > 0.0 else 0.0
        s[3], s[4], s[5], s[6] = a, b, c, d
        s[10], s[11], s[12] = rate * x, rate * y, rate * z


@_loop
def relative(drone, pad, rest, place, speed, lean):
    """Drones as seen from their pads.

    Args:
        drone, pad: [N, 1, 13] see Bodies.state.
        rest: m, height of a drone's centre over that of a level pad on which it stands.
        place: [N, 3] m, written: from where the drone would stand in the middle of the pad, in the pad's axes.
        speed: [N] m/s, written: of the drone's centre against the point of the pad that is there.
        lean: [N], written: cosine of the angle between the two upward axes.
    """
    for w in range(drone.shape[0]):
        d, b = drone[w, 0], pad[w, 0]
        qw, qx, qy, qz = float(b[3]), float(b[4]), float(b[5]), float(b[6])
        xx, xy, xz = 1.0 - 2.0 * (qy * qy + qz * qz), 2.0 * (qx * qy - qw * qz), 2.0 * (qx * qz + qw * qy)
        yx, yy, yz = 2.0 * (qx * qy + qw * qz), 1.0 - 2.0 * (qx * qx + qz * qz), 2.0 * (qy * qz - qw * qx)
        zx, zy, zz = 2.0 * (qx * qz - qw * qy), 2.0 * (qy * qz + qw * qx), 1.0 - 2.0 * (qx * qx + qy * qy)
        x, y, z = float(d[0]) - b[0], float(d[1]) - b[1], float(d[2]) - b[2]
        px, py, pz = xx * x + yx * y + zx * z, xy * x + yy * y + zy * z, xz * x + yz * y + zz * z
        place[w, 0], place[w, 1], place[w, 2] = px, py, pz - rest
        # the pad's rates are in its own axes, as is the place: so is the velocity of its point, and then the drone's
        u, v, t = float(d[7]) - b[7], float(d[8]) - b[8], float(d[9]) - b[9]
        ux = xx * u + yx * v + zx * t - (b[11] * pz - b[12] * py)
        uy = xy * u + yy * v + zy * t - (b[12] * px - b[10] * pz)
        uz = xz * u + yz * v + zz * t - (b[10] * py - b[11] * px)
        speed[w] = math.sqrt(ux * ux + uy * uy + uz * uz)
        qw, qx, qy, qz = float(d[3]), float(d[4]), float(d[5]), float(d[6])
        up_x, up_y, up_z = 2.0 * (qx * qz + qw * qy), 2.0 * (qy * qz - qw * qx), 1.0 - 2.0 * (qx * qx + qy * qy)
        lean[w] = up_x * xz + up_y * yz + up_z * zz
