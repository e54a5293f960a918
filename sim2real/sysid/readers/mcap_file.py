"""MCAP: our flight logs (rookery.sim2real.runtime.flight_log); others are ROS 2 recordings."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.flown import read_flight
from rookery.sim2real.sysid.readers.reading import needs
from rookery.sim2real.sysid.table import Table, merge

CUT = "its end is missing, as of a program that was killed: what stands before is used."
QUANTITIES = {
    "joint angles": "position", "joint velocities": "velocity", "joint torques": "torque", "position": "position",
    "velocity": "velocity", "rotation": "quaternion", "angular velocity": "angular_velocity",
}  # fmt: skip
"""Our columns by the names of measured quantities."""
JOINTED = ("joint angles", "joint velocities", "joint torques")
LEAST_TURNING = 0.1
"""rad/s, rms of a trunk that is not held; gyroscopes' noise and a stand that gives are some 0.02."""
FLOWN = ("position", "velocity", "rotation", "angular velocity")


def read(path: Path) -> Table:
    """The first vehicle's steps; see rookery.sim2real.sysid.readers.reading."""
    try:
        flight = read_flight(path)
    except ImportError:
        raise needs("mcap", path) from None
    if flight is None:
        from rookery.sim2real.sysid.readers.ros2 import read as read_ros

        return read_ros(path)
    steps = next(iter(flight.vehicles.values()), [])
    flown = [s for s in steps if s.get("phase") == "policy" and "command" in s and "measured" in s]
    if len(flown) < 2:
        raise RookeryError(f"{path} has {len(flown)} steps of a policy with measurements and commands, and needs many.")
    table = _table(path, flown, flight.contract)
    return replace(table, notes=(*table.notes, CUT)) if flight.cut else table


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
    if jointed:
        _check_held(path, steps)
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


def _check_held(path: Path, steps: list[dict[str, Any]]) -> None:
    """Refuse a robot that walks: the model that is fitted is held by its base.

    Raises:
        RookeryError: its trunk turns.
    """
    turning = [s["state"].get("angular velocity") for s in steps]
    rates = np.array([[0.0 if x is None else x for x in t] for t in turning if t is not None], float).reshape(-1, 3)
    rms = math.sqrt(float((rates**2).sum(axis=1).mean())) if len(rates) else 0.0
    if rms > LEAST_TURNING:
        raise RookeryError(
            f"{path} is of a robot whose trunk turns at {rms:.2f} rad/s, and a robot is identified that is held by its trunk, "
            "clear of everything: hold it so and play a motion of `rookery sysid --design` by `rookery fly --motion`."
        )


def _axes(quantity: str, width: int) -> list[str]:
    parts = "wxyz" if width == 4 else "xyz"
    return list(parts) if quantity in FLOWN and width <= 4 else [str(i) for i in range(width)]
