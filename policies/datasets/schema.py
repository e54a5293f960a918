"""Schema of a folder of demonstrations: the names, shapes and checks that writer, reader and converters share.

    demos/
        meta.json                            contract, how it was recorded, columns, one line for every episode
        episodes/000000.safetensors          the columns of one episode
        videos/<camera>/000000.mp4           its pictures, one a control step, where a camera was asked for

An episode of T control steps has these columns, for every group of A agents (O, D: sizes of observation and action):

    observation.<group>          [T + 1, A, O]   as the policy sees it, the last one included
    term.<group>.<term>          [T + 1, A, d]   the task's own values in their unit and frame, without noise or scale
    action.<group>               [T, A, D]       in [-1, 1], as given, before any delay
    reward.<group>               [T, A]          weighted sum, or [T, A, M] for M objectives
    reward_term.<group>.<term>   [T, A]          unweighted; the weights are `task_config.reward` of the contract
    active.<group>               [T, A] bool     who took part, where agents can drop out
    terminated, truncated        [T] bool        true at most in the last row

Files are safetensors: nothing is unpickled, columns are read lazily through a memory map, and a cut file is noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rookery.sim.errors import RookeryError

FORMAT = "rookery-demonstrations"
VERSION = 1
META = "meta.json"
EPISODES = "episodes"
VIDEOS = "videos"
MARK = "rookery"
"""Where an episode file says what it is of: one entry of its metadata, as the order of several is left to chance."""
LINES = ("name", "size", "unit", "frame", "scale", "clip", "history")
"""What must be equal of two observation terms for their numbers to mean the same."""


@dataclass(frozen=True)
class Facts:
    """Facts about an episode as a whole.

    Args:
        seed, world: it was the first episode of this world after ``env.reset(seed)``.
        length: T, control steps.
        success: by the task's metric; None where the task has none.
        cause: why it ended, "time limit" or one of the task's causes.
        returns: by group (or "group/objective"), mean over agents.
        metrics: the task's own figures.
    """

    seed: int
    world: int
    length: int
    success: bool | None
    cause: str
    returns: dict[str, float]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Episode:
    """One episode in memory: its facts and its columns."""

    facts: Facts
    columns: dict[str, Tensor]


@dataclass(frozen=True)
class Column:
    """One column: type of its values, shape of a row, whether it has a row for the last state too, unit and frame."""

    dtype: str
    shape: tuple[int, ...]
    last: bool
    unit: str = "1"
    frame: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = "T + 1" if self.last else "T"
        return {"dtype": self.dtype, "shape": list(self.shape), "rows": rows, "unit": self.unit, "frame": self.frame}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Column:
        """The facts that `to_json` wrote. Raises KeyError, TypeError or ValueError."""
        if line["rows"] not in ("T", "T + 1"):
            raise ValueError(line["rows"])
        shape = tuple(int(n) for n in line["shape"])
        return cls(str(line["dtype"]), shape, line["rows"] == "T + 1", str(line["unit"]), str(line["frame"]))


def columns_of(episode: Episode, contract: Mapping[str, Any]) -> dict[str, Column]:
    """The columns of a dataset whose first episode this is."""
    out = {}
    for name, values in episode.columns.items():
        kind, _, rest = name.partition(".")
        unit = "1"
        frame = ""
        if kind == "term":
            group, _, term = rest.partition(".")
            line = next(t for t in contract["groups"][group]["observation"] if t["name"] == term)
            unit = line["unit"]
            frame = line["frame"]
        dtype = str(values.dtype).removeprefix("torch.")
        out[name] = Column(dtype, tuple(values.shape[1:]), kind in ("observation", "term"), unit, frame)
    return out


def required(contract: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the rows that no dataset with this contract can do without, by column."""
    out: dict[str, tuple[int, ...]] = {"terminated": (), "truncated": ()}
    for name, group in contract["groups"].items():
        size = sum(t["size"] * t["history"] for t in group["observation"])
        out[f"observation.{name}"] = (group["count"], size)
        out[f"action.{name}"] = (group["count"], len(group["action"]["names"]))
    return out


