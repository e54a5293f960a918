"""Training starts: rallies that begin in the middle, with the ball on its way from one drone to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.robots.drones.drone import GRAVITY

if TYPE_CHECKING:
    from rookery.tasks.volleyball.base import VolleyTask

MISS = 0.3  # m, half-width per axis of how far from its receiver a pass may be aimed
RISE = (1.0, 2.5)  # m, of the apex above the higher of thrower and receiver
FLOWN = 0.25  # share of its flight that the ball has behind it, at most


def begin_in_flight(task: VolleyTask, ids: Tensor, share: float, receivers: tuple[int, ...]) -> None:
    """In a share of the worlds `ids`, replace the serve by a pass of one of two drones to the other, without air.

    A policy that fails at the first touch sees nothing of what comes after it; so it trains on both from the beginning.

    Args:
        share: of the worlds, in [0, 1].
        receivers: drones that the ball may be on its way to, each equally often; it is then their turn.
    """
    assert task.ball is not None
    u = task.rng(ids).uniform(0.0, 1.0, (8,))
    chosen = u[:, 0] < share
    ids = ids[chosen]
    u = u[chosen]
    n = torch.arange(len(ids))
    receiver = torch.tensor(receivers)[(u[:, 1] * len(receivers)).long()]
    pos = task.drones.bodies.pos[ids]
    start = pos[n, 1 - receiver].clone()
    end = pos[n, receiver].clone()
    clearance = task.ball_kind.radius + task.drone.body_height
    start[:, 2] += clearance
    end[:, 2] += clearance
    end[:, :2] += MISS * (2.0 * u[:, 2:4] - 1.0)
    apex = torch.maximum(start[:, 2], end[:, 2]) + RISE[0] + (RISE[1] - RISE[0]) * u[:, 4]
    up = (2.0 * GRAVITY * (apex - start[:, 2])).sqrt()
    whole = (up + (2.0 * GRAVITY * (apex - end[:, 2])).sqrt()) / GRAVITY
    flown = (FLOWN * u[:, 5] * whole)[:, None]
    ball = torch.zeros(len(ids), 1, 13)
    ball[..., 3] = 1.0
    ball[:, 0, 7:9] = (end - start)[:, :2] / whole[:, None]
    ball[:, 0, 9] = up - GRAVITY * flown[:, 0]
    ball[:, 0, 0:2] = start[:, :2] + flown * ball[:, 0, 7:9]
    ball[:, 0, 2] = start[:, 2] + up * flown[:, 0] - 0.5 * GRAVITY * flown[:, 0].square()
    task.ball.set_state(ids, ball)
    task.referee.start(ids, ball[:, 0], receiver)
