"""Expressions: what an observation is, as a value that can be checked, computed, printed and translated to C.

An expression is a tree of measured quantities and of what is done with them:

    offset = in_axes(target - POSITION, ROTATION)      # 3 numbers in m, body axes
    offset.formula                                     # "target - position, body axes"
    offset.evaluate({"target": ..., "position": ..., "rotation": ...})

Each one knows its size, its unit and the axes in which it is given. Metres are not added to metres per second, nor vectors in
body axes to such in world axes, and a place is not turned into other axes before another place is subtracted from it: all
three are errors where the expression is written.

The text of docs and contracts, its JSON (`to_json`, `from_json`) and its C (`rookery.sim.terms_c`) are made from the tree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from rookery.sim import rotations

if TYPE_CHECKING:
    from rookery.sim.terms_c import Writer

Values = Mapping[str, Tensor]
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
        """Whether all that it reads never leaves the policy's computer: its own actions, clocks and commands."""
        leaves = list(self.leaves())
        return bool(leaves) and all(leaf.own_memory for leaf in leaves)

    @property
    def initial(self) -> str:
        """What it is at an episode's first step, where that does not follow."""
        return next((part.initial for part in self.parts if part.initial), "")

    @property
    def text(self) -> str:
        """What it is, without axes."""
        raise NotImplementedError

    @property
    def note(self) -> str:
        """What follows after a semicolon."""
        return ""

    @property
    def formula(self) -> str:
        """What it is, in words that leave no sign and no axes open: "target - position, body axes"."""
        axes = f", {self.frame} axes" if self.frame else ""
        return f"{self.text}{axes}" + (f"; {self.note}" if self.note else "")

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        """[..., d] of quantities [..., d]; `before` are those of the control step before, None at an episode's first one."""
        raise NotImplementedError

    def write(self, c: Writer) -> str:
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
        return Sum(self, other)

    def __sub__(self, other: Expression) -> Expression:
        return Difference(self, other)

    def __mul__(self, factor: float) -> Expression:
        return Scaled(self, factor)

    def __truediv__(self, divisor: float) -> Expression:
        return Divided(self, divisor)

    def __getitem__(self, which: int | slice) -> Expression:
        found = range(self.size)[which]
        return Components(self, (found,) if isinstance(found, int) else tuple(found))


def from_json(values: Any) -> Expression:
    """The expression of what `to_json` gave.

    Raises:
        ValueError: it is none, or its units or axes do not fit together.
    """
    if not isinstance(values, Mapping) or values.get("kind") not in KINDS:
        raise ValueError(f"an expression has a kind, one of {', '.join(KINDS)}, got {values!r:.80}.")
    cls = KINDS[values["kind"]]
    types = {f.name: str(f.type) for f in dataclasses.fields(cls)}
    given = {k: _parsed(v) for k, v in values.items() if k != "kind"}
    for name, value in given.items():
        if name not in types or not _FITS[types[name]](value):
            raise ValueError(f"{values['kind']!r} has no {name} {value!r:.80}.")
    try:
        return cls(**given)
    except TypeError as error:
        raise ValueError(f"{values['kind']!r} is no whole expression: {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.to_json()
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _parsed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return from_json(value)
    return tuple(_parsed(v) for v in value) if isinstance(value, list) else value


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
    "tuple[str, ...]": _all(lambda v: isinstance(v, str)),
}
"""Whether a value is of a field's type."""


def _bracketed(e: Expression) -> str:
    """Text of an operand."""
    return f"({e.text})" if isinstance(e, (Sum, Difference)) else e.text


# What is given


@dataclass(frozen=True)
class Quantity(Expression):
    """What is measured or known: the leaves of all expressions.

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

    def write(self, c: Writer) -> str:
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
        """When it runs, in words."""
        if isinstance(self.runs, Above):
            return f"while {self.runs.of.text} is above {self.runs.limit:g}"
        return self.doc or "always"


@dataclass(frozen=True)
class Recorded(Clock):
    """What a contract from before there were expressions says of a term: its formula alone, which nobody can evaluate; with a
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
        like = next(iter(values.values()))
        return torch.tensor(self.values, dtype=torch.float32).expand(*like.shape[:-1], self.size)

    def write(self, c: Writer) -> str:
        return c.array(self.size, lambda i: c.number(self.values[i]), loop=False)


# Sums and multiples


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
        return f"{self.a.text} {self.sign} {_bracketed(self.b)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        a, b = (_repeated(e.evaluate(values, before), self.size) for e in (self.a, self.b))
        return a + b if self.sign == "+" else a - b

    def write(self, c: Writer) -> str:
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
class _Of(Expression):
    """What is made of one expression and keeps its size, unit and axes, unless a subclass says otherwise."""

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


@dataclass(frozen=True)
class Scaled(_Of):
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
        return f"{factor} {_bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.factor * self.of.evaluate(values, before)

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{c.number(self.factor)} * {of}[{i}]")


