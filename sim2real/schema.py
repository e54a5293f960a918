"""The contract's schema: its lines (contract_lines.py), and the rules that bind lines together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rookery.policies.stages.chain import StageChain
from rookery.sim.errors import RookeryError
from rookery.sim.terms import from_json as expression_of
from rookery.sim.values import fault, from_json
from rookery.sim2real.command_ranges import check_commands
from rookery.sim2real.contract_lines import SCHEMA_VERSION, ContractLines
from rookery.sim2real.decisions import check_events
from rookery.sim2real.group_json import ROW, parse_group


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
