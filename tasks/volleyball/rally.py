"""Events of a rally, and the log of who did what, when and where."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers

ROWS = 64
"""Events that are kept of each world: the last ones, of this rally and those before it."""

# ways in which a rally ends, 0 for "goes on": the causes of a volleyball task are these names, in this order
FAULTS = (
    "wrong_turn", "double_hit", "not_racket", "already_hit", "not_server", "drone_crossed_net", "drone_in_net", "ball_landed",
    "ball_out", "ball_in_net", "ball_too_high", "drone_too_low", "drone_too_high", "drones_too_close", "drone_astray",
    "finished",
)  # fmt: skip
(
    WRONG_TURN, DOUBLE_HIT, NOT_RACKET, ALREADY_HIT, NOT_SERVER, DRONE_CROSSED_NET, DRONE_IN_NET, BALL_LANDED, BALL_OUT,
    BALL_IN_NET, BALL_TOO_HIGH, DRONE_TOO_LOW, DRONE_TOO_HIGH, DRONES_TOO_CLOSE, DRONE_ASTRAY, FINISHED,
) = range(1, len(FAULTS) + 1)  # fmt: skip

HIT_FAULTS = (WRONG_TURN, DOUBLE_HIT, NOT_RACKET, ALREADY_HIT, NOT_SERVER)
DRONE_FAULTS = (DRONE_CROSSED_NET, DRONE_IN_NET, DRONE_TOO_LOW, DRONE_TOO_HIGH, DRONES_TOO_CLOSE, DRONE_ASTRAY)
BALL_FAULTS = (BALL_LANDED, BALL_OUT, BALL_IN_NET, BALL_TOO_HIGH)

# events of the log; a fault is written as FAULT + its number
START, TAKE_OFF, RACKET_HIT, BODY_HIT, CROSSING, TARGET, DEFENDER_RETURN, POINT_NEAR, POINT_FAR, NO_POINT = range(10)
FAULT = 32

_TEXT = {
    START: "ball above {who} at {where}",
    RACKET_HIT: "{who} hits the ball with the racket at {where}",
    BODY_HIT: "{who} hits the ball with the body at {where}",
    CROSSING: "ball crosses the middle at {height}",
    TARGET: "{who} reaches its target at {where}",
    DEFENDER_RETURN: "the defense returns the ball at {where}",
    POINT_NEAR: "point for the near side",
    POINT_FAR: "point for the far side",
    NO_POINT: "rally over, no point",
    TAKE_OFF: "{who} starts at {where}",
    FAULT + WRONG_TURN: "{who} hits the ball out of turn at {where}",
    FAULT + DOUBLE_HIT: "{who} hits the ball twice at {where}",
    FAULT + NOT_RACKET: "{who} hits the ball, not with its racket, at {where}",
    FAULT + ALREADY_HIT: "{who} has already hit the ball and hits it again at {where}",
    FAULT + NOT_SERVER: "{who} hits the ball before the serve is over at {where}",
    FAULT + DRONE_CROSSED_NET: "{who} crosses the net",
    FAULT + DRONE_IN_NET: "{who} flies into the net",
    FAULT + BALL_LANDED: "ball lands in the court at {place}",
    FAULT + BALL_OUT: "ball is out at {where}",
    FAULT + BALL_IN_NET: "ball is in the net at {height}",
    FAULT + BALL_TOO_HIGH: "ball flies too high",
    FAULT + DRONE_TOO_LOW: "{who} flies too low",
    FAULT + DRONE_TOO_HIGH: "{who} flies too high",
    FAULT + DRONES_TOO_CLOSE: "{who} comes too close to another",
    FAULT + DRONE_ASTRAY: "{who} is too far from its target",
    FAULT + FINISHED: "ball comes down at {place}: finished",
}


class LogArrays(NamedTuple):
    """The log of all worlds as the compiled referee sees it; rows are a ring, `written` says how many were ever written."""

    time: NDArray[np.float32]  # [N, ROWS] s since the start of the rally
    event: NDArray[np.int32]  # [N, ROWS]
    drone: NDArray[np.int32]  # [N, ROWS], -1 for none
    where: NDArray[np.float32]  # [N, ROWS, 3] m, world
    written: NDArray[np.int32]  # [N]


@njit(cache=True, nogil=True, error_model="numpy")
def write(log, n, time, event, drone, x, y, z):
    """Add an event to world n's log."""
    row = log.written[n] % log.time.shape[1]
    log.time[n, row] = time
    log.event[n, row] = event
    log.drone[n, row] = drone
    log.where[n, row, 0] = x
    log.where[n, row, 1] = y
    log.where[n, row, 2] = z
    log.written[n] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def write_rows(log, ids, time, event, drone, where):
    """Add one event to the logs of the worlds `ids` [n]: time [n] s, where [n, 3] m."""
    for i in range(ids.shape[0]):
        write(log, ids[i], time[i], event, drone, where[i, 0], where[i, 1], where[i, 2])