@dataclass(frozen=True)
class Divided(_Of):
    """Its share of a value of the same unit, without a unit."""

    kind: ClassVar[str] = "divided"
    by: float

    @property
    def unit(self) -> str:  # type: ignore[override]
        return "1"

    @property
    def text(self) -> str:
        return f"{_bracketed(self.of)} / {self.by:g}" + ("" if self.of.unit == "1" else f" {self.of.unit}")

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before) / self.by

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{of}[{i}] / {c.number(self.by)}")


@dataclass(frozen=True)
class Clipped(_Of):
    """Limited to [low, high]."""

    kind: ClassVar[str] = "clipped"
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.of.text}, at least {self.low:g} and at most {self.high:g}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before).clamp(self.low, self.high)

    def write(self, c: Writer) -> str:
        of, low, high = self.of.write(c), c.number(self.low), c.number(self.high)
        return c.array(self.size, lambda i: f"fminf(fmaxf({of}[{i}], {low}), {high})")


# Parts


@dataclass(frozen=True)
class Components(_Of):
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
        return f"{' and '.join(names)} of {_bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before)[..., list(self.which)]

    def write(self, c: Writer) -> str:
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
        return torch.cat([e.evaluate(values, before) for e in self.of], dim=-1)

    def write(self, c: Writer) -> str:
        out = c.array(self.size)
        at = 0
        for e in self.of:
            c.copy(e.write(c), out, at, e.size)
            at += e.size
        return out


# Conditions and time


@dataclass(frozen=True)
class Above(_Of):
    """1 where a value is above a limit of its unit, else 0."""

    kind: ClassVar[str] = "above"
    limit: float

    @property
    def unit(self) -> str:  # type: ignore[override]
        return "1"

    @property
    def text(self) -> str:
        return (
            f"1 where {self.of.text} is above {self.limit:g}{'' if self.of.unit == '1' else ' ' + self.of.unit}, else 0"
        )

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return (self.of.evaluate(values, before) > self.limit).float()

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"{of}[{i}] > {c.number(self.limit)} ? 1.0f : 0.0f")


@dataclass(frozen=True)
class Largest(_Of):
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

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        most = "0.0f"
        for i, over in enumerate(self.over):
            most = f"fmaxf({most}, fabsf({of}[{i}]) / {c.number(over)})"
        return c.array(1, lambda i: most)


