"""Combinations of factors within a profile's ranges: how a policy does on average, and the worst that a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.gate.intervals import wilson
from rookery.sim2real.gate.trials import Outcome, Trials

KEPT = 4
"""Worst combinations from which the search goes on."""
SPREAD = 0.35
"""Standard deviation of the first steps, in widths of the ranges; it halves in each round."""


@dataclass(frozen=True)
class Combinations:
    """What was found.

    Args:
        drawn: how many combinations were drawn, uniformly from the ranges.
        success: mean success over them.
        low, high: its 95 % interval.
        worst: the combination with the least success that was found, by factor.
        worst_success: its success over episodes that the search did not see.
        worst_low, worst_high: 95 % interval of that.
    """

    drawn: int
    success: float
    low: float
    high: float
    worst: dict[str, float]
    worst_success: float
    worst_low: float
    worst_high: float


def search_combinations(
    trials: Trials, ranges: dict[str, tuple[float, float]], drawn: int, rounds: int, seed: int = 0
) -> Combinations:
    """Draw combinations, and look for a worse one near the worst of them.

    The success of the worst is measured on new episodes: the least of many noisy figures is too low.

    Args:
        trials: runs the policy.
        ranges: least and greatest value by factor.
        drawn: combinations drawn at first.
        rounds: of the search around the worst, each of half as many.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    names = list(ranges)
    low, high = (np.array([ranges[name][i] for name in names]) for i in range(2))
    shares = rng.random((drawn, len(names)))

    def outcomes(rows: NDArray[np.float64]) -> list[Outcome]:
        values = low + rows * (high - low)
        return trials.run([dict(zip(names, row.tolist(), strict=True)) for row in values])

    first = outcomes(shares)
    found = [o.rate for o in first]
    for r in range(rounds):
        parents = shares[_worst(found)]
        steps = rng.standard_normal((max(drawn // 2, 1), len(names))) * SPREAD * 0.5**r
        more = (parents[rng.integers(len(parents), size=len(steps))] + steps).clip(0.0, 1.0)
        shares = np.concatenate((shares, more))
        found += [o.rate for o in outcomes(more)]
    worst = low + shares[_worst(found)[0]] * (high - low)
    point = dict(zip(names, worst.tolist(), strict=True))
    (again,) = trials.run([point], trials.seed + 1)
    successes = float(sum(o.success.sum() for o in first))
    total = drawn * trials.episodes
    return Combinations(drawn, successes / total, *wilson(successes, total), point, again.rate, *again.interval)


def _worst(rates: Sequence[float]) -> NDArray[np.intp]:
    """Indices of the KEPT least rates, the least first."""
    return np.argsort(np.array(rates), kind="stable")[:KEPT]
