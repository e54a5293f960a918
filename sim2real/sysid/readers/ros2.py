"""ROS 2 recordings, bags and MCAP, read without ROS.

Measured joints are a `sensor_msgs/JointState`; commands a second one, a `std_msgs/Float64MultiArray` in the order of the first
one's names, or a `trajectory_msgs/JointTrajectory`, whose first point counts. A multirotor's are a `nav_msgs/Odometry` and a
Float64MultiArray or Float32MultiArray of four motor commands in 0 to 1. Topics whose names have "command" or "cmd" in them, or
"target" or "setpoint", are commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.readers.reading import needs, one_line
from rookery.sim2real.sysid.readers.ulog import continuous
from rookery.sim2real.sysid.table import Table, merge

JOINTS, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
NUMBERS = ("std_msgs/msg/Float64MultiArray", "std_msgs/msg/Float32MultiArray")
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
COMMANDS = ("command", "cmd", "target", "setpoint")


def read(path: Path) -> Table:
    """The joints, or the multirotor, of a recording; see rookery.sim2real.sysid.readers.reading."""
    try:
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise needs("rosbags", path) from None
    where = path.parent if path.suffix == ".db3" else path
    try:
        with AnyReader([where], default_typestore=get_typestore(Stores.LATEST)) as reader:
            wanted = [c for c in reader.connections if c.msgtype in (JOINTS, ODOMETRY, TRAJECTORY, *NUMBERS)]
            read: dict[str, list[tuple[int, Any]]] = {}
            kinds = {c.topic: c.msgtype for c in wanted}
            for connection, stamp, data in reader.messages(connections=wanted):
                message = reader.deserialize(data, connection.msgtype)
                read.setdefault(connection.topic, []).append((_stamp(message, stamp), message))
    except (AnyReaderError, KeyError, ValueError, AttributeError) as error:
        raise RookeryError(f"{path} is no ROS 2 recording that can be read: {one_line(error)}.") from error
    first = min((stamp for listed in read.values() for stamp, _ in listed), default=0)
    messages = {topic: [(1e-9 * (stamp - first), m) for stamp, m in listed] for topic, listed in read.items()}
    odometry = [t for t, kind in kinds.items() if kind == ODOMETRY and t in messages]
    return _flown(path, messages, kinds, odometry[0]) if odometry else _jointed(path, messages, kinds)


def _stamp(message: Any, recorded: int) -> int:
    """ns: of the message's header; where it has none, of the recording."""
    stamp = getattr(getattr(message, "header", None), "stamp", None)
    return recorded if stamp is None or stamp.sec == 0 else 10**9 * int(stamp.sec) + int(stamp.nanosec)


def _is_command(topic: str) -> bool:
    return any(word in topic.lower() for word in COMMANDS)


def _jointed(path: Path, messages: dict[str, list[tuple[float, Any]]], kinds: dict[str, str]) -> Table:
    measured = [t for t in messages if kinds[t] == JOINTS and not _is_command(t)]
    commands = [t for t in messages if _is_command(t)]
    if len(measured) != 1 or len(commands) != 1:
        raise RookeryError(
            f"{path} needs one topic of measured joints ({JOINTS}) and one of their commands, and has "
            f"{', '.join(f'{t} ({kinds[t]})' for t in messages) or 'neither'}."
        )
    states = messages[measured[0]]
    names = [str(n) for n in states[0][1].name]
    at = np.array([t for t, _ in states])
    streams: dict[str, tuple[Any, Any]] = {}
    for ours, theirs in (("position", "position"), ("velocity", "velocity"), ("torque", "effort")):
        rows = [np.asarray(getattr(m, theirs), float) for _, m in states]
        if all(len(r) == len(names) for r in rows):
            table = np.array(rows)
            streams |= {f"{ours}.{n}": (at, table[:, i]) for i, n in enumerate(names)}
    told = [(t, _targets(m, names)) for t, m in messages[commands[0]]]
    told = [(t, row) for t, row in told if row is not None]
    if not told:
        raise RookeryError(
            f"{path}: the commands in {commands[0]} have no position for each of the joints {', '.join(names)}."
        )
    times, table = np.array([t for t, _ in told]), np.array([row for _, row in told])
    held = [f"target.{n}" for n in names]
    streams |= {name: (times, table[:, i]) for i, name in enumerate(held)}
    return Table(str(path), merge(streams, f"position.{names[0]}", held))


def _targets(message: Any, names: list[str]) -> np.ndarray | None:
    """Positions [J] that a command asks for; None where it lacks some."""
    if hasattr(message, "data"):
        row = np.asarray(message.data, float)
        return row if len(row) == len(names) else None
    theirs = list(getattr(message, "joint_names", getattr(message, "name", [])))
    points = getattr(message, "points", None)
    row = np.asarray(message.position if points is None else points[0].positions if points else [], float)
    if len(row) != len(theirs) or not set(names) <= set(theirs):
        return None
    return row[[theirs.index(n) for n in names]]


def _flown(path: Path, messages: dict[str, list[tuple[float, Any]]], kinds: dict[str, str], odometry: str) -> Table:
    motors = [t for t in messages if kinds[t] in NUMBERS and len(messages[t][0][1].data) == 4]
    if len(motors) != 1:
        raise RookeryError(f"{path} needs one topic of four motor commands in 0 to 1 beside {odometry} ({NUMBERS[0]}).")
    poses = messages[odometry]
    at = np.array([t for t, _ in poses])
    turning = [m.pose.pose.orientation for _, m in poses]
    q = [(o.w, o.x, o.y, o.z) for o in turning]
    turned = continuous(np.array(q, float))
    parts = {
        "position": [m.pose.pose.position for _, m in poses],
        "body_velocity": [m.twist.twist.linear for _, m in poses],
        "angular_velocity": [m.twist.twist.angular for _, m in poses],
    }
    streams: dict[str, tuple[Any, Any]] = {f"quaternion.{a}": (at, turned[:, i]) for i, a in enumerate("wxyz")}
    for name, vectors in parts.items():
        streams |= {f"{name}.{a}": (at, np.array([getattr(v, a) for v in vectors], float)) for a in "xyz"}
    told = messages[motors[0]]
    held = [f"motors.{i}" for i in range(1, 5)]
    times, table = np.array([t for t, _ in told]), np.array([np.asarray(m.data, float) for _, m in told])
    streams |= {name: (times, table[:, i]) for i, name in enumerate(held)}
    return Table(str(path), merge(streams, "position.x", held))
