"""Declarations as they stand in contract.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rookery.sim.specs import ActionSpec, Discrete, Group, Term
from rookery.sim.terms import Expression, Recorded, from_json
from rookery.sim.values import plain

__all__ = ["FRAMES", "ROW", "group_json", "parse_group"]

FRAMES = (
    "the policy's observation is `history` frames of these terms, one a control step, oldest first; slices are those in "
    "one frame; an episode's first frame stands for the ones before it"
)

ROW = (
    "an action is the index of an option, from 0, for each choice, then the named numbers; a mask is, choice after choice, "
    "true for each option that is allowed"
)


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
    """The control mode; what choices add is written where there are some alone, and `read_by`, of trainings, nowhere."""
    out = {k: v for k, v in plain(spec).items() if k not in ("choices", "masked", "read_by")}
    if spec.choices:
        out |= {"choices": plain(spec.choices), "row": ROW}
    if spec.masked:
        out["masked"] = True
    return out


def _parse_action(values: Mapping[str, Any]) -> ActionSpec:
    numbers = {k: tuple(values[k]) for k in ("names", "low", "high", "units", "neutral")}
    choices = tuple(Discrete(c["name"], tuple(c["options"]), c["neutral"]) for c in values.get("choices", ()))
    return ActionSpec(values["kind"], **numbers, choices=choices, masked=values.get("masked", False))


def parse_group(values: Mapping[str, Any]) -> Group:
    """A group's declaration from valid JSON values."""
    return Group(
        count=values["count"],
        observation=tuple(_parse_term(t) for t in values["observation"]),
        action=_parse_action(values["action"]),
        history=values["observation"][0]["history"],
        targets=tuple(_parse_term(t) for t in values.get("targets", ())),
        future=tuple(values.get("future", ())),
    )


def _parse_term(values: Mapping[str, Any]) -> Term:
    own = (
        "scale",
        "noise",
        "bias",
        "delay",
        "hidden",
        "initial",
        "estimated",
        "drift",
        "drift_of",
        "neighbors",
        "present",
    )
    return Term(
        values["name"],
        _parse_expression(values),
        values["unit"],
        values["frame"],
        clip=math.inf if values["clip"] is None else values["clip"],
        shape=tuple(values.get("shape", ())),
        **{k: values[k] for k in own if k in values},
    )


def _parse_expression(values: Mapping[str, Any]) -> Expression:
    """Expression of a term. One of an older contract, which has the formula alone, is a quantity of that name."""
    if "expression" in values:
        return from_json(values["expression"])
    name, size, unit, frame = values["formula"] or values["name"], values["size"], values["unit"], values["frame"]
    clock = values.get("clock")
    if clock is None:
        return Recorded(name, size, unit, frame)
    start = (clock["start"][0], clock["start"][1])
    return Recorded(name, size, unit, frame, frequency=clock["frequency"], start=start, doc=clock["runs"])


def _particular(term: Term) -> dict[str, Any]:
    """Lines that few terms have, written where it holds alone."""
    lines = {"hidden": term.hidden, "initial": term.initial, "estimated": term.estimated, "local": term.local}
    lines |= {"drift": term.drift, "drift_of": term.drift_of, "shape": list(term.shape)}
    lines |= {"neighbors": term.neighbors, "present": term.present}
    if term.clock is not None:
        clock = term.clock
        lines["clock"] = {"frequency": clock.frequency, "start": list(clock.start), "runs": clock.when}
    return {name: value for name, value in lines.items() if value}


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
