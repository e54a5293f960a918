"""Parts of a row: the newest frames of an observation with a history, or its numbers without its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.c_text import function
from rookery.policies.stages.stage import Stage, Tensors
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

Span = tuple[int, int]
"""First place of a part, and the one after its last."""


@dataclass(frozen=True)
class Select(Stage):
    """The parts of a row, one after the other.

    Args:
        size: of a row.
        slices: the parts.

    Raises:
        RookeryError: a part that is empty or not inside of the row, or no part.
    """

    kind: ClassVar[str] = "select"
    formula: ClassVar[str] = "x[a:b] of every slice [a, b], one after the other"

    size: int
    slices: tuple[Span, ...]

    def __post_init__(self) -> None:
        for a, b in self.slices:
            if not 0 <= a < b <= self.size:
                raise RookeryError(f"the slice [{a}, {b}] is no part of a row of {self.size} numbers.")
        if not self.slices:
            raise RookeryError("select needs a slice: name the parts of the row that go on.")

    @property
    def inputs(self) -> int:
        return self.size

    @property
    def outputs(self) -> int:
        return sum(b - a for a, b in self.slices)

    @property
    def places(self) -> list[int]:
        """Places in the row of the numbers that go on, in order."""
        return [i for a, b in self.slices for i in range(a, b)]

    @property
    def words(self) -> str:
        return f"{self.outputs} of {self.size} numbers"

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        import torch

        parts = [x[:, a:b] for a, b in self.slices]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    @property
    def helpers(self) -> tuple[str, ...]:
        return () if len(self.slices) == 1 else ("copy",)

    def code(self, name: str) -> str:
        if len(self.slices) == 1:
            return ""
        at = 0
        steps = []
        for a, b in self.slices:
            steps.append(f"copy(&in[{a}], &out[{at}], {b - a});")
            at += b - a
        return function(f"{name}(const float in[{self.size}], float out[{self.outputs}])", (), steps)

    def view(self, source: str) -> str:
        if len(self.slices) > 1:
            return ""
        start = self.slices[0][0]
        return source if start == 0 else f"&{source}[{start}]" if source.isidentifier() else f"({source}) + {start}"


def newest(size: int, count: int) -> list[Stage]:
    """The last `count` of `size` numbers; nothing to do where that is all."""
    return [] if count == size else [Select(size, ((size - count, size),))]
