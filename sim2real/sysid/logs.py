"""The internal form of logs: SI units, one row a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class JointLog:
    """Log of a robot whose joints are driven by ``kp (target - q) + kd (target_velocity - dq) + feedforward``.

    Args:
        source: the file, for messages.
        joints: names [J].
        time: [T] s, increasing.
        position: [T, J] rad, measured.
        target: [T, J] rad, commanded, held until the next sample.
        kp, kd: [J] N m/rad, N m s/rad, of the drives.
        velocity: [T, J] rad/s, measured; None where it is not logged, or not to be believed.
        target_velocity, feedforward: [T, J] rad/s and N m, commanded; None: zero.
        torque: [T, J] N m, measured.
        pieces: index of each stretch's first sample; between stretches there is a gap.
        notes: what was found and done, in sentences.
    """

    source: str
    joints: tuple[str, ...]
    time: Array
    position: Array
    target: Array
    kp: Array
    kd: Array
    velocity: Array | None = None
    target_velocity: Array | None = None
    feedforward: Array | None = None
    torque: Array | None = None
    pieces: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()

    def part(self, start: int, stop: int) -> JointLog:
        """Samples from start to stop."""
        cut = slice(start, stop)
        each: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[cut]
            for name in ("position", "target", "velocity", "target_velocity", "feedforward", "torque")
        }
        return replace(self, time=self.time[cut], pieces=_moved(self.pieces, start, stop), **each)


@dataclass(frozen=True)
class MultirotorLog:
    """Log of a multirotor of four rotors.

    Args:
        source: the file, for messages.
        time: [T] s, increasing.
        position: [T, 3] m, world, z up.
        quaternion: [T, 4] wxyz, body to world; x forward, y left, z up.
        velocity: [T, 3] m/s, world.
        rate: [T, 3] rad/s, body.
        motors: [T, 4] commands in 0 to 1, held until the next sample.
        pieces, notes: as in JointLog.
    """

    source: str
    time: Array
    position: Array
    quaternion: Array
    velocity: Array
    rate: Array
    motors: Array
    pieces: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()

    def part(self, start: int, stop: int) -> MultirotorLog:
        """Samples from start to stop."""
        cut = slice(start, stop)
        each = {n: getattr(self, n)[cut] for n in ("time", "position", "quaternion", "velocity", "rate", "motors")}
        return replace(self, pieces=_moved(self.pieces, start, stop), **each)


Log = JointLog | MultirotorLog


def stretches(log: Log) -> list[tuple[int, int]]:
    """First and last sample (exclusive) of the runs without a gap."""
    ends = [*log.pieces[1:], len(log.time)]
    return list(zip(log.pieces, ends, strict=True))


def _moved(pieces: tuple[int, ...], start: int, stop: int) -> tuple[int, ...]:
    return (0, *(p - start for p in pieces if start < p < stop))
