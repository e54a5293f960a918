"""Older contracts and policies brought to this version, bit for bit.

    python -m rookery.sim2real.upgrade runs/hover policies/zoo/*      # rewrites contract.json and the weights in each folder

Version 2 named a network by its sizes; version 3 lists the policy's stages, and the weights have their names. What version 1
lacks comes from the task that it names, with the config that it keeps: all its lines stay as they are, its provenance included.
What nobody wrote down stays unknown: a range that was not recorded is null, unless the training had no randomization, or the
default one and what that was then is known.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.policies.stages.earlier import chain_of_network
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.config import from_dict
from rookery.sim.engines import make_world
from rookery.sim.envs.concat_env import TASK
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.files import replace
from rookery.sim.own_files import is_in_file
from rookery.sim.quantities import command
from rookery.sim.randomization.ranges import DEFAULT, Range
from rookery.sim.specs import CommandRange
from rookery.sim.terms import GroundScan, from_json
from rookery.sim.untrusted import read_json
from rookery.sim2real.build import build_contract
from rookery.sim2real.command_ranges import ranges_json, ranges_of
from rookery.sim2real.contract import Contract
from rookery.sim2real.contract_lines import CONVENTIONS, SCHEMA_VERSION
from rookery.sim2real.export.bundle_policy import is_bundle
from rookery.sim2real.group_json import FRAMES, parse_group
from rookery.tasks.locomanip.legged_task import SCAN
from rookery.tasks.registry import TaskEntry, find

ADDED = ("frame", "formula", "expression", "initial", "estimated", "local", "clock")
"""Lines that say what a term is; older contracts lack some, or say them in other words."""
AXES = ("world", "body")
"""Axes that older contracts name."""
SAME = ("name", "size", "unit", "scale", "clip")
"""Lines of a term that must not have changed since."""

TABLES_THEN = {"observation_delay": Range(0.0, 0.0125)}
"""Default ranges of the Meta-World tasks while contracts were of version 1; today's are wider."""


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Contract values of version 3; those of another version than 1 and 2 are returned as they are.

    Args:
        values: of a contract.json.

    Raises:
        RookeryError: the task is not registered, keeps no config, or is not what it was when the contract was written; or its
            network is none.
    """
    version = values.get("schema_version")
    if isinstance(version, bool) or version not in (1, 2):
        return dict(values)
    if version == 2:
        return _staged(values)
    try:
        fresh, ranges = _rebuilt(values)
        return _staged(_merged(values, fresh, ranges))
    except (RookeryError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f" ({error})" if str(error) else ""
        raise RookeryError(
            f"the contract is of schema version 1, and what it lacks cannot be rebuilt from the task "
            f"{str(values.get('task_id'))!r:.80}{reason:.300}: export the policy with the Rookery that trained it, or train it "
            "again."
        ) from error


def _staged(old: Mapping[str, Any]) -> dict[str, Any]:
    """Values of version 2 with the stages that their networks were."""
    try:
        groups = {name: _staged_group(group) for name, group in old["groups"].items()}
    except (RookeryError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RookeryError(
            f"the contract is of schema version 2, and its networks are none that this version knows ({error!s:.300}): export "
            "the policy again with `rookery export RUN --out DIR`."
        ) from error
    return dict(old) | {"schema_version": SCHEMA_VERSION, "groups": groups, "conventions": dict(CONVENTIONS)}


def _staged_group(old: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in old.items():
        if name == "network":
            out["stages"] = None if value is None else chain_of_network(value).to_json()
        elif name not in ("normalizer", "memory"):
            out[name] = FRAMES if name == "frames" else value
    return out


def described(values: Mapping[str, Any]) -> dict[str, Any]:
    """Contract values of version 2 or later whose terms have expressions, and scans of the ground their points: those of the
    task as it is today.

    Raises:
        RookeryError: a term is not what it was when the contract was written.
    """
    groups = values["groups"]
    if all(_told(t) for g in groups.values() for t in (*g["observation"], *g.get("targets", ()))):
        return dict(values)
    fresh, _ = _rebuilt(values)
    out = {}
    for name, group in groups.items():
        now = fresh["groups"][name]
        out[name] = {**group, "observation": _terms(group["observation"], now["observation"], name)}
        if "targets" in group:
            out[name]["targets"] = _terms(group["targets"], now.get("targets", []), name)
    return {**values, "groups": out}


def commanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Contract values of version 3 whose groups state the ranges of their commands: those of the task as it is today, with the
    config that the contract keeps. Groups that state some are left as they are, and contracts of tasks that are not registered
    or take another config today, and of trainings of which nothing is known, such as those of imported policies."""
    if all(delay["randomized"] is None for delay in values["latency"].values()):
        return dict(values)
    try:
        ranges = _drawn_commands(values)
    except RookeryError:
        return dict(values)
    out = {}
    for name, group in values["groups"].items():
        terms = parse_group(group).observation
        found = {} if "commands" in group else ranges_json(ranges_of(ranges, terms), terms)
        out[name] = {**group, "commands": found} if found else group
    return {**values, "groups": out}


def _drawn_commands(values: Mapping[str, Any]) -> dict[str, CommandRange]:
    if is_in_file(values["task_id"]):
        raise RookeryError("it is a file, which is not run to read a contract")
    entry = find(values["task_id"])
    told = []
    for own in [find(member) for member in entry.members] or [entry]:
        cls = own.load()
        config = values["task_config"].get(own.id, {}) if entry.members else values["task_config"]
        told.append(cls(from_dict(cls.Config, config)).command_ranges())
    return CommandRange.common(told)


