"""Declarations as they stand in contract.json."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rookery.sim.specs import ActionSpec, Clock, Group, Term
from rookery.sim.typed_json import parse, plain

__all__ = ["group_json", "parse_group"]

FRAMES = (
    "the policy's observation is `history` frames of these terms, one a control step, oldest first; slices are those in "
    "one frame; an episode's first frame stands for the ones before it"
)
PLACE_KEYS = ("name", "size", "slice", "unit", "frame", "scale", "clip", "formula")


def group_json(group: Group) -> dict[str, Any]:
    """A group's declaration as it stands in contract.json: count, observation, action; with a history also frames, with
    targets also targets and future."""
    out: dict[str, Any] = {
        "count": group.count,
        "observation": [
            line | {"noise": t.noise, "bias": t.bias, "delay": t.delay, "history": group.history} | _particular(t)
            for t, line in zip(group.observation, _places(group.observation), strict=True)
        ],
        "action": plain(group.action),
    }
    if group.history > 1:
        out["frames"] = FRAMES
    if group.targets:
        out |= {"targets": _places(group.targets), "future": list(group.future)}
    return out


def parse_group(values: Mapping[str, Any]) -> Group:
    """A group's declaration from valid JSON values."""
    lists: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values["action"].items()}
    return Group(
        count=values["count"],
        observation=tuple(_parse_term(t) for t in values["observation"]),
        action=ActionSpec(**lists),
        history=values["observation"][0]["history"],
        targets=tuple(_parse_term(t) for t in values.get("targets", ())),
        future=tuple(values.get("future", ())),
    )


def _parse_term(values: Mapping[str, Any]) -> Term:
    kept = {k: v for k, v in values.items() if k not in ("slice", "history", "clip", "clock")}
    clock = values.get("clock")
    kept["shape"] = tuple(kept.get("shape", ()))
    return Term(
        **kept,
        clock=None if clock is None else parse(Clock, clock),
        clip=math.inf if values["clip"] is None else values["clip"],
    )


def _particular(term: Term) -> dict[str, Any]:
    """What few terms have, written where it holds alone."""
    lines = {"hidden": term.hidden, "initial": term.initial, "estimated": term.estimated, "clock": plain(term.clock)}
    lines |= {"drift": term.drift, "drift_of": term.drift_of, "shape": list(term.shape)}
    lines |= {"neighbors": term.neighbors, "present": term.present}
    return {name: value for name, value in lines.items() if value}


def _places(terms: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Terms that follow each other, with the slice of each; an infinite clip is null."""
    out = []
    start = 0
    for term in terms:
        line = dataclasses.asdict(term) | {
            "clip": None if math.isinf(term.clip) else term.clip,
            "slice": [start, start + term.size],
        }
        out.append({k: line[k] for k in PLACE_KEYS})
        start += term.size
    return out
