"""Alpha-rank: how often each member is met in an evolution by mutation and selection (Omidshafiei et al., Scientific Reports 9,
2019).

A population of M individuals all play one strategy. Now and then one of them tries another, which takes the population over
with the probability that a Moran process with Fermi selection gives it (Traulsen et al. 2006); where that happens, the
population is in another state of a Markov chain. The chain's stationary distribution are the masses: where members beat each
other in a circle, all of the circle have some.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["alpha_rank_pairs", "alpha_rank_population"]

Array = NDArray[np.float64]
ALPHA, INDIVIDUALS = 10.0, 50
"""Intensity of selection, and M."""
RAREST = 1e-100
"""Least probability of a change, so that the chain can leave every state."""


def fixation(advantage: Array, alpha: float = ALPHA, individuals: int = INDIVIDUALS) -> Array:
    """Probabilities with which a mutant takes over.

    Args:
        advantage: of the mutant's payoff over the residents', any shape.
        alpha: intensity of selection.
        individuals: M.
    """
    u = alpha * np.asarray(advantage, dtype=np.float64)
    neutral = np.abs(u) < 1e-14
    safe = np.where(neutral, 1.0, u)
    with np.errstate(over="ignore"):
        up = np.expm1(-np.abs(safe)) / np.expm1(-individuals * np.abs(safe))
        down = up * np.exp(-(individuals - 1) * np.abs(safe))  # the same ratio with the signs of both exponents turned
    return np.where(neutral, 1.0 / individuals, np.maximum(np.where(safe > 0.0, up, down), RAREST))


def alpha_rank_population(payoffs: Array, alpha: float = ALPHA, individuals: int = INDIVIDUALS) -> Array:
    """Masses [K] of the members of one population.

    Args:
        payoffs: [K, K], of the row's member against the column's.
        alpha: intensity of selection.
        individuals: M.
    """
    count = len(payoffs)
    if count == 1:
        return np.ones(1)
    # from s to r: the mutant gets payoffs[r, s], the residents payoffs[s, r] in meeting it
    change = fixation(payoffs.T - payoffs, alpha, individuals) / (count - 1)
    return stationary(change)


def alpha_rank_pairs(payoffs: Array, alpha: float = ALPHA, individuals: int = INDIVIDUALS) -> Array:
    """Masses [R, C] of the pairs of two populations' members; one population changes at a time.

    Args:
        payoffs: [R, C], of the row player; the column player gets the negative.
        alpha: intensity of selection.
        individuals: M of each population.
    """
    rows, columns = payoffs.shape
    if rows * columns == 1:
        return np.ones((1, 1))
    ways = rows + columns - 2
    change = np.zeros((rows, columns, rows, columns))
    row, column = np.arange(rows), np.arange(columns)
    gain = payoffs[None, :, :] - payoffs[:, None, :]  # [from, to, column] of the row player
    change[row[:, None, None], column, row[:, None], column] = fixation(gain, alpha, individuals) / ways
    loss = payoffs[:, :, None] - payoffs[:, None, :]  # [row, from, to] of the column player
    change[row[:, None, None], column[:, None], row[:, None, None], column] = fixation(loss, alpha, individuals) / ways
    return stationary(change.reshape(rows * columns, rows * columns)).reshape(rows, columns)


def stationary(change: Array) -> Array:
    """Stationary distribution of a Markov chain by elimination without subtractions (Grassmann, Taksar, Heyman 1985), which
    keeps all digits however rare some changes are.

    Args:
        change: [S, S] probabilities of changing from the row's state to the column's; the diagonal is not read.
    """
    p = change.astype(np.float64).copy()
    count = len(p)
    for last in range(count - 1, 0, -1):
        p[:last, last] /= p[last, :last].sum()
        p[:last, :last] += np.outer(p[:last, last], p[last, :last])
    mass = np.zeros(count)
    mass[0] = 1.0
    for state in range(1, count):
        mass[state] = mass[:state] @ p[:state, state]
    return np.asarray(mass / mass.sum())
