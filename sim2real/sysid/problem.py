"""Identification problems: parameters, and the residuals that a candidate leaves.

A problem simulates a log again, in windows, for many candidates at a time. `Problem.residuals` is all that the estimation
needs; a problem that knows which parameters touch which residuals gives a cheaper `jacobian`.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FitParameter:
    """A number that is identified.

    Args:
        quantity: such as "armature".
        group: of joints, rotors or axes that share it, such as "calf"; "" for the whole robot.
        unit: "1" for a factor on the nominal value.
        nominal: of the robot's model.
        low, high: that it may take.
        size: a change that would matter, in its unit: it scales the search and the singular values.
        prior: standard deviation of what is known before the log, about the nominal value; None: nothing is.
        members: names of the joints, rotors or axes.
    """

    quantity: str
    group: str
    unit: str
    nominal: float
    low: float
    high: float
    size: float
    prior: float | None = None
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Quantity and group, ``quantity:group``."""
        return f"{self.quantity}:{self.group}" if self.group else self.quantity


class Problem(abc.ABC):
    """Residuals of a log as a function of parameters.

    Attributes:
        parameters: the n that are identified.
        channels: [m] number of the measured signal to which each residual belongs.
        names: of the signals.
        stretches: lengths of the runs of consecutive samples, in which residuals may be correlated; the residuals are those of
            the first stretch, sample by sample, all channels of a sample together, then the next.
    """

    parameters: tuple[FitParameter, ...]
    channels: NDArray[np.int64]
    names: tuple[str, ...]
    stretches: tuple[int, ...]
    blocks: NDArray[np.int64]

    @abc.abstractmethod
    def residuals(self, points: Array) -> Array:
        """Predicted less measured, [k, m], for candidates [k, n]."""

    def finer_residuals(self, x: Array) -> Array | None:
        """Residuals [m] at x [n], simulated in steps of half the length; None where nothing is simulated in steps."""
        return None

    def jacobian(self, x: Array, columns: NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
        """Residuals [m] and their derivatives [m, n] at x [n], by differences; zeros beside the `columns` [n], where given."""
        steps = self.steps(x)
        chosen = np.arange(len(x)) if columns is None else np.flatnonzero(columns)
        out = self.residuals(np.vstack((x, x + np.diag(steps)[chosen])))
        jacobian = np.zeros((out.shape[1], len(x)))
        jacobian[:, chosen] = (out[1:] - out[0]).T / steps[chosen]
        return out[0], jacobian

    def steps(self, x: Array) -> Array:
        """[n] of the differences, away from the nearer bound."""
        size = np.array([p.size for p in self.parameters])
        middle = np.array([0.5 * (p.low + p.high) for p in self.parameters])
        return 1e-3 * size * np.where(x > middle, -1.0, 1.0)

    @property
    def start(self) -> Array:
        """[n] nominal values."""
        return np.array([p.nominal for p in self.parameters])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """[n] each."""
        return np.array([p.low for p in self.parameters]), np.array([p.high for p in self.parameters])


BLOCKS = 16
"""About as many blocks has a log."""


def make_blocks(owners: NDArray[np.int64], stretches: tuple[int, ...]) -> NDArray[np.int64]:
    """Blocks of residuals [m]: each owner's by itself, in pieces of equal time, about BLOCKS of them.

    Args:
        owners: [C] part of the robot that each channel belongs to.
        stretches: see Problem.
    """
    _, owner = np.unique(owners, return_inverse=True)
    count = int(owner.max()) + 1
    pieces = math.ceil(BLOCKS / count)
    total = sum(stretches)
    piece = np.arange(total) * pieces // total
    return np.asarray((piece[:, None] * count + owner[None]).ravel())
