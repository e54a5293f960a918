"""Contacts of drones with each other, with the ground and with static shapes, none of which bounces."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

import math

from rookery.sim.engines.rotor.colliders import GEOM, KIND, crosses, gap, level, local, meets, note, outward
from rookery.sim.engines.rotor.impulses import impulse, kick, turned
from rookery.sim.engines.rotor.vectors import add, attitude, compiled, dot, inwards, minus, outwards, three
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.layout import LANES, POS, RATE, SPECIFIC_FORCE, VEL
from rookery.sim.sweeps import PLANE, SPHERE, sweep

ROUNDS = 6
"""Passes over the points on which a drone stands."""
SLOP = 1e-4
"""m: points this near a plane stand on it, or a drone would rock from one to another for ever."""
_STILL = (0.0, 0.0, 0.0)
_RIGID = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@compiled
def push(d, p, i, j, rest, dt):
    """A push through the centre of a drone, j in N s, with `rest` s of the step to go; accelerometers measure it."""
    inv = p[at.INV_MASS * LANES + i]
    add(d, VEL, i, j, inv)
    add(d, POS, i, j, inv * rest)
    add(d, SPECIFIC_FORCE, i, inwards(attitude(d, i), j), inv / dt)


@compiled
def drones_meet(n, i, step, dt, before, state, p, types, drones, touching):
    """Drones as spheres that stop each other without bounce, where their paths meet, and do not overlap after it."""
    own = touching[4]
    allowed = touching[5]
    for a in range(drones):
        for b in range(a):
            if own[a] < 0 or own[b] < 0 or not allowed[own[a], own[b]]:
                continue
            ra, rb = types[a, at.BODY_RADIUS], types[b, at.BODY_RADIUS]
            start = minus(three(before[a], POS, i), three(before[b], POS, i))
            end = minus(three(state[a], POS, i), three(state[b], POS, i))
            hit, t, nx, ny, nz, _x, _y, _z = sweep(
                SPHERE, rb, 0.0, 0.0, ra, start[0], start[1], start[2], end[0], end[1], end[2]
            )
            both = p[a, at.INV_MASS * LANES + i] + p[b, at.INV_MASS * LANES + i]
            if hit:
                closing = dot((nx, ny, nz), minus(three(state[a], VEL, i), three(state[b], VEL, i)))
                size = max(-closing, 0.0) / both
                rest = dt * (1.0 - t)
                # no friction between airframes: the impulse goes through both centres
                push(state[a], p[a], i, (size * nx, size * ny, size * nz), rest, dt)
                push(state[b], p[b], i, (-size * nx, -size * ny, -size * nz), rest, dt)
                note(n, step * dt + t * dt, own[a], own[b], size, touching)
                end = minus(three(state[a], POS, i), three(state[b], POS, i))
            far = math.sqrt(dot(end, end))
            if far < ra + rb and far > 0.0:
                share = (ra + rb - far) / (far * both)
                add(state[a], POS, i, end, share * p[a, at.INV_MASS * LANES + i])
                add(state[b], POS, i, end, -share * p[b, at.INV_MASS * LANES + i])


@compiled
def drone_on_fixed(n, i, a, step, dt, before, state, p, w, types, touching):
    """A drone against static shapes: its rims on planes, its sphere on others."""
    fixed = touching[0]
    own = touching[4]
    allowed = touching[5]
    if own[a] < 0:
        return
    radius = types[a, at.BODY_RADIUS]
    d = state[a]
    for s in range(fixed.shape[0]):
        f = fixed[s]
        geom = int(fixed[s, GEOM])
        if not allowed[own[a], geom]:
            continue
        if int(f[KIND]) == PLANE:
            _stand(n, i, a, s, step, dt, state, p, w, types, touching)
            continue
        x0, x1 = three(before[a], POS, i), three(d, POS, i)
        if not crosses(f, radius, x0, x1):
            continue
        hit, t, normal, _place = meets(f, radius, x0, x1)
        if hit:
            size = max(-dot(three(d, VEL, i), normal), 0.0) / p[a, at.INV_MASS * LANES + i]
            push(d, p[a], i, (size * normal[0], size * normal[1], size * normal[2]), dt * (1.0 - t), dt)
            note(n, step * dt + t * dt, own[a], geom, size, touching)
        away, normal = gap(f, three(d, POS, i))
        add(d, POS, i, normal, max(radius - away, 0.0))


@compiled
def _stand(n, i, a, s, step, dt, state, p, w, types, touching):
    """A drone on a plane: eight points of its body's rims, one after the other, a few times; then out of the plane."""
    f = touching[0][s]
    d = state[a]
    pa = p[a]
    own = touching[4]
    normal = outward(f, (0.0, 0.0, 1.0))
    radius = types[a, at.BODY_RADIUS]
    half = types[a, at.BODY_HALF_HEIGHT]
    height = local(f, three(d, POS, i))[2]
    if level(f):
        height -= w[at.GROUND * LANES + i]
    if height > math.hypot(radius, half):
        return
    q = attitude(d, i)
    inertia = turned(three(pa, at.INV_INERTIA, i) + three(pa, at.INV_INERTIA + 3, i), q[0], q[1], q[2], q[3])
    inv = pa[at.INV_MASS * LANES + i]
    total = 0.0
    deepest = 0.0
    for _ in range(ROUNDS):
        for corner in range(8):
            angle = 0.5 * math.pi * (corner // 2)
            r = outwards(q, (radius * math.cos(angle), radius * math.sin(angle), half if corner % 2 else -half))
            depth = -(height + dot(r, normal))
            if depth <= -SLOP:
                continue
            deepest = max(deepest, depth)
            j = impulse(inv, inertia, r, three(d, VEL, i), outwards(q, three(d, RATE, i)), 0.0, _RIGID, _STILL, _STILL,
                        _STILL, normal, 0.0, pa[at.FRICTION * LANES + i], 0.0)  # fmt: skip
            push(d, pa, i, j, 0.0, dt)
            add(d, RATE, i, inwards(q, kick(inertia, r, j)), 1.0)
            total += dot(j, normal)
    if deepest > 0.0:
        add(d, POS, i, normal, deepest)
    if total > 0.0:
        note(n, step * dt + dt, own[a], int(f[GEOM]), total, touching)
