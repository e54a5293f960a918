"""How well drones stand in a formation, and what one of them sees of its slots, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

_loop = njit(cache=True, nogil=True, error_model="numpy")


@_loop
def shape_errors(state, slots, centre, hausdorff, offset):
    """Hausdorff distance between drones and slots, both shifted to their means, and the distance of these means.

    Args:
        state: [N, A, 13], see Bodies.state.
        slots: [N, A, 3] m from their mean.
        centre: [N, 3] m, world: where the mean should be.
        hausdorff, offset: [N] float32 m, written.
    """
    worlds, count, _ = slots.shape
    nearest = np.empty(count)  # squared, of each slot
    for w in range(worlds):
        mx, my, mz = 0.0, 0.0, 0.0
        for a in range(count):
            mx += state[w, a, 0] / count
            my += state[w, a, 1] / count
            mz += state[w, a, 2] / count
        nearest[:] = math.inf
        worst = 0.0
        for a in range(count):
            x, y, z = state[w, a, 0] - mx, state[w, a, 1] - my, state[w, a, 2] - mz
            own = math.inf
            for s in range(count):
                d = (slots[w, s, 0] - x) ** 2 + (slots[w, s, 1] - y) ** 2 + (slots[w, s, 2] - z) ** 2
                own = min(own, d)
                nearest[s] = min(nearest[s], d)
            worst = max(worst, own)
        for s in range(count):
            worst = max(worst, nearest[s])
        hausdorff[w] = math.sqrt(worst)
        offset[w] = math.sqrt((mx - centre[w, 0]) ** 2 + (my - centre[w, 1]) ** 2 + (mz - centre[w, 2]) ** 2)


@_loop
def look(state, places, sight, slot, rival, vacant):
    """The slots as each drone sees them: the nearest ones with how near another drone is to each, and the most vacant one.

    Args:
        state: [N, A, 13], see Bodies.state.
        places: [N, A, 3] m, world: slots.
        sight: m: a drone farther from the observer than this counts for nothing.
        slot: [N, A, 3 k] float32 m, world: from the observer to the k nearest slots, nearest first, written.
        rival: [N, A, k] float32 m: from each of these to the nearest other drone in sight, at most `sight`, written.
        vacant: [N, A, 4] float32, written: m, world, from the observer to the slot whose nearest drone, the observer or one
            in sight, is farthest; and that distance in m.
    """
    worlds, count, _ = places.shape
    k = rival.shape[2]
    own, other = np.empty(count), np.empty(count)
    for w in range(worlds):
        for a in range(count):
            for s in range(count):
                own[s] = _distance(state[w, a], places[w, s])
                other[s] = sight
            for b in range(count):
                if b != a and _distance(state[w, a], state[w, b]) <= sight:
                    for s in range(count):
                        other[s] = min(other[s], _distance(state[w, b], places[w, s]))
            most = 0
            for s in range(1, count):
                if min(own[s], other[s]) > min(own[most], other[most]):
                    most = s
            for i in range(3):
                vacant[w, a, i] = places[w, most, i] - state[w, a, i]
            vacant[w, a, 3] = min(own[most], other[most])
            for j in range(k):
                best = 0
                for s in range(1, count):
                    if own[s] < own[best]:
                        best = s
                for i in range(3):
                    slot[w, a, 3 * j + i] = places[w, best, i] - state[w, a, i]
                rival[w, a, j] = other[best]
                own[best] = math.inf


@_loop
def _distance(a, b):
    return math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)
