"""What a contract must look like, line by line: the checks of its parts combined into the schema of the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rookery.policies.nn.pictures import EncoderSpec, pictures_of
from rookery.sim.actuation import Actuation
from rookery.sim.deployment import GRU_EQUATIONS
from rookery.sim.errors import RookeryError
from rookery.sim.terms import from_json
from rookery.sim2real.checks import (
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
    one_of,
    optional,
    record,
    text,
    true,
)
from rookery.sim2real.typed import check_of


def expression(value: Any, line: str) -> None:
    """Check of what a term is, see rookery.sim.terms."""
    try:
        from_json(value)
    except (ValueError, RecursionError) as error:
        raise fault(line, value, f"an expression ({error!s:.200})") from None


SCHEMA = "rookery-contract"
SCHEMA_VERSION = 2
ACTIVATIONS = ("tanh", "elu", "relu")
SQUASHES = ("clip", "tanh")
CONVENTIONS = {
    "units": "SI, radians, seconds",
    "world_frame": "x east, y north, z up",
    "body_frame": "x forward, y left, z up",
    "quaternion": "w, x, y, z",
    "observation": "network input = clip(raw * scale, -clip, clip), raw in unit and frame",
    "error": "raw = truth + noise * n + bias * b, n standard normal at every step, b uniform in [-1, 1] once an episode",
    "action": "command = low + (clip(network output, -1, 1) + 1) / 2 * (high - low), in units",
}

FRAMES = (
    "the network's observation is `history` frames of these terms, one a control step, oldest first; slices are those in "
    "one frame; an episode's first frame stands for the ones before it"
)

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
    },
)
ACTION = record(
    {
        "kind": filled_text,
        "names": items(filled_text, 1),
        "low": items(number(), 1),
        "high": items(number(), 1),
        "units": items(filled_text, 1),
        "neutral": items(number(low=-1.0), 1),
    }
)
NETWORK = record(
    {
        "observation_size": integer(1),
        "action_size": integer(1),
        "hidden": items(integer(1)),
        "activation": one_of(ACTIVATIONS),
        "obs_clip": number(above=0.0),
        "squash": one_of(SQUASHES),
    },
    # The perceptron takes the last `actor_inputs` components, and predictions of `targets` by a state estimator with these
    # hidden layers.
    {
        "actor_inputs": integer(1),
        "estimator": items(integer(1)),
        "targets": integer(1),
        "module": filled_text,
        "memory": constant("gru"),
        "memory_size": integer(1),
        "encoder": check_of(EncoderSpec),
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
        "network": optional(NETWORK),
        "normaliser": filled_text,
        "actuation": optional(check_of(Actuation)),
        "safety": named(LIMIT),
    },
    {
        "frames": constant(FRAMES),
        "memory": constant(GRU_EQUATIONS),
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


def validate(contract: Any, networks: bool = True) -> dict[str, Any]:
    """Refuse what is not a contract that this version can honour to the last line.

    Args:
        contract: what JSON gave.
        networks: also ask every group for its network; False for a contract made before training.

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
        _check_group(group, f"groups.{name}", networks)
    return dict(contract)


