"""Short contracts, written by hand for policies that were trained elsewhere: what `rookery fly` must know, and no more.

    {
      "schema": "rookery-short-contract",
      "control_dt": 0.01,
      "observation": [{"name": "offset", "of": "target - position", "axes": "body"}, ...],
      "action": {"kind": "ctbr", "low": [...], "high": [...]},
      "multirotor": {"mass": 0.03, "most_thrust": 0.6}
    }

docs/fly.md describes every line. `read_short_contract` makes a Contract of it, without stages: the network is an ONNX file.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from rookery.sim.actuation import Actuation, Joint, Multirotor, Rotor
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import (
    ANGULAR_VELOCITY,
    POSITION,
    ROTATION,
    VELOCITY,
    WORLD_Z,
    joint_angles,
    joint_velocities,
    last_action,
    place,
)
from rookery.sim.specs import ActionSpec, CommandRange, Group, Term
from rookery.sim.terms import Expression, NoExpression, Quantity, Turned
from rookery.sim.terms import from_json as expression_of
from rookery.sim.values import from_json
from rookery.sim2real.command_ranges import check_commands, ranges_json
from rookery.sim2real.contract import Contract, ContractGroup, Limit
from rookery.sim2real.contract_lines import Count, Filled, Positive
from rookery.sim2real.export.multirotor_c import SETPOINTS, UNITS
from rookery.sim2real.export.state_c import HOME

SHORT_SCHEMA = "rookery-short-contract"
GROUP = "robot"
"""Name of the contract's one agent group."""
LOOPS = {"ctbr": "rate", "attitude": "attitude", "velocity": "velocity", "position": "position"}
"""Action kinds of multirotors, and the loop of which each is the set-point."""
COMPONENT_UNITS = {
    "rate": ("rad/s", "rad/s", "rad/s", "N"), "attitude": ("rad", "rad", "rad/s", "N"),
    "velocity": ("m/s", "m/s", "m/s", "rad/s"), "position": ("m", "m", "m", "rad"),
}  # fmt: skip
assert set(COMPONENT_UNITS) == set(UNITS)
_EXPORTED = ": take the contract.json that the export wrote, or export the policy again."


@dataclass(frozen=True)
class ShortTermLines:
    """A term of the observation, which the network gets as ``clip(of * scale, -clip, clip)``.

    Args:
        name: any.
        of: a quantity, sums and differences of such, or an expression as in full contracts.
        axes: "body" turns a vector in world axes into those of the body.
        scale, clip: see above; None for no clip.
        size: of a quantity that no robot here has by that name, which the link or --command gives.
        unit: likewise.
    """

    name: Filled
    of: Any
    axes: Literal["", "body"] = ""
    scale: float = 1.0
    clip: Positive | None = None
    size: Count | None = None
    unit: Filled = "1"


@dataclass(frozen=True)
class ShortActionLines:
    """The action: ``command = low + (clip(network's output, -1, 1) + 1) / 2 * (high - low)``.

    Args:
        kind, low, high: see above.
        neutral: the last action at an episode's first step, in [-1, 1]; None for 0.
    """

    kind: Literal["ctbr", "attitude", "velocity", "position", "joint_position"]
    low: Annotated[tuple[float, ...], Meta(min_length=1)]
    high: Annotated[tuple[float, ...], Meta(min_length=1)]
    neutral: tuple[Annotated[float, Meta(ge=-1.0, le=1.0)], ...] | None = None


@dataclass(frozen=True)
class MultirotorLines:
    """A multirotor: its mass, kg, and its highest collective thrust, N."""

    mass: Positive
    most_thrust: Positive


@dataclass(frozen=True)
class JointLines:
    """A joint, in the order of the action; rad, N m/rad, N m s/rad, N m."""

    name: Filled
    home: float
    lower: float
    upper: float
    kp: Positive
    kd: Annotated[float, Meta(ge=0.0)]
    torque: Positive


@dataclass(frozen=True)
class ShortRangeLines:
    """The range of a command that the training had; `relative_to` as in full contracts."""

    low: Annotated[tuple[float, ...], Meta(min_length=1)]
    high: Annotated[tuple[float, ...], Meta(min_length=1)]
    relative_to: Filled | None = None


@dataclass(frozen=True)
class ShortLines:
    """The whole."""

    schema: Literal["rookery-short-contract"]
    control_dt: Positive
    observation: Annotated[tuple[ShortTermLines, ...], Meta(min_length=1)]
    action: ShortActionLines
    multirotor: MultirotorLines | None = None
    joints: tuple[JointLines, ...] = ()
    history: Count = 1
    fence_m: Positive | None = None
    commands: Mapping[str, ShortRangeLines] = field(default_factory=dict)


def is_short(values: Any) -> bool:
    """True for JSON values of a short contract."""
    return isinstance(values, Mapping) and values.get("schema") == SHORT_SCHEMA


