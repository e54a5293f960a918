"""Rewards and observations of a swarm around one target, world by world, compiled: a step of 4,096 drones in well under
a millisecond where some hundred tensor operations would take several."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

_loop = njit(cache=True, nogil=True, error_model="numpy")

TERMS = ("approach", "apart", "shell", "around", "crash")
"""Reward terms in the order in which `evaluate` writes them."""
CAUSES = ("ground", "collision", "target", "out_of_bounds")
FIGURES = ("mean_distance_m", "least_distance_m", "shell_error_m", "around", "imbalance", "gap_m")
"""Figures of a world, see `evaluate`."""


@_loop
def choose_places(worlds, draws, places, low, size, beside, goal, target):
    """Random targets for some worlds, and places for their drones that are not beside them.

    Args:
        worlds: [m] int64 which.
        draws: [m, 3 + P] in [0, 1]: for the target and as lots of the places; the lowest win.
        places: [P, 3] m, world.
        low, size: [3] m, of the box of targets.
        beside: m, half-width of the box around a target that stays free.
        goal: [m, 3] m, world, written: the targets.
        target: [N, A, 3] m, world, written: the drones' places.
    """
    lots = np.empty(len(places), np.float32)
    for n in range(len(worlds)):
        for i in range(3):
            goal[n, i] = low[i] + size[i] * draws[n, i]
        for j in range(len(places)):
            near = True
            for i in range(3):
                near = near and abs(places[j, i] - goal[n, i]) < beside
            lots[j] = draws[n, 3 + j] + (1.0 if near else 0.0)
        for a in range(target.shape[1]):
            best = np.argmin(lots)
            lots[best] = np.inf
            for i in range(3):
                target[worlds[n], a, i] = places[best, i]


@_loop
def begin(worlds, start, state, goal, goal_before, goal_velocity, target, before, figures, held):
    """Begin episodes in some worlds: everything but the drones' own state, which is there.

    Args:
        worlds: [m] int64 which.
        start: [m, 3] m, world: their targets.
        state: [N, A, 13], see Bodies.state.
        goal, goal_before, goal_velocity: [N, 3], written.
        target, before: [N, A, 3], written.
        figures, held: [N, 6] and [N], written.
    """
    for n in range(len(worlds)):
        w = worlds[n]
        held[w] = 0
        figures[w, :] = math.inf
        for i in range(3):
            goal[w, i] = goal_before[w, i] = start[n, i]
            goal_velocity[w, i] = 0.0
            for a in range(state.shape[1]):
                target[w, a, i] = start[n, i]
                before[w, a, i] = state[w, a, i]


@_loop
def evaluate(
    worlds, number, state, before, goal, goal_before, radius, near, ground, floor, half, ceiling, yaw_rate, terms, cause,
    figures,
):  # fmt: skip
    """Reward terms, crashes and figures of some worlds, after a control step.

    Drones and target count as having moved straight during the step: two that passed through each other have met.

    Args:
        worlds: [m] int64 which.
        number: [N] int64: how many drones, the first ones, take part; the others get nothing.
        state: [N, A, 13], see Bodies.state.
        before: [N, A, 3] m, world: the drones' places one control step ago; overwritten with the present ones.
        goal, goal_before: [N, 3] m, world: the target now and one control step ago.
        radius: m, of the shell around the target on which the drones should be.
        near: [2] m: least distance between two drones, and between a drone and the target.
        ground: [N] m, height of the ground.
        floor, half, ceiling: m: least height over the ground, half-width and greatest height of where drones may be.
        yaw_rate: [N, A] float32, written: rad/s, size of a drone's own, 0 for who has crashed or takes no part.
        terms: [5, N, A] float32, written, in the order of TERMS.
        cause: [N] int64, written: 0, or 1 + index in CAUSES.
        figures: [N, 6] float32, written, in the order of FIGURES: mean and least distance to the target; largest
            deviation from `radius`; least term `around` of the drones; length of the mean of the unit vectors from the
            target to the drones, 0 when they balance; least distance between two drones in the episode so far, which the
            caller sets to inf at its start.
    """
    distance = np.empty(state.shape[1])
    direction = np.empty((state.shape[1], 3))
    for w in worlds:
        count = number[w]
        natural = math.sqrt(4.0 * math.pi / count)  # rad, an equal share of the sphere seen from the target
        _directions(state[w], goal[w], distance, direction)
        terms[:, w, count:] = 0.0
        yaw_rate[w, count:] = 0.0
        mean = 0.0
        least = math.inf
        error = 0.0
        narrow = 1.0
        ended = 0
        balance = np.zeros(3)
        for a in range(count):
            total, gap, closest = _others(state[w], before[w], direction, a, count)
            met = _swept(before[w, a], goal_before[w], state[w, a], goal[w]) < near[1]
            why = _crash(state[w, a], gap < near[0], met, ground[w] + floor, half, ceiling)
            around = min(math.acos(min(max(closest, -1.0), 1.0)) / natural, 1.0)
            alive = 0.0 if why > 0 else 1.0
            terms[0, w, a] = alive * (_apart(before[w, a], goal_before[w]) - _apart(state[w, a], goal_before[w]))
            terms[1, w, a] = alive * total / (count - 1)
            terms[2, w, a] = alive * math.exp(-2.0 * abs(distance[a] - radius))
            terms[3, w, a] = alive * around
            terms[4, w, a] = 1.0 - alive
            yaw_rate[w, a] = alive * abs(state[w, a, 12])
            mean += distance[a] / count
            least = min(least, distance[a])
            error = max(error, abs(distance[a] - radius))
            narrow = min(narrow, around)
            figures[w, 5] = min(figures[w, 5], gap)
            if why > 0 and (ended == 0 or why < ended):
                ended = why
            for i in range(3):
                balance[i] += direction[a, i] / count
        before[w] = state[w, :, :3]
        cause[w] = ended
        figures[w, 0] = mean
        figures[w, 1] = least
        figures[w, 2] = error
        figures[w, 3] = narrow
        figures[w, 4] = math.sqrt(balance[0] ** 2 + balance[1] ** 2 + balance[2] ** 2)


@_loop
def _others(state, before, direction, a, count):
    """The sum of the distances from drone a of a world to the others, the least during the step, and the greatest cosine
    between the directions from the target to it and to another."""
    total = 0.0
    gap = math.inf
    closest = -1.0
    for b in range(count):
        if b != a:
            total += _apart(state[a], state[b])
            gap = min(gap, _swept(before[a], before[b], state[a], state[b]))
            cosine = direction[a, 0] * direction[b, 0] + direction[a, 1] * direction[b, 1]
            closest = max(closest, cosine + direction[a, 2] * direction[b, 2])
    return total, gap, closest


@_loop
def _crash(place, met_drone, met_target, lowest, half, ceiling):
    """0, or 1 + index in CAUSES: the first of those that a drone meets."""
    if place[2] < lowest:
        return 1
    if met_drone:
        return 2
    if met_target:
        return 3
    return 4 if abs(place[0]) > half or abs(place[1]) > half or place[2] > ceiling else 0


@_loop
def _apart(p, q):
    """Distance of two points."""
    return math.sqrt((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 + (p[2] - q[2]) ** 2)


@_loop
def _swept(p0, q0, p1, q1):
    """Least distance of two points that move straight and evenly from p0 to p1 and from q0 to q1."""
    at, along, moved = 0.0, 0.0, 0.0  # squared distance at first, and what the motion adds to it
    for i in range(3):
        apart = q0[i] - p0[i]
        change = q1[i] - p1[i] - apart
        at += apart * apart
        along += apart * change
        moved += change * change
    t = min(max(-along / moved, 0.0), 1.0) if moved > 0.0 else 0.0
    return math.sqrt(max(at + t * (2.0 * along + t * moved), 0.0))


@_loop
def _directions(state, goal, distance, direction):
    """Distances and unit vectors from the target to the drones of one world."""
    for a in range(state.shape[0]):
        square = 0.0
        for i in range(3):
            direction[a, i] = state[a, i] - goal[i]
            square += direction[a, i] ** 2
        distance[a] = math.sqrt(square)
        for i in range(3):
            direction[a, i] /= max(distance[a], 1e-9)


@_loop
def observe(worlds, number, state, goal, goal_velocity, middle, sight, neighbours, in_body, seen):
    """Observations of the drones of some worlds.

    Args:
        worlds: [m] int64 which.
        number: [N] int64: how many drones, the first ones, take part; the others neither see nor are seen.
        state: [N, A, 13], see Bodies.state.
        goal, goal_velocity: [N, 3] m and m/s, world.
        middle: [3] m, world: the middle of the arena.
        sight: m: drones farther away are not seen.
        neighbours: K: the nearest K of the drones in sight are observed, nearest first.
        in_body: vectors in body axes, else in world axes.
        seen: [N, A, 18 + 7 K] float32, written: offset 3 (m) and relative velocity 3 (m/s) of the target; offset 3 of the
            arena's middle; world's up 3 in the body frame; own velocity 3; own angular velocity 3 (body frame); then K
            offsets of neighbours, K relative velocities, and K ones, all 0 for the neighbours that there are not.
    """
    k = neighbours
    order = np.empty(max(k, 1), np.int64)
    gap = np.empty(max(k, 1))
    r, v = np.empty((3, 3)), np.empty(3)
    for w in worlds:
        count = number[w]
        seen[w, count:] = 0.0
        for a in range(count):
            own = state[w, a]
            out = seen[w, a]
            _rotation(own[3:7], r)
            out[9] = r[2, 0]
            out[10] = r[2, 1]
            out[11] = r[2, 2]
            if not in_body:
                r[:] = 0.0
                r[0, 0] = r[1, 1] = r[2, 2] = 1.0
            for i in range(3):
                v[i] = goal[w, i] - own[i]
            _rotate_back(r, v, out[0:3])
            for i in range(3):
                v[i] = goal_velocity[w, i] - own[7 + i]
            _rotate_back(r, v, out[3:6])
            for i in range(3):
                v[i] = middle[i] - own[i]
            _rotate_back(r, v, out[6:9])
            for i in range(3):
                v[i] = own[7 + i]
                out[15 + i] = own[10 + i]
            _rotate_back(r, v, out[12:15])
            found = _nearest(state[w, :count], a, sight, order, gap) if k > 0 else 0
            out[18:] = 0.0
            for n in range(found):
                other = state[w, order[n]]
                for i in range(3):
                    v[i] = other[i] - own[i]
                _rotate_back(r, v, out[18 + 3 * n : 21 + 3 * n])
                for i in range(3):
                    v[i] = other[7 + i] - own[7 + i]
                _rotate_back(r, v, out[18 + 3 * (k + n) : 21 + 3 * (k + n)])
                out[18 + 6 * k + n] = 1.0


@_loop
def _nearest(state, a, sight, order, gap):
    """Fill `order` with the drones nearest to drone a within sight, nearest first; returns how many."""
    found = 0
    most = len(order)
    for b in range(state.shape[0]):
        if b == a:
            continue
        d = (state[b, 0] - state[a, 0]) ** 2 + (state[b, 1] - state[a, 1]) ** 2 + (state[b, 2] - state[a, 2]) ** 2
        if d > sight * sight or (found == most and d >= gap[found - 1]):
            continue
        at = min(found, most - 1)
        while at > 0 and gap[at - 1] > d:
            gap[at] = gap[at - 1]
            order[at] = order[at - 1]
            at -= 1
        gap[at] = d
        order[at] = b
        found = min(found + 1, most)
    return found


@_loop
def _rotation(q, r):
    """The rotation matrix, body to world, of a quaternion wxyz."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    r[0, 0] = 1 - 2 * (y * y + z * z)
    r[0, 1] = 2 * (x * y - w * z)
    r[0, 2] = 2 * (x * z + w * y)
    r[1, 0] = 2 * (x * y + w * z)
    r[1, 1] = 1 - 2 * (x * x + z * z)
    r[1, 2] = 2 * (y * z - w * x)
    r[2, 0] = 2 * (x * z - w * y)
    r[2, 1] = 2 * (y * z + w * x)
    r[2, 2] = 1 - 2 * (x * x + y * y)


@_loop
def _rotate_back(r, v, out):
    """R^T v: a vector's components in the axes that R turns into the world's."""
    for i in range(3):
        out[i] = r[0, i] * v[0] + r[1, i] * v[1] + r[2, i] * v[2]
