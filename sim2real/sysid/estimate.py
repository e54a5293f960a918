"""Estimates: weighted nonlinear least squares with box bounds, by the Gauss-Newton method of MuJoCo's `minimize`, which is
the optimizer of `mujoco.sysid` too. Jacobians come from the problem, which simulates all candidates of one at a time.

Besides residuals, priors count: a parameter that is known beforehand, such as a factor on a gain, stays near its nominal value
where the log says nothing, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mujoco import minimize
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.problem import Problem
from rookery.sim2real.sysid.weights import SampleWeights, weights_of

Array = NDArray[np.float64]
Say = Callable[[str], None]
ITERATIONS = (10, 5, 4)
"""Most iterations of each fit; the weights of a fit are by the residuals of the one before."""
SEEN = 0.1
"""Change of the weighted residuals, by a change of `FitParameter.size`, below which nothing in a log depends on a parameter."""
XTOL = 3e-4


@dataclass(frozen=True)
class Fit:
    """A minimum.

    Args:
        problem: of which.
        x: [n] parameters. free: [n] bool, those that were searched.
        residuals: [m]. jacobian: [m, n], of all parameters.
        weights: in force.
        cost: weighted squares and those of the priors, summed up.
    """

    problem: Problem
    x: Array
    free: NDArray[np.bool_]
    residuals: Array
    jacobian: Array
    weights: SampleWeights
    cost: float

    @property
    def seen(self) -> NDArray[np.bool_]:
        """[n] bool: the log depends on it."""
        return _effects(self.problem, self.jacobian, self.weights) > SEEN


def estimate(problem: Problem, say: Say = lambda text: None) -> Fit:
    """The most likely parameters.

    Raises:
        RookeryError: the log is too short for what is asked, or depends on none of the parameters.
    """
    x = problem.start
    residuals, jacobian = problem.jacobian(x)
    if not np.isfinite(residuals).all():
        raise RookeryError("the nominal model cannot follow this log: check units, order of joints and gains.")
    weights = weights_of(problem, residuals, correlated=False)
    free = _effects(problem, jacobian, weights) > SEEN
    if not free.any():
        names = ", ".join(p.name for p in problem.parameters[:6])
        raise RookeryError(f"nothing in this log depends on {names}: log a motion that moves the robot.")
    for number, iterations in enumerate(ITERATIONS, 1):
        x, _ = solve(problem, x, free, weights, iterations)
        last = number == len(ITERATIONS)
        residuals, jacobian = problem.jacobian(x, None if last else free)
        weights = weights_of(problem, residuals)
        rms = float(np.sqrt((residuals**2).mean()))
        say(f"fit {number} of {len(ITERATIONS)}: residuals {rms:.4g}, worth {weights.effective:.0f} independent values")
    if weights.effective <= free.sum():
        raise RookeryError(
            f"this log is worth {weights.effective:.0f} independent values, too few for {free.sum()} parameters: log for "
            "longer, or identify fewer with --fit."
        )
    return Fit(problem, x, free, residuals, jacobian, weights, cost_of(problem, x, residuals, weights))


def solve(
    problem: Problem,
    x: Array,
    free: NDArray[np.bool_],
    weights: SampleWeights,
    iterations: int,
    fixed: Array | None = None,
) -> tuple[Array, float]:
    """Parameters [n] of the least cost, and that cost; only the `free` ones are moved from x.

    Args:
        fixed: a Jacobian [m, n] from nearby that serves for all iterations.
    """
    if not free.any():  # the profile of a single parameter: there are no others to fit again
        return x.copy(), cost_of(problem, x, problem.residuals(x[None])[0], weights)
    size = np.array([p.size for p in problem.parameters])
    rows = weights.rows(problem.channels)
    low, high = problem.bounds

    def points(z: Array) -> Array:
        out = np.tile(x, (z.shape[1], 1))
        out[:, free] = z.T * size[free]
        return out

    def residual(z: Array) -> Array:
        at = points(z.reshape(int(free.sum()), -1))
        return np.concatenate((problem.residuals(at) * rows, _priors(problem, at)), axis=1).T

    def jacobian(z: Array, r: Array) -> Array:
        at = points(z.reshape(-1, 1))[0]
        found = problem.jacobian(at, free)[1] if fixed is None else fixed
        data = found * rows[:, None] * size
        return np.concatenate((data, np.diag(_stiffness(problem)) * size))[:, free]

    best, trace = minimize.least_squares(
        x[free] / size[free], residual, [low[free] / size[free], high[free] / size[free]], jacobian,
        mu_min=1e-2, mu_factor=5.0, xtol=XTOL, gtol=1e-6, max_iter=iterations, verbose=minimize.Verbosity.SILENT,
    )  # fmt: skip
    return points(best.reshape(-1, 1))[0], 2.0 * float(trace[-1].objective)


def cost_of(problem: Problem, x: Array, residuals: Array, weights: SampleWeights) -> float:
    """Weighted squares of residuals [m] and priors."""
    return float(((residuals * weights.rows(problem.channels)) ** 2).sum() + (_priors(problem, x[None]) ** 2).sum())


def information(fit: Fit) -> Array:
    """[n, n] what the log says of the parameters: the inverse of their covariance, without priors."""
    weighted = fit.jacobian * fit.weights.rows(fit.problem.channels)[:, None]
    return np.asarray(weighted.T @ weighted)


def prior_information(problem: Problem) -> Array:
    """[n] likewise, of the priors."""
    return _stiffness(problem) ** 2


def _stiffness(problem: Problem) -> Array:
    return np.array([0.0 if p.prior is None else 1.0 / p.prior for p in problem.parameters])


def _priors(problem: Problem, points: Array) -> Array:
    return np.asarray((points - problem.start) * _stiffness(problem))


def _effects(problem: Problem, jacobian: Array, weights: SampleWeights) -> Array:
    """[n] norms of the changes of weighted residuals by a change of `size`."""
    size = np.array([p.size for p in problem.parameters])
    return np.asarray(np.linalg.norm(jacobian * weights.rows(problem.channels)[:, None], axis=0) * size)