@dataclass(frozen=True)
class Where(_Of):
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
        return torch.where(mask.repeat_interleave(self.size // self.mask.size, -1), x, 0.0)

    def write(self, c: Writer) -> str:
        of, mask = self.of.write(c), self.mask.write(c)
        each = self.size // self.mask.size
        return c.array(self.size, lambda i: f"{mask}[{i} / {each}] != 0.0f ? {of}[{i}] : 0.0f")


@dataclass(frozen=True)
class Previous(_Of):
    """The value a control step before; at an episode's first step the value now."""

    kind: ClassVar[str] = "previous"
    initial = "the value now"

    @property
    def text(self) -> str:
        return f"the same a step before: {self.of.text}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values if before is None else before)

    def write(self, c: Writer) -> str:
        with c.step_before():
            return self.of.write(c)


@dataclass(frozen=True)
class Norm(_Of):
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
        return f"length of {_bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return self.of.evaluate(values, before).unflatten(-1, (-1, 3)).norm(dim=-1)

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        return c.array(self.size, lambda i: f"length(&{of}[3 * ({i})])")


@dataclass(frozen=True)
class Sines(_Of):
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
        return f"{', '.join(self.order)} of {_bracketed(self.of)}"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        angle = self.of.evaluate(values, before)
        return torch.cat([getattr(angle, name)() for name in self.order], dim=-1)

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        return c.array(2, lambda i: f"{self.order[i]}f({of}[0])", loop=False)


# Rotations


@dataclass(frozen=True)
class Turned(_Of):
    """A vector, k vectors side by side, or a rotation, in other axes.

    Args:
        of: given in the axes that `by` comes from or goes to.
        by: the rotation.
    """

    kind: ClassVar[str] = "turned"
    by: Expression

    def __post_init__(self) -> None:
        if not self.by.axes:
            raise ValueError(f"{self.by.text} is no rotation.")
        if self.of.frame not in (self.by.axes, self.by.frame) or not self.of.frame:
            raise ValueError(
                f"{self.of.text} is in {self.of.frame or 'no'} axes: {self.by.text} turns between {self.by.axes} and "
                f"{self.by.frame} axes."
            )
        if self.of.place:
            raise ValueError(f"{self.of.text} is a place: subtract another one before it is turned into other axes.")
        if not self.of.axes and self.of.size % 3:
            raise ValueError(f"{self.of.text} has {self.of.size} values, which are no vectors of 3.")

    @property
    def back(self) -> bool:
        """Whether the rotation is undone: from its `frame` to its `axes`."""
        return self.of.frame == self.by.frame

    @property
    def frame(self) -> str:  # type: ignore[override]
        return self.by.axes if self.back else self.by.frame

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        x, q = self.of.evaluate(values, before), self.by.evaluate(values, before)
        q = q * q.new_tensor([1.0, -1.0, -1.0, -1.0]) if self.back else q
        if self.of.axes:
            return rotations.multiply(q, x)
        matrix = rotations.matrix(q).unflatten(-1, (1, 3, 3))
        return (matrix * x.unflatten(-1, (-1, 1, 3))).sum(-1).flatten(-2)

    def write(self, c: Writer) -> str:
        of, by = self.of.write(c), self.by.write(c)
        if self.back:
            by = c.call("conjugate", 4, by)
        return c.call("multiply", 4, by, of) if self.of.axes else c.vectors("turn", self.size, by, of)


@dataclass(frozen=True)
class Heading(_Of):
    """Of a rotation the turn about the vertical alone: that of the heading of its x axis."""

    kind: ClassVar[str] = "heading"

    def __post_init__(self) -> None:
        if not self.of.axes:
            raise ValueError(f"{self.of.text} is no rotation, which could have a heading.")

    @property
    def axes(self) -> str:  # type: ignore[override]
        return "heading"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        half = 0.5 * yaw_of(self.of.evaluate(values, before))
        return torch.stack((half.cos(), 0.0 * half, 0.0 * half, half.sin()), dim=-1)

    def write(self, c: Writer) -> str:
        return c.call("heading", 4, self.of.write(c))


@dataclass(frozen=True)
class Yaw(_Of):
    """Of a rotation the angle about the vertical, from the x axis of its frame to its own."""

    kind: ClassVar[str] = "yaw"
    size = 1
    unit = "rad"
    axes = ""

    def __post_init__(self) -> None:
        if not self.of.axes:
            raise ValueError(f"{self.of.text} is no rotation, which could have a yaw.")

    @property
    def text(self) -> str:
        return f"{self.of.axes}'s yaw"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return yaw_of(self.of.evaluate(values, before))[..., None]

    def write(self, c: Writer) -> str:
        return c.call("yaw", 1, self.of.write(c))


@dataclass(frozen=True)
class Axes(_Of):
    """Of a rotation some of its axes, unit vectors side by side.

    Args:
        which: such as "x" or "xy".
    """

    kind: ClassVar[str] = "axes"
    which: str
    axes = ""

    def __post_init__(self) -> None:
        if not self.of.axes or not self.which or set(self.which) - set("xyz"):
            raise ValueError(f"axes x, y or z are of a rotation, got {self.which!r} of {self.of.text}.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return 3 * len(self.which)

    @property
    def text(self) -> str:
        first, *others = self.which
        return f"{self.of.axes}'s {first} axis" + "".join(f", then its {axis} axis" for axis in others)

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        matrix = rotations.matrix(self.of.evaluate(values, before)).unflatten(-1, (3, 3))
        return torch.cat([matrix[..., "xyz".index(axis)] for axis in self.which], dim=-1)

    def write(self, c: Writer) -> str:
        of, out = self.of.write(c), c.array(self.size)
        for i, axis in enumerate(self.which):
            unit = c.array(3, lambda k, a=axis: f"{float('xyz'.index(a) == k)}f", loop=False)
            c.copy(c.call("turn", 3, of, unit), out, 3 * i, 3)
        return out


@dataclass(frozen=True)
class RotationVector(Expression):
    """The shortest rotation that takes one orientation to another, as its axis times its angle, in the frame of both."""

    kind: ClassVar[str] = "rotation_vector"
    start: Expression
    end: Expression
    size = 3
    unit = "rad"

    def __post_init__(self) -> None:
        if not self.start.axes or not self.end.axes or self.start.frame != self.end.frame:
            raise ValueError(f"{self.start.text} and {self.end.text} must be rotations in the same axes.")

    @property
    def frame(self) -> str:  # type: ignore[override]
        return self.start.frame

    @property
    def text(self) -> str:
        return f"rotation vector that takes the {self.start.axes}'s orientation to the {self.end.axes}'s"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        start, end = self.start.evaluate(values, before), self.end.evaluate(values, before)
        return rotations.rotation_error(end.flatten(0, -2), start.flatten(0, -2)).view(*end.shape[:-1], 3)

    def write(self, c: Writer) -> str:
        start, end = self.start.write(c), self.end.write(c)
        return c.call("rotation_vector", 3, c.call("multiply", 4, end, c.call("conjugate", 4, start)))


@dataclass(frozen=True)
class Upright(_Of):
    """A quaternion, of which q and -q are the same rotation, with the sign that makes w at least 0."""

    kind: ClassVar[str] = "upright"

    @property
    def text(self) -> str:
        return f"quaternion w, x, y, z from {self.of.axes} axes, the sign with w >= 0"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        q = self.of.evaluate(values, before)
        return torch.where(q[..., :1] < 0, -q, q)

    def write(self, c: Writer) -> str:
        of = self.of.write(c)
        return c.array(4, lambda i: f"{of}[0] < 0.0f ? -{of}[{i}] : {of}[{i}]")


def yaw_of(quat: Tensor) -> Tensor:
    """[...] rad of quaternions [..., 4]."""
    w, x, y, z = quat.unbind(-1)
    return torch.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))


def clocks_of(expressions: Sequence[Expression]) -> list[Clock]:
    """The clocks that expressions show, each once."""
    return list(dict.fromkeys(q for e in expressions for q in e.leaves() if isinstance(q, Clock) and q.frequency > 0.0))
