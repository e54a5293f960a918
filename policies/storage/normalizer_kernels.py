"""Observations of a part of the agents or worlds, gathered, counted and normalized in one pass; compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import numpy as np

from rookery.sim.random_kernels import inlined, kernel

__all__ = ["gather", "gather_last", "limited"]


@inlined
def limited(x, high):
    """`x` within -high and high; NaN stays."""
    x = high if x > high else x
    return -high if x < -high else x


@kernel
def gather(index, x, mean, std, clip, sums, out):
    """Normalize the rows `index` [r] of x [R, O].

    Args:
        index, x: see above.
        mean, std: [O].
        clip: limit of what is normalized; NaN stays.
        sums: [1 + 2 O] float64, number, sums and sums of squares of what is normalized before the limit, added to; [0] for not.
        out: [r, O], gets them, normalized.
    """
    size = len(mean)
    high = np.float32(clip)
    for k in range(len(index)):
        r = index[k]
        for j in range(size):
            out[k, j] = (x[r, j] - mean[j]) / std[j]
        if len(sums):
            for j in range(size):
                z = out[k, j]
                sums[1 + j] += z
                sums[1 + size + j] += z * z
        for j in range(size):
            out[k, j] = limited(out[k, j], high)
    if len(sums):
        sums[0] += len(index)


@kernel
def gather_last(terminated, truncated, x, mean, std, clip):
    """Normalize the last observations of episodes that were cut off.

    Args:
        terminated, truncated: [N] bool.
        x: [N, A, O].
        mean, std: [O].
        clip: limit of what is normalized; NaN stays.

    Returns:
        the worlds [m] that were truncated and did not terminate, and their observations [m, A, O].
    """
    count = 0
    for i in range(len(truncated)):
        count += truncated[i] and not terminated[i]
    ids = np.empty(count, np.int64)
    k = 0
    for i in range(len(truncated)):
        if truncated[i] and not terminated[i]:
            ids[k] = i
            k += 1
    agents, size = x.shape[1], x.shape[2]
    index = np.empty(count * agents, np.int64)
    for r in range(len(index)):
        index[r] = ids[r // agents] * agents + r % agents
    out = np.empty((count, agents, size), np.float32)
    gather(index, x.reshape(-1, size), mean, std, clip, np.empty(0), out.reshape(-1, size))
    return ids, out
