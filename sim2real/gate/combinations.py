"""Combinations of factors: how a policy does on average within a profile's ranges and beyond, and the worst that is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim.randomization.parameters import Parameter
from rookery.sim2real.gate.intervals import paired_rate
from rookery.sim2real.gate.sweep import NO_STEPS, whole_below
from rookery.sim2real.gate.trials import Outcome, PointRunner

WIDTHS = (1.5, 2.0)
"""Of the wider ranges: beyond what a profile requires, policies that meet it all still differ."""
KEPT = 4
"""Worst combinations from which the search goes on."""
SPREAD = 0.35
"""Standard deviation of the first steps, in widths of the ranges; it halves in each round."""


@dataclass(frozen=True)
class Combinations:
    """Result of the search.

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


@dataclass(frozen=True)
class Wider:
    """Success over combinations from wider ranges than the profile's.

    Args:
        width: how many times as far from nominal the ranges go; no factor goes past what its task takes.
        drawn: how many combinations were drawn.
        success: mean success over them.
        low, high: its 95 % interval.
    """

    width: float
    drawn: int
    success: float
    low: float
    high: float


def search_combinations(
    trials: PointRunner,
    ranges: dict[str, tuple[float, float]],
    drawn: int,
    rounds: int,
    seed: int = 0,
    steps: Mapping[str, float] = NO_STEPS,
) -> Combinations:
    """Draw combinations, and look for a worse one near the worst of them.

    The success of the worst is measured on new episodes: the least of many noisy figures is too low.

    Args:
        trials: runs the policy.
        ranges: least and greatest value by factor.
        drawn: combinations drawn at first.
        rounds: of the search around the worst, each of half as many.
        seed: of the draws.
        steps: of factors whose values are whole multiples of one, by name: the nearest within the range is run.
    """
    rng = np.random.default_rng(seed)
    names = list(ranges)
    low, high = (np.array([ranges[name][i] for name in names]) for i in range(2))
    shares = rng.random((drawn, len(names)))

    def outcomes(rows: NDArray[np.float64]) -> list[Outcome]:
        return trials.run(_points(names, low + rows * (high - low), high, steps))

    first = outcomes(shares)
    found = [o.rate for o in first]
    for r in range(rounds):
        parents = shares[_worst(found)]
        away = rng.standard_normal((max(drawn // 2, 1), len(names))) * SPREAD * 0.5**r
        more = (parents[rng.integers(len(parents), size=len(away))] + away).clip(0.0, 1.0)
        shares = np.concatenate((shares, more))
        found += [o.rate for o in outcomes(more)]
    worst = low + shares[_worst(found)[0]] * (high - low)
    (point,) = _points(names, worst[None], high, steps)
    (again,) = trials.run([point], trials.seed + 1)
    return Combinations(drawn, *_mean(first), point, again.rate, *again.interval)


def wider_combinations(
    trials: PointRunner,
    ranges: Mapping[str, tuple[float, float]],
    parameters: Mapping[str, Parameter],
    drawn: int,
    seed: int = 0,
    steps: Mapping[str, float] = NO_STEPS,
) -> list[Wider]:
    """The same combinations at each of WIDTHS, farther and farther from nominal.

    Args:
        trials: runs the policy.
        ranges: least and greatest value of the profile by factor.
        parameters: nominal values and limits.
        drawn: combinations drawn.
        seed: of the draws.
        steps: see `search_combinations`.
    """
    names = list(ranges)
    nominal = np.array([parameters[name].nominal for name in names])
    least = np.array([parameters[name].low for name in names])
    most = np.array([parameters[name].high for name in names])
    low, high = (np.array([ranges[name][i] for name in names]) for i in range(2))
    shares = np.random.default_rng([seed, 1]).random((drawn, len(names)))
    out = []
    for width in WIDTHS:
        ends = [(nominal + width * (end - nominal)).clip(least, most) for end in (low, high)]
        values = ends[0] + shares * (ends[1] - ends[0])
        out.append(Wider(width, drawn, *_mean(trials.run(_points(names, values, ends[1], steps)))))
    return out


def _points(
    names: Sequence[str], values: NDArray[np.float64], most: NDArray[np.float64], steps: Mapping[str, float]
) -> list[dict[str, float]]:
    """Rows of values [K, F] by factor, each the multiple of its step that is nearest and not above `most` [F]."""
    rounded = values.copy()
    for j, name in enumerate(names):
        if step := steps.get(name):
            multiples = np.minimum(np.rint(values[:, j] / step), whole_below(float(most[j]) / step))
            rounded[:, j] = multiples * step
    return [dict(zip(names, row.tolist(), strict=True)) for row in rounded]


def _mean(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Success over all episodes together, and its 95 % interval."""
    return paired_rate(np.stack([o.success for o in outcomes]))


def _worst(rates: Sequence[float]) -> NDArray[np.intp]:
    """Indices of the KEPT least rates, the least first."""
    return np.argsort(np.array(rates), kind="stable")[:KEPT]
