"""Sums, multiples and parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rookery.sim.terms.expression import Expression, Of, Values, bracketed

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.terms.c import CWriter


@dataclass(frozen=True)
class _Two(Expression):
    """Two expressions of one unit and of the same axes; the shorter one is repeated: of k places one may be subtracted."""

    sign: ClassVar[str] = "+"
    a: Expression
    b: Expression

    def __post_init__(self) -> None:
        what = f"{self.a.text} {self.sign} {self.b.text}"
        if self.a.unit != self.b.unit:
            raise ValueError(f"{what}: {self.a.unit} and {self.b.unit} cannot be added or compared.")
        if self.a.frame != self.b.frame:
            raise ValueError(
                f"{what}: one is in {self.a.frame or 'no'} axes, the other in {self.b.frame or 'no'} axes."
            )
        if max(self.a.size, self.b.size) % min(self.a.size, self.b.size):
            raise ValueError(f"{what}: {self.a.size} values and {self.b.size} do not fit together.")
        if self.a.axes or self.b.axes:
            raise ValueError(f"{what}: rotations are not added; take `rotation_vector`.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return max(self.a.size, self.b.size)

    @property
    def unit(self) -> str:  # type: ignore[override]
        return self.a.unit

    @property
    def frame(self) -> str:  # type: ignore[override]
        return self.a.frame

    @property
    def text(self) -> str:
        return f"{self.a.text} {self.sign} {bracketed(self.b)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        a, b = (_repeated(e.evaluate(values, before), self.size) for e in (self.a, self.b))
        return a + b if self.sign == "+" else a - b

    def write(self, c: CWriter) -> str:
        a, b = self.a.write(c), self.b.write(c)
        return c.array(
            self.size, lambda i: f"{a}[{_at(i, self.a, self.size)}] {self.sign} {b}[{_at(i, self.b, self.size)}]"
        )


def _repeated(x: Tensor, size: int) -> Tensor:
    return x if x.shape[-1] == size else x.repeat(*[1] * (x.dim() - 1), size // x.shape[-1])


def _at(i: Any, e: Expression, size: int) -> str:
    return str(i) if e.size == size else f"{i} % {e.size}"


@dataclass(frozen=True)
class Sum(_Two):
    """a + b: at most one of them is a place."""

    kind: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.a.place and self.b.place:
            raise ValueError(f"{self.a.text} + {self.b.text}: two places have no sum.")

    @property
    def place(self) -> bool:  # type: ignore[override]
        return self.a.place or self.b.place


@dataclass(frozen=True)
class Difference(_Two):
    """a - b: of two places it is a direction."""

    kind: ClassVar[str] = "difference"
    sign: ClassVar[str] = "-"

    @property
    def place(self) -> bool:  # type: ignore[override]
        return self.a.place and not self.b.place


@dataclass(frozen=True)
class Scaled(Of):
    """A multiple. unit: of the result, where the factor has one, such as rad of 2 pi times a phase; "" for the same."""

    kind: ClassVar[str] = "scaled"
    factor: float
    becomes: str = ""

    @property
    def unit(self) -> str:  # type: ignore[override]
        return self.becomes or self.of.unit

    @property
    def text(self) -> str:
        factor = "2 pi" if self.factor == 2.0 * math.pi else f"{self.factor:g}"
        return f"{factor} {bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.factor * self.of.evaluate(values, before)

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{c.number(self.factor)} * {of}[{i}]")


@dataclass(frozen=True)
class Divided(Of):
    """Its share of a value of the same unit, without a unit."""

    kind: ClassVar[str] = "divided"
    by: float

    @property
    def unit(self) -> str:  # type: ignore[override]
        return "1"

    @property
    def text(self) -> str:
        return f"{bracketed(self.of)} / {self.by:g}" + ("" if self.of.unit == "1" else f" {self.of.unit}")

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before) / self.by

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{of}[{i}] / {c.number(self.by)}")


@dataclass(frozen=True)
class Clipped(Of):
    """Limited to [low, high]."""

    kind: ClassVar[str] = "clipped"
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.of.text}, at least {self.low:g} and at most {self.high:g}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before).clamp(self.low, self.high)

    def write(self, c: CWriter) -> str:
        of, low, high = self.of.write(c), c.number(self.low), c.number(self.high)
        return c.array(self.size, lambda i: f"within({of}[{i}], {low}, {high})")


@dataclass(frozen=True)
class Components(Of):
    """Some of the values; of one vector "x and y of ..."."""

    kind: ClassVar[str] = "components"
    which: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.which or not all(0 <= i < self.of.size for i in self.which):
            raise ValueError(f"{self.of.text} has the components 0 to {self.of.size - 1}, got {self.which}.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.which)

    @property
    def axes(self) -> str:  # type: ignore[override]
        return ""

    @property
    def text(self) -> str:
        vector = self.of.frame and self.of.size == 3
        names = [("xyz"[i] if vector else str(i)) for i in self.which]
        return f"{' and '.join(names)} of {bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before)[..., list(self.which)]

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{of}[{self.which[i]}]", loop=False)


@dataclass(frozen=True)
class Joined(Expression):
    """Expressions side by side. Their axes are the same, or of no meaning."""

    kind: ClassVar[str] = "joined"
    of: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.of, tuple) or len({e.frame for e in self.of if e.frame}) > 1 or not self.of:
            raise ValueError(f"{self.of!r:.80}: expressions side by side, in the same axes, are asked for.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return sum(e.size for e in self.of)

    @property
    def unit(self) -> str:  # type: ignore[override]
        return ", ".join(dict.fromkeys(e.unit for e in self.of))

    @property
    def frame(self) -> str:  # type: ignore[override]
        return next((e.frame for e in self.of if e.frame), "")

    @property
    def text(self) -> str:
        return ", then ".join(e.text for e in self.of)

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        import torch

        return torch.cat([e.evaluate(values, before) for e in self.of], dim=-1)

    def write(self, c: CWriter) -> str:
        out = c.array(self.size)
        at = 0
        for e in self.of:
            c.copy(e.write(c), out, at, e.size)
            at += e.size
        return out


@dataclass(frozen=True)
class Norm(Of):
    """Lengths of vectors of 3 side by side, one number each."""

    kind: ClassVar[str] = "norm"
    frame = ""
    place = False

    def __post_init__(self) -> None:
        if self.of.size % 3 or self.of.place:
            raise ValueError(f"{self.of.text} is not made of vectors, whose lengths could be taken.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.of.size // 3

    @property
    def text(self) -> str:
        return f"length of {bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before).unflatten(-1, (-1, 3)).norm(dim=-1)

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"length(&{of}[3 * ({i})])")
