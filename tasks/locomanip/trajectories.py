"""Trajectories of a gripper: what a mobile manipulator is to follow, and the file that holds them.

A trajectory gives, at each time, the pose of the tool centre point (x forward out of the gripper, z up at home), how far
the gripper is open, and the velocity command of the base. docs/trajectories.md describes the file, array by array.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_npz
from rookery.tasks.locomanip.trajectory_checks import GO2_AIRBOT, TrajectoryLimits, check
from rookery.tasks.locomanip.trajectory_math import Floats, slerp

VERSION = 1
FRAMES = ("start", "base")
UNITS = {
    "t": "s",
    "pos": "m",
    "quat": "wxyz",
    "gripper": "m",
    "base_command": "m/s, m/s, rad/s",
    "object_pos": "m",
    "object_quat": "wxyz",
}
_SAMPLES = ("t", "pos", "quat", "gripper", "base_command")
_LABELS = ("frame", "family", "name", "seed")
_OBJECTS = ("object_name", "object_pos", "object_quat")
_FLOATS = (*_SAMPLES, "object_pos", "object_quat")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One demonstration. All arrays are float64.

    Attributes:
        t: times [T], s, from 0.
        pos: tool centre point [T, 3], m, in `frame`.
        quat: its orientation [T, 4], w x y z, unit, in `frame`.
        gripper: opening between the fingers [T], m, 0 closed.
        base_command: vx, vy m/s and yaw rate rad/s [T, 3], body frame; row i holds from t[i] to t[i + 1], the last row
            for no time.
        frame: "start": z up, origin on the ground below the trunk at t = 0, x along its heading then. "base": the
            trunk's own frame at each time (origin in the trunk, x forward, y left, z up).
        family, name, seed: where it comes from.
        object_name, object_pos [n, 3] m, object_quat [n, 4]: where things stand at t = 0, in `frame`.
    """

    t: Floats
    pos: Floats
    quat: Floats
    gripper: Floats
    base_command: Floats
    frame: str = "start"
    family: str = ""
    name: str = ""
    seed: int = 0
    object_name: tuple[str, ...] = ()
    object_pos: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    object_quat: Floats = field(default_factory=lambda: np.zeros((0, 4)))


