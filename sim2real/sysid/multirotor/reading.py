"""The log of a multirotor from a table of columns, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY, DroneParameters
from rookery.sim2real.sysid.checks import LEAST_S, check_times
from rookery.sim2real.sysid.logs import MultirotorLog
from rookery.sim2real.sysid.readers.ulog import continuous
from rookery.sim2real.sysid.settings import LogSettings, times
from rookery.sim2real.sysid.table import AXES, Table

Array = NDArray[np.float64]
FLYING = 0.3
"""Share of the weight that rotors of a drone in the air push with, by the nominal model."""
PIECE_S = 1.2  # s, least time in the air of a stretch that is used
FULL = 0.99
"""Command from which a motor counts as saturated."""
SATURATED = 0.5
FAR_M = 1e5  # m, where the resolution of a position ends
OTHER_UNIT = 30.0
"""Factor of the change of positions over velocities that only another unit makes."""
JUMP, JUMP_M, JUMP_RAD = 20.0, 0.05, 0.1
"""An estimate is reset where it moves on by more than its rates say: this many medians, and this far."""
AGREES = 0.15
"""Difference of the factor between rates and the change of the attitude from 1 that noise explains."""


def flight_log(table: Table, settings: LogSettings, drone: DroneParameters) -> MultirotorLog:
    """The log of a flight, without what is on the ground.

    Raises:
        RookeryError: something is missing or wrong.
    """
    table = table.renamed(settings.columns)
    source = table.source
    position, quaternion = (table.gather(name, AXES[name]) for name in ("position", "quaternion"))
    motors = _motors(table, drone)
    if position is None or quaternion is None or motors is None:
        raise RookeryError(
            f"{source} needs position, quaternion (wxyz) and motors (commands in 0 to 1), and has "
            f"{', '.join(list(table.columns)[:24])}: name them with --columns, such as --columns 'motors=m_*'."
        )
    time = times(table, settings, len(position))
    pieces = check_times(source, time, bool(settings.skip_gaps), settings.time_unit is not None)
    norm = np.linalg.norm(quaternion, axis=1)
    _finite(source, "position", position)
    _finite(source, "quaternion", quaternion)
    if np.abs(position).max() > FAR_M:
        raise RookeryError(
            f"{source}: positions go to {np.abs(position).max():.3g} m: give them in m from a place nearby."
        )
    if np.abs(norm - 1.0).max() > 0.1:
        raise RookeryError(
            f"{source}: quaternions have lengths from {norm.min():.3g} to {norm.max():.3g}, and must have 1."
        )
    quaternion = continuous(quaternion / norm[:, None])
    notes = list(table.notes)
    velocity = _velocity(table, time, position, quaternion, notes)
    rate = _rate(table, settings, time, quaternion, notes)
    pieces = _between_resets(time, pieces, _steps(time, position, velocity, quaternion, rate), notes)
    log = MultirotorLog(source, time, position, quaternion, velocity, rate, motors, pieces, tuple(notes))
    return _in_the_air(log, drone)


def _steps(time: Array, position: Array, velocity: Array, quaternion: Array, rate: Array) -> Array:
    """[2, T - 1] of each step: m and rad that position and attitude move beyond what velocity and rate say."""
    dt = np.diff(time)[:, None]
    moved = np.diff(position, axis=0) - 0.5 * (velocity[1:] + velocity[:-1]) * dt
    (w0, v0), (w1, v1) = ((q[:, :1], q[:, 1:]) for q in (quaternion[:-1], quaternion[1:]))
    w = w0 * w1 + (v0 * v1).sum(axis=1, keepdims=True)
    turned_by = 2.0 * np.sign(w) * (w0 * v1 - w1 * v0 - np.cross(v0, v1))
    return np.stack([np.linalg.norm(x, axis=1) for x in (moved, turned_by - 0.5 * (rate[1:] + rate[:-1]) * dt)])


def _between_resets(time: Array, pieces: tuple[int, ...], steps: Array, notes: list[str]) -> tuple[int, ...]:
    """First samples of the stretches in which the estimate goes on without a jump."""
    within = np.ones(steps.shape[1], bool)
    within[[p - 1 for p in pieces if p]] = False  # a gap is no reset
    limit = np.maximum(JUMP * np.median(steps, axis=1), (JUMP_M, JUMP_RAD))
    cuts = np.flatnonzero((steps > limit[:, None]).any(axis=0) & within)
    if len(cuts):
        far, angle = steps[:, cuts[0]]
        notes.append(
            f"the estimate jumps by {far:.2g} m and {angle:.2g} rad at {time[cuts[0]]:.2f} s, as an estimator does that is "
            f"reset{f', and in {len(cuts) - 1} more steps' if len(cuts) > 1 else ''}: stretches between count each by itself."
        )
    return tuple(sorted({*pieces, *(int(c) + 1 for c in cuts)}))


def _finite(source: str, name: str, values: Array) -> None:
    if not np.isfinite(values).all():
        raise RookeryError(f"{source}: {name} has values that are no numbers: leave such samples out.")


def _motors(table: Table, drone: DroneParameters) -> Array | None:
    """[T, 4] commands in 0 to 1; thrusts in N become those that the nominal curve gives."""
    count = len(table.components("motors"))
    if count > len(AXES["motors"]):
        raise RookeryError(f"{table.source} has {count} motors: multirotors of four rotors are identified.")
    motors = table.gather("motors", AXES["motors"])
    thrust = table.gather("thrust", AXES["motors"])
    if motors is None and thrust is not None:
        return np.vectorize(drone.speed_for_thrust)(thrust)
    if motors is None:
        return None
    _finite(table.source, "motors", motors)
    if np.nanmax(motors) > 1.5 or np.nanmin(motors) < -0.01:
        low, high = float(np.nanmin(motors)), float(np.nanmax(motors))
        guess = (
            "pulses in us: subtract 1000 and divide by 1000"
            if 500.0 < high < 2500.0
            else "PWM: divide by its greatest value"
        )
        raise RookeryError(
            f"{table.source}: motors go from {low:.4g} to {high:.4g}, and must be in 0 to 1; if these are {guess}."
        )
    return np.clip(motors, 0.0, 1.0)


def _velocity(table: Table, time: Array, position: Array, quaternion: Array, notes: list[str]) -> Array:
    derived = np.asarray(np.gradient(position, time, axis=0))
    velocity = table.gather("velocity", AXES["velocity"])
    body = table.gather("body_velocity", AXES["velocity"])
    if velocity is None and body is not None:
        velocity = turned(quaternion, body)
    if velocity is not None:
        _finite(table.source, "velocity", velocity)
    if velocity is None:
        notes.append("the log has no velocities: they are the change of the positions.")
        return derived
    factor = _factor(velocity, derived)
    if abs(factor) > OTHER_UNIT:
        raise RookeryError(
            f"{table.source}: positions change {factor:.3g} times as fast as its velocities say: give both in m and m/s, or "
            "leave the velocities out."
        )
    if abs(factor - 1.0) > AGREES:
        notes.append(
            f"velocities disagree with the change of the positions, which is {factor:.2f} of them: that is used."
        )
        return derived
    return velocity


def _rate(table: Table, settings: LogSettings, time: Array, quaternion: Array, notes: list[str]) -> Array:
    derived = _turning(time, quaternion)
    rate = table.gather("angular_velocity", AXES["angular_velocity"])
    if rate is None:
        notes.append("the log has no angular velocities: they are the change of the attitude.")
        return derived
    _finite(table.source, "angular_velocity", rate)
    rate = rate * (np.pi / 180.0 if settings.degrees else 1.0)
    factor = _factor(rate, derived)
    if abs(factor * 180.0 / np.pi - 1.0) < 0.3:
        raise RookeryError(
            f"{table.source}: angular velocities are in degrees/s, by the change of the attitude: give --degrees."
        )
    if abs(factor - 1.0) > AGREES:
        notes.append(f"angular velocities disagree with the change of the attitude, which is {factor:.2f} of them.")
    return rate


def _factor(x: Array, y: Array) -> float:
    """Factor of y over x by least squares of their means over ten samples, in which noise averages out; 1 where x is still."""
    length = max(1, min(10, len(x) // 10))
    count = len(x) // length
    mean = [v[: count * length].reshape(count, length, -1).mean(axis=1) for v in (x, y)]
    power = float((mean[0] ** 2).sum())
    return float((mean[0] * mean[1]).sum()) / power if power > 1e-4 * mean[0].size else 1.0


def turned(quaternion: Array, vectors: Array) -> Array:
    """[T, 3] body vectors in world axes."""
    w, v = quaternion[:, :1], quaternion[:, 1:]
    twice = 2.0 * np.cross(v, vectors)
    return np.asarray(vectors + w * twice + np.cross(v, twice))


def _turning(time: Array, q: Array) -> Array:
    """[T, 3] rad/s, body, of the change of quaternions: twice the vector part of q* dq/dt."""
    change = np.gradient(q, time, axis=0)
    w, v, dw, dv = q[:, :1], q[:, 1:], change[:, :1], change[:, 1:]
    return np.asarray(2.0 * (w * dv - dw * v - np.cross(v, dv)))


def _in_the_air(log: MultirotorLog, drone: DroneParameters) -> MultirotorLog:
    """The stretches in which the rotors carry the drone."""
    t0, t1, t2 = drone.thrust_curve
    lift = (t0 + t1 * log.motors + t2 * log.motors**2).sum(axis=1)
    flying = lift > FLYING * drone.mass * GRAVITY
    edges = sorted({0, len(log.time), *log.pieces, *(np.flatnonzero(np.diff(flying)) + 1).tolist()})
    kept = [
        (a, b)
        for a, b in zip(edges[:-1], edges[1:], strict=True)
        if flying[a] and log.time[b - 1] - log.time[a] >= PIECE_S
    ]
    if sum(log.time[b - 1] - log.time[a] for a, b in kept) < LEAST_S:
        raise RookeryError(
            f"{log.source} has no {LEAST_S:g} s in the air, by the motors' commands and the model of {drone.name}: log a "
            "flight, or name another drone with --robot."
        )
    rows = np.concatenate([np.arange(a, b) for a, b in kept])
    share = float((log.motors[rows] > FULL).any(axis=1).mean())
    if share > SATURATED:
        raise RookeryError(
            f"{log.source}: a motor is at its limit in {100 * share:.0f} % of the flight, which hides what it would do: fly "
            "gentler."
        )
    notes = list(log.notes)
    if len(rows) < len(log.time):
        notes.append(f"{100 * len(rows) / len(log.time):.0f} % of the log is in the air, and is used.")
    pieces = tuple(np.cumsum([0, *(b - a for a, b in kept[:-1])]).tolist())
    time, position, quaternion, velocity, rate, motors = (
        v[rows] for v in (log.time, log.position, log.quaternion, log.velocity, log.rate, log.motors)
    )
    return MultirotorLog(log.source, time, position, quaternion, velocity, rate, motors, pieces, tuple(notes))
