"""Identification of one problem, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.sysid.estimate import Fit, estimate
from rookery.sim2real.sysid.identifiability import Identifiability, identifiability
from rookery.sim2real.sysid.intervals import Interval, curvature, profile, step_error, widened
from rookery.sim2real.sysid.problem import FitParameter, Problem

Array = NDArray[np.float64]
Say = Callable[[str], None]
FROM_LOG = 0.5
"""Least share of what is known of a parameter that must come from the log for it to count as identified."""
AGAIN = 2
"""Most times that all profiles begin again, since one of them met a better fit."""


@dataclass(frozen=True)
class Estimated:
    """One parameter.

    Args:
        parameter: which.
        value: the most likely.
        interval: of 95 %.
        notes: on why it is to be read with care; the first word of each is one of: unseen, prior, bound, trades.
    """

    parameter: FitParameter
    value: float
    interval: Interval
    notes: tuple[str, ...]

    @property
    def identified(self) -> bool:
        """The log says what it is, rather than the prior or nothing."""
        return bool(self.interval.by != "unseen" and self.interval.share >= FROM_LOG)


@dataclass(frozen=True)
class Identified:
    """All parameters of a problem.

    Args:
        parameters: each with its interval.
        fit: the best fit. shows: what the log shows at all.
    """

    parameters: tuple[Estimated, ...]
    fit: Fit
    shows: Identifiability


def identify(problem: Problem, profiled: Collection[str] = (), say: Say = lambda text: None) -> Identified:
    """The most likely parameters with intervals.

    Args:
        problem: whose.
        profiled: quantities whose intervals are profiled.
        say: told how far it is.

    Raises:
        RookeryError: the log does not identify anything.
    """
    fit = estimate(problem, say)
    for _ in range(AGAIN + 1):
        intervals = curvature(fit)
        better: Fit | None = None
        for i, p in enumerate(problem.parameters):
            if p.quantity not in profiled or not fit.free[i]:
                continue
            say(f"profile of {p.name}")
            intervals[i], better = profile(fit, i, intervals[i])
            if better is not None:
                break
        if better is None:
            break
        fit = better
    intervals = widened(fit, intervals, step_error(fit))
    shows = identifiability(fit)
    out = [
        Estimated(p, float(fit.x[i]), intervals[i], _notes(p, float(fit.x[i]), intervals[i], shows))
        for i, p in enumerate(problem.parameters)
    ]
    return Identified(tuple(out), fit, shows)


def _notes(p: FitParameter, value: float, interval: Interval, shows: Identifiability) -> tuple[str, ...]:
    if interval.by == "unseen":
        return ("unseen: nothing in the log depends on it",)
    out = []
    if interval.share < FROM_LOG:
        out.append(f"prior: the log says little, {100 * (1 - interval.share):.0f} % is what was known before")
    at = next((b for b in (p.low, p.high) if math.isclose(value, b, abs_tol=1e-6 * p.size)), None)
    if at is not None:
        out.append(f"bound: the best fit is at the end {at:g} of the search, so the model or the log's times err")
    others = dict.fromkeys(n for t in shows.tradeoffs if p.name in t.names for n in t.names if n != p.name)
    if others:
        out.append(f"trades off with {', '.join(others)}")
    return tuple(out)
