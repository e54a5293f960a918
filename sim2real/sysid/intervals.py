"""Intervals of 95 %: by curvature for all parameters, and profiled for those that trade off.

A profile holds one parameter at a value and fits all others again. The interval ends where the cost has risen by more than
chance explains: by the square of the quantile, as with Gaussian errors, and by half the quantile times the standard error of
that rise among the blocks of the log, which are legs of a robot, seconds of a flight. With a right model the two are the same;
with a model that errs, as every one of hardware does, the blocks disagree about the value, and the second one is the larger.
The intervals by curvature likewise take the larger of the two (White, "Maximum likelihood estimation of misspecified models",
1982). What the model itself gets wrong is allowed for besides, see `weights`, and so is what the simulation's steps get wrong:
half as long ones show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from rookery.sim2real.sysid.estimate import Fit, cost_of, information, prior_information, solve

Array = NDArray[np.float64]
Say = Callable[[str], None]
LEVEL = 0.95
POINTS = 7
"""Most points of a profile, on each side."""
REFIT = 5
"""Iterations of the fit of the other parameters at a point of a profile, by the Jacobian of the best fit."""
AFRESH = 4
"""Iterations towards a better fit that a profile met."""
BETTER = 0.5
"""Decrease of the cost along a profile that makes a new best fit."""


@dataclass(frozen=True)
class Interval:
    """Interval of one parameter.

    Args:
        low, high: ends of the interval of 95 %; infinite where nothing bounds it.
        by: "curvature", "profile", or "unseen".
        share: of what is known about it that comes from the log; the rest is the prior.
        low_bound, high_bound: the interval ends at a bound of the search, not at a rise of the cost.
    """

    low: float
    high: float
    by: str
    share: float
    low_bound: bool = False
    high_bound: bool = False


def curvature(fit: Fit) -> list[Interval]:
    """Intervals from the second derivatives of the cost at the minimum."""
    prior = prior_information(fit.problem)
    free, both, covariance = _free_covariance(fit)
    robust = covariance @ _scores(fit)[np.ix_(free, free)] @ covariance
    unbounded = _unbounded(both)
    quantile = math.hypot(threshold(fit), math.sqrt(fit.weights.tolerance))
    out = [Interval(-math.inf, math.inf, "unseen", 0.0)] * len(fit.x)
    for place, i in enumerate(free.tolist()):
        spread = (
            math.inf
            if unbounded[place]
            else quantile * math.sqrt(max(covariance[place, place], robust[place, place], 0.0))
        )
        share = max(0.0, 1.0 - float(prior[i] * covariance[place, place]))
        out[i] = _bounded(fit, i, fit.x[i] - spread, fit.x[i] + spread, "curvature", share)
    return out


def step_error(fit: Fit) -> Array:
    """[n] by which the parameters change where the simulation's steps are half as long, to first order; zeros where there are
    none."""
    out = np.zeros(len(fit.x))
    finer = fit.problem.finer_residuals(fit.x)
    if finer is not None:
        weights = fit.weights.rows(fit.problem.channels) ** 2
        free, _, covariance = _free_covariance(fit)
        slope = fit.jacobian[:, free].T @ (weights * (finer - fit.residuals))
        out[free] = -covariance @ slope
    return out


def widened(fit: Fit, intervals: Sequence[Interval], errors: Array) -> list[Interval]:
    """Intervals for errors [n] of the values, which are independent of those that the log explains."""
    out = []
    for i, (interval, error) in enumerate(zip(intervals, errors.tolist(), strict=True)):
        x = float(fit.x[i])
        low, high = (x - math.hypot(x - interval.low, error), x + math.hypot(interval.high - x, error))
        out.append(interval if interval.by == "unseen" else _bounded(fit, i, low, high, interval.by, interval.share))
    return out


def _free_covariance(fit: Fit) -> tuple[NDArray[np.intp], Array, Array]:
    """Indices of the parameters that are not at a bound, and of these the information, the prior's included, and covariance."""
    free = np.flatnonzero(fit.free)
    both = (information(fit) + np.diag(prior_information(fit.problem)))[np.ix_(free, free)]
    return free, both, np.asarray(np.linalg.pinv(both, rcond=1e-12, hermitian=True), np.float64)


def _scores(fit: Fit) -> Array:
    """[n, n] covariance of the cost's slope as the blocks of the log show it: of half of it, to be that of `information`."""
    blocks = fit.problem.blocks
    count = int(blocks.max()) + 1
    rows = fit.weights.rows(fit.problem.channels)
    weighted = fit.jacobian * (rows**2 * fit.residuals)[:, None]
    slopes = np.zeros((count, weighted.shape[1]))
    np.add.at(slopes, blocks, weighted)
    slopes -= slopes.mean(axis=0)
    return np.asarray(slopes.T @ slopes * count / (count - 1))


