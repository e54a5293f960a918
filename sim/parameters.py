"""Named physical quantities of a task that can differ between worlds, and how they are written into the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Parameter:
    """One quantity that randomisation and ``--set name=value`` may change.

    Args:
        summary: what it is, one line.
        unit: unit of the value; "1" for a factor on the nominal value.
        nominal: the value that leaves the simulation as the scene describes it.
        low, high: what is accepted, inclusive.
        write: ``write(ids [n] int64, values [n] float32)`` puts the values into the simulation.
    """

    summary: str
    unit: str
    nominal: float
    low: float
    high: float
    write: Callable[[Tensor, Tensor], None]
