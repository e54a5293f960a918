"""What a contract must look like, line by line: the checks of its parts combined into the schema of the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rookery.policies.stages.chain import StageChain
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.json_checks import (
    Check,
    anything,
    constant,
    fault,
    filled_text,
    integer,
    items,
    mapping,
    named,
    nonzero,
    number,
    optional,
    record,
    text,
    true,
)
from rookery.sim.terms import NoExpression, from_json
from rookery.sim.typed_json import check_of
from rookery.sim2real.group_json import FRAMES, ROW, parse_group


def expression(value: Any, line: str) -> None:
    """Check of what a term is, see rookery.sim.terms."""
    try:
        from_json(value)
    except NoExpression as error:
        raise fault(f"{line}{error.line:.200}", error.value, f"{error.wanted:.400}") from None
    except RecursionError:
        raise fault(line, "nested too deeply", "an expression") from None


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

PLACE: dict[str, Check] = {
    "name": filled_text,
    "size": integer(1),
    "slice": items(integer(0), 2),
    "unit": filled_text,
    "frame": text,
    "scale": nonzero,  # one of 0 is said by "hidden", and cannot be undone where a term is rescaled
    "clip": optional(number(above=0.0)),
    "formula": text,
}
EXPRESSION = {"expression": expression}
CLOCK = record({"frequency": number(above=0.0), "start": items(number(low=0.0), 2), "runs": filled_text})
TERM = record(
    {
        **PLACE,
        "noise": number(low=0.0),
        "bias": number(low=0.0),
        "delay": number(low=0.0),
        "history": integer(1),
    },
    # The network gets zeros in place of a hidden term.
    {
        **EXPRESSION,
        "hidden": true,
        "local": true,
        "initial": filled_text,
        "estimated": filled_text,
        "clock": CLOCK,
        "drift": number(above=0.0),
        "drift_of": filled_text,
        "shape": items(integer(1), 4),
        "neighbors": integer(1),
        "present": true,
    },
)
ACTION = record(
    {
        "kind": filled_text,
        "names": items(filled_text),
        "low": items(number()),
        "high": items(number()),
        "units": items(filled_text),
        "neutral": items(number(low=-1.0)),
    },
    {
        "choices": items(record({"name": filled_text, "options": items(filled_text, 1), "neutral": integer(0)}), 1),
        "row": constant(ROW),
        "masked": true,
    },
)
RANGE: Check = items(number(low=0.0), 2)
DELAY = record({"assumed": number(low=0.0), "randomized": optional(RANGE)})
LIMIT = record({"low": optional(number()), "high": optional(number()), "unit": filled_text})
GROUP = record(
    {
        "count": integer(1),
        "observation": items(TERM, 1),
        "action": ACTION,
        "stages": anything,  # compared by `StageChain.from_json` and `StageChain.check`
        "actuation": optional(check_of(Actuation)),
        "safety": named(LIMIT),
    },
    {
        "frames": constant(FRAMES),
        "targets": items(record(PLACE, EXPRESSION), 1),
        "future": items(filled_text),
    },
)
CONTRACT = record(
    {
        "schema": constant(SCHEMA),
        "schema_version": constant(SCHEMA_VERSION),
        "rookery_version": filled_text,
        "task_id": filled_text,
        "task_config": mapping,
        "control_dt": number(above=0.0),
        "physics_dt": number(above=0.0),
        "latency": record({"observation": DELAY, "action": DELAY}),
        "measurement_errors": record({"noise": optional(RANGE), "bias": optional(RANGE)}, {"drift": optional(RANGE)}),
        "metrics": named(filled_text),
        # Group names become file names and C identifiers.
        "groups": named(GROUP, r"[A-Za-z][A-Za-z0-9_-]*", at_least=1),
        "conventions": record({name: constant(value) for name, value in CONVENTIONS.items()}),
        "provenance": named(anything),
    }
)


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
    CONTRACT(contract, "")
    for line, value in _ranges(contract):
        if value is not None and (len(value) != 2 or value[0] > value[1]):
            raise fault(line, value, "[least, greatest]")
    for name, group in contract["groups"].items():
        _check_group(group, f"groups.{name}", stages)
    return dict(contract)


def _ranges(contract: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Every [least, greatest] outside the groups, with its line."""
    delays = [(f"latency.{k}.randomized", v["randomized"]) for k, v in contract["latency"].items()]
    return delays + [(f"measurement_errors.{k}", v) for k, v in contract["measurement_errors"].items()]


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
    if group["stages"] is not None:
        StageChain.from_json(group["stages"], f"{line}.stages").check(parse_group(group), f"{line}.stages")
    elif stages:
        raise fault(f"{line}.stages", None, "the list of the policy's stages")


def _check_targets(group: Mapping[str, Any], line: str) -> None:
    """What a state estimator predicts, and which of it may be known instead."""
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
    said = from_json(term["expression"])
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
