"""Recording demonstrations: a device moves the hand and the base step by step, the recorder makes trajectories of it."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.locomanip.demonstration import place
from rookery.tasks.locomanip.trajectories import FRAMES, Trajectory, save
from rookery.tasks.locomanip.trajectory_checks import GO2_AIRBOT, TrajectoryLimits, check
from rookery.tasks.locomanip.trajectory_math import Floats, base_path, from_euler, from_rotation_vector, multiply

HOME_POS = (0.40, 0.0, 0.55)
HOME_PITCH = 0.35
"""Where the hand is at first: m, in the frame on the ground below the trunk, and how far it points down, rad."""
MAX_OPENING = 0.073
"""m (airbot_force.urdf)."""
MAX_SPEED = 0.5
MAX_TURN_RATE = 3.0
"""m/s and rad/s that a device can move the hand at, seen from the base; more is cut. With `MAX_BASE`, no recording comes near
the 2 m/s and 6 rad/s at which the loader sees a jump."""
MAX_BASE = (0.8, 0.4, 0.8)
"""m/s, m/s, rad/s (about the command ranges of UniLab's go2_arm); more is cut."""


@dataclass(frozen=True)
class Move:
    """Wishes of a device for one control step.

    Attributes:
        delta_pos: [3] m, along the axes of the base (x ahead, y left, z up).
        delta_rot: [3] rad, rotation vector about the same axes.
        gripper: opening from now on, m.
        base_command: [3] vx m/s, vy m/s, yaw rate rad/s, body frame.
        done: the demonstration ends here; the rest is ignored.
    """

    delta_pos: ArrayLike = (0.0, 0.0, 0.0)
    delta_rot: ArrayLike = (0.0, 0.0, 0.0)
    gripper: float = MAX_OPENING
    base_command: ArrayLike = (0.0, 0.0, 0.0)
    done: bool = False


Device = Callable[[], Move]


class Recorder:
    """Demonstrations at the rate of control from any device, a callable that gives a `Move`.

    The hand is carried along by the base. It stops at the limit of the arm's reach and on the ground, and at `MAX_SPEED`
    and `MAX_TURN_RATE`, so that what comes out passes the loader.

    Args:
        device: called once a step.
        control_dt: s.
        frame: "start" or "base" (the trunk, taken as level), of the trajectories.
        family: their family; they are named by number.
        limits: of the arm.

    Attributes:
        trajectories: the finished ones.
        pos, quat, opening: the hand, in the frame on the ground below the trunk, m, w x y z, m.
    """

    def __init__(
        self,
        device: Device,
        control_dt: float = 0.02,
        frame: str = "start",
        family: str = "recorded",
        limits: TrajectoryLimits = GO2_AIRBOT,
    ) -> None:
        if frame not in FRAMES:
            raise unknown("frame", frame, FRAMES)
        self.device = device
        self.control_dt = control_dt
        self.frame = frame
        self.family = family
        self.limits = limits
        self.trajectories: list[Trajectory] = []
        self.restart()

    def restart(self) -> None:
        """Drop the demonstration under way; the hand is at home again."""
        self.pos = np.array(HOME_POS)
        self.quat = from_euler(0.0, HOME_PITCH, 0.0)
        self.opening = MAX_OPENING
        self._rows: list[tuple[Floats, Floats, float]] = [(self.pos, self.quat, self.opening)]
        self._commands: list[Floats] = []

    def step(self) -> bool:
        """Ask the device once. False when it is done."""
        move = self.device()
        if move.done:
            return False
        delta = _vector(move.delta_pos, "delta_pos")
        turn = _vector(move.delta_rot, "delta_rot")
        self.pos = self._within_reach(self.pos + _cut(delta, MAX_SPEED * self.control_dt))
        quat = multiply(from_rotation_vector(_cut(turn, MAX_TURN_RATE * self.control_dt)), self.quat)
        self.quat = quat / np.linalg.norm(quat)
        self.opening = float(np.clip(_finite(move.gripper, "gripper"), 0.0, MAX_OPENING))
        self._rows.append((self.pos, self.quat, self.opening))
        self._commands.append(np.clip(_vector(move.base_command, "base_command"), np.negative(MAX_BASE), MAX_BASE))
        return True

    def record(
        self, seconds: float, realtime: bool = False, on_step: Callable[[Recorder], None] | None = None
    ) -> Trajectory:
        """One demonstration: step until the device is done or the time is over, then `finish`.

        Args:
            seconds: at most.
            realtime: keep to the clock; for people.
            on_step: called after each step, e.g. to move a simulated robot or to draw.
        """
        begin = time.monotonic()
        for k in range(round(seconds / self.control_dt)):
            if not self.step():
                break
            if on_step is not None:
                on_step(self)
            if realtime:
                time.sleep(max(0.0, begin + (k + 1) * self.control_dt - time.monotonic()))
        return self.finish()

    def finish(self) -> Trajectory:
        """End the demonstration under way, check it, keep it in `trajectories`, and start anew."""
        if not self._commands:
            raise RookeryError("nothing was recorded: the device was done before its first move.")
        pos = np.array([r[0] for r in self._rows])
        quat = np.array([r[1] for r in self._rows])
        command = np.array([*self._commands, np.zeros(3)])
        t: Floats = np.arange(len(pos), dtype=np.float64) * self.control_dt
        if self.frame == "start":
            pos, quat = place(base_path(t, command), pos, quat)
        else:
            pos = pos - [0.0, 0.0, self.limits.stand_height]
        name = f"{self.family}-{len(self.trajectories):03d}"
        gripper = np.array([r[2] for r in self._rows])
        made = Trajectory(t, pos, quat, gripper, command, self.frame, self.family, name)
        self.restart()
        self.trajectories.append(check(made, self.limits, "the recording"))
        return self.trajectories[-1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all finished demonstrations to one file."""
        save(path, self.trajectories)

    def _within_reach(self, pos: Floats) -> Floats:
        shoulder = np.array(self.limits.shoulder) + np.array([0.0, 0.0, self.limits.stand_height])
        # a millimeter less than the limit: rounding must not take it out
        pos = shoulder + _cut(pos - shoulder, self.limits.reach - 1e-3)
        return np.maximum(pos, [-np.inf, -np.inf, 0.0])


def _cut(v: Floats, longest: float) -> Floats:
    """v, shortened to `longest` where it is longer."""
    length = float(np.linalg.norm(v))
    return v if length <= longest else v * (longest / length)


def _finite(value: float, what: str) -> float:
    if not np.isfinite(value):
        raise RookeryError(f"the device gave {what} = {value}: give finite numbers.")
    return float(value)


def _vector(value: ArrayLike, what: str) -> Floats:
    v = np.asarray(value, float)
    if v.shape != (3,) or not np.isfinite(v).all():
        raise RookeryError(f"the device gave {what} = {v.tolist()}: give three finite numbers.")
    return v


class GymDevice:
    """A `Device` from a gymnasium-style one: a callable, or something with `act`, that gives an array in [-1, 1].

    Its 10 numbers: hand along x, y, z; about x, y, z; gripper (-1 closed, 1 open); base vx, vy, yaw rate. With 7 numbers
    the base stands.

    Args:
        source: `source.act(observation)` or `source(observation)`.
        observe: gives the observation; without it the source is called with nothing.
        control_dt: s; full deflection is `MAX_SPEED`, `MAX_TURN_RATE` and `MAX_BASE`.
    """

    def __init__(self, source: Any, observe: Callable[[], Any] | None = None, control_dt: float = 0.02) -> None:
        act = getattr(source, "act", source)
        if not callable(act):
            raise RookeryError(f"{type(source).__name__} is no device: give a callable, or something with act().")
        self._act = act
        self._observe = observe
        self._dt = control_dt

    def __call__(self) -> Move:
        """Ask the source once."""
        given = self._act() if self._observe is None else self._act(self._observe())
        action = np.asarray(given, float)
        if action.shape not in ((7,), (10,)) or not np.isfinite(action).all():
            raise RookeryError(f"the device gave an array of shape {action.shape}: give 7 or 10 finite numbers.")
        action = np.clip(action, -1.0, 1.0)
        return Move(
            action[:3] * MAX_SPEED * self._dt,
            action[3:6] * MAX_TURN_RATE * self._dt,
            0.5 * (action[6] + 1.0) * MAX_OPENING,
            action[7:] * MAX_BASE if len(action) == 10 else np.zeros(3),
        )


STEP = 0.01
TURN = 0.05
"""m and rad that one press of a key moves the hand."""
_MOVES = {
    "w": (0, STEP), "s": (0, -STEP), "a": (1, STEP), "d": (1, -STEP), "r": (2, STEP), "f": (2, -STEP),
    "o": (3, TURN), "u": (3, -TURN), "k": (4, TURN), "i": (4, -TURN), "j": (5, TURN), "l": (5, -TURN),
}  # fmt: skip
_DRIVES = {"\x1b[A": (0, 1), "\x1b[B": (0, -1), ",": (1, 1), ".": (1, -1), "\x1b[D": (2, 1), "\x1b[C": (2, -1)}


class KeyboardDevice:
    """A `Device` from the keys of a terminal, as a context manager that sets the terminal back.

    Terminals tell of key presses only, and repeat them while a key is held: each press moves the hand by `STEP` or `TURN`,
    and changes the base's velocity by an eighth of `MAX_BASE`, which it then keeps. Input that ends is `q`.

    ======  ===========================  =========  =========================
    w s     hand ahead, back             arrows     base: faster, slower; turn left, right
    a d     hand left, right             , .        base: step left, right
    r f     hand up, down                x          base: stop
    u o     roll left, right             space      gripper: open, close
    i k     pitch up, down               q          done
    j l     yaw left, right
    ======  ===========================  =========  =========================

    Args:
        fd: where keys come from; a terminal is put into the mode that gives each key at once. Default: standard input.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._before: list[Any] | None = None
        self._held = ""  # the beginning of an arrow key, whose rest is still to come
        self._opening = MAX_OPENING
        self._base = np.zeros(3)

    def __enter__(self) -> KeyboardDevice:
        if os.isatty(self._fd):
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def __call__(self) -> Move:
        """All keys pressed since the last call, as one move."""
        delta = np.zeros(6)
        for key in self._keys():
            if key == "q":
                return Move(done=True)
            if key in _MOVES:
                axis, amount = _MOVES[key]
                delta[axis] += amount
            elif key in _DRIVES:
                axis, sign = _DRIVES[key]
                most = MAX_BASE[axis]
                self._base[axis] = np.clip(self._base[axis] + sign * most / 8, -most, most)
            elif key == "x":
                self._base[:] = 0.0
            elif key == " ":
                self._opening = MAX_OPENING - self._opening
        return Move(delta[:3], delta[3:], self._opening, self._base.copy())

    def _keys(self) -> list[str]:
        text = self._held
        if select.select([self._fd], [], [], 0.0)[0]:
            read = os.read(self._fd, 1024)
            if not read:
                return ["q"]
            text += read.decode(errors="ignore")
        keys = []
        while text:
            size = 3 if text.startswith("\x1b") else 1
            if len(text) < size:
                break
            keys.append(text[:size])
            text = text[size:]
        self._held = text
        return keys