def _told(term: Mapping[str, Any]) -> bool:
    """True of a term whose expression says all that is known of it; scans of the ground once had their points in prose."""
    if "expression" not in term:
        return False
    leaves = from_json(term["expression"]).leaves()
    return not any(q.name == SCAN and not isinstance(q, GroundScan) for q in leaves)


def _rebuilt(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Range]]:
    """The contract that the task gives today, and its default randomization."""
    if is_in_file(values["task_id"]):
        raise RookeryError("it is a file, which is not run to read a contract")
    entry = find(values["task_id"])
    if entry.wrapper:
        raise RookeryError("it acts through another policy")
    config = dict(values["task_config"])
    own: TaskEntry = find(entry.members[0]) if entry.members else entry
    if entry.members:
        config = dict(config[own.id])
    cls = own.load()
    task = cls(from_dict(cls.Config, config))
    env = VecEnv(task, make_world(own.engines[0], task.scene(), 1), seed=0, ranges={}, task_id=own.id)
    try:
        fresh = build_contract(env).to_json()
    finally:
        env.close()
    ranges = dict(DEFAULT if task.default_randomization is None else task.default_randomization)
    if own.id.startswith("table-"):
        ranges |= TABLES_THEN
    return fresh, ranges


def _merged(old: Mapping[str, Any], fresh: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """The old contract with what it lacks."""
    out = {k: v for k, v in old.items() if k != "assumed_delay"}
    drawn = _drawn(old, ranges)
    out["groups"] = {name: _group(group, fresh["groups"][name], name) for name, group in old["groups"].items()}
    out["latency"] = {
        "observation": {"assumed": 0.0, "randomized": drawn["observation_delay"]},
        "action": {"assumed": 0.0, "randomized": list(old["assumed_delay"])},
    }
    out["measurement_errors"] = {"noise": drawn["observation_noise"], "bias": drawn["observation_bias"]}
    out["metrics"] = fresh["metrics"]
    in_order = [k for k in fresh if k in out]
    return {k: out[k] for k in in_order} | {k: v for k, v in out.items() if k not in in_order}


def _group(old: Mapping[str, Any], fresh: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A group with formulas and actuation."""
    action, now = old["action"], fresh["action"]
    if (action["kind"], action["names"]) != (now["kind"], now["names"]):
        raise RookeryError(f"its action of {name} is {now['kind']!r} today")
    out = {k: v for k, v in old.items() if k != "actuators"}
    out["observation"] = _terms(old["observation"], fresh["observation"], name)
    if "targets" in old:
        out["targets"] = _terms(old["targets"], fresh.get("targets", []), name)
    out["actuation"] = fresh["actuation"]
    return out


def _axes(term: Mapping[str, Any]) -> str:
    """In which a term is given; older contracts say more behind a comma, and others in place of the axes."""
    return str(term["frame"]).partition(",")[0]


def _terms(old: Sequence[Mapping[str, Any]], fresh: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    today = {t["name"]: t for t in fresh}
    out = []
    for term in old:
        if term["name"] == TASK and TASK not in today:  # of a set of tasks
            given = command("1 at the task's place among those of the set, 0 elsewhere", term["size"])
            out.append({**term, "formula": given.formula, "expression": given.to_json(), "local": True})
            continue
        now = today.get(term["name"])
        if now is None or any(term[k] != now[k] for k in SAME) or {_axes(term), _axes(now)} == set(AXES):
            raise RookeryError(f"its observation {term['name']!r} of {name} is another today")
        out.append({**term, **{k: v for k, v in today[term["name"]].items() if k in ADDED}})
    return out


def _drawn(old: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, list[float] | None]:
    """Ranges, as far as they are known, that version 1 did not record."""
    names = ("observation_delay", "observation_noise", "observation_bias")
    how = old["provenance"].get("randomisation")
    if how == "none":
        return {name: [0.0, 0.0] for name in names}
    delay = ranges.get("action_delay")
    if how == "default" and delay is not None and [delay.low, delay.high] == list(old["assumed_delay"]):
        known = {name: ranges.get(name, Range(0.0, 0.0)) for name in names}
        return {name: [r.low, r.high] for name, r in known.items()}
    return dict.fromkeys(names)


def main(folders: Sequence[str]) -> int:
    """Rewrite contract.json in each folder where it is of an older version, with the weights beside it, or where it lacks
    expressions or ranges of commands; returns the exit status."""
    if not folders:
        print("give folders of policies, such as policies/zoo/*", file=sys.stderr)
        return 2
    for folder in folders:
        file = Path(folder) / "contract.json"
        if is_bundle(Path(folder)):
            raise RookeryError(
                f"{folder} is a bundle, whose files are tied to its contract: upgrade the run, then export it again."
            )
        values = read_json(file)
        complete = Contract.from_json(commanded(described(upgraded(values)))).to_json()
        if values.get("schema_version") != SCHEMA_VERSION:  # weights have other names
            policies, _ = load_policy(folder)
            save_policy(folder, policies, complete)
        elif values != complete:
            replace(file, json.dumps(complete, indent=1).encode())
        print(f"{file}: schema version {values['schema_version']} -> {complete['schema_version']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (RookeryError, OSError, ValueError) as error:
        sys.exit(f"rookery: {error}")
