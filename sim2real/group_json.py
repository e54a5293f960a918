"""Declarations as they stand in contract.json."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.schema import FRAMES

__all__ = ["group_json", "plain"]


def group_json(group: Group) -> dict[str, Any]:
    """A group's declaration as it stands in contract.json: count, observation, action; with a history also frames, with
    targets also targets and future."""
    out: dict[str, Any] = {
        "count": group.count,
        "observation": [
            line | {"noise": t.noise, "bias": t.bias, "delay": t.delay, "history": group.history} | _particular(t)
            for t, line in zip(group.observation, _places(group.observation), strict=True)
        ],
        "action": _action(group.action),
    }
    if group.history > 1:
        out["frames"] = FRAMES
    if group.targets:
        out |= {"targets": _places(group.targets), "future": list(group.future)}
    return out


def _action(spec: ActionSpec) -> dict[str, Any]:
    """The control mode.

    Raises:
        RookeryError: it chooses, which contracts cannot say yet.
    """
    if spec.choices:
        raise RookeryError(
            f"contracts know continuous actions, and this one chooses its {spec.choices[0].name!r}: train such a task from "
            "Python, with rookery.policies.training.runner.Runner, and run its policy by act_with."
        )
    return {k: v for k, v in plain(spec).items() if k not in ("choices", "masked")}


def _particular(term: Term) -> dict[str, Any]:
    """What few terms have, written where it holds alone."""
    lines = {"hidden": term.hidden, "initial": term.initial, "estimated": term.estimated, "local": term.local}
    lines |= {"drift": term.drift, "drift_of": term.drift_of, "shape": list(term.shape)}
    if term.clock is not None:
        clock = term.clock
        lines["clock"] = {"frequency": clock.frequency, "start": list(clock.start), "runs": clock.when}
    return {name: value for name, value in lines.items() if value}


def plain(value: Any) -> Any:
    """JSON values for dataclasses, mappings, tuples and arrays; a number that is not finite becomes its name ("inf")."""
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping)):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if hasattr(value, "tolist"):  # arrays and their scalars
        return plain(value.tolist())
    return str(value)


def _places(terms: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Terms that follow each other, with the slice of each; an infinite clip is null."""
    out = []
    start = 0
    for t in terms:
        said = {} if t.recorded else {"expression": t.expression.to_json()}
        out.append(
            {
                "name": t.name, "size": t.size, "slice": [start, start + t.size], "unit": t.unit, "frame": t.frame,
                "scale": t.scale, "clip": None if math.isinf(t.clip) else t.clip, "formula": t.formula,
            }
            | said
        )  # fmt: skip
        start += t.size
    return out
