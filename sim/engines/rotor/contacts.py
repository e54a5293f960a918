"""Contacts of one physics step: balls with drones, balls and shapes; drones with each other and shapes, of which some move.

Bodies have moved freely through the step; what they met on the way is found by sweeping them along their paths (see
sweeps), so that nothing tunnels, however thin or fast. Each impact changes velocities at its own time in the step (see
impulses), and the rest of the step is flown with the new ones. Balls (see balls) meet the exact shapes of drones, in the
drones' moving frames. Among each other and towards static shapes drones (see airframes) are spheres of their body radius; on
planes they stand on the rims of their body cylinders.

Only lanes that may be in contact are looked at one by one; the test for that is vector code.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

import math

from rookery.sim.engines.rotor.airframes import drone_on_fixed, drones_meet
from rookery.sim.engines.rotor.balls import balls_meet
from rookery.sim.engines.rotor.colliders import HIGH, LOW, level
from rookery.sim.engines.rotor.movers import drone_on_mover
from rookery.sim.engines.rotor.vectors import compiled, inlined
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.layout import LANES


@inlined
def near_something(before, state, p, w, types, drones, touching, hot):
    """Mark the lanes of a block in which bodies may have been in contact, by bounds of their paths; whether there are any.

    Args:
        before: [bodies, 10 * LANES] poses and velocities at the beginning of the step.
        hot: [LANES] int64, overwritten.
    """
    fixed = touching[0]
    reach = touching[3]
    for i in range(LANES):
        hot[i] = 0
    movers = touching[11]
    flying = state.shape[0] - movers.shape[0]
    for b in range(flying):
        size, grow = 0.0, 1.0  # a drone's size is its type's, a ball's radius stands among what varies
        if b < drones:
            size = math.hypot(types[b, at.BODY_RADIUS], types[b, at.BODY_HALF_HEIGHT])
            grow = 0.0
        for s in range(fixed.shape[0]):
            _near_fixed(fixed[s], before[b], state[b], p[b], w, size, grow, hot)
        for m in range(movers.shape[0]):
            o = flying + m
            _near(before[o], before[b], state[o], state[b], p[o], p[b], movers[m] + size, 0.0, grow, hot)
        for a in range(b):
            if b < drones:
                least = types[a, at.BODY_RADIUS] + types[b, at.BODY_RADIUS]
                other = 0.0
            elif a < drones:
                least = reach[a]
                other = 0.0
            else:
                least = 0.0
                other = 1.0
            _near(before[a], before[b], state[a], state[b], p[a], p[b], least, other, grow, hot)
    found = 0
    for i in range(LANES):
        found += hot[i]
    return found > 0


@inlined
def _near(a0, b0, a1, b1, pa, pb, least, grow_a, grow_b, hot):
    """Two bodies that come within `least` (and the balls' radii), by a bound that grows with their paths."""
    n = LANES
    for i in range(LANES):
        x, y, z = b1[i] - a1[i], b1[n + i] - a1[n + i], b1[2 * n + i] - a1[2 * n + i]
        u, v, t = b0[i] - a0[i], b0[n + i] - a0[n + i], b0[2 * n + i] - a0[2 * n + i]
        far = least + grow_a * pa[at.BALL_RADIUS * n + i] + grow_b * pb[at.BALL_RADIUS * n + i]
        far += abs(x - u) + abs(y - v) + abs(z - t)
        hot[i] |= x * x + y * y + z * z < far * far


@inlined
def _near_fixed(f, b0, b1, p, w, size, grow, hot):
    """A body whose path comes near the bounds of a static shape."""
    n = LANES
    lx, ly, lz, hx, hy, hz = f[LOW], f[LOW + 1], f[LOW + 2], f[HIGH], f[HIGH + 1], f[HIGH + 2]
    moves = 1.0 if level(f) else 0.0
    for i in range(LANES):
        g = size + grow * p[at.BALL_RADIUS * n + i]
        top = hz + moves * w[at.GROUND * n + i]
        x, y, z = b1[i], b1[n + i], b1[2 * n + i]
        u, v, t = b0[i], b0[n + i], b0[2 * n + i]
        away = (min(x, u) - g > hx) | (max(x, u) + g < lx) | (min(y, v) - g > hy) | (max(y, v) + g < ly)
        hot[i] |= not (away | (min(z, t) - g > top) | (max(z, t) + g < lz))


@compiled
def collide(first, step, dt, before, state, p, w, types, drones, touching, hot):
    """Contacts of one block's worlds in one physics step, in the lanes that `near_something` marked.

    Args:
        first: the world of the first lane.
        before: [bodies, 10 * LANES] poses and velocities at the beginning of the step; overwritten.
        touching: (*colliders(...), lookup [geoms, geoms] of columns, impulse [N, columns], when [N, columns], *movers(...)).
    """
    for i in range(LANES):
        n = first + i
        if hot[i] and n < touching[7].shape[0]:
            if drones > 1:
                drones_meet(n, i, step, dt, before, state, p, types, drones, touching)
            for a in range(drones):
                drone_on_fixed(n, i, a, step, dt, before, state, p, w, types, touching)
                for m in range(touching[11].shape[0]):
                    drone_on_mover(n, i, a, m, step, dt, before, state, p, types, touching)
            if state.shape[0] - touching[11].shape[0] > drones:
                balls_meet(n, i, step, dt, before, state, p, w, drones, touching)
