"""Ratings of the members of a population, and how far they can be trusted: the share of a payoff matrix that is cyclic.

A rating is one number for each member, and says that who is rated higher wins. Where rock beats scissors beats paper beats
rock no numbers can say that. The payoff matrix is the sum of a part that follows from one number for each member and of a part
that does not (a Helmholtz-Hodge decomposition; Balduzzi et al., "Re-evaluating evaluation", 2018):

    M [i, j] = (r_i - r_j) + cyclic [i, j]                  one population, r_i the mean of row i
    M [i, j] = mean + (a_i - b_j) + cyclic [i, j]           two roles, a and b the means of rows and columns
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.policies.multiagent.solvers import check_payoffs, is_symmetric

__all__ = ["Cyclicity", "Ratings", "bradley_terry", "cycle", "cyclicity", "reversal"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
ELO = 400.0 / np.log(10.0)
"""Elo's points for a factor of e between the odds."""
PRIOR_GAMES = 1.0
"""Drawn episodes of each member against one of mean rating, so that who has won or lost all has a rating too."""


@dataclass(frozen=True)
class Ratings:
    """Elo ratings of K members.

    Args:
        elo: [K], their mean is 0.
        half_width: [K], of the 95 % intervals.
    """

    elo: Array
    half_width: Array


def bradley_terry(first: Index, second: Index, score: Array, games: Array, count: int, steps: int = 200) -> Ratings:
    """Ratings by which the results are likeliest: member i scores 1 / (1 + exp(r_j - r_i)) against j (Zermelo 1929; Bradley and
    Terry 1952), where nobody's wins count half.

    Args:
        first, second: [P] int64, the members of each pair.
        score: [P], mean of the first one's, 0 to 1.
        games: [P], episodes of a pair that count as independent.
        count: K.
        steps: of Newton's method at most.
    """
    rating = np.zeros(count)
    hessian = np.eye(count)
    for _ in range(steps):
        expected = 1.0 / (1.0 + np.exp(rating[second] - rating[first]))
        own = 1.0 / (1.0 + np.exp(-rating))
        slope = PRIOR_GAMES * (0.5 - own)
        np.add.at(slope, first, games * (score - expected))
        np.add.at(slope, second, games * (expected - score))
        weight = games * expected * (1.0 - expected)
        hessian = np.diag(PRIOR_GAMES * own * (1.0 - own))
        for one, other, sign in (
            (first, first, 1.0),
            (second, second, 1.0),
            (first, second, -1.0),
            (second, first, -1.0),
        ):
            np.add.at(hessian, (one, other), sign * weight)
        move = np.linalg.solve(hessian, slope)
        rating += np.clip(move, -2.0, 2.0)
        if np.abs(move).max() < 1e-10:
            break
    middle = np.eye(count) - 1.0 / count  # ratings are known up to a constant
    spread = np.sqrt(np.diag(middle @ np.linalg.inv(hessian) @ middle))
    return Ratings(ELO * (rating - rating.mean()), ELO * 1.959964 * spread)


@dataclass(frozen=True)
class Cyclicity:
    """How much of a payoff matrix no rating can tell.

    Args:
        share: of the sum of squares of all payoffs that is cyclic, 0 to 1; of two roles, of that about the mean.
        by_chance: the share that the number of episodes alone would be expected to give.
    """

    share: float
    by_chance: float

    @property
    def real(self) -> bool:
        """True where the share is well beyond chance."""
        return self.share > 2.0 * self.by_chance + 0.01


def cyclicity(payoffs: Array, variance: Array) -> Cyclicity:
    """The cyclic share of a payoff matrix.

    Args:
        payoffs: [R, C].
        variance: [R, C] of each payoff, by the number of its episodes.
    """
    matrix = check_payoffs(payoffs)
    rows, columns = matrix.shape
    if is_symmetric(matrix):
        mean = matrix.mean(1)
        cyclic = matrix - (mean[:, None] - mean[None])
        whole = matrix
        free = (rows - 2) / rows if rows > 2 else 0.0  # (K - 1)(K - 2) / 2 of K (K - 1) / 2 numbers
    else:
        whole = matrix - matrix.mean()
        cyclic = whole - whole.mean(1, keepdims=True) - whole.mean(0, keepdims=True)
        free = (rows - 1) * (columns - 1) / (rows * columns)
    total = float((whole**2).sum())
    if total < 1e-12:
        return Cyclicity(0.0, 0.0)
    return Cyclicity(float((cyclic**2).sum()) / total, min(1.0, free * float(variance.sum()) / total))


def cycle(low: Array) -> list[int]:
    """The shortest circle of members of one population, each of which beats the next with its interval above a half; empty
    where there is none.

    Args:
        low: [K, K] lower ends of the intervals of scores, of the row's member against the column's.
    """
    beats = low > 0.5
    best: list[int] = []
    for start in range(len(beats)):
        came = {start: -1}
        ring = [start]
        while ring and not (best and len(best) <= 3):
            following = []
            for one in ring:
                for other in np.flatnonzero(beats[one]).tolist():
                    if other == start:
                        path = [one]
                        while came[path[-1]] >= 0:
                            path.append(came[path[-1]])
                        if not best or len(path) < len(best):
                            best = path[::-1]
                    elif other not in came:
                        came[other] = one
                        following.append(other)
            ring = following
    return best


def reversal(low: Array, high: Array) -> tuple[int, int, int, int] | None:
    """Rows i, k and columns j, l of two roles where i does better than k against j and worse against l, with intervals apart;
    None where there are none.

    Args:
        low, high: [R, C] ends of the intervals of the row player's scores.
    """
    for i in range(len(low)):
        for k in range(len(low)):
            better = np.flatnonzero(low[i] > high[k])
            worse = np.flatnonzero(high[i] < low[k])
            if len(better) and len(worse):
                return i, k, int(better[0]), int(worse[0])
    return None