class RallyLog(Buffers):
    """The last events of each world; part of the task's state. Each rally begins with a START.

    Args:
        num_envs: N.
    """

    time: Tensor
    event: Tensor
    drone: Tensor
    where: Tensor
    written: Tensor

    def __init__(self, num_envs: int) -> None:
        super().__init__()
        self.buffer("time", num_envs, ROWS)
        self.buffer("event", num_envs, ROWS, dtype=torch.int32)
        self.buffer("drone", num_envs, ROWS, dtype=torch.int32)
        self.buffer("where", num_envs, ROWS, 3)
        self.buffer("written", num_envs, dtype=torch.int32)
        self.arrays = LogArrays(*(getattr(self, name).numpy() for name in LogArrays._fields))

    def note(self, ids: Tensor, time: Tensor, event: int, drone: int, where: Tensor) -> None:
        """Write an event that no referee sees into the logs of the worlds `ids` [n].

        Args:
            time: [n] s since the start of the rally.
            event: one of the constants of this module.
            drone: its number, -1 for none.
            where: [n, 3] m, world.
        """
        write_rows(self.arrays, ids.numpy(), time.numpy(), event, drone, where.contiguous().numpy())

    def events(self, world: int, back: int = 0) -> list[tuple[float, int, int, tuple[float, float, float]]]:
        """(s, event, drone, (x, y, z) m) of one rally of a world, oldest first.

        Args:
            world: its number.
            back: 0 for the rally that goes on, 1 for the one before it, ... as far as the ring reaches.
        """
        count = int(self.written[world])
        rallies: list[list[tuple[float, int, int, tuple[float, float, float]]]] = []
        for r in (i % ROWS for i in range(max(0, count - ROWS), count)):
            x, y, z = (float(v) for v in self.where[world, r])
            event = int(self.event[world, r])
            if event in (START, TAKE_OFF) or not rallies:
                rallies.append([])
            rallies[-1].append((float(self.time[world, r]), event, int(self.drone[world, r]), (x, y, z)))
        return rallies[-1 - back] if back < len(rallies) else []

    def play_by_play(self, world: int, back: int = 0, names: Sequence[str] = ()) -> list[str]:
        """A rally as readable lines: "0.84 s  drone 1 hits the ball with the racket at (4.4, 2.1, 2.2) m".

        Args:
            world: its number.
            back: 0 for the rally that goes on, 1 for the one before it, ... as far as the log reaches.
            names: what to call the drones; "drone i" if empty.
        """
        lines = []
        for time, event, drone, (x, y, z) in self.events(world, back):
            who = (names[drone] if names else f"drone {drone}") if drone >= 0 else "nobody"
            text = _TEXT[event].format(
                who=who, where=f"({x:.1f}, {y:.1f}, {z:.1f}) m", place=f"({x:.1f}, {y:.1f}) m", height=f"{z:.1f} m"
            )
            lines.append(f"{time:5.2f} s  {text}")
        return lines
