"""MCAP: our flight logs (rookery.sim2real.runtime.flight_log); others are ROS 2 recordings."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.readers.reading import needs, one_line
from rookery.sim2real.sysid.table import Table, merge

OURS, CONTRACT = "rookery.Step", "rookery.contract"
MAGIC = b"\x89MCAP0\r\n"
"""Begins and ends a whole file."""
CUT = "its end is missing, as of a program that was killed: what stands before is used."
QUANTITIES = {
    "joint angles": "position", "joint velocities": "velocity", "joint torques": "torque", "position": "position",
    "velocity": "velocity", "rotation": "quaternion", "angular velocity": "angular_velocity",
}  # fmt: skip
"""Our columns by the names of measured quantities."""
Record = tuple[str, str, bytes | str]
"""Name of the schema, topic, data; of the contract CONTRACT, nothing, its text."""
JOINTED = ("joint angles", "joint velocities", "joint torques")
FLOWN = ("position", "velocity", "rotation", "angular velocity")


def read(path: Path) -> Table:
    """The first vehicle's steps; see rookery.sim2real.sysid.readers.reading."""
    try:
        from mcap.exceptions import McapError
        from mcap.reader import make_reader
    except ImportError:
        raise needs("mcap", path) from None
    contract: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []
    notes: tuple[str, ...] = ()
    try:
        with path.open("rb") as file:
            if _is_cut(file):
                notes = (CUT,)
                contract, steps = _first_vehicle(_until_the_cut(file))
            else:
                reader = make_reader(file)
                summary = reader.get_summary()
                if summary is not None and not any(s.name == OURS for s in summary.schemas.values()):
                    from rookery.sim2real.sysid.readers.ros2 import read as read_ros

                    return read_ros(path)
                whole = ((s.name, c.topic, m.data) for s, c, m in reader.iter_messages() if s is not None)
                kept = ((m.name, "", m.metadata["json"]) for m in reader.iter_metadata() if m.name == CONTRACT)
                contract, steps = _first_vehicle(chain(kept, whole))
    except (McapError, ValueError, KeyError, struct.error) as error:
        raise RookeryError(f"{path} is a damaged MCAP file: {one_line(error)}.") from error
    if notes and not steps:
        raise RookeryError(
            f"{path} is a damaged MCAP file: its end is missing, and no flight of ours stands before; where it is another "
            "program's recording, repair it by `mcap recover`."
        )
    flown = [s for s in steps if s.get("phase") == "policy" and "command" in s and "measured" in s]
    if len(flown) < 2:
        raise RookeryError(f"{path} has {len(flown)} steps of a policy with measurements and commands, and needs many.")
    return replace(_table(path, flown, contract), notes=notes)


def _is_cut(file: BinaryIO) -> bool:
    """True where the end of a file is missing, as of a program that was killed."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(MAGIC)))
    whole = file.read() == MAGIC
    file.seek(0)
    return not whole


def _until_the_cut(file: BinaryIO) -> Iterator[Record]:
    """Records of a file up to the last whole one."""
    from mcap.exceptions import McapError
    from mcap.records import Channel, Message, Metadata, Schema
    from mcap.stream_reader import StreamReader

    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    with suppress(McapError, ValueError, struct.error):
        for record in StreamReader(file).records:
            if isinstance(record, Schema):
                schemas[record.id] = record.name
            elif isinstance(record, Channel):
                channels[record.id] = (schemas.get(record.schema_id, ""), record.topic)
            elif isinstance(record, Message) and record.channel_id in channels:
                yield (*channels[record.channel_id], record.data)
            elif isinstance(record, Metadata) and record.name == CONTRACT:
                yield CONTRACT, "", record.metadata.get("json", "{}")


def _first_vehicle(records: Iterable[Record]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The contract, and the steps of the first vehicle."""
    contract: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []
    first = ""
    for name, topic, data in records:
        if name == CONTRACT:
            contract = json.loads(data)
        elif name == OURS:
            first = first or topic
            if topic == first:
                steps.append(json.loads(data))
    return contract, steps


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
