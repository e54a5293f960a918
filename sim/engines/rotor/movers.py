"""Bodies that move as they are told: at the velocities that were written to them, whatever touches them.

Drones stand on their shapes with the rims of their body cylinders, as on planes, and with the deepest point of the body where
an edge or a tip goes between the rims; they feel the shapes' velocity at every point that they touch. The points of the rims,
and a smaller sphere around a drone's centre, are swept along their paths, so that drones do not pass through thin shapes; one
that dives edge-on at 25 m/s and more may stay caught in a thin one.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

import math

from rookery.sim.engines.rotor.airframes import ROUNDS, SLOP, push
from rookery.sim.engines.rotor.colliders import GEOM, gap, meets, note
from rookery.sim.engines.rotor.impulses import impulse, kick, turned
from rookery.sim.engines.rotor.vectors import (
    add,
    along,
    attitude,
    compiled,
    dot,
    inlined,
    inwards,
    minus,
    outwards,
    put,
    three,
)
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.flight import turn
from rookery.sim.multirotor.layout import LANES, POS, RATE, VEL

CORE = 0.8
"""Radius of the sphere that is swept, over half the height of a drone's body: it is inside of the cylinder."""
DEEP = 2e-3
"""m: what would go this deep into a shape in one step is stopped where it touches, or it might leave on the other side. Slower
impacts are not, since a drone that slides must not stick."""
DEEPER = 1e-4
"""m: the deepest point of a body counts where it is that much deeper in a shape than the rims."""
HALVINGS = 8
"""Steps of the search for it, of a body's radius at first, each 0.6 of the one before."""
_RIGID = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@inlined
def move(state, first, dt):
    """The bodies of a block from the first on through a step at their own velocities."""
    for b in range(first, state.shape[0]):
        d = state[b]
        for i in range(LANES):
            for f in range(3):
                d[(POS + f) * LANES + i] += dt * d[(VEL + f) * LANES + i]
            turn(d, i, d[RATE * LANES + i], d[(RATE + 1) * LANES + i], d[(RATE + 2) * LANES + i], dt)


@compiled
def _rim(radius, half, corner):
    """m, body axes: one of eight points on the rims of a drone's body."""
    angle = 0.5 * math.pi * (corner // 2)
    return radius * math.cos(angle), radius * math.sin(angle), half if corner % 2 else -half


@compiled
def _corner(radius, half, corner, deepest):
    """m, body axes: a point of the rims, or after those the deepest one."""
    return _rim(radius, half, corner) if corner < 8 else deepest


@compiled
def _deepest(f, x, q, qm, radius, half):
    """Distance to a shape of the points of a drone's body, and the nearest of them: (m, point in body axes).

    The distance from a convex shape is a convex function, whose least value in the body is found downhill. Points whose way
    out is not the centre's do not count: they would lead a drone that dives into a thin shape out on its other side.

    Args:
        x: m, the drone's centre from the mover's, world axes.
        q, qm: attitudes of drone and mover.
    """
    point = (0.0, 0.0, 0.0)
    found = point
    least, out = gap(f, inwards(qm, x))
    step = radius
    for _ in range(HALVINGS):
        distance, normal = gap(f, inwards(qm, along(x, outwards(q, point), 1.0)))
        if distance < least and dot(normal, out) > 0.0:
            least = distance
            found = point
        y = along(point, inwards(q, outwards(qm, normal)), -step)
        inside = min(1.0, radius / max(math.hypot(y[0], y[1]), 1e-9))
        point = inside * y[0], inside * y[1], min(max(y[2], -half), half)
        step *= 0.6
    return least, found


@compiled
def _share(f, radius, x0, x1):
    """The part of a sphere's path, in the mover's axes, up to where it is stopped: all of it unless it would go too deep."""
    hit, t, normal, _place = meets(f, radius, x0, x1)
    return t if hit and -(1.0 - t) * dot(normal, minus(x1, x0)) > DEEP else 1.0


@compiled
def drone_on_mover(n, i, a, m, step, dt, before, state, p, types, touching):
    """Drone a against the shapes of mover m, which is the body `state.shape[0] - M + m`."""
    shapes = touching[9]
    first = touching[10]
    own = touching[4]
    allowed = touching[5]
    if own[a] < 0:
        return
    d = state[a]
    b = state.shape[0] - touching[11].shape[0] + m
    mover = state[b]
    radius = types[a, at.BODY_RADIUS]
    half = types[a, at.BODY_HALF_HEIGHT]
    size = math.hypot(radius, half)
    x0 = inwards(attitude(before[b], i), minus(three(before[a], POS, i), three(before[b], POS, i)))
    for s in range(first[m], first[m + 1]):
        f = shapes[s]
        if not allowed[own[a], int(f[GEOM])]:
            continue
        q = attitude(mover, i)
        x1 = inwards(q, minus(three(d, POS, i), three(mover, POS, i)))
        away, _normal = gap(f, x1)
        path = minus(x1, x0)
        if away > size + math.sqrt(dot(path, path)):
            continue
        t = _share(f, CORE * half, x0, x1)
        for corner in range(8):
            r = _rim(radius, half, corner)
            r0 = inwards(attitude(before[b], i), outwards(attitude(before[a], i), r))
            r1 = inwards(q, outwards(attitude(d, i), r))
            t = min(t, _share(f, 0.0, along(x0, r0, 1.0), along(x1, r1, 1.0)))
        if t < 1.0:
            put(d, POS, i, along(three(mover, POS, i), outwards(q, along(x0, path, t)), 1.0))
        total = _stand(f, i, d, p[a], radius, half, mover, dt)
        if total > 0.0:
            note(n, step * dt + dt, own[a], int(f[GEOM]), total, touching)


@compiled
def _stand(f, i, d, pa, radius, half, mover, dt):
    """Points of a drone's body on a shape, one after the other, a few times; then out of it. The impulses' sum in N s."""
    q = attitude(d, i)
    qm = attitude(mover, i)
    inertia = turned(three(pa, at.INV_INERTIA, i) + three(pa, at.INV_INERTIA + 3, i), q[0], q[1], q[2], q[3])
    inv = pa[at.INV_MASS * LANES + i]
    spin = outwards(qm, three(mover, RATE, i))
    total = 0.0
    deepest = 0.0
    way = (0.0, 0.0, 1.0)
    x = minus(three(d, POS, i), three(mover, POS, i))
    least, point = _deepest(f, x, q, qm, radius, half)
    rims = math.inf
    for corner in range(8):
        rims = min(rims, gap(f, inwards(qm, along(x, outwards(q, _rim(radius, half, corner)), 1.0)))[0])
    corners = 9 if least < SLOP and least < rims - DEEPER else 8
    for _ in range(ROUNDS):
        for corner in range(corners):
            r = outwards(q, _corner(radius, half, corner, point))
            arm = minus(along(three(d, POS, i), r, 1.0), three(mover, POS, i))
            distance, normal = gap(f, inwards(qm, arm))
            if distance >= SLOP:
                continue
            normal = outwards(qm, normal)
            if -distance > deepest:
                deepest = -distance
                way = normal
            j = impulse(inv, inertia, r, three(d, VEL, i), outwards(q, three(d, RATE, i)), 0.0, _RIGID, arm,
                        three(mover, VEL, i), spin, normal, 0.0, pa[at.FRICTION * LANES + i], 0.0)  # fmt: skip
            push(d, pa, i, j, 0.0, dt)
            add(d, RATE, i, inwards(q, kick(inertia, r, j)), 1.0)
            total += dot(j, normal)
    if deepest > 0.0:
        add(d, POS, i, way, deepest)
    return total
