"""Prediction of where a ball will come down."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.robots.drones.drone import GRAVITY


def landing(ball: Tensor, height: Tensor) -> tuple[Tensor, Tensor]:
    """Place and time at which balls without drag come down to a height; here and now if they are below it.

    Args:
        ball: [N, 1, 13], see Bodies.state.
        height: [N, A] m.

    Returns:
        [N, A, 2] m, world, and [N, A] s from now.
    """
    up = ball[..., 9]
    above = (ball[..., 2] - height).clamp_min(0.0)
    time = (up + (up.square() + 2.0 * GRAVITY * above).sqrt()) / GRAVITY
    time = torch.where(above > 0.0, time, 0.0)
    return ball[..., 0:2] + time[..., None] * ball[..., 7:9], time