def save(path: str | os.PathLike[str], trajectories: Sequence[Trajectory]) -> None:
    """Write trajectories to one npz file, whole or not at all. The same trajectories give the same bytes."""
    if not trajectories:
        raise RookeryError(f"no trajectories to write to {os.fspath(path)}: give at least one.")
    arrays: dict[str, Any] = {"version": np.array(VERSION), "units": np.array(list(UNITS.items()))}
    arrays["first"] = np.cumsum([0, *(len(x.t) for x in trajectories)])
    arrays["object_first"] = np.cumsum([0, *(len(x.object_name) for x in trajectories)])
    for name in _FLOATS:
        arrays[name] = np.concatenate([np.asarray(getattr(x, name), np.float64) for x in trajectories])
    for name in _LABELS:
        arrays[name] = np.array([getattr(x, name) for x in trajectories])
    arrays["object_name"] = np.array([n for x in trajectories for n in x.object_name], dtype=np.str_)
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    with open(partial, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(partial, target)


def load(path: str | os.PathLike[str], limits: TrajectoryLimits | None = GO2_AIRBOT) -> list[Trajectory]:
    """Read trajectories and check units, continuity and reach.

    Args:
        path: the npz file.
        limits: what `rookery.tasks.locomanip.trajectory_checks.check` holds them to; None takes them as they are.

    Returns:
        The trajectories; where a quaternion's sign flipped between samples, it is turned back.

    Raises:
        RookeryError: no such file, no trajectory file, another version or other units, or a trajectory that fails.
    """
    arrays = _read(Path(path))
    where = os.fspath(path)
    _check_file(arrays, where)
    out = []
    objects = arrays["object_first"]
    for k, (a, b) in enumerate(zip(arrays["first"][:-1], arrays["first"][1:], strict=True)):
        own = slice(objects[k], objects[k + 1])
        trajectory = Trajectory(
            **{name: arrays[name][a:b] for name in _SAMPLES},
            **{name: arrays[name][k].item() for name in _LABELS},
            object_name=tuple(arrays["object_name"][own].tolist()),
            object_pos=arrays["object_pos"][own],
            object_quat=arrays["object_quat"][own],
        )
        out.append(trajectory if limits is None else check(trajectory, limits, f"{where}, trajectory {k}"))
    return out


def resample(trajectory: Trajectory, dt: float) -> Trajectory:
    """The same motion at the times 0, dt, 2 dt, ... up to the first that is not before the end.

    Positions and openings are interpolated linearly, orientations by slerp, and the base command is its mean over each
    new step, so that the base ends where it did. The last row of the command is zero: at the end the base stands.
    """
    old = trajectory.t
    steps = int(np.ceil(old[-1] / dt - 1e-6))
    new: Floats = np.arange(steps + 1, dtype=np.float64) * dt
    at = np.clip(np.searchsorted(old, new, side="right") - 1, 0, len(old) - 2)
    share = np.clip((new - old[at]) / (old[at + 1] - old[at]), 0.0, 1.0)
    pos = trajectory.pos[at] + share[:, None] * (trajectory.pos[at + 1] - trajectory.pos[at])
    way = np.concatenate((np.zeros((1, 3)), np.cumsum(np.diff(old)[:, None] * trajectory.base_command[:-1], axis=0)))
    moved = np.stack([np.interp(new, old, way[:, i]) for i in range(3)], axis=1)
    return replace(
        trajectory,
        t=new,
        pos=pos,
        quat=slerp(trajectory.quat[at], trajectory.quat[at + 1], share),
        gripper=np.interp(new, old, trajectory.gripper),
        base_command=np.concatenate((np.diff(moved, axis=0) / dt, np.zeros((1, 3)))),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_npz(path)
    except FileNotFoundError:
        raise RookeryError(f"there is no trajectory file {path}: check the path.") from None
    except (ValueError, OSError) as error:
        raise RookeryError(
            f"{path} is not a trajectory file ({error}): write it with rookery.tasks.locomanip.trajectories.save."
        ) from None


def _check_file(arrays: dict[str, Any], where: str) -> None:
    """Names, version, units and counts of what the file holds; each trajectory's content is `check`'s business."""
    needed = {"version", "units", "first", "object_first", *_FLOATS, *_LABELS, "object_name"}
    if missing := sorted(needed - set(arrays)):
        raise RookeryError(f"{where} lacks {', '.join(missing)}: see docs/trajectories.md for what a file holds.")
    if (version := arrays["version"].tolist()) != VERSION:
        raise RookeryError(
            f"{where} is version {repr(version)[:20]}, this Rookery reads version {VERSION}: write it again."
        )
    units = {str(row[0]): str(row[-1]) for row in np.atleast_2d(arrays["units"])}
    for name, unit in UNITS.items():
        if units.get(name) != unit:
            given = f"in {units[name]!r}" if name in units else "without a unit"
            raise RookeryError(f"{where} has {name} {given}: convert it to {unit!r}, and say so in `units`.")
    for name in _FLOATS:
        if arrays[name].dtype.kind != "f":
            raise RookeryError(f"{where} has {name} of type {arrays[name].dtype}: store it as float64.")
    for offsets, names in (("first", _SAMPLES), ("object_first", _OBJECTS)):
        first = arrays[offsets]
        counts = {len(arrays[name]) if arrays[name].ndim else -1 for name in names}
        known = {len(arrays[name]) if arrays[name].ndim else -1 for name in _LABELS}
        whole = first.ndim == 1 and first.dtype.kind in "iu" and len(first) > 1 and known == {len(first) - 1}
        if not whole or first[0] != 0 or counts != {int(first[-1])} or (np.diff(first) < 0).any():
            raise RookeryError(
                f"{where} has a {offsets!r} that does not fit its {', '.join(names)} and {', '.join(_LABELS)}: "
                "give n + 1 offsets from 0 to their length, and n labels."
            )
