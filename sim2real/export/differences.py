"""Distance between two computations of one policy, where its action may hold indices of options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def row_differences(
    given: Array, wanted: Array, choice_sizes: Sequence[int] = (), allowed: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """[n] the largest difference in each row of actions and logits; NaN where either is.

    Numbers count as they are, logits in units of the larger of 1 and their size, as float32 has them. Another choice counts by
    how much smaller its logit is: those of options that are equally likely may come out either way. It is infinite for an
    option that is not allowed, or none where there is one.

    Args:
        given, wanted: [n, D + C], actions with the K indices first, then logits.
        choice_sizes: numbers of options of the K choices, C together.
        allowed: [n, C]; None for all.
    """
    options = sum(choice_sizes)
    exact = wanted.astype(np.float64)
    parts = np.abs(given.astype(np.float64) - exact)
    if options:
        logits = exact[:, -options:]
        parts[:, -options:] /= np.maximum(1.0, np.abs(logits))
        mask = np.ones_like(logits, dtype=bool) if allowed is None else allowed
        start = 0
        for k, size in enumerate(choice_sizes):
            own = slice(start, start + size)
            parts[:, k] = _of_choice(given[:, k], exact[:, k], logits[:, own], mask[:, own])
            start += size
    return np.asarray(parts.max(axis=1))


def _of_choice(given: Array, wanted: Array, logits: Array, allowed: NDArray[np.bool_]) -> Array:
    """[n] how much smaller the logit of the given option is than that of the wanted one."""
    rows = np.arange(len(logits))
    real = [(x >= 0) & (x < logits.shape[1]) & (x == np.floor(x)) for x in (given, wanted)]
    index, best = (np.where(is_real, x, 0).astype(int) for is_real, x in zip(real, (given, wanted), strict=True))
    gap = np.abs(logits[rows, best] - logits[rows, index]) / np.maximum(1.0, np.abs(logits[rows, best]))
    fine = real[0] & real[1] & allowed[rows, index]
    return np.where(given == wanted, 0.0, np.where(fine, gap, np.where(np.isnan(given + wanted), np.nan, np.inf)))
