"""Observations of a part of the agents, gathered, counted and normalized in one pass; compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import numpy as np

from rookery.sim.random_kernels import kernel

__all__ = ["gather"]


@kernel
def gather(which, x, mean, std, clip, sums, index, out):
    """Normalize the rows of x [R, O] that `which` [R] says.

    Args:
        which, x: see above.
        mean, std: [O].
        clip: limit of what is normalized; NaN stays.
        sums: [1 + 2 O] float64, number, sums and sums of squares of what is normalized before the limit, added to; [0] for not.
        index: [r] int64, as many as they are, gets the numbers of the rows.
        out: [r, O], gets them, normalized.
    """
    size = len(mean)
    high = np.float32(clip)
    count = 0
    for r in range(len(which)):
        if not which[r]:
            continue
        for j in range(size):
            out[count, j] = (x[r, j] - mean[j]) / std[j]
        if len(sums):
            for j in range(size):
                z = out[count, j]
                sums[1 + j] += z
                sums[1 + size + j] += z * z
        for j in range(size):
            z = out[count, j]
            if z > high:
                out[count, j] = high
            elif z < -high:
                out[count, j] = -high
        index[count] = r
        count += 1
    if len(sums):
        sums[0] += count
