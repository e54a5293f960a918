"""Meta-strategies: with which probabilities the members of a population play, from the payoffs of all pairs.

A payoff matrix M [R, C] has the row player's mean result against each member of the column player's population, from -1 (it
always loses) to 1 (it always wins); the column player gets -M. Where both sides play from one population, M is square and
M = -M'. Where their roles differ, as in pursuit and evasion, there are two populations and M may be of any shape.

    mixture = SOLVERS["psro-nash"](payoffs)      # Mixture(rows=[R], columns=[C])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rookery.policies.multiagent.alpha_rank import alpha_rank_pairs, alpha_rank_population
from rookery.sim.errors import RookeryError, unknown

__all__ = [
    "SOLVERS", "WEIGHTINGS", "Mixture", "check_payoffs", "check_symmetric", "exploitability", "is_symmetric", "latest", "nash",
    "prioritized", "replicator", "uniform",
]  # fmt: skip

Array = NDArray[np.float64]
SYMMETRY = 1e-9
"""Largest departure of a payoff matrix from M = -M' that counts as rounding."""


@dataclass(frozen=True)
class Mixture:
    """A meta-strategy of both players.

    Args:
        rows: [R] probabilities of the row player's members.
        columns: [C] of the column player's.
    """

    rows: Array
    columns: Array


def check_payoffs(payoffs: ArrayLike) -> Array:
    """A payoff matrix as float64 [R, C].

    Raises:
        RookeryError: no matrix, an empty one, or one with holes: pairs that have not played are NaN.
    """
    matrix = np.asarray(payoffs, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise RookeryError(f"a payoff matrix has a row and a column at least, got shape {list(matrix.shape)}.")
    holes = np.argwhere(~np.isfinite(matrix))
    if len(holes):
        pairs = ", ".join(f"({i}, {j})" for i, j in holes[:3].tolist()) + (" ..." if len(holes) > 3 else "")
        raise RookeryError(
            f"the payoff matrix has {len(holes)} hole{'s' if len(holes) > 1 else ''}, at {pairs}: let those pairs play first."
        )
    return matrix


def is_symmetric(payoffs: Array) -> bool:
    """True where both players may play from one population: M = -M'."""
    return payoffs.shape[0] == payoffs.shape[1] and bool(np.abs(payoffs + payoffs.T).max() <= SYMMETRY)


def check_symmetric(payoffs: ArrayLike, what: str) -> Array:
    """A payoff matrix of one population, for `what`.

    Raises:
        RookeryError: the roles differ, or as `check_payoffs`.
    """
    matrix = check_payoffs(payoffs)
    if not is_symmetric(matrix):
        raise RookeryError(
            f"{what} is for one population that plays itself, and this payoff matrix {list(matrix.shape)} is of two roles: "
            "choose a solver for two populations, such as psro-nash."
        )
    return matrix


# Solvers


def uniform(payoffs: ArrayLike) -> Mixture:
    """All members alike: fictitious play's average of all past strategies (Brown 1951; Heinrich et al. 2015)."""
    rows, columns = check_payoffs(payoffs).shape
    return Mixture(np.full(rows, 1.0 / rows), np.full(columns, 1.0 / columns))


def latest(payoffs: ArrayLike) -> Mixture:
    """The newest member alone: self-play."""
    rows, columns = check_payoffs(payoffs).shape
    return Mixture(np.eye(rows)[-1], np.eye(columns)[-1])


def nash(payoffs: ArrayLike) -> Mixture:
    """An equilibrium of the zero-sum game, by linear programs (von Neumann 1928; Shoham and Leyton-Brown 2009, 4.1).

    Where there are several equilibria it is one of the corners.
    """
    matrix = check_payoffs(payoffs)
    if is_symmetric(matrix):
        rows = _maximin(matrix)
        return Mixture(rows, rows.copy())
    return Mixture(_maximin(matrix), _maximin(-matrix.T))


def _maximin(payoffs: Array) -> Array:
    """[R] the mixture of rows whose worst column is best."""
    from scipy.optimize import linprog

    rows, columns = payoffs.shape
    cost = np.append(np.zeros(rows), -1.0)
    found = linprog(
        cost, A_ub=np.hstack((-payoffs.T, np.ones((columns, 1)))), b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None], b_eq=[1.0], bounds=[(0.0, None)] * rows + [(None, None)], method="highs-ds",
    )  # fmt: skip
    if found.x is None:
        raise RookeryError(f"the linear program of the payoff matrix was not solved ({found.message}).")
    mixture = np.clip(found.x[:-1], 0.0, None)
    mixture /= mixture.sum()
    exact = _polished(payoffs, mixture, found.slack)
    return mixture if exact is None or (exact @ payoffs).min() < (mixture @ payoffs).min() else exact


