"""The friction of the floor at given places, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np

from rookery.sim.random_kernels import at_place, inlined, kernel

PATCH = 0.5
"""m, side of a patch."""
_FIRST = np.int64(1 << 31)
"""Number within an episode of the first patch's random number: counters do not come that far."""


@inlined
def _patch(x, y):
    """Number of the patch at x, y m; they repeat after 16 km."""
    column = np.int64(math.floor(x / PATCH)) & np.int64(0x7FFF)
    row = np.int64(math.floor(y / PATCH)) & np.int64(0xFFFF)
    return _FIRST + (column << np.int64(16)) + row


@kernel
def friction(key, counter, places, own, spread, in_force, changed):
    """The sliding friction of feet where they are.

    Args:
        key, counter: [N] of the random streams.
        places: [N, F, 3] m, world.
        own: [N, F] friction of the feet.
        spread: [N] by which share that of the floor differs.
        in_force: [N, F], updated.
        changed: [N] int64; the first ones are the worlds in which it has changed.

    Returns:
        how many worlds these are.
    """
    count = 0
    for i in range(len(own)):
        if spread[i] == 0.0:
            continue
        new = False
        for f in range(own.shape[1]):
            u = at_place(key[i], counter[i], _patch(places[i, f, 0], places[i, f, 1]))
            value = own[i, f] * (np.float32(1.0) + spread[i] * (np.float32(2.0) * u - np.float32(1.0)))
            if value != in_force[i, f]:
                in_force[i, f] = value
                new = True
        if new:
            changed[count] = i
            count += 1
    return count
