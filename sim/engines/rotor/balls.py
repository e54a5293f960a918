"""Impacts of balls with drones, with each other and with static shapes, in the order of time."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

from rookery.sim.engines.rotor.colliders import GEOM, crosses, level, meets, note
from rookery.sim.engines.rotor.impulses import impulse, kick, turned
from rookery.sim.engines.rotor.vectors import (
    add,
    along,
    attitude,
    attitude_between,
    between,
    compiled,
    cross,
    dot,
    inwards,
    minus,
    outwards,
    put,
    put_attitude,
    three,
    times,
)
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.flight import turn
from rookery.sim.multirotor.layout import LANES, POS, RATE, SPECIFIC_FORCE, VEL
from rookery.sim.sweeps import SPHERE, sweep

IMPACTS = 8
"""Most impacts for each ball of a world in one step. Where a ball is caught between more, time stands still in that world
until the next step: all bodies stay where they are and keep their velocities."""
REST_SPEED = 0.05
"""m/s: slower impacts do not bounce, or a ball would never lie still."""
LEAST = 1e-10
"""m: a path that leads less far into what it touches leads past it."""
_NOBODY = -2
_STATIC = -1
_STILL = (0.0, 0.0, 0.0)
_RIGID = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@compiled
def balls_meet(n, i, step, dt, before, state, p, w, drones, touching):
    """All impacts of a world's balls in one step. The rows `before` move on to the time of each impact."""
    count = state.shape[0]
    flying = count - touching[11].shape[0]
    left = dt
    for _ in range(IMPACTS * (flying - drones)):
        soonest = 2.0
        ball = drones
        shape = -1
        partner = _NOBODY
        normal = _STILL
        place = _STILL
        for b in range(drones, flying):
            t, s, o, m, c = _first(i, b, before, state, p, w, drones, touching)
            if t < soonest:
                soonest = t
                ball = b
                shape = s
                partner = o
                normal = m
                place = c
        if partner == _NOBODY:
            return
        left *= 1.0 - soonest
        for b in range(count):
            _forward(before[b], state[b], i, soonest)
        size = _strike(i, ball, partner, left, dt, normal, place, before, state, p, drones, flying)
        if partner >= flying:
            geom = int(touching[9][shape, GEOM])
        elif partner >= drones:
            geom = touching[4][shape]
        elif partner >= 0:
            geom = int(touching[1][shape, GEOM])
        else:
            geom = int(touching[0][shape, GEOM])
        if size > 0.0:
            note(n, step * dt + dt - left, touching[4][ball], geom, size, touching)
    for b in range(count):
        put(state[b], POS, i, three(before[b], POS, i))
        put_attitude(state[b], i, attitude(before[b], i))


@compiled
def _forward(earlier, later, i, t):
    """A body's row at the earlier time becomes that at share t of the way to the later one."""
    put(earlier, POS, i, between(three(earlier, POS, i), three(later, POS, i), t))
    put(earlier, VEL, i, between(three(earlier, VEL, i), three(later, VEL, i), t))
    put_attitude(earlier, i, attitude_between(attitude(earlier, i), attitude(later, i), t))