def read_short_contract(values: Mapping[str, Any]) -> Contract:
    """The contract of a short one's JSON values.

    Raises:
        RookeryError: naming the wrong line.
    """
    with _short_errors():
        lines = from_json(ShortLines, values)
    if (lines.multirotor is None) == (not lines.joints):
        raise _wrong("multirotor", "either multirotor or joints, and one of them")
    action = _action(lines)
    names = [t.name for t in lines.observation]
    if len(set(names)) < len(names):
        raise _wrong("observation", "terms of different names")
    terms = tuple(_term(term, f"observation[{i}]", lines) for i, term in enumerate(lines.observation))
    fence = {} if lines.fence_m is None else {"distance_from_target": Limit(None, lines.fence_m, "m")}
    spec = Group(1, terms, action, history=lines.history)
    commands = _commands(lines, terms)
    group = ContractGroup(spec, actuation=_actuation(lines), safety=fence, commands=commands)
    return Contract("hand-written", lines.control_dt, lines.control_dt, {GROUP: group})


@contextlib.contextmanager
def _short_errors() -> Iterator[None]:
    """Errors of full contracts, whose way out is another."""
    try:
        yield
    except RookeryError as error:
        raise RookeryError(str(error).removesuffix(_EXPORTED) + ": docs/fly.md describes every line.") from None


def _commands(lines: ShortLines, terms: Sequence[Term]) -> dict[str, CommandRange]:
    ranges = {name: CommandRange(r.low, r.high, r.relative_to or "") for name, r in lines.commands.items()}
    with _short_errors():
        check_commands(ranges_json(ranges, terms), terms, "commands")
    return ranges


def _wrong(line: str, wanted: str) -> RookeryError:
    return RookeryError(f"line {line} of the short contract must be {wanted}: docs/fly.md describes every line.")


def _action(lines: ShortLines) -> ActionSpec:
    action = lines.action
    if (action.kind == "joint_position") != bool(lines.joints):
        raise _wrong("action.kind", "joint_position for joints, and one of the others for a multirotor")
    if lines.joints:
        names, units = tuple(j.name for j in lines.joints), ("rad",) * len(lines.joints)
    else:
        loop = LOOPS[action.kind]
        names, units = SETPOINTS[loop], COMPONENT_UNITS[loop]
    neutral = (0.0,) * len(names) if action.neutral is None else action.neutral
    for side, numbers in (("low", action.low), ("high", action.high), ("neutral", neutral)):
        if len(numbers) != len(names):
            raise _wrong(f"action.{side}", f"{len(names)} numbers ({', '.join(names)})")
    if not all(low < high for low, high in zip(action.low, action.high, strict=True)):
        raise _wrong("action.low", "below action.high, number by number")
    return ActionSpec(action.kind, names, action.low, action.high, units, neutral)


def _term(term: ShortTermLines, line: str, lines: ShortLines) -> Term:
    try:
        value = _expression(term, line, lines)
        if term.axes and (value.frame != "world" or value.place):
            raise _wrong(f"{line}.axes", "left out: only vectors in world axes, and differences of places, are turned")
        value = Turned(value, ROTATION) if term.axes else value
        return Term(term.name, value, scale=term.scale, clip=math.inf if term.clip is None else term.clip)
    except RecursionError:
        raise _wrong(f"{line}.of", "an expression that is less deep") from None
    except NoExpression as error:
        raise _wrong(f"{line}.of{error.line}", error.wanted) from None
    except ValueError as error:
        raise _wrong(f"{line}.of", f"quantities that fit together ({error})") from None


def _expression(term: ShortTermLines, line: str, lines: ShortLines) -> Expression:
    if not isinstance(term.of, str):
        return expression_of(term.of)
    first, *rest = re.split(r" ([+-]) ", term.of)
    out = _quantity(first, term, line, lines)
    for sign, name in zip(rest[::2], rest[1::2], strict=True):
        quantity = _quantity(name, term, line, lines)
        out = out + quantity if sign == "+" else out - quantity
    return out


def _quantity(name: str, term: ShortTermLines, line: str, lines: ShortLines) -> Expression:
    joints = len(lines.joints)
    known: dict[str, Expression] = {
        "target": place("target"), "position": POSITION, "velocity": VELOCITY, "rotation": ROTATION,
        "angular velocity": ANGULAR_VELOCITY, "world z": WORLD_Z, "last action": last_action(len(lines.action.low)),
    }  # fmt: skip
    if joints:
        home = Quantity(HOME, joints, "rad", own_memory=True)
        known |= {"joint angles": joint_angles(joints), "joint velocities": joint_velocities(joints), "home": home}
    if name in known:
        return known[name]
    if term.size is None or name != term.of:
        raise _wrong(f"{line}.of", f"made of {', '.join(known)}, or a name alone with its size and unit")
    return Quantity(name, term.size, term.unit)


def _actuation(lines: ShortLines) -> Actuation:
    """The robot below its commands, as far as links and the safety filter ask for it."""
    zero = (0.0, 0.0, 0.0)
    if lines.multirotor is not None:
        # four nominal rotors that share the thrust: no loop below the command is ours
        rotors = tuple(Rotor(f"rotor_{i + 1}", zero, 1, zero) for i in range(4))
        curve = (0.0, 0.0, lines.multirotor.most_thrust / len(rotors))
        craft = Multirotor(rotors, lines.multirotor.mass, zero, (), 0.0, 0.0, curve, zero, 0.0, 0.0, False)
        return Actuation((), tuple(r.name for r in rotors), lines.control_dt, multirotor=craft)
    joints = tuple(Joint(j.name, (0.0, 0.0, 1.0), j.home, j.lower, j.upper, j.kp, j.kd, j.torque) for j in lines.joints)
    return Actuation((), tuple(j.name for j in joints), lines.control_dt, joints=joints)
