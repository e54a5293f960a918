"""The base of all expressions, and what stands at their leaves: measured quantities and numbers.

Nothing of this package imports torch before an expression is evaluated: contracts and bundles are read and checked without it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.terms.c import CWriter

Values = Mapping[str, "Tensor"]
"""Measured quantities by name, each [..., d]."""

KINDS: dict[str, type[Expression]] = {}
"""Expressions by the name that JSON gives them."""


@dataclass(frozen=True)
class Expression:
    """Base of all expressions; `+`, `-`, `*` by a number and indexing make new ones.

    Attributes:
        size: number of values d.
        unit: SI unit, "1" for none.
        frame: name of the axes in which a vector is given, "" where that has no meaning.
        axes: of a rotation (a unit quaternion w, x, y, z that takes vectors from `axes` to `frame`): what it is the rotation
            of; "" of what is no rotation.
        place: whether it is a place, so that only differences have a direction.
    """

    kind: ClassVar[str] = ""
    size = 1
    unit = "1"
    frame = ""
    axes = ""
    place = False

    def __init_subclass__(cls) -> None:
        if cls.kind:
            KINDS[cls.kind] = cls

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions that it is made of."""
        values = (getattr(self, f.name) for f in dataclasses.fields(self))
        return tuple(e for v in values for e in (v if isinstance(v, tuple) else (v,)) if isinstance(e, Expression))

    def leaves(self) -> Iterator[Quantity]:
        """The quantities that it reads, in order, with repeats."""
        for part in self.parts:
            yield from part.leaves()

    @property
    def local(self) -> bool:
        """True where all that it reads stays on the policy's computer: its own actions, clocks and commands."""
        leaves = list(self.leaves())
        return bool(leaves) and all(leaf.own_memory for leaf in leaves)

    @property
    def initial(self) -> str:
        """Its value at an episode's first step, in words, where that does not follow."""
        return next((part.initial for part in self.parts if part.initial), "")

    @property
    def text(self) -> str:
        """The expression in words, without axes."""
        raise NotImplementedError

    @property
    def condition(self) -> str:
        """The condition that holds while it is not 0, in words."""
        return f"{self.text} is not 0"

    @property
    def note(self) -> str:
        """The part of the formula after a semicolon."""
        return ""

    @property
    def formula(self) -> str:
        """The expression in words that leave no sign and no axes open: "target - position, body axes"."""
        axes = f", {self.frame} axes" if self.frame else ""
        return f"{self.text}{axes}" + (f"; {self.note}" if self.note else "")

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        """[..., d] of quantities [..., d]; `before` are those of the control step before, None at an episode's first one."""
        raise NotImplementedError

    def write(self, c: CWriter) -> str:
        """Write its C; the result is the name of an array with its values."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Plain values, of which `from_json` makes the same again."""
        out: dict[str, Any] = {"kind": self.kind}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                out[f.name] = _plain(value)
        return out

    def __add__(self, other: Expression) -> Expression:
        return _new("sum", self, other)

    def __sub__(self, other: Expression) -> Expression:
        return _new("difference", self, other)

    def __mul__(self, factor: float) -> Expression:
        return _new("scaled", self, factor)

    def __truediv__(self, divisor: float) -> Expression:
        return _new("divided", self, divisor)

    def __getitem__(self, which: int | slice) -> Expression:
        found = range(self.size)[which]
        return _new("components", self, (found,) if isinstance(found, int) else tuple(found))


def _new(kind: str, *values: Any) -> Expression:
    return KINDS[kind](*values)


class NoExpression(ValueError):
    """JSON that is no expression.

    Attributes:
        line: where the wrong value stands, such as ".a.unit"; "" for the whole.
        value: the wrong one.
        wanted: what it must be.
    """

    def __init__(self, line: str, value: Any, wanted: str) -> None:
        super().__init__(f"the expression{line} is {value!r:.80}, but it must be {wanted}.")
        self.line, self.value, self.wanted = line, value, wanted


def from_json(values: Any, line: str = "") -> Expression:
    """The expression of what `to_json` gave; `line` is where it stands, for errors.

    Raises:
        NoExpression: it is none, or its units or axes do not fit together.
    """
    if not isinstance(values, Mapping):
        raise NoExpression(line, values, "an expression, which has a kind")
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise NoExpression(f"{line}.kind", kind, f"one of {', '.join(KINDS)}")
    types = {f.name: str(f.type) for f in dataclasses.fields(KINDS[kind])}
    given = {k: _parsed(v, f"{line}.{k}") for k, v in values.items() if k != "kind"}
    for name, value in given.items():
        if not _FITS.get(types.get(name, ""), _never)(value):
            wanted = f"of type {types[name]}" if types.get(name) in _FITS else "left out"
            raise NoExpression(f"{line}.{name}", values[name], f"{wanted} in a {kind}")
    try:
        return KINDS[kind](**given)
    except (TypeError, ValueError) as error:
        raise NoExpression(line, values, f"a {kind} that is whole and fits together ({error})") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.to_json()
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _parsed(value: Any, line: str) -> Any:
    if isinstance(value, Mapping):
        return from_json(value, line)
    return tuple(_parsed(v, f"{line}[{i}]") for i, v in enumerate(value)) if isinstance(value, list) else value


