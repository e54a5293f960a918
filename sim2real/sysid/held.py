"""Commands that are held from sample to sample, averaged over physics steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def held(time: Array, values: Array, at: Array) -> Array:
    """Means over the steps between the times `at`, of values that are held from each time to the next.

    They are continuous in a shift of `at`, where values themselves would jump.

    Args:
        time: [T] s. values: [T, C]. at: [S + 1] s, increasing; before the first time the first value holds.

    Returns:
        [S, C].
    """
    total = np.vstack((np.zeros(values.shape[1]), np.cumsum(values[:-1] * np.diff(time)[:, None], axis=0)))
    row = np.clip(np.searchsorted(time, at, side="right") - 1, 0, len(time) - 1)
    integral = total[row] + (at - time[row])[:, None] * values[row]
    return np.asarray(np.diff(integral, axis=0) / np.diff(at)[:, None])
