"""MCAP: our flight logs (rookery.sim2real.runtime.flight_log); others are ROS 2 recordings."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.readers.reading import needs, one_line
from rookery.sim2real.sysid.table import Table, merge

OURS = "rookery.Step"
QUANTITIES = {
    "joint angles": "position", "joint velocities": "velocity", "joint torques": "torque", "position": "position",
    "velocity": "velocity", "rotation": "quaternion", "angular velocity": "angular_velocity",
}  # fmt: skip
"""Our columns by the names of measured quantities."""
JOINTED = ("joint angles", "joint velocities", "joint torques")
CUT = "the log ends in the middle, as that of a program that was killed: what was written before is taken"
FLOWN = ("position", "velocity", "rotation", "angular velocity")


def read(path: Path) -> Table:
    """The first vehicle's steps; see rookery.sim2real.sysid.readers.reading."""
    try:
        import mcap.reader  # noqa: F401
    except ImportError:
        raise needs("mcap", path) from None
    try:
        with path.open("rb") as file:
            if _of_others(file):
                from rookery.sim2real.sysid.readers.ros2 import read as read_ros

                return read_ros(path)
            steps, contract, cut = _steps(file)
    except (RookeryError, OSError):
        raise
    except Exception as error:  # of the decompressors, which share no base class
        raise RookeryError(f"{path} is a damaged MCAP file: {one_line(error)}.") from error
    flown = [s for s in steps if s.get("phase") == "policy" and "command" in s and "measured" in s]
    if len(flown) < 2:
        raise RookeryError(f"{path} has {len(flown)} steps of a policy with measurements and commands, and needs many.")
    table = _table(path, flown, contract)
    return replace(table, notes=(*table.notes, CUT)) if cut else table


def _of_others(file: IO[bytes]) -> bool:
    """True of a recording without our messages; a file that was not ended has no summary, by which recordings are read."""
    from mcap.reader import make_reader

    try:
        summary = make_reader(file).get_summary()
    except Exception:
        summary = None
    file.seek(0)
    return summary is not None and not any(s.name == OURS for s in summary.schemas.values())


def _steps(file: IO[bytes]) -> tuple[list[dict[str, Any]], dict[str, Any], bool]:
    """Steps and contract of our log in the order in which they were written, and whether it ends in the middle: that of a
    program that was killed does."""
    from mcap.records import Channel, Message, Metadata, Schema
    from mcap.stream_reader import StreamReader

    steps: list[dict[str, Any]] = []
    contract: dict[str, Any] = {}
    ours: set[int] = set()  # schemas
    first: int | None = None  # channel
    size = os.fstat(file.fileno()).st_size
    try:
        for record in StreamReader(file, record_size_limit=size).records:
            if isinstance(record, Metadata) and record.name == "rookery.contract":
                contract = json.loads(record.metadata["json"])
            elif isinstance(record, Schema) and record.name == OURS:
                ours.add(record.id)
            elif isinstance(record, Channel) and record.schema_id in ours:
                first = record.id if first is None else first
            elif isinstance(record, Message) and record.channel_id == first:
                steps.append(json.loads(record.data))
    except Exception:
        if not steps:
            raise
        return steps, contract, True
    return steps, contract, False


def _table(path: Path, steps: list[dict[str, Any]], contract: dict[str, Any]) -> Table:
    groups = contract.get("groups")
    group: dict[str, Any] = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    action = group.get("action", {})
    kind, names = str(action.get("kind", "")), [str(n) for n in action.get("names", [])]
    now = np.array([s["time"] for s in steps], float)
    measured = np.array([s["measured"] for s in steps], float)
    received = np.array([s.get("received", s["time"]) for s in steps], float)
    # the vehicle's clock, moved to ours by the quickest packet
    taken = measured + float((received - measured).min())
    new = np.flatnonzero(np.diff(taken, prepend=-math.inf) > 0.0)
    streams: dict[str, tuple[Any, Any]] = {}
    jointed = "joint angles" in steps[0]["state"]
    for quantity in JOINTED if jointed else FLOWN:
        values = [s["state"].get(quantity) for s in steps]
        if any(v is None for v in values):
            continue
        rows = np.array([[math.nan if x is None else x for x in v] for v in values], float)
        for i, part in enumerate(names if jointed and len(names) == rows.shape[1] else _axes(quantity, rows.shape[1])):
            streams[f"{QUANTITIES[quantity]}.{part}"] = (taken[new], rows[new, i])
    commands = np.array([[math.nan if x is None else x for x in s["command"]] for s in steps], float)
    held = [f"target.{n}" for n in names] if jointed else [f"thrust.{i + 1}" for i in range(commands.shape[1])]
    if not jointed and kind != "rotor_thrust":
        raise RookeryError(
            f"{path} has commands of the kind {kind or 'unknown'}, and a multirotor is identified by what its motors were "
            "told: log their commands on the vehicle (ULog, Crazyflie), or fly a policy whose action is rotor_thrust."
        )
    for i, name in enumerate(held):
        streams[name] = (now, commands[:, i])
    joints = (group.get("actuation") or {}).get("joints", [])
    gains = {str(j["name"]): (float(j["kp"]), float(j["kd"])) for j in joints}
    for j in joints:
        if f"target.{j['name']}" in streams:  # links clip what a policy asks for
            at, asked = streams[f"target.{j['name']}"]
            streams[f"target.{j['name']}"] = at, np.clip(asked, float(j["lower"]), float(j["upper"]))
    named = contract.get("task_config", {})
    robot = named.get("robot" if jointed else "drone")
    return Table(str(path), merge(streams, held[0], held), robot if isinstance(robot, str) else None, gains)


def _axes(quantity: str, width: int) -> list[str]:
    parts = "wxyz" if width == 4 else "xyz"
    return list(parts) if quantity in FLOWN and width <= 4 else [str(i) for i in range(width)]
