"""Comparison of a policy with the place where it is to run: line by line, with the first line that differs in the error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group
from rookery.sim2real.contract import Contract
from rookery.sim2real.decisions import events_at
from rookery.sim2real.group_json import group_json

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.sim.env import Env


WAY_OUT = "use what the policy was trained with, or train and export again"


def check_compatible(
    contract: Contract, env: Env, groups: Collection[str] | None = None, way_out: str = WAY_OUT
) -> None:
    """Refuse to run the policy of `contract` in an environment where its numbers would mean something else.

    Compared: task, control period, names of groups, and everything about observation terms, actions and (with a state
    estimator) targets that the network depends on. Noise, bias, delay, the neutral action and the number of agents may
    differ.

    Args:
        contract: of the policy.
        env: where it is to run.
        groups: those for which it acts there, where others act for the rest; None for all.
        way_out: end of the message.

    Raises:
        RookeryError: naming the first line that differs and both its values.
    """
    mine, theirs = _groups(contract, env.groups)
    if groups is not None:
        mine, theirs = ({"groups": {g: v for g, v in s["groups"].items() if g in groups}} for s in (mine, theirs))
    # First: a wrong task explains every other difference.
    mine = {"task_id": contract.task_id, "control_dt": contract.control_dt} | mine
    theirs = {"task_id": env.task_id, "control_dt": env.control_dt} | theirs
    refuse_differences(mine, theirs, "the environment", way_out=way_out)


def check_groups(contract: Contract, groups: Mapping[str, Group]) -> None:
    """`check_compatible` for a robot that is known by its groups alone.

    Raises:
        RookeryError: naming the first line that differs and both its values.
    """
    refuse_differences(*_groups(contract, groups), "the robot")


def differences(a: Any, b: Any, line: str = "") -> list[tuple[str, Any, Any]]:
    """Lines at which two JSON values differ: (line, value in a, value in b); None where absent."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = [*a, *(k for k in b if k not in a)]
        pairs = [(f"{line}.{k}" if line else str(k), a.get(k), b.get(k)) for k in names]
    elif isinstance(a, list) and isinstance(b, list):
        absent: list[Any] = [None] * abs(len(a) - len(b))
        longer = [(f"{line}[{i}]", x, y) for i, (x, y) in enumerate(zip(a + absent, b + absent, strict=False))]
        pairs = longer[: max(len(a), len(b))]
    else:
        return [] if _same(a, b) else [(line, a, b)]
    return [d for at, x, y in pairs for d in differences(x, y, at)]


def refuse_differences(contract: Any, other: Any, name: str, line: str = "", way_out: str = WAY_OUT) -> None:
    """Raise where two JSON values differ.

    Args:
        contract: part of a contract.
        other: what it is compared with.
        name: of `other` in the message, such as "the environment".
        line: where that part stands in the contract.
        way_out: end of the message.

    Raises:
        RookeryError: naming the first line that differs and both its values.
    """
    found = differences(contract, other, line)
    if not found:
        return
    first, mine, theirs = found[0]
    more = f" (and at {len(found) - 1} more)" if len(found) > 1 else ""
    raise RookeryError(
        f"the policy does not fit: at contract line {first}{more} the contract says {short(mine)} and {name} "
        f"{short(theirs)}; {way_out}."
    )


def with_stages(contract: Contract, policies: Mapping[str, Policy]) -> Contract:
    """A copy that holds the stages of every group.

    Raises:
        RookeryError: a group has no policy, a policy no group, or sizes or stages already there disagree.
    """
    if set(policies) != set(contract.groups):
        raise RookeryError(
            f"the contract has the groups {sorted(contract.groups)} and the policies are for {sorted(policies)}: "
            "export the policies together with the contract they were trained with."
        )
    groups = {}
    for name, group in contract.groups.items():
        stages = policies[name].chain
        if group.stages is not None:
            refuse_differences(group.stages.to_json(), stages.to_json(), "the policy", f"groups.{name}.stages")
        groups[name] = dataclasses.replace(group, stages=stages, events=events_at(group.events, stages.events))
    return Contract.from_json(dataclasses.replace(contract, groups=groups).to_json())


def _groups(contract: Contract, groups: Mapping[str, Group]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines on which the policies depend, in the contract and in the groups."""
    depends = {name: set() if g.stages is None else g.stages.depends for name, g in contract.groups.items()}
    specs = {name: g.spec for name, g in contract.groups.items()}
    worded = {name: {t.name for t in (*s.observation, *s.targets) if t.recorded} for name, s in specs.items()}
    mine, theirs = (
        {name: _interface(g, depends.get(name, set()), worded.get(name, set())) for name, g in side.items()}
        for side in (specs, groups)
    )
    return {"groups": mine}, {"groups": theirs}


def _interface(group: Group, depends: set[str], worded: Set[str]) -> dict[str, Any]:
    """The part of a group that a policy depends on: what its numbers mean, and the lines that its stages are made for. The axes
    of `worded` terms are not compared: a contract from before there were expressions has them in other words."""
    values = group_json(group)
    own = {"targets", "future"}  # lines of the group, the others of its terms
    keys = ("name", "size", "unit", "frame", "scale", "clip", "history", *sorted(depends - own))

    def lines(terms: Any) -> Any:
        return terms and [{k: t.get(k) for k in keys if k != "frame" or t["name"] not in worded} for t in terms]

    out = {
        "observation": lines(values["observation"]),
        "action": _without_neutral(values["action"]),
    }
    found = {"targets": lines(values.get("targets")), "future": values.get("future")}
    return out | {k: v for k, v in found.items() if k in depends}


def _without_neutral(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action's lines but for what an agent at rest would take."""
    out = {k: v for k, v in action.items() if k != "neutral"}
    if "choices" in out:
        out["choices"] = [{k: v for k, v in choice.items() if k != "neutral"} for choice in out["choices"]]
    return out


def short(value: Any) -> str:
    """Value in a line of a contract, for a message."""
    if value is None:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _same(a: Any, b: Any) -> bool:
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b))
    # Limits computed on another machine may differ in the last bit.
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) if numbers else bool(a == b and type(a) is type(b))
