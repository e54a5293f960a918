"""Ranges of commands as they stand in contract.json: the values of a told quantity that a policy has met in training.

"commands": {"target": {"low": [-1, -1, -1], "high": [1, 1, 1], "unit": "m", "relative_to": "position"}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from rookery.sim.quantities import ANGULAR_VELOCITY, BASE_POSITION, POSITION, TOOL_POSITION, VELOCITY
from rookery.sim.specs import CommandRange, Term
from rookery.sim.terms import Quantity
from rookery.sim.values import fault

Filled = Annotated[str, Meta(min_length=1)]
Numbers = Annotated[tuple[float, ...], Meta(min_length=1)]

MEASURED = (
    *(q.name for q in (POSITION, VELOCITY, ANGULAR_VELOCITY, TOOL_POSITION, BASE_POSITION)), "joint angles",
    "joint velocities",
)  # fmt: skip
"""Quantities of the robot itself, which a runtime must not hold within anything."""


@dataclass(frozen=True)
class CommandLines:
    """The range of a command."""

    low: Numbers
    high: Numbers
    unit: Filled
    relative_to: Filled = "-"


def observed(terms: Iterable[Term]) -> dict[str, Quantity]:
    """The quantities that terms are made of, by name; of hidden terms a robot is told nothing."""
    return {q.name: q for term in terms if not term.hidden for q in term.expression.leaves()}


def units_of(q: Quantity) -> list[str]:
    """The unit of each of a quantity's values; one that lists several, such as "m/s, m/s, rad/s", has one for each."""
    units = q.unit.split(", ")
    return units if len(units) == q.size else [q.unit] * q.size


def ranges_of(commands: Mapping[str, CommandRange], terms: Iterable[Term]) -> dict[str, CommandRange]:
    """Those of the ranges whose quantity the terms observe, and that to which it is relative, in the order of the ranges."""
    seen = observed(terms)
    return {name: span for name, span in commands.items() if name in seen and span.relative_to in ("", *seen)}


def ranges_json(commands: Mapping[str, CommandRange], terms: Iterable[Term]) -> dict[str, Any]:
    """Ranges as they stand in contract.json, with the units of their quantities."""
    seen = observed(terms)
    out: dict[str, Any] = {}
    for name, span in commands.items():
        unit = seen[name].unit if name in seen else "1"
        out[name] = {"low": list(span.low), "high": list(span.high), "unit": unit}
        if span.relative_to:
            out[name]["relative_to"] = span.relative_to
    return out


def parse_ranges(values: Mapping[str, Any]) -> dict[str, CommandRange]:
    """Ranges from valid JSON values."""
    return {
        name: CommandRange(tuple(line["low"]), tuple(line["high"]), line.get("relative_to", ""))
        for name, line in values.items()
    }


def check_commands(commands: Mapping[str, Any], terms: Iterable[Term], line: str) -> None:
    """Hold the ranges of commands against the quantities that a group observes.

    Args:
        commands: JSON values that are CommandLines each.
        terms: of the observation.
        line: where they stand in the contract.

    Raises:
        RookeryError: naming the wrong line.
    """
    seen = observed(terms)
    for name, values in commands.items():
        here = f"{line}.{name}"
        if name not in seen:
            raise fault(here, values, f"left out: the observation has no quantity {name!r:.80}")
        q = seen[name]
        if name in MEASURED or q.axes:
            raise fault(here, values, f"left out: {name!r} is measured or a rotation, and no command")
        if values["unit"] != q.unit:
            raise fault(f"{here}.unit", values["unit"], f"{q.unit!r}, as the quantity has it")
        for key in ("low", "high"):
            if len(values[key]) != q.size:
                raise fault(f"{here}.{key}", values[key], f"a list of {q.size}, one for each of the quantity's values")
        for i, (low, high) in enumerate(zip(values["low"], values["high"], strict=True)):
            if low > high:
                raise fault(f"{here}.high[{i}]", high, f"at least low[{i}], which is {low:g}")
        if "relative_to" in values:
            _check_relative(values, q, seen.get(values["relative_to"]), here)


def _check_relative(values: Mapping[str, Any], q: Quantity, origin: Quantity | None, line: str) -> None:
    places = origin is not None and q.place and origin.place and (q.size, q.frame) == (origin.size, origin.frame)
    if not places or origin == q:
        wanted = "the name of another observed place in the same axes, or left out"
        raise fault(f"{line}.relative_to", values["relative_to"], wanted)
    if any(low > 0.0 or high < 0.0 for low, high in zip(values["low"], values["high"], strict=True)):
        raise fault(f"{line}.low", values["low"], "a range around 0, since it is of a difference")
