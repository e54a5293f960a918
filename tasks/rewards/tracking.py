"""Reward terms of commands and targets: how well a velocity is followed, how near something is."""

from __future__ import annotations

import torch
from torch import Tensor


def track_lin_vel_xy_exp(lin_vel: Tensor, command: Tensor, std: float) -> Tensor:
    """[...] exp(-e^2 / std^2) of the error e of horizontal velocities: 1 where the command is met, 0 far off (Isaac Lab;
    legged_gym's tracking_lin_vel with tracking_sigma = std^2).

    Args:
        lin_vel: [..., 2 or more] m/s, forward and left first, in the axes of the command.
        command: [..., 2] m/s.
        std: m/s.
    """
    return torch.exp((lin_vel[..., :2] - command).square().sum(-1) / -(std * std))


def track_ang_vel_z_exp(yaw_rate: Tensor, command: Tensor, std: float) -> Tensor:
    """[...] exp(-e^2 / std^2) of the error of yaw rates [...] rad/s against commanded ones [...]; std in rad/s."""
    return torch.exp((yaw_rate - command).square() / -(std * std))


def distance(a: Tensor, b: Tensor) -> Tensor:
    """[...] m, between places [..., 2 or 3] m in the same axes."""
    return (a - b).norm(dim=-1)


def closeness_exp(distance: Tensor, std: float) -> Tensor:
    """[...] exp(-distance / std), of distances [...] m: 1 at the target, steepest there; std in m."""
    return torch.exp(distance / -std)


def closeness_tanh(distance: Tensor, std: float) -> Tensor:
    """[...] 1 - tanh(distance / std), of distances [...] m: 1 at the target, a slope of 1 / std there (Isaac Lab's
    object_ee_distance); std in m, and likewise for errors in rad."""
    return 1.0 - torch.tanh(distance / std)


def closeness_inverse(distance: Tensor) -> Tensor:
    """[...] 1 / (1 + distance), of distances [...] m: it still tells far away (VolleyBots)."""
    return 1.0 / (1.0 + distance)


def proximity_l2(gap: Tensor, safe: float) -> Tensor:
    """[...] 0 for gaps [...] m from `safe` m on, growing with the square of what is missing to 1 at gap 0."""
    return (1.0 - gap / safe).clamp_min(0.0).square()
