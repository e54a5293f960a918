"""Observations and acts of the members of a flock, world by world, compiled: every pair is looked at once or
twice, where tensors of all pairs would be made and thrown away at every step."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

_loop = njit(cache=True, nogil=True, error_model="numpy")


@_loop
def gaps(before, state, cap, gap):
    """Least distance of each drone to any other during a control step, in which all move straight and evenly.

    Args:
        before: [N, B, 3] m, world: places at the beginning of the step.
        state: [N, B, 13], see Bodies.state: at its end.
        cap: m, written where nothing is nearer.
        gap: [N, B] float32 m, written.
    """
    worlds, count, _ = state.shape
    for w in range(worlds):
        for a in range(count):
            gap[w, a] = cap
        for a in range(count):
            for b in range(a + 1, count):
                at, along, moved = 0.0, 0.0, 0.0  # squared distance at the beginning, and what the motion adds to it
                for i in range(3):
                    apart = before[w, b, i] - before[w, a, i]
                    change = state[w, b, i] - state[w, a, i] - apart
                    at += apart * apart
                    along += apart * change
                    moved += change * change
                t = min(max(-along / moved, 0.0), 1.0) if moved > 0.0 else 0.0
                d = math.sqrt(max(at + t * (2.0 * along + t * moved), 0.0))
                gap[w, a] = min(gap[w, a], d)
                gap[w, b] = min(gap[w, b], d)


@_loop
def track_gaps(before, state, cap, gap, closest):
    """`gaps`, their least value in each world's episode, and the places from which the next control step begins.

    Args:
        before, state, cap, gap: as in `gaps`; `before` is overwritten with the present places.
        closest: [N] m, lowered.
    """
    gaps(before, state, cap, gap)
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            closest[w] = min(closest[w], gap[w, a])
            for i in range(3):
                before[w, a, i] = state[w, a, i]


@_loop
def nearest(state, sight, offset, velocity, closeness):
    """The nearest others of each drone.

    Args:
        state: [N, B, 13], see Bodies.state.
        sight: m, how far they see.
        offset: [N, B, 3 k] float32 m, world: from the drone to its k nearest others, nearest first, written; 0 where fewer
            are in sight.
        velocity: [N, B, 3 k] float32 m/s, world: theirs less its own, likewise.
        closeness: [N, B, k] float32, written: 1 - distance / sight, 0 where there is none.
    """
    worlds, count, _ = state.shape
    k = closeness.shape[2]
    distance = np.empty(k)
    index = np.empty(k, np.int64)
    for w in range(worlds):
        for a in range(count):
            found = 0
            for b in range(count):
                if b == a:
                    continue
                d = 0.0
                for i in range(3):
                    d += (state[w, b, i] - state[w, a, i]) ** 2
                if d > sight * sight or (found == k and d >= distance[k - 1]):
                    continue
                at = found if found < k else k - 1
                while at > 0 and distance[at - 1] > d:
                    distance[at] = distance[at - 1]
                    index[at] = index[at - 1]
                    at -= 1
                distance[at] = d
                index[at] = b
                found = min(found + 1, k)
            for j in range(k):
                for i in range(3):
                    offset[w, a, 3 * j + i] = state[w, index[j], i] - state[w, a, i] if j < found else 0.0
                    velocity[w, a, 3 * j + i] = state[w, index[j], 7 + i] - state[w, a, 7 + i] if j < found else 0.0
                closeness[w, a, j] = 1.0 - math.sqrt(distance[j]) / sight if j < found else 0.0


@_loop
def assign(state, slots, own):
    """Share slots out among all drones, see `share`.

    Args:
        state: [N, A, 13], see Bodies.state.
        slots: [N, A, 3] m, world.
        own: [N, A] int64, written: the slot of each drone.
    """
    worlds, count, _ = slots.shape
    distance = np.empty((count, count))
    everybody = np.ones(count, np.bool_)
    for w in range(worlds):
        _distances(state[w], slots[w], distance)
        share(distance, everybody, own[w])


@_loop
def claims(state, slots, sight, claim):
    """The slot that falls to each drone when it shares all of them out between itself and the drones that it sees.

    Drones that see each other and no one else come to the same result as `assign`, without communication.

    Args:
        state: [N, A, 13], see Bodies.state.
        slots: [N, A, 3] m, world.
        sight: m: a drone farther from the observer than this counts for nothing.
        claim: [N, A, 3] float32 m, world: from the observer to its slot, written.
    """
    worlds, count, _ = slots.shape
    distance = np.empty((count, count))
    everybody = np.ones(count, np.bool_)
    seen = np.empty(count, np.bool_)
    own = np.empty(count, np.int64)
    partly = np.empty(count, np.int64)
    for w in range(worlds):
        _distances(state[w], slots[w], distance)
        share(distance, everybody, own)
        for a in range(count):
            all_seen = True
            for b in range(count):
                apart = 0.0
                for i in range(3):
                    apart += (state[w, b, i] - state[w, a, i]) ** 2
                seen[b] = apart <= sight * sight
                all_seen = all_seen and seen[b]
            mine = own[a]
            if not all_seen:
                share(distance, seen, partly)
                mine = partly[a]
            for i in range(3):
                claim[w, a, i] = slots[w, mine, i] - state[w, a, i]


@_loop
def _distances(state, slots, distance):
    """Squared distances [A, S] of the drones and slots of one world."""
    for a in range(len(state)):
        for s in range(len(slots)):
            distance[a, s] = 0.0
            for i in range(3):
                distance[a, s] += (slots[s, i] - state[a, i]) ** 2


@_loop
def share(distance, who, own):
    """Share slots out: again and again, of the drones and slots that are left, the nearest pair.

    Args:
        distance: [A, S], S >= A; any measure that grows with it.
        who: [A] bool: the drones that get one.
        own: [A] int64, written: the slot of each drone, -1 for those who get none.
    """
    count = len(who)
    taken = np.zeros(distance.shape[1], np.bool_)
    partner = np.empty(count, np.int64)
    left = 0
    for a in range(count):
        own[a] = -1
        if who[a]:
            partner[a] = _closest(distance[a], taken)
            left += 1
    for _ in range(left):
        best = -1
        for a in range(count):
            if not who[a] or own[a] >= 0:
                continue
            if taken[partner[a]]:
                partner[a] = _closest(distance[a], taken)
            if best < 0 or distance[a, partner[a]] < distance[best, partner[best]]:
                best = a
        own[best] = partner[best]
        taken[partner[best]] = True


@_loop
def _closest(distance, taken):
    """The nearest slot that is not taken."""
    best = -1
    for s in range(len(distance)):
        if not taken[s] and (best < 0 or distance[s] < distance[best]):
            best = s
    return best


@_loop
def avoid(state, reach, least, gain, swirl, velocity):
    """Change wanted velocities so that drones keep apart: a potential field that pushes away from whoever is near, and turns
    to the right of whoever comes towards one.

    The field is a third as strong along z as a sphere's would be: wakes reach far down, so drones are better apart sideways.

    Args:
        state: [N, B, 13], see Bodies.state.
        reach: m, where the push begins.
        least: m, where it is `gain`; it grows no further inside.
        gain: m/s, of the push.
        swirl: m/s, of the turn.
        velocity: [N, B, 3] float32 m/s, world: wanted, changed in place.
    """
    worlds, count, _ = state.shape
    for w in range(worlds):
        for a in range(count):
            px, py, pz = 0.0, 0.0, 0.0
            for b in range(count):
                if b == a:
                    continue
                dx, dy = state[w, a, 0] - state[w, b, 0], state[w, a, 1] - state[w, b, 1]
                dz = state[w, a, 2] - state[w, b, 2]
                d = math.sqrt(dx * dx + dy * dy + dz * dz / 3.0)
                if d >= reach or d == 0.0:
                    continue
                strength = min((reach - d) / (reach - least), 1.0) ** 2
                vx, vy = velocity[w, a, 0] - state[w, b, 7], velocity[w, a, 1] - state[w, b, 8]
                towards = max(-(vx * dx + vy * dy) / (d * max(math.sqrt(vx * vx + vy * vy), 0.1)), 0.0)
                px += strength * (gain * dx - swirl * towards * dy) / d
                py += strength * (gain * dy + swirl * towards * dx) / d
                pz += strength * gain * dz / (3.0 * d)
            velocity[w, a, 0] += px
            velocity[w, a, 1] += py
            velocity[w, a, 2] += pz
