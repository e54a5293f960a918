"""Checks of logs: each fault is one sentence with the way out, before anything is fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.jointed.robot import JointedRobot
from rookery.sim2real.sysid.logs import JointLog
from rookery.sim2real.sysid.velocities import judge_velocities

Array = NDArray[np.float64]
LEAST_S = 2.0
LEAST_SAMPLES = 100
GAP = 3.5
"""A pause of this many sample periods is a gap."""
SLOWEST_S = 0.1
"""s, longest period of samples; motors answer within less."""
BEYOND = 0.5
"""rad, by which angles may be outside of the model's limits: zeros and limits of models differ a little from the robot's."""
STILL_RAD = 2e-3
"""Standard deviation below which a joint does not move."""
SATURATED = 0.5
"""Share of samples in which a motor may be asked for more than it has."""


def check_times(source: str, time: Array, skip_gaps: bool, unit_given: bool) -> tuple[int, ...]:
    """First samples of the stretches without gaps.

    Raises:
        RookeryError: times that are not finite, do not increase, are not in seconds, have gaps, or are too few.
    """
    if len(time) < 2 or not np.isfinite(time).all():
        raise RookeryError(f"{source} has {len(time)} samples, or times that are no numbers: it needs {LEAST_SAMPLES}.")
    steps = np.diff(time)
    if (steps <= 0.0).any():
        at = int(np.flatnonzero(steps <= 0.0)[0])
        raise RookeryError(
            f"{source}: sample {at + 1} is at {time[at + 1]:.6g} s, not after sample {at} at {time[at]:.6g} s: sort the log by "
            "time, and leave out samples that are there twice."
        )
    period = float(np.median(steps))
    if period > SLOWEST_S or period < 1e-5:
        guess = "" if unit_given else "; if its times are not in seconds, give --time-unit"
        raise RookeryError(f"{source} has a sample every {period:.4g} s, and needs 1e-05 to {SLOWEST_S:g} s{guess}.")
    if len(time) < LEAST_SAMPLES or time[-1] - time[0] < LEAST_S:
        raise RookeryError(
            f"{source} has {len(time)} samples in {time[-1] - time[0]:.2f} s: too short to identify anything, log at least "
            f"{LEAST_SAMPLES} in {LEAST_S:g} s."
        )
    gaps = np.flatnonzero(steps > GAP * period)
    if len(gaps) and not skip_gaps:
        raise RookeryError(
            f"{source} has {len(gaps)} gaps, the first of {steps[gaps[0]]:.3g} s after {time[gaps[0]]:.2f} s, where samples "
            f"come every {period:.3g} s: --skip-gaps takes the stretches between them, each by itself."
        )
    return (0, *(int(i) + 1 for i in gaps))


def check_joints(log: JointLog, robot: JointedRobot, degrees: bool) -> JointLog:
    """The log, without what cannot be believed, and with notes on it.

    Raises:
        RookeryError: what makes it useless.
    """
    for name in ("position", "target", "velocity", "target_velocity", "feedforward", "torque"):
        values = getattr(log, name)
        if values is not None and not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise RookeryError(
                f"{log.source}: {name} of {log.joints[column]} at {log.time[row]:.3f} s is no number: leave such samples out."
            )
    _check_angles(log, robot, degrees)
    log = _drop_short(log)
    moving = log.position.std(axis=0) > STILL_RAD
    if not moving.any():
        raise RookeryError(
            f"{log.source}: no joint moves, so nothing can be identified: log a motion (--design makes one)."
        )
    notes = []
    if not moving.all():
        notes.append(
            f"{_names(log, ~moving)} do not move: what is said of them comes from other joints or from nothing."
        )
    log = judge_velocities(replace(log, notes=(*log.notes, *notes)))  # first: those that err ask for wrong torques
    return replace(log, notes=(*log.notes, *_saturation(log, robot)))


def _check_angles(log: JointLog, robot: JointedRobot, degrees: bool) -> None:
    for name in ("position", "target"):
        values = getattr(log, name)
        outside = (values < robot.lower - BEYOND) | (values > robot.upper + BEYOND)
        if name == "target":  # a target may be beyond a limit to press against it
            outside = np.abs(values) > 2.0 * np.pi + np.maximum(np.abs(robot.lower), np.abs(robot.upper))
        wrong = outside.mean(axis=0) > 0.05
        if wrong.any():
            column = int(np.flatnonzero(wrong)[0])
            in_degrees = np.abs(values[:, column]).max() > 2.0 * np.pi
            hint = "check the order of the joints"
            if degrees:
                hint += ", and leave --degrees out if these are radians"
            elif in_degrees:
                hint = "give --degrees if these are degrees"
            raise RookeryError(
                f"{log.source}: {name} of {log.joints[column]} goes from {values[:, column].min():.3g} to "
                f"{values[:, column].max():.3g} rad, and {robot.name}'s joint from {robot.lower[column]:.3g} to "
                f"{robot.upper[column]:.3g}: {hint}."
            )


def _drop_short(log: JointLog) -> JointLog:
    """Without stretches that are too short to be simulated again."""
    ends = [*log.pieces[1:], len(log.time)]
    kept = [(a, b) for a, b in zip(log.pieces, ends, strict=True) if log.time[b - 1] - log.time[a] >= 0.5 * LEAST_S]
    if not kept:
        raise RookeryError(
            f"{log.source}: between its gaps there is no stretch of {0.5 * LEAST_S:g} s: log without so many gaps."
        )
    if len(kept) == len(log.pieces):
        return log
    rows = np.concatenate([np.arange(a, b) for a, b in kept])
    pieces = tuple(np.cumsum([0, *(b - a for a, b in kept[:-1])]).tolist())
    each: dict[str, Any] = {
        name: None if (values := getattr(log, name)) is None else values[rows]
        for name in ("time", "position", "target", "velocity", "target_velocity", "feedforward", "torque")
    }
    note = (
        f"{len(log.pieces) - len(kept)} stretches between gaps are shorter than {0.5 * LEAST_S:g} s and were left out."
    )
    return replace(log, pieces=pieces, notes=(*log.notes, note), **each)


def _saturation(log: JointLog, robot: JointedRobot) -> list[str]:
    """Notes on motors that were asked for more torque than they have.

    Raises:
        RookeryError: one is, most of the time.
    """
    velocity = np.gradient(log.position, log.time, axis=0) if log.velocity is None else log.velocity
    asked = log.kp * (log.target - log.position) - log.kd * velocity
    if log.target_velocity is not None:
        asked = asked + log.kd * log.target_velocity
    if log.feedforward is not None:
        asked = asked + log.feedforward
    share = (np.abs(asked) > robot.torque).mean(axis=0)
    if share.max() > SATURATED:
        column = int(share.argmax())
        raise RookeryError(
            f"{log.source}: the motor of {log.joints[column]} is saturated in {100 * share[column]:.0f} % of the samples, "
            f"asked for more than {robot.torque[column]:.3g} N m: log a gentler motion, or check units and --kp "
            f"({log.kp[column]:g} N m/rad)."
        )
    if share.max() > 0.01:
        column = int(share.argmax())
        return [
            f"motors are asked for more torque than they have in up to {100 * share[column]:.0f} % of the samples "
            f"({log.joints[column]}): that shows their limits, and hides what else there is."
        ]
    return []


def _names(log: JointLog, chosen: NDArray[np.bool_]) -> str:
    return ", ".join(name for name, there in zip(log.joints, chosen, strict=True) if there)
