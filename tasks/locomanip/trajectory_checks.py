"""Properties that a trajectory must have before a robot may follow it: complete, continuous, in SI units, and within reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.locomanip.trajectory_math import Floats, angle_between, base_path

if TYPE_CHECKING:
    from rookery.tasks.locomanip.trajectories import Trajectory


@dataclass(frozen=True)
class TrajectoryLimits:
    """Limits that `check` allows. The defaults fit a Go2 with an Airbot Play on its back.

    The shoulder is 0.207 m above the trunk's centre: 0.0945 m to the arm's base (UniLab's go2_with_arm) and 0.1127 m to its
    second joint (airbot_force.urdf). The trunk's centre stands 0.30 m high (UniLab's go2_arm). From the shoulder, links of
    0.270 m and 0.290 m and 0.236 m from the wrist to the tool centre reach 0.797 m stretched out; `reach` leaves room to move.
    """

    speed: float = 2.0
    """m/s, between two samples."""
    turn_rate: float = 6.0
    """rad/s, between two samples."""
    gap: float = 0.1
    """s, between two samples."""
    quat_error: float = 1e-3
    """of the norm from 1."""
    farthest: float = 10.0
    """m, any coordinate: beyond it, the numbers are hardly meters."""
    widest: float = 0.3
    """m, opening of a gripper."""
    base_speed: float = 3.0
    """m/s."""
    base_turn_rate: float = 3.15
    """rad/s."""
    stand_height: float = 0.30
    """m, trunk centre above the ground."""
    shoulder: tuple[float, float, float] = (0.0, 0.0, 0.207)
    """m, in the trunk's frame."""
    reach: float = 0.75
    """m, from the shoulder to the tool centre point."""
    lowest: float = -0.02
    """m, above the ground."""


GO2_AIRBOT = TrajectoryLimits()


def check(trajectory: Trajectory, limits: TrajectoryLimits = GO2_AIRBOT, where: str = "trajectory") -> Trajectory:
    """Refuse a trajectory that no robot should follow.

    Samples need not be evenly spaced in time; `rookery.tasks.locomanip.trajectories.resample` makes them so.

    Args:
        trajectory: what to check.
        limits: what is allowed.
        where: the file and the number, for the message.

    Returns:
        The trajectory with the signs of its quaternions made continuous (q and -q are the same rotation).

    Raises:
        RookeryError: with the first fault in it: what, where, at which time, and the way out.
    """
    where = f"{where} ({trajectory.name})" if trajectory.name else where
    _check_shapes(trajectory, where)
    _check_time(trajectory, limits, where)
    _check_units(trajectory, limits, where)
    _check_quaternions(trajectory, limits, where)
    _check_jumps(trajectory, limits, where)
    _check_reach(trajectory, limits, where)
    flips = np.where((trajectory.quat[1:] * trajectory.quat[:-1]).sum(1) < 0.0, -1.0, 1.0)
    signs = np.concatenate(([1.0], np.cumprod(flips)))
    return replace(trajectory, quat=trajectory.quat * signs[:, None])


def shoulder_path(trajectory: Trajectory, limits: TrajectoryLimits) -> Floats:
    """Places of the shoulder at each time [T, 3], m, in the trajectory's frame, if the base follows its commands."""
    x, y, z = limits.shoulder
    if trajectory.frame == "base":
        return np.tile([x, y, z], (len(trajectory.t), 1))
    base = base_path(trajectory.t, trajectory.base_command)
    cos = np.cos(base[:, 2])
    sin = np.sin(base[:, 2])
    height = np.full(len(base), z + limits.stand_height)
    return np.stack((base[:, 0] + cos * x - sin * y, base[:, 1] + sin * x + cos * y, height), axis=1)


def _check_shapes(trajectory: Trajectory, where: str) -> None:
    if trajectory.frame not in ("start", "base"):
        raise RookeryError(f"{where}: {unknown('frame', trajectory.frame, ('start', 'base'))}")
    T, n = len(np.atleast_1d(trajectory.t)), len(trajectory.object_name)
    if T < 2:
        raise RookeryError(f"{where} has {T} samples: give at least two.")
    shapes: dict[str, tuple[int, ...]] = {"t": (T,), "pos": (T, 3), "quat": (T, 4), "gripper": (T,)}
    shapes |= {"base_command": (T, 3), "object_pos": (n, 3), "object_quat": (n, 4)}
    for name, shape in shapes.items():
        array = getattr(trajectory, name)
        if array.shape != shape:
            raise RookeryError(f"{where}: {name} has shape {array.shape}: give {shape}.")
        bad = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        if bad.any():
            row = int(np.argmax(bad))
            raise RookeryError(f"{where}: {name} is not finite in row {row}: leave that sample out, or repair it.")


