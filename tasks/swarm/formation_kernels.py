"""Measures of how well drones stand in a formation, compiled."""

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