@compiled
def _first(i, b, before, state, p, w, drones, touching):
    """The first impact of ball b: (share of the paths, shape, other body, normal towards the ball, touched point)."""
    fixed = touching[0]
    carried = touching[1]
    first = touching[2]
    reach = touching[3]
    own = touching[4]
    allowed = touching[5]
    radius = p[b, at.BALL_RADIUS * LANES + i]
    me = own[b]
    x0, x1 = three(before[b], POS, i), three(state[b], POS, i)
    soonest = 2.0
    shape = -1
    partner = _NOBODY
    normal = _STILL
    place = _STILL
    for s in range(fixed.shape[0]):
        up = (0.0, 0.0, w[at.GROUND * LANES + i] if level(fixed[s]) else 0.0)
        z0, z1 = minus(x0, up), minus(x1, up)
        if allowed[me, int(fixed[s, GEOM])] and crosses(fixed[s], radius, z0, z1):
            hit, t, m, c = meets(fixed[s], radius, z0, z1)
            if hit and t < soonest and dot(m, minus(x1, x0)) < -LEAST:
                soonest = t
                shape = s
                partner = _STATIC
                normal = m
                place = along(c, up, 1.0)
    for a in range(drones):
        a0, a1 = three(before[a], POS, i), three(state[a], POS, i)
        r0, r1 = minus(x0, a0), minus(x1, a1)
        if not _passes(r0, r1, reach[a] + radius):
            continue
        q0, q1 = attitude(before[a], i), attitude(state[a], i)
        y0, y1 = inwards(q0, r0), inwards(q1, r1)
        for s in range(first[a], first[a + 1]):
            if not allowed[me, int(carried[s, GEOM])]:
                continue
            hit, t, m, c = meets(carried[s], radius, y0, y1)
            if hit and t < soonest and dot(m, minus(y1, y0)) < -LEAST:
                q = attitude_between(q0, q1, t)
                soonest = t
                shape = s
                partner = a
                normal = outwards(q, m)
                place = along(between(a0, a1, t), outwards(q, c), 1.0)
    flying = state.shape[0] - touching[11].shape[0]
    for mover in range(touching[11].shape[0]):
        o = flying + mover
        o0, o1 = three(before[o], POS, i), three(state[o], POS, i)
        q0, q1 = attitude(before[o], i), attitude(state[o], i)
        y0, y1 = inwards(q0, minus(x0, o0)), inwards(q1, minus(x1, o1))
        for s in range(touching[10][mover], touching[10][mover + 1]):
            f = touching[9][s]
            if not allowed[me, int(f[GEOM])]:
                continue
            hit, t, m, c = meets(f, radius, y0, y1)
            if hit and t < soonest and dot(m, minus(y1, y0)) < -LEAST:
                q = attitude_between(q0, q1, t)
                soonest = t
                shape = s
                partner = o
                normal = outwards(q, m)
                place = along(between(o0, o1, t), outwards(q, c), 1.0)
    for o in range(drones, b):
        if not allowed[me, own[o]]:
            continue
        o0 = three(before[o], POS, i)
        o1 = three(state[o], POS, i)
        size = p[o, at.BALL_RADIUS * LANES + i]
        r0, r1 = minus(x0, o0), minus(x1, o1)
        hit, t, nx, ny, nz, px, py, pz = sweep(SPHERE, size, 0.0, 0.0, radius, r0[0], r0[1], r0[2], r1[0], r1[1], r1[2])
        if hit and t < soonest and dot((nx, ny, nz), minus(r1, r0)) < -LEAST:
            soonest = t
            shape = o
            partner = o
            normal = (nx, ny, nz)
            place = along(between(o0, o1, t), (px, py, pz), 1.0)
    return soonest, shape, partner, normal, place


@compiled
def _passes(a, b, r):
    """True where a path from a to b comes within r of the origin."""
    d = minus(b, a)
    square = dot(d, d)
    t = -dot(a, d) / square if square > 0.0 else 0.0
    c = between(a, b, min(max(t, 0.0), 1.0))
    return dot(c, c) <= r * r


@compiled
def _inverse_inertia(p, i, q):
    """Inverse inertia of a body at an attitude, in world axes: 6 numbers, as impulses takes them."""
    six = three(p, at.INV_INERTIA, i) + three(p, at.INV_INERTIA + 3, i)
    return turned(six, q[0], q[1], q[2], q[3])


