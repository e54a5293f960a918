"""Conditions, angles and the step before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.sim.terms.expression import Expression, Of, Values, bracketed

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.terms.c import CWriter


@dataclass(frozen=True)
class _Compared(Of):
    """1 where a value is on one side of a limit of its unit, else 0."""

    sign: ClassVar[str]
    limit: float

    @property
    def unit(self) -> str:  # type: ignore[override]
        return "1"

    @property
    def text(self) -> str:
        return f"1 where {self.condition}, else 0"

    @property
    def condition(self) -> str:
        return f"{self.of.text} is {self.kind} {self.limit:g}" + ("" if self.of.unit == "1" else f" {self.of.unit}")

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        x = self.of.evaluate(values, before)
        return (x > self.limit if self.sign == ">" else x < self.limit).float()

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{of}[{i}] {self.sign} {c.number(self.limit)} ? 1.0f : 0.0f")


@dataclass(frozen=True)
class Above(_Compared):
    """1 where a value is above a limit of its unit, else 0."""

    kind: ClassVar[str] = "above"
    sign: ClassVar[str] = ">"


@dataclass(frozen=True)
class Below(_Compared):
    """1 where a value is below a limit of its unit, else 0."""

    kind: ClassVar[str] = "below"
    sign: ClassVar[str] = "<"


@dataclass(frozen=True)
class Largest(Of):
    """The largest of the absolute values, each divided by a number of its unit.

    Args:
        over: d numbers.
        names: of the values, to print them.
    """

    kind: ClassVar[str] = "largest"
    over: tuple[float, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not len(self.over) == len(self.names) == self.of.size:
            raise ValueError(f"{self.of.text} has {self.of.size} values, got {self.over} and {self.names}.")

    size = 1
    unit = "1"
    frame = ""

    @property
    def text(self) -> str:
        shares = ", ".join(f"|{name}| / {over:g}" for name, over in zip(self.names, self.over, strict=True))
        return f"the largest of {shares}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        x = self.of.evaluate(values, before)
        return (x.abs() / x.new_tensor(self.over)).amax(-1, keepdim=True)

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        most = "0.0f"
        for i, over in enumerate(self.over):
            most = f"larger({most}, fabsf({of}[{i}]) / {c.number(over)})"
        return c.array(1, lambda i: most)


@dataclass(frozen=True)
class Where(Of):
    """A value where a condition [m] is not 0, and 0 elsewhere; each of its m entries is for d / m values.

    Args:
        mask: the condition.
        otherwise: says when it is 0: "0 for none in sight".
    """

    kind: ClassVar[str] = "where"
    mask: Expression
    otherwise: str

    def __post_init__(self) -> None:
        if self.of.size % self.mask.size:
            raise ValueError(f"{self.of.text} has {self.of.size} values for the {self.mask.size} of {self.mask.text}.")

    @property
    def note(self) -> str:
        return "; ".join(n for n in (self.of.note, self.otherwise) if n)

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        x = self.of.evaluate(values, before)
        mask = self.mask.evaluate(values, before) != 0
        return x.where(mask.repeat_interleave(self.size // self.mask.size, -1), 0.0)

    def write(self, c: CWriter) -> str:
        of, mask = self.of.write(c), self.mask.write(c)
        each = self.size // self.mask.size
        return c.array(self.size, lambda i: f"{mask}[{i} / {each}] != 0.0f ? {of}[{i}] : 0.0f")


@dataclass(frozen=True)
class Previous(Of):
    """The value a control step before; at an episode's first step the value now."""

    kind: ClassVar[str] = "previous"
    initial = "the value now"

    @property
    def text(self) -> str:
        return f"the same a step before: {self.of.text}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values if before is None else before)

    def write(self, c: CWriter) -> str:
        with c.step_before():
            return self.of.write(c)


@dataclass(frozen=True)
class Sines(Of):
    """Sine and cosine of one angle, in the order that `order` gives."""

    kind: ClassVar[str] = "sines"
    order: tuple[str, ...] = ("sin", "cos")
    size = 2
    unit = "1"

    def __post_init__(self) -> None:
        if self.of.unit != "rad" or self.of.size != 1 or sorted(self.order) != ["cos", "sin"]:
            raise ValueError(f"sine and cosine are of one angle in rad, got {self.of.text} in {self.of.unit}.")

    @property
    def text(self) -> str:
        return f"{', '.join(self.order)} of {bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        import torch

        angle = self.of.evaluate(values, before)
        return torch.cat([getattr(angle, name)() for name in self.order], dim=-1)

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(2, lambda i: f"{self.order[i]}f({of}[0])", loop=False)
