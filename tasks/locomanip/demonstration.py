"""Building a trajectory piece by piece: each piece a minimum-jerk movement of the hand, of the base, or of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from rookery.tasks.locomanip.trajectories import Trajectory
from rookery.tasks.locomanip.trajectory_math import (
    Floats,
    angle_between,
    base_path,
    conjugate,
    from_euler,
    minimum_jerk,
    multiply,
    rotate,
    slerp,
)

DT = 0.02
"""s, one sample: 50 Hz, the rate of control."""
# Mean speeds; minimum jerk peaks at 1.875 times them, well below what the arm and the legs can do.
HAND_SPEED, HAND_TURN_RATE = 0.25, 0.8  # m/s, rad/s
BASE_SPEED, BASE_TURN_RATE = 0.30, 0.5  # m/s, rad/s
SHORTEST = 0.3  # s, a piece

Pose = tuple[Floats, Floats]
"""Position [..., 3] m and quaternion w x y z [..., 4]."""


def place(pose: Floats, pos: ArrayLike, quat: ArrayLike) -> Pose:
    """From the frame on the ground below the base to the start frame.

    Args:
        pose: of the base: x m, y m, heading rad [..., 3].
        pos, quat: [..., 3] m, [..., 4], in the frame on the ground below the base, x along its heading.
    """
    turn = _heading(pose)
    origin = np.concatenate((pose[..., :2], np.zeros_like(pose[..., :1])), axis=-1)
    return origin + rotate(turn, pos), multiply(turn, quat)


def unplace(pose: Floats, pos: ArrayLike, quat: ArrayLike) -> Pose:
    """The inverse of `place`."""
    back = conjugate(_heading(pose))
    origin = np.concatenate((pose[..., :2], np.zeros_like(pose[..., :1])), axis=-1)
    return rotate(back, np.asarray(pos) - origin), multiply(back, quat)


def _heading(pose: Floats) -> Floats:
    half = 0.5 * pose[..., 2]
    zero = np.zeros_like(half)
    return np.stack((np.cos(half), zero, zero, np.sin(half)), axis=-1)


class Demonstration:
    """A trajectory in the making, in the start frame, sampled at `DT`. Every piece starts and ends at rest.

    Args:
        pos, quat: the hand at the start [3] m, [4].
        opening: of the gripper at the start, m.
        pace: all durations are multiplied by it.

    Attributes:
        base: where the base is now: x m, y m, heading rad [3].
        pos, quat, opening: the hand now.
    """

    def __init__(self, pos: ArrayLike, quat: ArrayLike, opening: float, pace: float = 1.0) -> None:
        self.base: Floats = np.zeros(3)
        self.pos = np.asarray(pos, float)
        self.quat = np.asarray(quat, float)
        self.opening = opening
        self.pace = pace
        self._pos = [self.pos[None]]
        self._quat = [self.quat[None]]
        self._gripper = [np.array([opening])]
        self._command = [np.zeros((0, 3))]

    def near(self, pos: ArrayLike, roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0) -> Pose:
        """The start-frame pose of something seen from where the base is now (on the ground, x along its heading)."""
        return place(self.base, pos, from_euler(roll, pitch, yaw))

    def go(self, pos: ArrayLike, quat: ArrayLike, opening: float | None = None) -> None:
        """Move the hand straight to a pose in the start frame; the base stands."""
        start = self.pos
        turn = self.quat
        goal = np.asarray(pos, float)
        seconds = max(
            np.linalg.norm(goal - start).item() / HAND_SPEED, angle_between(turn, quat).item() / HAND_TURN_RATE
        )
        self.trace(lambda s: (start + s[:, None] * (goal - start), slerp(turn, quat, s)), seconds, opening)

    def drive(self, length: float, turn: float = 0.0, pos: ArrayLike | None = None, pitch: float = 0.0) -> None:
        """Drive along an arc while the hand keeps its pose relative to the base, or moves to another one.

        Args:
            length: m along the arc, negative backwards.
            turn: rad, left positive.
            pos, pitch: where the hand goes to, in the frame on the ground below the base, [3] m, and how far it points
                down, rad; without `pos` the hand stays as it is.
        """
        start, quat = unplace(self.base, self.pos, self.quat)
        goal, goal_quat = (start, quat) if pos is None else (np.asarray(pos, float), from_euler(0.0, pitch, 0.0))
        seconds = max(abs(length) / BASE_SPEED, abs(turn) / BASE_TURN_RATE)
        seconds = max(seconds, np.linalg.norm(goal - start).item() / HAND_SPEED)

        def hand(s: Floats, base: Floats) -> Pose:
            return place(base, start + s[:, None] * (goal - start), slerp(quat, goal_quat, s))

        self._piece(hand, seconds, self.opening, length, turn)

    def trace(
        self, path: Callable[[Floats], Pose], seconds: float, opening: float | None = None, length: float = 0.0
    ) -> None:
        """Move the hand along a path, given for the shares 0 to 1 [n] in the start frame, while the base drives straight."""
        self._piece(lambda s, base: path(s), seconds, self.opening if opening is None else opening, length, 0.0)

    def grip(self, opening: float) -> None:
        """Open or close the gripper, the hand still; then wait a moment."""
        self.trace(self._still, 0.5, opening)
        self.hold(0.2)

    def hold(self, seconds: float) -> None:
        """Keep still."""
        self.trace(self._still, seconds)

    def _still(self, s: Floats) -> Pose:
        return np.tile(self.pos, (len(s), 1)), np.tile(self.quat, (len(s), 1))

    def _piece(
        self, hand: Callable[[Floats, Floats], Pose], seconds: float, opening: float, length: float, turn: float
    ) -> None:
        steps = int(np.ceil(max(seconds, SHORTEST) * self.pace / DT))
        s = minimum_jerk(np.arange(steps + 1) / steps)
        command = np.diff(s)[:, None] * np.array([length, 0.0, turn]) / DT
        base = self._drive(command) if length or turn else np.tile(self.base, (steps + 1, 1))
        pos, quat = hand(s, base)
        gripper = self.opening + s * (opening - self.opening)
        self.base = base[-1]
        self.pos = pos[-1]
        self.quat = quat[-1]
        self.opening = opening
        self._pos.append(pos[1:])
        self._quat.append(quat[1:])
        self._gripper.append(gripper[1:])
        self._command.append(command)

    def _drive(self, command: Floats) -> Floats:
        """Path of the base from here [n + 1, 3] under n commands."""
        way = base_path(np.arange(len(command) + 1) * DT, np.concatenate((command, np.zeros((1, 3)))))
        ahead = way[:, 0]
        left = way[:, 1]
        x, y, heading = self.base
        cos = np.cos(heading)
        sin = np.sin(heading)
        return np.stack((x + cos * ahead - sin * left, y + sin * ahead + cos * left, heading + way[:, 2]), axis=1)

    def finish(self, family: str, name: str, seed: int, objects: Sequence[tuple[str, Pose]]) -> Trajectory:
        """The trajectory. `objects`: names and start-frame poses of the things that it deals with."""
        pos = np.concatenate(self._pos)
        quat = np.concatenate(self._quat)
        return Trajectory(
            t=np.arange(len(pos), dtype=np.float64) * DT,
            pos=pos,
            quat=quat / np.linalg.norm(quat, axis=1, keepdims=True),
            gripper=np.concatenate(self._gripper),
            base_command=np.concatenate((*self._command, np.zeros((1, 3)))),
            frame="start",
            family=family,
            name=name,
            seed=seed,
            object_name=tuple(n for n, _ in objects),
            object_pos=np.array([p for _, (p, _) in objects]).reshape(-1, 3),
            object_quat=np.array([q for _, (_, q) in objects]).reshape(-1, 4),
        )