def interface(contract: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a contract on which the meaning of the numbers depends, line by line."""
    out: dict[str, Any] = {"task": contract["task_id"]}
    for name, group in contract["groups"].items():
        out[f"agents of {name}"] = group["count"]
        for t in group["observation"]:
            out[f"observation {t['name']!r} of {name}"] = {k: t[k] for k in LINES}
        out[f"order of observations of {name}"] = [t["name"] for t in group["observation"]]
        out[f"action of {name}"] = {k: v for k, v in group["action"].items() if k != "neutral"}
    return json.loads(json.dumps(out))  # type: ignore[no-any-return]  # tuples as lists


def check_meta(meta: Mapping[str, Any]) -> None:
    """Refuse metadata of wrong types, sizes below one, and files outside of the dataset's folder.

    Raises:
        TypeError, ValueError, KeyError: naming what is wrong.
    """
    for key, kind in (
        ("contract", dict),
        ("recording", dict),
        ("cameras", dict),
        ("columns", dict),
        ("episodes", list),
    ):
        if not isinstance(meta[key], kind):
            raise TypeError(f"{key} is no {kind.__name__}")
    for line in meta["episodes"]:
        _check_episode(line)
    for line in meta["columns"].values():
        for size in line["shape"]:
            _check_whole(size, 0, "the size of a column")
        if not all(isinstance(line[key], str) for key in ("dtype", "unit", "frame")):
            raise TypeError("type, unit or frame of a column")
    for name, camera in meta["cameras"].items():
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(f"camera {name!r:.60}")
        for key in ("width", "height"):
            _check_whole(camera[key], 1, f"{key} of a camera")
        _check_number(camera["fps"], "fps of a camera")
    _check_contract(meta["contract"])


def _check_episode(line: Mapping[str, Any]) -> None:
    _check_whole(line["length"], 1, "the length of an episode")
    _check_whole(line["world"], 0, "the world of an episode")
    _check_number(line["seed"], "the seed of an episode")
    if line["success"] not in (True, False, None) or not isinstance(line["cause"], str):
        raise ValueError("success or cause of an episode")
    for key in ("returns", "metrics"):
        for name, value in line[key].items():
            _check_number(0.0 if value is None else value, f"{key} {name!r:.60} of an episode")
    if not re.fullmatch(rf"{EPISODES}/[\w-]+\.safetensors", line["file"]):
        raise ValueError(f"file {line['file']!r:.60} of an episode")


def _check_contract(contract: Mapping[str, Any]) -> None:
    """As far as sizes are computed from it."""
    _check_number(contract["control_dt"], "control_dt")
    for group in contract["groups"].values():
        _check_whole(group["count"], 1, "the count of a group")
        for term in group["observation"]:
            _check_whole(term["size"], 1, "the size of a term")
            _check_whole(term["history"], 1, "the history of a term")


def _check_whole(value: Any, low: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 1 << 40:
        raise ValueError(f"{what} is {value!r:.60}")


def _check_number(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} is {value!r:.60}")


def mark(contract: Mapping[str, Any]) -> dict[str, str]:
    """The mark that every episode file has of itself, so that one from elsewhere is noticed."""
    lines = json.dumps(interface(contract), sort_keys=True, separators=(",", ":"))
    return {
        "format": FORMAT,
        "task_id": str(contract["task_id"]),
        "control_dt": repr(float(contract["control_dt"])),
        "interface": hashlib.sha256(lines.encode()).hexdigest(),
    }


def refuse_other(contract: Mapping[str, Any], other: Mapping[str, Any], what: str) -> None:
    """Refuse a contract under which the numbers of these demonstrations would mean something else.

    Args:
        contract: of the demonstrations.
        other: what they are to be used for.
        what: its name in the message, such as "the environment".

    Raises:
        RookeryError: with the first line that differs.
    """
    mine = {**interface(contract), "control period": contract["control_dt"]}
    theirs = {**interface(other), "control period": other["control_dt"]}
    for line in dict.fromkeys([*mine, *theirs]):
        if mine.get(line) != theirs.get(line):
            raise RookeryError(
                f"the demonstrations do not fit {what}: the {line} is {_short(mine.get(line))} in them and "
                f"{_short(theirs.get(line))} there; use the task and config that they were recorded with."
            )


def _short(value: Any) -> str:
    shown = "missing" if value is None else json.dumps(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
