"""Reward terms of feet [..., F] and of the gait that they should follow."""

from __future__ import annotations

import torch
from torch import Tensor


def feet_air_time(air_time: Tensor, touchdown: Tensor, threshold: float) -> Tensor:
    """[...] s, sum over the feet that touch down now of the time by which each was longer in the air than `threshold` s: long
    steps pay, short ones cost (legged_gym, Rudin et al. 2022, arXiv 2109.11978). Multiply by whether a command asks for steps.

    Args:
        air_time: [..., F] s, without a break since each foot last left the ground.
        touchdown: [..., F] bool, of this control step.
        threshold: s.
    """
    return ((air_time - threshold) * touchdown).sum(-1)


def feet_gait(contact: Tensor, swing: Tensor) -> Tensor:
    """[...] share of the feet that do not do what the gait says: down in their swing, or up in their stance. A cost.

    Args:
        contact: [..., F] bool, feet on the ground.
        swing: [..., F] bool, those that the gait has in the air.
    """
    return (contact == swing).float().mean(-1)


def feet_clearance_l2(error: Tensor, swing: Tensor) -> Tensor:
    """[...] m^2, sum of the squares of what feet in their swing, [..., F] bool, are off the height that they should have,
    error [..., F] m."""
    return (error.square() * swing).sum(-1)


def feet_slide_l2(foot_vel: Tensor, contact: Tensor) -> Tensor:
    """[...] (m/s)^2, sum of the squared horizontal speeds of feet on the ground.

    Args:
        foot_vel: [..., F, 3] m/s, world.
        contact: [..., F] bool.
    """
    return (foot_vel[..., :2].square().sum(-1) * contact).sum(-1)


def feet_landing_l2(foot_vel: Tensor, landing: Tensor) -> Tensor:
    """[...] (m/s)^2, sum of the squared downward speeds of feet about to touch the ground.

    Args:
        foot_vel: [..., F, 3] m/s, world.
        landing: [..., F] bool, feet in the air and near the ground.
    """
    return ((-foot_vel[..., 2]).clamp_min(0.0) * landing).square().sum(-1)


def kneeling(knees: Tensor, least: float) -> Tensor:
    """[...] sum over the legs of what the knees' heights are below `least`, both as shares of the height of standing.

    Args:
        knees: [..., F].
        least: from which on a leg does not kneel.
    """
    return torch.clamp_min(least - knees, 0.0).sum(-1)