def _never(value: Any) -> bool:
    return False


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _all(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(map(fits, value))


_FITS: dict[str, Callable[[Any], bool]] = {
    "str": lambda v: isinstance(v, str),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "bool": lambda v: isinstance(v, bool),
    "float": _number,
    "Expression": lambda v: isinstance(v, Expression),
    "Expression | None": lambda v: v is None or isinstance(v, Expression),
    "tuple[Expression, ...]": _all(lambda v: isinstance(v, Expression)),
    "tuple[float, ...]": _all(_number),
    "tuple[float, float]": lambda v: _all(_number)(v) and len(v) == 2,
    "tuple[int, ...]": _all(lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "tuple[tuple[float, float], ...]": _all(lambda v: _all(_number)(v) and len(v) == 2),
    "tuple[str, ...]": _all(lambda v: isinstance(v, str)),
}
"""Checks of a value by the type of its field."""


def bracketed(e: Expression) -> str:
    """Text of an operand."""
    return f"({e.text})" if e.kind in ("sum", "difference") else e.text


@dataclass(frozen=True)
class Quantity(Expression):
    """A value that is measured or known: the leaf of an expression.

    Args:
        name: "tool's position"; a runtime gives its value by this name.
        count: number of values d.
        unit, frame, axes, place: see Expression.
        own_memory: it is what the policy's computer itself did or was told, see `Expression.local`.
        doc: how it is found where the name does not say; a quantity that only one task has.
        initial: what it is at an episode's first step: "the neutral action"; "" for what can be measured then.
    """

    kind: ClassVar[str] = "quantity"
    name: str
    count: int
    unit: str = "1"
    frame: str = ""
    axes: str = ""
    place: bool = False
    own_memory: bool = False
    doc: str = ""
    initial: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name and isinstance(self.count, int) and self.count > 0):
            raise ValueError(f"a quantity has a name and a positive size, got {self.name!r} and {self.count!r}.")
        if self.axes and self.count != 4:
            raise ValueError(f"the rotation {self.name!r} is a quaternion of 4 numbers, got {self.count}.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.count

    @property
    def text(self) -> str:
        return self.name

    def leaves(self) -> Iterator[Quantity]:
        yield self

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return values[self.name]

    def write(self, c: CWriter) -> str:
        return c.quantity(self)


@dataclass(frozen=True)
class Clock(Quantity):
    """The phase in [0, 1) of a clock of the controller's own.

    Args:
        frequency: Hz, while it runs.
        start: least and greatest phase at the start of an episode.
        runs: 1 while it runs, 0 while it keeps its phase.
    """

    kind: ClassVar[str] = "clock"
    own_memory: bool = True
    frequency: float = 1.0
    start: tuple[float, float] = (0.0, 1.0)
    runs: Expression | None = None

    @property
    def when(self) -> str:
        """The condition under which it runs, in words."""
        return self.doc or ("always" if self.runs is None else f"while {self.runs.condition}")


@dataclass(frozen=True)
class Recorded(Clock):
    """A term of a contract from before there were expressions: its formula alone, which nobody can evaluate; with a
    frequency above 0 also its clock."""

    kind: ClassVar[str] = "recorded"
    own_memory: bool = False
    frequency: float = 0.0


@dataclass(frozen=True)
class Constant(Expression):
    """Numbers.

    Args:
        values: d of them.
        unit, frame, place: see Expression.
        name: what they are; they are printed where it is empty.
    """

    kind: ClassVar[str] = "constant"
    values: tuple[float, ...]
    unit: str = "1"
    frame: str = ""
    name: str = ""
    place: bool = False

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.values)

    @property
    def text(self) -> str:
        if self.name:
            return self.name
        numbers = ", ".join(f"{v:g}" for v in self.values)
        return (f"({numbers})" if len(self.values) > 1 else numbers) + ("" if self.unit == "1" else f" {self.unit}")

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        import torch

        like = next(iter(values.values()))
        return torch.tensor(self.values, dtype=torch.float32).expand(*like.shape[:-1], self.size)

    def write(self, c: CWriter) -> str:
        return c.constants(self.values)


@dataclass(frozen=True)
class Of(Expression):
    """Base of those that are made of one expression and keep its size, unit and axes, unless a subclass says otherwise."""

    of: Expression

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.of.size

    @property
    def unit(self) -> str:  # type: ignore[override]
        return self.of.unit

    @property
    def frame(self) -> str:  # type: ignore[override]
        return self.of.frame

    @property
    def place(self) -> bool:  # type: ignore[override]
        return self.of.place

    @property
    def axes(self) -> str:  # type: ignore[override]
        return self.of.axes

    @property
    def text(self) -> str:
        return self.of.text

    @property
    def note(self) -> str:
        return self.of.note


def clocks_of(expressions: Sequence[Expression]) -> list[Clock]:
    """The clocks that expressions show, each once."""
    return list(dict.fromkeys(q for e in expressions for q in e.leaves() if isinstance(q, Clock) and q.frequency > 0.0))