def _check_time(trajectory: Trajectory, limits: TrajectoryLimits, where: str) -> None:
    t = trajectory.t
    if abs(t[0]) > 1e-9:
        raise RookeryError(f"{where} starts at t = {t[0]:.3f} s: subtract the first time, so that it starts at 0.")
    step = np.diff(t)
    _refuse(step <= 0.0, t, where, lambda i: "time does not increase: sort the samples and drop repeated ones")
    _refuse(
        step > limits.gap,
        t,
        where,
        lambda i: (
            f"the next sample is {step[i]:.4g} s later, allowed {limits.gap:g} s: record faster, split the "
            "demonstration there, or convert t to seconds if it is in milliseconds"
        ),
    )


def _check_units(trajectory: Trajectory, limits: TrajectoryLimits, where: str) -> None:
    t = trajectory.t
    speed = trajectory.base_command[:, :2]
    rate = trajectory.base_command[:, 2]
    largest = np.abs(trajectory.pos).max(1)
    _refuse(
        largest > limits.farthest,
        t,
        where,
        lambda i: f"pos reaches {largest[i]:.4g} m, which looks like millimeters or centimeters: convert it to meters",
    )
    _refuse(
        (trajectory.gripper > limits.widest) | (trajectory.gripper < -1e-9),
        t,
        where,
        lambda i: (
            f"the gripper's opening is {trajectory.gripper[i]:.4g}, allowed 0 to {limits.widest:g} m: convert it to "
            "meters between the fingers, 0 closed"
        ),
    )
    _refuse(
        np.abs(speed).max(1) > limits.base_speed,
        t,
        where,
        lambda i: (
            f"the base's command is {np.abs(speed[i]).max():.4g} m/s, allowed {limits.base_speed:g}: convert it to m/s"
        ),
    )
    _refuse(
        np.abs(rate) > limits.base_turn_rate,
        t,
        where,
        lambda i: (
            f"the base's yaw rate command is {rate[i]:.4g} rad/s, which looks like degrees per second: convert it "
            "to rad/s"
        ),
    )
    if np.abs(trajectory.object_pos).max(initial=0.0) > limits.farthest:
        raise RookeryError(
            f"{where}: object_pos reaches {np.abs(trajectory.object_pos).max():.4g} m, which looks like millimeters: "
            "convert it to meters."
        )


def _check_quaternions(trajectory: Trajectory, limits: TrajectoryLimits, where: str) -> None:
    norm = np.linalg.norm(trajectory.quat, axis=1)
    _refuse(
        np.abs(norm - 1.0) > limits.quat_error,
        trajectory.t,
        where,
        lambda i: f"quat has norm {norm[i]:.4g}, not 1: normalize it, in the order w, x, y, z",
    )
    norm = np.linalg.norm(trajectory.object_quat, axis=1)
    if (np.abs(norm - 1.0) > limits.quat_error).any():
        raise RookeryError(
            f"{where}: an object_quat has norm {norm[np.argmax(abs(norm - 1))]:.4g}, not 1: normalize it."
        )


def _check_jumps(trajectory: Trajectory, limits: TrajectoryLimits, where: str) -> None:
    step = np.diff(trajectory.t)
    speed = np.linalg.norm(np.diff(trajectory.pos, axis=0), axis=1) / step
    _refuse(
        speed > limits.speed,
        trajectory.t,
        where,
        lambda i: (
            f"pos jumps {speed[i] * step[i]:.3g} m to the next sample ({speed[i]:.3g} m/s, allowed "
            f"{limits.speed:g}): split the demonstration there, or smooth it"
        ),
    )
    rate = angle_between(trajectory.quat[:-1], trajectory.quat[1:]) / step
    _refuse(
        rate > limits.turn_rate,
        trajectory.t,
        where,
        lambda i: (
            f"quat jumps {rate[i] * step[i]:.3g} rad to the next sample ({rate[i]:.3g} rad/s, allowed "
            f"{limits.turn_rate:g}): split the demonstration there, or smooth it"
        ),
    )


def _check_reach(trajectory: Trajectory, limits: TrajectoryLimits, where: str) -> None:
    away = np.linalg.norm(trajectory.pos - shoulder_path(trajectory, limits), axis=1)
    _refuse(
        away > limits.reach,
        trajectory.t,
        where,
        lambda i: (
            f"pos is {away[i]:.3g} m from where the shoulder will be, out of the arm's reach of {limits.reach:g} m: "
            "bring the base nearer with base_command, or drop the trajectory"
        ),
    )
    if trajectory.frame == "start":
        height = trajectory.pos[:, 2]
        _refuse(
            height < limits.lowest,
            trajectory.t,
            where,
            lambda i: f"pos is {-height[i]:.3g} m below the ground: in frame 'start', z = 0 is the ground",
        )


def _refuse(wrong: NDArray[np.bool_], t: Floats, where: str, sentence: Callable[[int], str]) -> None:
    """Raise for the first wrong sample, if there is one."""
    if wrong.any():
        i = int(np.argmax(wrong))
        raise RookeryError(f"{where} at t = {t[i]:.3f} s: {sentence(i)}.")
