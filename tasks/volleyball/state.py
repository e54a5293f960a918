"""The state of a volleyball drone: VolleyBots' vector of 23 numbers (arXiv 2502.01932), compiled."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from numba import njit

from rookery.sim.quantities import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY, axes, rotation, world
from rookery.sim.specs import Term
from rookery.sim.terms import Constant, Expression, Quantity, Turned, Upright

STATE = 23
SIDE = rotation("side of the court", "court", doc="turned by half a circle about z for who plays on the far side")


def own_side(vector: Expression) -> Expression:
    """In court axes, in which both sides see the same."""
    return Turned(vector, SIDE)


PLACE_NOISE = PLACE_BIAS = 0.005  # m, standard deviation and half-width, as in the other tasks of drones
TILT_NOISE = 0.005  # rad, about each axis, likewise; a unit vector moves by it, a quaternion's components by half of it
VELOCITY_NOISE = 0.01  # m/s, likewise
RATE_NOISE = 0.02  # rad/s, likewise
THROTTLE_NOISE = 0.005
"""Of a range of 2: a motor controller tells the time of a turn with 9 significant bits, up to 0.4 % off (bidirectional DShot,
Betaflight)."""

# Scales bring every value to about 1 on a court; they are no part of the published task.
MIDDLE = Constant((0.0, 0.0, 0.0), "m", "world", "middle of the court", place=True)
THROTTLES = Quantity("normalised rotor speeds", 4, doc="in [0, 1]")
_SPEEDS = THROTTLES * 2.0 - Constant((1.0,))
TERMS = (
    Term("position", own_side(POSITION - MIDDLE), scale=0.25, noise=PLACE_NOISE, bias=PLACE_BIAS, estimated="position"),
    Term("quaternion", Upright(own_side(ROTATION)), noise=0.5 * TILT_NOISE, estimated="attitude"),
    Term("linear_velocity", own_side(VELOCITY), scale=0.2, noise=VELOCITY_NOISE, estimated="linear velocity"),
    Term("angular_velocity", own_side(world(ANGULAR_VELOCITY)), scale=0.2, noise=RATE_NOISE),
    Term("heading", own_side(axes(ROTATION, "x")), noise=TILT_NOISE, estimated="attitude"),
    Term("up", own_side(axes(ROTATION, "z")), noise=TILT_NOISE, estimated="attitude"),
    Term("throttle", _SPEEDS, noise=THROTTLE_NOISE, estimated="rotor speeds", initial="that of hover"),
)


@njit(cache=True, nogil=True, error_model="numpy")
def drone_state(worlds, x, u, turned, out):
    """The state vectors of the drones of some worlds.

    Args:
        worlds: [m] int64 which.
        x: [N, A, 13], see Bodies.state.
        u: [N, A, 4] normalized rotor speeds.
        turned: [A] bool, whose world is turned by half a circle about z, so that both sides see the same court: x and y
            of all vectors change sign, and the quaternion is multiplied by (0, 0, 0, 1) from the left.
        out: [N, A, 23] float32, in the order of TERMS.
    """
    for n in worlds:
        for a in range(x.shape[1]):
            s, o = x[n, a], out[n, a]
            side = -1.0 if turned[a] else 1.0
            w, i, j, k = s[3], s[4], s[5], s[6]
            if turned[a]:
                w, i, j, k = -k, -j, i, w
            if w < 0.0:
                w, i, j, k = -w, -i, -j, -k
            o[0] = side * s[0]
            o[1] = side * s[1]
            o[2] = s[2]
            o[3] = w
            o[4] = i
            o[5] = j
            o[6] = k
            o[7] = side * s[7]
            o[8] = side * s[8]
            o[9] = s[9]
            # columns of the rotation matrix: the body's axes in the (turned) world
            xx, xy, xz = 1.0 - 2.0 * (j * j + k * k), 2.0 * (i * j + w * k), 2.0 * (i * k - w * j)
            zx, zy, zz = 2.0 * (i * k + w * j), 2.0 * (j * k - w * i), 1.0 - 2.0 * (i * i + j * j)
            yx, yy, yz = zy * xz - zz * xy, zz * xx - zx * xz, zx * xy - zy * xx
            p, q, r = s[10], s[11], s[12]
            o[10] = xx * p + yx * q + zx * r
            o[11] = xy * p + yy * q + zy * r
            o[12] = xz * p + yz * q + zz * r
            o[13] = xx
            o[14] = xy
            o[15] = xz
            o[16] = zx
            o[17] = zy
            o[18] = zz
            for m in range(4):
                o[19 + m] = 2.0 * u[n, a, m] - 1.0
