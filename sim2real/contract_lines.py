"""Lines that a contract must have: dataclasses that its JSON is read into. schema.py has the rules that bind them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from rookery.sim.actuation import Actuation
from rookery.sim.terms import NoExpression
from rookery.sim.terms import from_json as expression_of
from rookery.sim.values import WHOLE, fault
from rookery.sim2real.command_ranges import CommandLines
from rookery.sim2real.group_json import FRAMES, ROW

SCHEMA = "rookery-contract"
SCHEMA_VERSION = 3
CONVENTIONS = {
    "units": "SI, radians, seconds",
    "world_frame": "x east, y north, z up",
    "body_frame": "x forward, y left, z up",
    "quaternion": "w, x, y, z",
    "observation": "policy input = clip(raw * scale, -clip, clip), raw in unit and frame",
    "error": "raw = truth + noise * n + bias * b, n standard normal at every step, b uniform in [-1, 1] once an episode",
    "action": "command = low + (clip(policy output, -1, 1) + 1) / 2 * (high - low), in units",
}


def expression(value: Any, line: str) -> None:
    """Check of what a term is, see rookery.sim.terms."""
    try:
        expression_of(value)
    except NoExpression as error:
        raise fault(f"{line}{error.line:.200}", error.value, f"{error.wanted:.400}") from None
    except RecursionError:
        raise fault(line, "nested too deeply", "an expression") from None


def nonzero(value: float, line: str) -> None:
    """Check of a scale: one of 0 is said by "hidden", and cannot be undone where a term is rescaled."""
    if value == 0:
        raise fault(line, value, "a finite number other than 0")


def true(value: Any, line: str) -> None:
    """Check of a line that is left out where it does not hold."""
    if value is not True:
        raise fault(line, value, "true, or left out")


def the_frames(value: Any, line: str) -> None:
    """Check of what a group with a history says of its frames."""
    if value != FRAMES:
        raise fault(line, value, repr(FRAMES))


def the_row(value: Any, line: str) -> None:
    """Check of what an action with choices says of its row."""
    if value != ROW:
        raise fault(line, value, repr(ROW))


def the_conventions(value: Mapping[str, str], line: str) -> None:
    """Check of the conventions, the same in every contract."""
    for name, said in CONVENTIONS.items():
        if value.get(name) != said:
            raise fault(f"{line}.{name}", value.get(name), repr(said))
    for name in value:
        if name not in CONVENTIONS:
            raise fault(line, name, f"an object of {', '.join(CONVENTIONS)}")


def least_first(value: tuple[float, float], line: str) -> None:
    """Check of a range."""
    if value[0] > value[1]:
        raise fault(line, list(value), "[least, greatest]")


Filled = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Range = Annotated[tuple[NotNegative, NotNegative], least_first]
Words = Annotated[tuple[Filled, ...], Meta(min_length=1)]
Numbers = Annotated[tuple[float, ...], Meta(min_length=1)]
GroupName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*" + WHOLE)]
"""Group names become file names and C identifiers."""


@dataclass(frozen=True, kw_only=True)
class PlaceLines:
    """A term's name, its place among the others, and what its numbers are."""

    name: Filled
    size: Count
    slice: tuple[Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=0)]]
    unit: Filled
    frame: str
    scale: Annotated[float, nonzero]
    clip: Positive | None
    formula: str
    expression: Annotated[Any, expression] = None


@dataclass(frozen=True)
class ClockLines:
    """A clock that a term shows."""

    frequency: Positive
    start: tuple[NotNegative, NotNegative]
    runs: Filled


@dataclass(frozen=True, kw_only=True)
class TermLines(PlaceLines):
    """A term of the observation; the network gets zeros in place of a hidden one."""

    noise: NotNegative
    bias: NotNegative
    delay: NotNegative
    history: Count
    hidden: Annotated[Any, true] = True
    local: Annotated[Any, true] = True
    initial: Filled = "-"
    estimated: Filled = "-"
    clock: ClockLines | None = None
    drift: Positive = 1.0
    drift_of: Filled = "-"
    shape: tuple[Count, Count, Count, Count] = (1, 1, 1, 1)
    neighbors: Count = 1
    present: Annotated[Any, true] = True


@dataclass(frozen=True)
class ChoiceLines:
    """A choice of an action: one of several options."""

    name: Filled
    options: Words
    neutral: Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class ActionLines:
    """The control mode."""

    kind: Filled
    names: tuple[Filled, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    units: tuple[Filled, ...]
    neutral: tuple[Annotated[float, Meta(ge=-1.0)], ...]
    choices: Annotated[tuple[ChoiceLines, ...], Meta(min_length=1)] | None = None
    row: Annotated[Any, the_row] = None
    masked: Annotated[Any, true] = None


@dataclass(frozen=True)
class LimitLines:
    """A range that a quantity must not leave."""

    low: float | None
    high: float | None
    unit: Filled


@dataclass(frozen=True)
class QuantizationLines:
    """Rounding of the weights, left out where there is none."""

    weights: Literal["int8"]
    largest_difference: NotNegative


@dataclass(frozen=True)
class EventLines:
    """An event at which the policy decides."""

    name: Filled
    formula: str
    expression: Annotated[Any, expression]


@dataclass(frozen=True)
class GroupLines:
    """An agent group."""

    count: Count
    observation: Annotated[tuple[TermLines, ...], Meta(min_length=1)]
    action: ActionLines
    stages: Any  # compared by `StageChain.from_json` and `StageChain.check`
    actuation: Actuation | None
    safety: dict[str, LimitLines]
    frames: Annotated[Any, the_frames] = None
    targets: Annotated[tuple[PlaceLines, ...], Meta(min_length=1)] = ()
    future: tuple[Filled, ...] = ()
    quantization: QuantizationLines | None = None
    events: Annotated[tuple[EventLines, ...], Meta(min_length=1)] = ()
    commands: Annotated[dict[Filled, CommandLines], Meta(min_length=1)] = field(default_factory=dict)


@dataclass(frozen=True)
class DelayLines:
    """A delay of the training."""

    assumed: NotNegative
    randomized: Range | None


@dataclass(frozen=True)
class LatencyLines:
    """The delays of the training."""

    observation: DelayLines
    action: DelayLines


@dataclass(frozen=True)
class ErrorLines:
    """Ranges of the factors on the measurement errors."""

    noise: Range | None
    bias: Range | None
    drift: Range | None = None


@dataclass(frozen=True)
class ContractLines:
    """The whole contract."""

    schema: Literal["rookery-contract"]
    schema_version: Literal[3]
    rookery_version: Filled
    task_id: Filled
    task_config: dict[str, Any]
    control_dt: Positive
    physics_dt: Positive
    latency: LatencyLines
    measurement_errors: ErrorLines
    metrics: dict[str, Filled]
    groups: Annotated[dict[GroupName, GroupLines], Meta(min_length=1)]
    conventions: Annotated[dict[str, str], the_conventions]
    provenance: dict[str, Any]
