"""The contract: the JSON that makes a network flyable by someone who has never seen the task.

    build_contract(env, policies) -> dict -> write_contract(...), read_contract(...) -> check_compatible(contract, env)

It says what every number that goes into and comes out of the network means, how fast the loop runs, and where the
policy comes from. Infinite clips are null, because JSON has no infinity.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.schema import CONVENTIONS, FRAMES, SCHEMA, SCHEMA_VERSION, validate_contract
from rookery.version import __version__

if TYPE_CHECKING:
    from rookery.sim.env import Env  # at run time this module works without torch

__all__ = [
    "build_contract",
    "check_compatible",
    "contract_json",
    "differences",
    "fingerprint",
    "read_contract",
    "validate_contract",
    "with_networks",
    "write_contract",
]

NORMALISER = "folded in: the network itself computes clip((obs - mean) / std, -obs_clip, obs_clip)"
# Provenance lines that every contract has, null where nobody knows.
PROVENANCE = ("steps", "seed", "command", "commit", "machine", "date", "engine", "randomisation")


def build_contract(
    env: Env,
    policies: Mapping[str, Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    physics_dt: float | None = None,
    assumed_delay: float | tuple[float, float] | None = None,
    actuators: Mapping[str, Sequence[str]] | None = None,
    safety: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The contract of an environment and, when they exist already, of its policies.

    Args:
        env: its `deployment` gives what the arguments below leave out.
        policies: by group, objects with `network()`; None leaves the networks null until `with_networks`.
        config: the task's config as JSON; as in `env.deployment` by default.
        physics_dt: s; as in `env.deployment` by default.
        assumed_delay: s from measurement to actuation that the policy was trained with, one value or (low, high); the
            range of action delays by default.
        actuators: by group, motors or joints in the order in which the robot numbers them.
        safety: by group and quantity, ``{"low": value or None, "high": value or None, "unit": "m/s"}``; the action's
            own limits by default.
        provenance: steps, seed, command, commit, machine, date, engine, randomisation, and whatever else is known.

    Raises:
        RookeryError: when the parts do not make a valid contract.
    """
    known = env.deployment()
    actuators = known.actuators if actuators is None else actuators
    safety = known.safety if safety is None else safety
    assumed_delay = known.action_delay if assumed_delay is None else assumed_delay
    delay = assumed_delay if isinstance(assumed_delay, tuple) else (assumed_delay, assumed_delay)
    contract = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "rookery_version": __version__,
        "task_id": env.task_id,
        "task_config": _plain(known.config if config is None else config),
        "control_dt": float(env.control_dt),
        "physics_dt": float(known.physics_dt if physics_dt is None else physics_dt),
        "assumed_delay": [float(s) for s in delay],
        "groups": {
            name: _group(group, actuators.get(name, ()), safety.get(name)) for name, group in env.groups.items()
        },
        "conventions": dict(CONVENTIONS),
        "provenance": dict.fromkeys(PROVENANCE) | _plain(provenance or {}),
    }
    if policies is not None:
        return with_networks(contract, policies)
    return validate_contract(contract, networks=False)