def threshold(fit: Fit) -> float:
    """Number of standard deviations to each side, by Student's t for what the log is worth."""
    return float(student.ppf(0.5 + 0.5 * LEVEL, max(fit.weights.effective - fit.free.sum(), 1.0)))


def profile(fit: Fit, index: int, start: Interval) -> tuple[Interval, Fit | None]:
    """The profiled interval of a parameter.

    Args:
        fit: the best fit.
        index: of the parameter.
        start: its interval by curvature.

    Returns:
        The interval, and a better fit if the walk met one: the profiles begin again from there.
    """
    ends: list[tuple[float, bool]] = []
    for side in (-1.0, 1.0):
        found = _walk(fit, index, side, start)
        if isinstance(found, Fit):
            return start, found
        ends.append(found)
    (low, low_bound), (high, high_bound) = ends
    return Interval(low, high, "profile", start.share, low_bound, high_bound), None


def _walk(fit: Fit, index: int, side: float, start: Interval) -> tuple[float, bool] | Fit:
    """The end of an interval on one side and whether it is a bound, or a better fit."""
    p = fit.problem.parameters[index]
    best, bound = float(fit.x[index]), p.high if side > 0 else p.low
    if abs(bound - best) < 1e-9 * p.size:
        return bound, True
    allowed = threshold(fit)
    spread = 0.5 * (start.high - start.low) if math.isfinite(start.high - start.low) else 10.0 * p.size
    inner, outer = (0.0, 0.0), None  # distance and root of the cost's rise
    others, x = fit.free.copy(), fit.x.copy()
    others[index] = False
    distance = max(spread, 1e-2 * p.size)
    for _ in range(POINTS):
        distance = min(distance, abs(bound - best))
        at = x.copy()
        at[index] = best + side * distance
        at, cost = solve(fit.problem, at, others, fit.weights, REFIT, fit.jacobian)
        if cost < fit.cost - BETTER:
            return _better(fit, at)
        root = _deviations(fit, at, cost)
        if root >= allowed:
            outer = (distance, root)
        else:
            inner, x = (distance, root), at
            if best + side * distance == bound or abs(bound - best) <= distance:
                return bound, True
        if outer is not None and (outer[0] - inner[0] < 0.1 * outer[0] or outer[1] - allowed < 0.1):
            break
        distance = _next(inner, outer, allowed)
    if outer is None:
        return best + side * inner[0], False
    share = (allowed - inner[1]) / (outer[1] - inner[1])
    return best + side * (inner[0] + share * (outer[0] - inner[0])), False


def _deviations(fit: Fit, x: Array, cost: float) -> float:
    """The rise of the cost at x as a number of standard deviations."""
    rise = max(cost - fit.cost - fit.weights.tolerance, 0.0)
    rows = fit.weights.rows(fit.problem.channels) ** 2
    residuals = fit.problem.residuals(x[None])[0]
    each = np.bincount(fit.problem.blocks, rows * (residuals**2 - fit.residuals**2))
    error = math.sqrt(len(each)) * float(each.std(ddof=1))
    return min(math.sqrt(rise), 2.0 * rise / max(error, 1e-12))


def _next(inner: tuple[float, float], outer: tuple[float, float] | None, allowed: float) -> float:
    """The next distance to try: the root of the cost's rise is nearly linear in it."""
    if outer is None:
        return inner[0] * min(3.0, max(1.5, 1.05 * allowed / max(inner[1], 1e-3)))
    share = (allowed - inner[1]) / (outer[1] - inner[1])
    return inner[0] + min(max(share, 0.1), 0.9) * (outer[0] - inner[0])


def _better(fit: Fit, x: Array) -> Fit:
    """The minimum near a point that is better than the fit."""
    x, _ = solve(fit.problem, x, fit.free, fit.weights, AFRESH)
    residuals, jacobian = fit.problem.jacobian(x)
    return replace(
        fit, x=x, residuals=residuals, jacobian=jacobian, cost=cost_of(fit.problem, x, residuals, fit.weights)
    )


def _bounded(fit: Fit, i: int, low: float, high: float, by: str, share: float) -> Interval:
    p = fit.problem.parameters[i]
    low, high = float(low), float(high)
    return Interval(max(low, p.low), min(high, p.high), by, share, low <= p.low, high >= p.high)


def _unbounded(matrix: Array) -> NDArray[np.bool_]:
    """[n] bool: parameters that a direction without any information moves."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    return np.asarray((np.abs(vectors[:, values < 1e-10 * values[-1]]) > 1e-3).any(axis=1))