def _polished(payoffs: Array, mixture: Array, slack: Array) -> Array | None:
    """The mixture on the same rows that makes the tight columns exactly equal; None where there is none. A linear program's
    own answer is right to about 1e-9, the equations that it found to 1e-15."""
    rows, columns = np.flatnonzero(mixture > 1e-9), np.flatnonzero(slack < 1e-9)
    equal = np.hstack((payoffs[np.ix_(rows, columns)].T, -np.ones((len(columns), 1))))
    system = np.vstack((equal, np.append(np.ones(len(rows)), 0.0)))
    solved, *_ = np.linalg.lstsq(system, np.append(np.zeros(len(columns)), 1.0), rcond=None)
    if (solved[:-1] < 0.0).any():
        return None
    exact = np.zeros(len(mixture))
    exact[rows] = solved[:-1] / solved[:-1].sum()
    return exact


def replicator(payoffs: ArrayLike, steps: int = 20_000, rate: float = 0.05, floor: float = 1e-6) -> Mixture:
    """The time average of replicator dynamics from the uniform mixture (Taylor and Jonker 1978), integrated exactly over each
    step for payoffs held at its start. In a zero-sum game the average approaches an equilibrium, as 1 / sqrt(steps).

    Args:
        payoffs: [R, C].
        steps: of the integration.
        rate: length of a step.
        floor: least probability that a member keeps, as in projected dynamics (Lanctot et al. 2017), so that none is lost.
    """
    matrix = check_payoffs(payoffs)
    x, y = (np.full(n, 1.0 / n) for n in matrix.shape)
    sums = np.zeros_like(x), np.zeros_like(y)
    for _ in range(steps):
        for total, now in zip(sums, (x, y), strict=True):
            total += now
        x, y = _grown(x, matrix @ y, rate, floor), _grown(y, -(x @ matrix), rate, floor)
    return Mixture(*(total / total.sum() for total in sums))


def _grown(share: Array, fitness: Array, rate: float, floor: float) -> Array:
    """Shares after a time `rate` of dx/dt = x (f - mean f) with constant f."""
    grown = np.maximum(share * np.exp(rate * (fitness - fitness.max())), floor)
    return np.asarray(grown / grown.sum())


def alpha_rank(payoffs: ArrayLike) -> Mixture:
    """Alpha-rank's masses (Omidshafiei et al. 2019): of one population where the matrix is symmetric, otherwise the marginals
    over pairs."""
    matrix = check_payoffs(payoffs)
    if is_symmetric(matrix):
        mass = alpha_rank_population(matrix)
        return Mixture(mass, mass.copy())
    pairs = alpha_rank_pairs(matrix)
    return Mixture(pairs.sum(1), pairs.sum(0))


WEIGHTINGS: dict[str, Callable[[Array], Array]] = {
    "squared": lambda rate: (1.0 - rate) ** 2,
    "linear": lambda rate: 1.0 - rate,
    "linear_capped": lambda rate: np.minimum(0.5, 1.0 - rate),
    "variance": lambda rate: rate * (1.0 - rate),
}
"""How much a learner that wins at a rate x against an opponent should play it (Vinyals et al. 2019, AlphaStar)."""


def prioritized(win_rates: ArrayLike, weighting: str = "squared") -> Array:
    """Probabilities [K] of opponents in prioritized fictitious self-play; uniform where all weights vanish.

    Args:
        win_rates: [K] of the learner against each, 0 to 1.
        weighting: one of `WEIGHTINGS`.

    Raises:
        RookeryError: another weighting, or rates that are none.
    """
    if weighting not in WEIGHTINGS:
        raise unknown("weighting", weighting, WEIGHTINGS)
    rates = np.asarray(win_rates, dtype=np.float64)
    if rates.ndim != 1 or not rates.size or not ((rates >= 0.0) & (rates <= 1.0)).all():
        raise RookeryError(f"win rates must lie between 0 and 1, got {rates.tolist()}.")
    weights = WEIGHTINGS[weighting](rates)
    total = float(weights.sum())
    return np.full(len(rates), 1.0 / len(rates)) if total < 1e-10 else np.asarray(weights / total)


SOLVERS: dict[str, Callable[[Any], Mixture]] = {
    "self-play": latest,
    "fictitious": uniform,
    "pfsp": nash,  # what its population is judged by; the learner's opponents are drawn by `prioritized`
    "psro-uniform": uniform,
    "psro-nash": nash,
    "alpha-rank": alpha_rank,
    "replicator": replicator,
}
"""Meta-strategies of leagues, by the name that `rookery league --solver` takes."""


def exploitability(payoffs: ArrayLike, mixture: Mixture) -> tuple[float, float]:
    """What the best members in the matrix win against a mixture: of the row player against its columns, and of the column
    player against its rows. Their sum, NashConv, is 0 in an equilibrium and positive elsewhere."""
    matrix = check_payoffs(payoffs)
    return float((matrix @ mixture.columns).max()), float((-(mixture.rows @ matrix)).max())
