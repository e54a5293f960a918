"""Observation of a skill: parts of the robot's observation, and numbers that a high level commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.c_text import LIMIT, function, literal
from rookery.policies.stages.stage import Stage, Tensors, check_sizes
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CommandPart", "CommandStage", "merged"]


@dataclass(frozen=True)
class CommandPart:
    """Numbers side by side: ``clip(kept x[start:start + size] + offset + gain * x[by:by + size], -clip, clip)``.

    Args:
        start: place in the row of the first; not read where they are not kept.
        size: how many.
        kept: the row's own numbers are the beginning; false for zeros.
        by: place of the commanded numbers, in [-1, 1]; -1 for none.
        gain: of each commanded number; () without.
        offset: added to each; () for none.
        clip: symmetric limit; None for none.

    Raises:
        RookeryError: numbers of other sizes.
    """

    start: int
    size: int
    kept: bool = True
    by: int = -1
    gain: tuple[float, ...] = ()
    offset: tuple[float, ...] = ()
    clip: float | None = None

    def __post_init__(self) -> None:
        wanted = self.size if self.by >= 0 else 0
        if len(self.gain) != wanted or len(self.offset) not in (0, self.size) or min(self.start, self.size - 1) < 0:
            raise RookeryError(f"a part of {self.size} numbers has as many gains and offsets, or none.")

    @property
    def stop(self) -> int:
        """One after the last place that it reads."""
        kept = self.start + self.size if self.kept else 0
        return max(kept, self.by + self.size if self.by >= 0 else 0)

    @property
    def plain(self) -> bool:
        """True where the row's numbers go on as they are."""
        return self.kept and self.by < 0 and not self.offset and self.clip is None


@dataclass(frozen=True)
class CommandStage(Stage):
    """The parts of a row, one after the other, some of them commanded by others.

    Args:
        size: of a row.
        parts: at least one.

    Raises:
        RookeryError: a part that is not inside of the row, or no part.
    """

    kind: ClassVar[str] = "command"
    formula: ClassVar[str] = (
        "of every part clip(x[start:start + size] if kept, else 0, + offset + gain x[by:by + size] where by is not -1, -clip, "
        "clip), one after the other"
    )

    size: int
    parts: tuple[CommandPart, ...]

    def __post_init__(self) -> None:
        check_sizes(self.kind, size=self.size, parts=len(self.parts))
        for part in self.parts:
            if part.stop > self.size:
                raise RookeryError(f"a part of a command reads place {part.stop - 1} of a row of {self.size} numbers.")

    @property
    def inputs(self) -> int:
        return self.size

    @property
    def outputs(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def words(self) -> str:
        commanded = sum(part.size for part in self.parts if part.by >= 0)
        return f"{self.outputs} numbers of {self.size}, {commanded} of them commanded"

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        import torch

        pieces = []
        for part in self.parts:
            piece = x[:, part.start : part.start + part.size] if part.kept else x.new_zeros(len(x), part.size)
            if part.offset:
                piece = piece + x.new_tensor(part.offset)
            if part.by >= 0:
                piece = piece + x.new_tensor(part.gain) * x[:, part.by : part.by + part.size]
            pieces.append(piece if part.clip is None else piece.clamp(-part.clip, part.clip))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("copy", "clamp")

    def code(self, name: str) -> str:
        at = 0
        steps = []
        for part in self.parts:
            if part.plain:
                steps.append(f"copy(&in[{part.start}], &out[{at}], {part.size});")
            else:
                steps += [f"out[{at + i}] = {_value(part, i)};" for i in range(part.size)]
            at += part.size
        return function(f"{name}(const float in[{self.size}], float out[{self.outputs}])", (), steps)


def _value(part: CommandPart, i: int) -> str:
    """C expression of a number of a part."""
    terms = [f"in[{part.start + i}]"] if part.kept else []
    if part.offset and part.offset[i]:
        terms.append(literal(part.offset[i]))
    if part.by >= 0:
        terms.append(f"({literal(part.gain[i])} * in[{part.by + i}])")
    limit = math.inf if part.clip is None else part.clip
    return f"clamp({' + '.join(terms) or '0.0f'}, {literal(min(limit, LIMIT))})"


def merged(parts: Sequence[CommandPart]) -> tuple[CommandPart, ...]:
    """The same parts, commanded ones that stand side by side as one."""
    out: list[CommandPart] = []
    for part in parts:
        last = out[-1] if out else None
        if (
            last is not None
            and min(last.by, part.by) >= 0
            and (last.by + last.size, last.kept, last.clip) == (part.by, part.kept, part.clip)
            and (not part.kept or last.start + last.size == part.start)
            and bool(last.offset) == bool(part.offset)
        ):
            sums = last.size + part.size, last.gain + part.gain, last.offset + part.offset
            out[-1] = replace(last, size=sums[0], gain=sums[1], offset=sums[2])
        else:
            out.append(part)
    return tuple(out)
