"""Conditions on a row of numbers: when a skill may begin, and when it has finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rookery.policies.stages.c_text import literal
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Condition"]


@dataclass(frozen=True)
class Condition:
    """A number of a row, or the length of a vector in it, is above or below a limit.

    Args:
        start: place of the number, or of the vector's first component.
        size: components of the vector, whose length is compared; 0 for the number itself.
        above: true for above the limit, false for below it.
        limit: in units of the row.

    Raises:
        RookeryError: a place below 0.
    """

    start: int
    size: int
    above: bool
    limit: float

    def __post_init__(self) -> None:
        if self.start < 0 or self.size < 0:
            raise RookeryError(f"a condition reads places from 0 on, got {self.start} and {self.size} components.")

    @property
    def stop(self) -> int:
        """One after the last place that it reads."""
        return self.start + max(1, self.size)

    def holds(self, x: Tensor) -> Tensor:
        """[R] bool, for rows [R, n]; false where they are NaN."""
        if not self.size:
            value, limit = x[:, self.start], self.limit
        else:
            value, limit = x[:, self.start : self.stop].square().sum(1), self.limit * abs(self.limit)
        return value > limit if self.above else value < limit

    def code(self, row: str) -> str:
        """C expression of it.

        Args:
            row: C expression of the row, a pointer.
        """
        at = [f"{row}[{i}]" for i in range(self.start, self.stop)]
        sign = ">" if self.above else "<"
        if not self.size:
            return f"({at[0]} {sign} {literal(self.limit)})"
        squares = " + ".join(f"({x} * {x})" for x in at)
        return f"(({squares}) {sign} {literal(self.limit * abs(self.limit))})"