def with_networks(contract: Mapping[str, Any], policies: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the contract that holds the network of every group.

    Raises:
        RookeryError: when a group has no policy, a policy no group, or sizes or a network already there disagree.
    """
    out: dict[str, Any] = json.loads(contract_json(contract))
    if set(policies) != set(out["groups"]):
        raise RookeryError(
            f"the contract has the groups {sorted(out['groups'])} and the policies are for {sorted(policies)}: "
            "export the policies together with the contract they were trained with."
        )
    for name, policy in policies.items():
        network = _plain(policy.network())
        group = out["groups"][name]
        if group["network"] is not None:
            written, given = ({"groups": {name: {"network": n}}} for n in (group["network"], network))
            _refuse_differences(written, given, "the policy")
        group["network"] = network
    return validate_contract(out)


def check_compatible(contract: Mapping[str, Any], target: Env | Mapping[str, Group]) -> None:
    """Refuse to run the policy of `contract` where its numbers would mean something else.

    Compared: the names of groups, everything about observation terms, actions and (with a predictor) targets that the
    network depends on, and for an environment also the task and the control period. Noise, bias, delay, the neutral action
    and the number of agents may differ.

    Args:
        contract: a valid contract.
        target: an environment, or a dict of `Group` by name.

    Raises:
        RookeryError: naming the first line that differs and both its values.
    """
    groups = target if isinstance(target, Mapping) else target.groups
    predict = {n for n, g in contract["groups"].items() if (g["network"] or {}).get("targets")}
    mine: dict[str, Any] = {"groups": {n: _interface(g, n in predict) for n, g in contract["groups"].items()}}
    theirs = {n: _group(g, (), None) for n, g in groups.items()}
    other: dict[str, Any] = {"groups": {n: _interface(g, n in predict) for n, g in theirs.items()}}
    if not isinstance(target, Mapping):
        # in front: the first difference is shown, and a wrong task explains every other one
        mine = {"task_id": contract["task_id"], "control_dt": contract["control_dt"], **mine}
        other = {"task_id": target.task_id, "control_dt": target.control_dt, **other}
    _refuse_differences(mine, other, "the robot" if isinstance(target, Mapping) else "the environment")


def differences(a: Any, b: Any, line: str = "") -> list[tuple[str, Any, Any]]:
    """Lines at which two contracts, or parts of them, differ: (line, value in a, value in b); None where absent."""
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


def contract_json(contract: Mapping[str, Any]) -> str:
    """The contract as text, floats at full precision."""
    return json.dumps(contract, indent=2, allow_nan=False) + "\n"


def fingerprint(contract: Mapping[str, Any]) -> str:
    """SHA-256 of the contract's values, whatever the order and spacing; it ties the files of a bundle together."""
    canonical = json.dumps(contract, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def write_contract(contract: Mapping[str, Any], path: Path | str) -> None:
    """Write a valid contract to a file.

    Raises:
        RookeryError: when the contract is not valid. OSError: when the disk refuses.
    """
    Path(path).write_text(contract_json(validate_contract(contract)), encoding="utf-8")


def read_contract(path: Path | str) -> dict[str, Any]:
    """A valid contract from a file, or from the `contract.json` of a folder.

    Raises:
        RookeryError: when the file is missing, is not JSON, or is not a contract this version can honour.
    """
    path = Path(path)
    path = path / "contract.json" if path.is_dir() else path
    try:
        contract = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise RookeryError(
            f"cannot read {path} ({e.strerror}): give a folder that `rookery export` or `rookery train` wrote."
        ) from e
    except (ValueError, RecursionError) as e:
        raise RookeryError(f"{path} is not a JSON file ({e}): export the policy again.") from e
    return validate_contract(contract)


def _group(group: Group, actuators: Sequence[str], safety: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    before = group.observation_size - group.frame_size
    slices = group.slices()
    places = group.target_slices()
    more: dict[str, Any] = {"frames": FRAMES} if group.history > 1 else {}
    if group.targets:
        more |= {"targets": [_place(t, places[t.name].start) for t in group.targets], "future": list(group.future)}
    limits = _action_limits(group.action) if safety is None else _plain(safety)
    return {
        "count": group.count,
        "observation": [_term(t, slices[t.name].start - before, group.history) for t in group.observation],
        "action": _plain(group.action),
        "network": None,
        "normaliser": NORMALISER,
        "actuators": list(actuators),
        "safety": limits,
        **more,
    }


def _place(term: Term, start: int) -> dict[str, Any]:
    """What a number means and where it stands; an infinite clip is null."""
    line = dataclasses.asdict(term) | {
        "clip": None if math.isinf(term.clip) else term.clip,
        "slice": [start, start + term.size],
    }
    return {k: line[k] for k in ("name", "size", "slice", "unit", "frame", "scale", "clip")}


def _term(term: Term, start: int, history: int) -> dict[str, Any]:
    """One observation term; its slice is that in one frame, and all terms of a group have the same history."""
    measured = {"noise": term.noise, "bias": term.bias, "delay": term.delay}
    return {**_place(term, start), **measured, "history": history}


def _action_limits(action: ActionSpec) -> dict[str, Any]:
    columns = zip(action.names, action.low, action.high, action.units, strict=True)
    return {name: {"low": low, "high": high, "unit": unit} for name, low, high, unit in columns}


def _interface(group: Mapping[str, Any], predicts: bool) -> dict[str, Any]:
    """The part of a group that the numbers of a network depend on, of one with a predictor also its targets."""
    terms = ("name", "size", "unit", "frame", "scale", "clip", "history")
    out = {
        "observation": [{k: t[k] for k in terms} for t in group["observation"]],
        "action": {k: v for k, v in group["action"].items() if k != "neutral"},
    }
    return out | {"targets": group.get("targets"), "future": group.get("future")} if predicts else out


def _refuse_differences(contract: Mapping[str, Any], other: Mapping[str, Any], name: str) -> None:
    found = differences(contract, other)
    if not found:
        return
    line, mine, theirs = found[0]
    more = f" (and at {len(found) - 1} more)" if len(found) > 1 else ""
    raise RookeryError(
        f"the policy does not fit: at contract line {line}{more} the contract says {_short(mine)} and {name} "
        f"{_short(theirs)}; use what the policy was trained with, or train and export again."
    )


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _same(a: Any, b: Any) -> bool:
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b))
    # Limits computed on another machine may differ in the last bit.
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) if numbers else bool(a == b and type(a) is type(b))


def _plain(value: Any) -> Any:
    """JSON values for dataclasses, mappings, tuples, paths; a number that is not finite becomes its name ("inf")."""
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping)):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if hasattr(value, "tolist"):  # arrays and their scalars
        return _plain(value.tolist())
    return str(value)
