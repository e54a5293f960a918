"""Confidence intervals of a success rate that was counted over some episodes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError

Z = 1.959964
"""Quantile of the standard normal for 95 %, both sides together."""


def wilson(successes: float, episodes: float) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson, J. Amer. Statist. Assoc. 22, 1927).

    Args:
        successes: how many of the episodes, 0 to `episodes`.
        episodes: above 0; not whole where it stands for as many independent ones.

    Returns:
        its ends, within [0, 1].
    """
    rate = successes / episodes
    spread = Z * math.sqrt(rate * (1.0 - rate) / episodes + (0.5 * Z / episodes) ** 2)
    middle = rate + 0.5 * Z * Z / episodes
    scale = 1.0 + Z * Z / episodes
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def paired_rate(success: NDArray[np.bool_]) -> tuple[float, float, float]:
    """The mean success of K points drawn at random over the same E starts, and its 95 % interval.

    The episodes are not independent: those of one point share its factors, those of one start share the start. The variance
    of the mean is that of both ways of grouping less what they count twice (Cameron, Gelbach, Miller, J. Bus. Econ. Stat. 29,
    2011), and Wilson's interval is that of as many independent episodes as have this variance. Where all episodes end alike
    the variance is unknown, and they count as the lesser of K and E.

    Args:
        success: [K, E].

    Returns:
        the rate, and the ends of the interval.
    """
    rate = float(success.mean())
    least = min(success.shape)
    if rate in (0.0, 1.0) or least < 2:
        return (rate, *wilson(rate * least, least))
    by_point, by_start = (float(success.mean(axis).var(ddof=1)) / success.shape[1 - axis] for axis in (1, 0))
    alone = float(success.var(ddof=1)) / success.size
    variance = max(by_point + by_start - alone, by_point, by_start, alone)
    episodes = rate * (1.0 - rate) / variance
    return (rate, *wilson(rate * episodes, episodes))


def rate_of_pairs(won: NDArray[np.bool_], counted: NDArray[np.bool_]) -> tuple[float, float, float]:
    """The rate of a match in which every start is played from both sides, and its 95 % interval.

    The two episodes of a start are not independent. The interval is Wilson's of as many independent episodes as have the
    variance of the mean over starts (that of a ratio, Cochran, Sampling Techniques, 1977, 6.4), and of no more than there are.
    Where all episodes end alike the variance is unknown, and the starts count once.

    Args:
        won: [2, P], by side and start.
        counted: [2, P], the episodes that the rate is of; one at least.

    Returns:
        the rate, and the ends of the interval.
    """
    wins, each = (won & counted).sum(0), counted.sum(0)
    starts, episodes = int((each > 0).sum()), int(each.sum())
    rate = float(wins.sum() / episodes)
    if rate in (0.0, 1.0) or starts < 2:
        return (rate, *wilson(rate * starts, starts))
    variance = float(((wins - rate * each) ** 2).sum()) / episodes**2 * starts / (starts - 1)
    independent = episodes if variance == 0.0 else min(episodes, rate * (1.0 - rate) / variance)
    return (rate, *wilson(rate * independent, independent))


def half_width(rate: float, episodes: int) -> float:
    """Half of the length of Wilson's interval about a rate."""
    low, high = wilson(rate * episodes, episodes)
    return 0.5 * (high - low)


def check_episodes(episodes: int, wanted: float, rate: float) -> None:
    """Refuse fewer episodes than an interval needs.

    Args:
        episodes: of one point.
        wanted: the half-width that is asked for.
        rate: the success rate at which it is to hold.

    Raises:
        RookeryError: too few, with how many it takes.
    """
    if not 0.0 < wanted < 1.0:
        raise RookeryError(f"--interval must lie between 0 and 1, got {wanted:g}.")
    if episodes < 1 or half_width(rate, episodes) > wanted:
        least = 1
        while half_width(rate, least) > wanted:
            least += 1
        reached = f" (they give +-{half_width(rate, episodes):.3f})" if episodes >= 1 else ""
        raise RookeryError(
            f"{episodes} episodes are too few for a 95 % interval of +-{wanted:g} about a success of {rate:g}{reached}: give "
            f"--episodes {least} or more, or a wider --interval."
        )
