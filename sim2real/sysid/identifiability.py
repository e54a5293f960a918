"""Parameters that a log cannot tell apart, by name.

Two kinds are named. Combinations on which nothing in the log depends: the columns of the weighted Jacobian are brought to unit
length, and singular values that are a thousand times smaller than the greatest (Belsley, Kuh and Welsch, "Regression
Diagnostics", 1980, call 30 strong) span a space; its basis with the most zeros names the parameters, group by group. And groups
whose errors are correlated, priors included: where one moves, the others have to follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rookery.sim2real.sysid.estimate import Fit, information, prior_information

Array = NDArray[np.float64]
NOTHING = 1e3
"""Condition index of a combination that the log does not show."""
CORRELATED = 0.9
"""Correlation of the errors of two parameters that trade off."""
PART = 0.2
"""Least part of a parameter in a combination, of the greatest, that names it."""


@dataclass(frozen=True)
class Tradeoff:
    """Parameters of which the log shows only a combination, or that better.

    Args:
        names: of the parameters.
        changes: of each, in its unit, that hide each other.
        correlation: size of the greatest one of their errors; of a combination that the log does not show, 1.
    """

    names: tuple[str, ...]
    changes: tuple[float, ...]
    correlation: float


@dataclass(frozen=True)
class Identifiability:
    """Parameters of a fit that are visible, and those that are not.

    Args:
        unseen: names of parameters on which nothing in the log depends.
        singular: singular values of the weighted Jacobian in units of `FitParameter.size`, from the greatest: 1 is a
            combination of which such a change is one standard deviation of the log.
        condition: of the Jacobian with columns of unit length.
        tradeoffs: between parameters.
    """

    unseen: tuple[str, ...]
    singular: tuple[float, ...]
    condition: float
    tradeoffs: tuple[Tradeoff, ...]


def identifiability(fit: Fit) -> Identifiability:
    """Find what the log of a fit shows of the parameters."""
    parameters = fit.problem.parameters
    seen = fit.seen & fit.free
    unseen = tuple(p.name for p, there in zip(parameters, seen, strict=True) if not there)
    chosen = [p for p, there in zip(parameters, seen, strict=True) if there]
    if not chosen:
        return Identifiability(unseen, (), np.inf, ())
    size = np.array([p.size for p in chosen])
    names = [p.name for p in chosen]
    gram = information(fit)[np.ix_(seen, seen)]
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(gram * np.outer(size, size))[::-1], 0.0))
    lengths = np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    index = np.sqrt(values[-1] / np.maximum(values, 1e-16 * values[-1]))
    found = [_combination(basis, names, lengths) for basis in sparse_basis(vectors[:, index > NOTHING]).T]
    known = {frozenset(t.names) for t in found}
    groups = _correlated(gram + np.diag(prior_information(fit.problem)[seen]), names)
    return Identifiability(
        unseen,
        tuple(singular.tolist()),
        float(index[0]),
        tuple(found + [t for t in groups if frozenset(t.names) not in known]),
    )


def _combination(basis: Array, names: list[str], lengths: Array) -> Tradeoff:
    part = np.flatnonzero(np.abs(basis) > PART * np.abs(basis).max())
    return Tradeoff(tuple(names[i] for i in part), tuple((basis / lengths)[part].tolist()), 1.0)


def _correlated(matrix: Array, names: list[str]) -> list[Tradeoff]:
    """Groups of parameters whose errors are correlated, each with another one of its group."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    ridge = 1e-9 * np.eye(len(matrix))
    covariance = np.linalg.inv(matrix * np.outer(scale, scale) + ridge) * np.outer(scale, scale)
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    linked = np.abs(correlation) > CORRELATED
    count, group = connected_components(linked)
    out = []
    for members in (np.flatnonzero(group == g) for g in range(count)):
        if len(members) > 1:
            first = correlation[members[0]]
            off = np.abs(correlation[np.ix_(members, members)]) - np.eye(len(members))
            changes = tuple((np.sign(first[members]) * spread[members]).tolist())
            out.append(Tradeoff(tuple(names[i] for i in members), changes, float(off.max())))
    return sorted(out, key=lambda t: -t.correlation)


def sparse_basis(vectors: Array) -> Array:
    """A basis [n, d] with many zeros of the space of the columns [n, d]: its reduced echelon form, greatest entries first."""
    rows = vectors.T.copy()
    for d in range(len(rows)):
        row, column = divmod(int(np.abs(rows[d:]).argmax()), rows.shape[1])
        rows[[d, d + row]] = rows[[d + row, d]]
        rows[d] /= rows[d, column]
        for other in range(len(rows)):
            if other != d:
                rows[other] -= rows[other, column] * rows[d]
    return rows.T
