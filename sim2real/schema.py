"""The contract's schema: the lines that it must have, as dataclasses that its JSON is read into, and the rules that bind lines
together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from rookery.policies.stages.chain import StageChain
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.terms import NoExpression
from rookery.sim.terms import from_json as expression_of
from rookery.sim.values import WHOLE, fault, from_json
from rookery.sim2real.command_ranges import CommandLines, check_commands
from rookery.sim2real.decisions import check_events
from rookery.sim2real.group_json import FRAMES, ROW, parse_group

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


def validate(contract: Any, stages: bool = True) -> dict[str, Any]:
    """Refuse what is not a contract that this version can honour to the last line.

    Args:
        contract: what JSON gave.
        stages: also ask every group for its stages; False for a contract made before training.

    Returns:
        The same object, for chaining.

    Raises:
        RookeryError: naming the wrong line; or that the contract was written by an older or a newer Rookery.
    """
    version = contract.get("schema_version") if isinstance(contract, Mapping) else None
    writer = contract.get("rookery_version", "?") if isinstance(contract, Mapping) else "?"
    if version == 1 and not isinstance(version, bool):
        raise RookeryError(
            f"the contract is of schema version 1, written by Rookery {writer}, and does not say what lies between an action "
            "and the motors: export the policy again with `rookery export RUN --out DIR`."
        )
    if version == 2:
        raise RookeryError(
            f"the contract is of schema version 2, written by Rookery {writer}, and does not list the stages of its policy: "
            "export the policy again with `rookery export RUN --out DIR`."
        )
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise RookeryError(
            f"the contract is of schema version {version}, written by Rookery {writer}, "
            f"and this one reads version {SCHEMA_VERSION}: upgrade with `pip install --upgrade rookery`."
        )
    from_json(ContractLines, contract)
    for name, group in contract["groups"].items():
        _check_group(group, f"groups.{name}", stages)
    return dict(contract)


def _check_group(group: Mapping[str, Any], line: str, stages: bool) -> None:
    """The rules that bind several lines of one group together."""
    terms = group["observation"]
    _check_action(group["action"], f"{line}.action")
    _check_terms(terms, f"{line}.observation")
    history = terms[0]["history"]
    for i, term in enumerate(terms):
        if term["history"] != history:
            raise fault(f"{line}.observation[{i}].history", term["history"], f"{history}, as that of the first term")
    if (history > 1) != ("frames" in group):
        raise fault(f"{line}.frames", group.get("frames"), "there exactly when the terms have a history above 1")
    _check_targets(group, line)
    check_commands(group.get("commands", {}), parse_group(group).observation, f"{line}.commands")
    if group["actuation"] is not None:
        _check_joints(group["actuation"], f"{line}.actuation")
    decided = None
    if group["stages"] is not None:
        chain = StageChain.from_json(group["stages"], f"{line}.stages")
        chain.check(parse_group(group), f"{line}.stages")
        decided = chain.events
    elif stages:
        raise fault(f"{line}.stages", None, "the list of the policy's stages")
    if "events" in group:
        check_events(group["events"], decided, f"{line}.events")


def _check_joints(actuation: Mapping[str, Any], line: str) -> None:
    """Every list that goes by joints has their number: C reads as many."""
    count = len(actuation["joints"])
    references, goal, chain = (actuation.get(key) or {} for key in ("references", "tool_goal", "chain"))
    by_joint = {f"references.{k}": v for k, v in references.items() if isinstance(v, list)}
    by_joint |= {f"tool_goal.{k}": goal[k] for k in ("home",) if k in goal} | {"chain.start": chain.get("start")}
    for name, values in by_joint.items():
        if values is not None and len(values) != count:
            raise fault(f"{line}.{name}", values, f"a list of {count}, one for each joint")
    for name in ("speed", "acceleration", "jerk") if references else ():
        if not all(limit > 0.0 for limit in references[name]):
            raise fault(f"{line}.references.{name}", references[name], "numbers above 0")
    for key in ("offsets", "turns") if chain else ():
        if len(chain[key]) != count + 1:
            raise fault(
                f"{line}.chain.{key}", chain[key], f"a list of {count + 1}, one before each joint and one to the tool"
            )
    for i, turn in enumerate(chain.get("turns", ())):
        if not abs(math.hypot(*turn) - 1.0) < 1e-4:
            raise fault(f"{line}.chain.turns[{i}]", turn, "a quaternion of length 1")


def _check_targets(group: Mapping[str, Any], line: str) -> None:
    """Check what a state estimator predicts, and the targets that may be known instead."""
    targets = group.get("targets", [])
    for i, name in enumerate(group.get("future", [])):
        if name not in [t["name"] for t in targets]:
            raise fault(f"{line}.future[{i}]", name, "the name of a target")
    _check_terms(targets, f"{line}.targets")


def _check_terms(terms: list[Mapping[str, Any]], line: str) -> None:
    """Terms have different names and stand one after the other."""
    at = 0
    seen = set()
    for i, term in enumerate(terms):
        here = f"{line}[{i}]"
        place = [at, at + term["size"]]
        if term["slice"] != place:
            raise fault(f"{here}.slice", term["slice"], f"{place} (terms stand one after the other)")
        if term["name"] in seen:
            raise fault(f"{here}.name", term["name"], "a name that no other term has")
        shape = term.get("shape", [1, 1, 1, term["size"]])
        if len(shape) != 4 or math.prod(shape) != term["size"]:
            raise fault(f"{here}.shape", shape, f"cameras, rows, columns, channels, {term['size']} values together")
        neighbors = term.get("neighbors", 0)
        if neighbors and (term["size"] % neighbors or ("present" in term and term["size"] != neighbors)):
            raise fault(f"{here}.neighbors", neighbors, f"a divisor of {term['size']}, or that where present")
        if "present" in term and not neighbors:
            raise fault(f"{here}.present", True, "left out of a term without neighbors")
        _check_expression(term, here)
        seen.add(term["name"])
        at += term["size"]


def _check_expression(term: Mapping[str, Any], line: str) -> None:
    """Refuse a term whose lines say something else than its expression."""
    if "expression" not in term:  # of a contract written before there were any
        return
    said = expression_of(term["expression"])
    for key in ("size", "unit", "frame", "formula", "local"):
        value = getattr(said, key)
        if term.get(key, False) != value:
            raise fault(f"{line}.{key}", term.get(key), f"{value!r}, as its expression has it")


def _check_action(action: Mapping[str, Any], line: str) -> None:
    """Every component has a unit and a range."""
    width = len(action["names"])
    for key in ("low", "high", "units", "neutral"):
        if len(action[key]) != width:
            raise fault(f"{line}.{key}", action[key], f"a list of {width}, one for each action name")
    for i, (low, high, neutral) in enumerate(zip(action["low"], action["high"], action["neutral"], strict=True)):
        if low >= high:
            raise fault(f"{line}.high[{i}]", high, f"above low[{i}], which is {low:g}")
        if neutral > 1.0:
            raise fault(f"{line}.neutral[{i}]", neutral, "between -1 and 1")
    _check_choices(action, line)


def _check_choices(action: Mapping[str, Any], line: str) -> None:
    """There is a component, all have different names, and so have the options of a choice."""
    choices = action.get("choices", [])
    if choices is None:
        raise fault(f"{line}.choices", None, "a list of at least 1, or left out")
    if not choices and not action["names"]:
        raise fault(f"{line}.names", [], "a list of at least 1, or choices beside it")
    for key in ("row", "masked"):
        if key in action and not choices:
            raise fault(f"{line}.{key}", action[key], "left out of an action without choices")
    if choices and "row" not in action:
        raise fault(f"{line}.row", None, repr(ROW))
    names = [*action["names"], *(choice["name"] for choice in choices)]
    if len(set(names)) != len(names):
        raise fault(f"{line}.names", names, "a list of different names, of choices too")
    for i, choice in enumerate(choices):
        here, options = f"{line}.choices[{i}]", choice["options"]
        if len(set(options)) != len(options):
            raise fault(f"{here}.options", options, "a list of different names")
        if choice["neutral"] >= len(options):
            raise fault(f"{here}.neutral", choice["neutral"], f"the index of one of {len(options)} options")