@compiled
def _strike(i, b, partner, left, dt, normal, place, before, state, p, drones, flying):
    """One impact of ball b with body `partner` now, at the time of `before`, `left` s before the step's end.

    What changes velocities after the impact (gravity, drag, thrust) does so as without it. An impact too slow to bounce is
    taken at the step's end, so that what lies at rest does so. Tensors of inertia are those at the step's end, and momentum
    and angular momentum are conserved to rounding. Returns the normal impulse in N s.
    """
    ball = state[b]
    pb = p[b]
    now = before[b]
    e, mu = pb[at.RESTITUTION * LANES + i], pb[at.FRICTION * LANES + i]
    inv = pb[at.INV_MASS * LANES + i]
    radius = pb[at.BALL_RADIUS * LANES + i]
    q = attitude(ball, i)
    inertia = _inverse_inertia(pb, i, q)
    arm = (-radius * normal[0], -radius * normal[1], -radius * normal[2])
    spin = outwards(q, three(ball, RATE, i))
    v = three(now, VEL, i)
    late = three(ball, VEL, i)
    put(now, POS, i, minus(place, arm))  # out of what it has sunk into
    inv_o = 0.0
    inertia_o = _RIGID
    r = _STILL
    spin_o = _STILL
    v_o = _STILL
    late_o = _STILL
    if partner >= 0:
        other = state[partner]
        po = p[partner]
        q_o = attitude(other, i)
        inv_o = po[at.INV_MASS * LANES + i]
        inertia_o = _inverse_inertia(po, i, q_o)
        r = minus(place, three(before[partner], POS, i))
        spin_o = outwards(q_o, three(other, RATE, i))
        v_o = three(before[partner], VEL, i)
        late_o = three(other, VEL, i)
    turning = dot(cross(spin_o, r), normal)
    if dot(minus(v, v_o), normal) - turning > -REST_SPEED and dot(minus(late, late_o), normal) - turning < 0.0:
        v = late
        v_o = late_o
        e = 0.0
    j = impulse(inv, inertia, arm, v, spin, inv_o, inertia_o, r, v_o, spin_o, normal, e, mu, REST_SPEED)
    change = inv * j[0], inv * j[1], inv * j[2]
    add(ball, VEL, i, change, 1.0)
    put(now, VEL, i, along(v, change, 1.0))
    add(ball, RATE, i, inwards(q, kick(inertia, arm, j)), 1.0)
    mean = between(three(now, VEL, i), three(ball, VEL, i), 0.5)
    end = along(three(now, POS, i), mean, left)
    moved = minus(end, three(now, POS, i))
    if partner >= flying:
        moved = along(moved, along(v_o, cross(spin_o, r), 1.0), -left)
    elif partner >= 0:
        moved = minus(moved, _give_back(i, partner, left, dt, j, r, before, state, p, drones, v_o, inertia_o))
    closer = min(dot(moved, normal), 0.0)  # by the curves of both paths: what has parted is not to meet again by them
    put(ball, POS, i, along(end, normal, -closer))
    return dot(j, normal)


@compiled
def _give_back(i, partner, left, dt, j, r, before, state, p, drones, v_o, inertia):
    """The opposite of an impulse j on a ball, to the body that it struck at r; how far the struck point moves in `left` s."""
    other = state[partner]
    po = p[partner]
    now = before[partner]
    inv = po[at.INV_MASS * LANES + i]
    q = attitude(other, i)
    back = -j[0], -j[1], -j[2]
    add(other, VEL, i, back, inv)
    put(now, VEL, i, along(v_o, back, inv))
    add(other, POS, i, back, inv * left)
    if partner < drones:
        add(other, SPECIFIC_FORCE, i, inwards(q, back), inv / dt)
    # it goes on turning with its new rates, at the angular momentum that it has now
    rate = three(other, RATE, i)
    kicked = inwards(q, cross(r, back))
    own = three(po, at.INERTIA, i) + three(po, at.INERTIA + 3, i)
    momentum = outwards(q, along(times(own, rate), kicked, 1.0))
    change = inwards(q, kick(inertia, r, back))
    turn(other, i, change[0], change[1], change[2], left)
    inverse = three(po, at.INV_INERTIA, i) + three(po, at.INV_INERTIA + 3, i)
    put(other, RATE, i, times(inverse, inwards(attitude(other, i), momentum)))
    point = outwards(attitude(other, i), inwards(attitude(now, i), r))
    return minus(along(three(other, POS, i), point, 1.0), along(three(now, POS, i), r, 1.0))