def _ranges(contract: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Every [least, greatest] outside the groups, with its line."""
    delays = [(f"latency.{k}.randomized", v["randomized"]) for k, v in contract["latency"].items()]
    return delays + [(f"measurement_errors.{k}", v) for k, v in contract["measurement_errors"].items()]


def _check_group(group: Mapping[str, Any], line: str, networks: bool) -> None:
    """The rules that bind several lines of one group together."""
    terms = group["observation"]
    outputs = _check_action(group["action"], f"{line}.action")
    frame = _check_terms(terms, f"{line}.observation")
    history = terms[0]["history"]
    for i, term in enumerate(terms):
        if term["history"] != history:
            raise fault(f"{line}.observation[{i}].history", term["history"], f"{history}, as that of the first term")
    if (history > 1) != ("frames" in group):
        raise fault(f"{line}.frames", group.get("frames"), "there exactly when the terms have a history above 1")
    inputs = frame * history
    network = group["network"]
    targets = _check_targets(group, line)
    if network is None and networks:
        raise fault(f"{line}.network", None, "the network's sizes and activation")
    if network is not None:
        for name, size, why in (
            ("observation_size", inputs, "the sum of the terms' sizes" + " times their history" * (history > 1)),
            ("action_size", outputs, "the number of action names"),
        ):
            if network[name] != size:
                raise fault(f"{line}.network.{name}", network[name], f"{size}, {why}")
        _check_stages(network, frame, inputs, targets, f"{line}.network")
        _check_encoder(network, terms, frame, f"{line}.network.encoder")
        if "memory" in group and "memory" not in network:
            raise fault(f"{line}.memory", group["memory"], "left out where the network has no memory")


def _check_targets(group: Mapping[str, Any], line: str) -> int:
    """What a state estimator predicts, and which of it may be known instead. Returns the length of all targets."""
    targets = group.get("targets", [])
    for i, name in enumerate(group.get("future", [])):
        if name not in [t["name"] for t in targets]:
            raise fault(f"{line}.future[{i}]", name, "the name of a target")
    return _check_terms(targets, f"{line}.targets")


def _check_stages(network: Mapping[str, Any], frame: int, inputs: int, targets: int, line: str) -> None:
    """How a state estimator and the perceptron behind it fit together."""
    actor_inputs = network.get("actor_inputs", inputs)
    if actor_inputs > inputs or actor_inputs % frame:
        raise fault(f"{line}.actor_inputs", actor_inputs, f"a multiple of {frame}, the size of a frame, up to {inputs}")
    if ("targets" in network) != ("estimator" in network):
        raise fault(f"{line}.estimator", network.get("estimator"), "there exactly when the network has targets")
    if ("memory_size" in network) != ("memory" in network):
        raise fault(f"{line}.memory_size", network.get("memory_size"), "there exactly when the network has a memory")
    if network.get("targets", targets) != targets:
        raise fault(f"{line}.targets", network["targets"], f"{targets}, the sum of the targets' sizes")


def _check_encoder(network: Mapping[str, Any], terms: list[Mapping[str, Any]], frame: int, line: str) -> None:
    """The encoder takes the pictures among the terms."""
    if "encoder" not in network:
        return
    values = network["encoder"]
    if "targets" in network:
        raise fault(line, values, "left out where the network has a state estimator")
    wanted = [vars(p) for p in pictures_of([(t["size"], t.get("shape", ())) for t in terms])]
    if (values["frame"], values["pictures"]) != (frame, wanted):
        raise fault(line, values, f"of a frame of {frame} and of the pictures {wanted}, as the terms have them")
    try:
        EncoderSpec.from_json(values)
    except RookeryError as error:
        raise RookeryError(f"contract line {line}: {error}") from error


def _check_terms(terms: list[Mapping[str, Any]], line: str) -> int:
    """Terms have different names and stand one after the other. Returns their length together."""
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
        _check_expression(term, here)
        seen.add(term["name"])
        at += term["size"]
    return at


def _check_expression(term: Mapping[str, Any], line: str) -> None:
    """Refuse a term whose lines say something else than its expression."""
    if "expression" not in term:  # of a contract written before there were any
        return
    said = from_json(term["expression"])
    for key in ("size", "unit", "frame", "formula", "local"):
        value = getattr(said, key)
        if term.get(key, False) != value:
            raise fault(f"{line}.{key}", term.get(key), f"{value!r}, as its expression has it")


def _check_action(action: Mapping[str, Any], line: str) -> int:
    """Every component has a unit and a range. Returns the number of components."""
    width = len(action["names"])
    for key in ("low", "high", "units", "neutral"):
        if len(action[key]) != width:
            raise fault(f"{line}.{key}", action[key], f"a list of {width}, one for each action name")
    for i, (low, high, neutral) in enumerate(zip(action["low"], action["high"], action["neutral"], strict=True)):
        if low >= high:
            raise fault(f"{line}.high[{i}]", high, f"above low[{i}], which is {low:g}")
        if neutral > 1.0:
            raise fault(f"{line}.neutral[{i}]", neutral, "between -1 and 1")
    return width
