"""Goals that lead a tool to where it should be, a little ahead of where it is.

A policy follows them that was trained on trajectories, which its tool is never far from.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.robots.arms.kinematics import Place
from rookery.sim.rotations import from_axis_angle, multiply, rotation_error

LEAD_M, LEAD_RAD = 0.03, 0.1
"""How far the goal of now is ahead at most: about what the zoo's go2arm-loco-manipulation lags behind its trajectories."""
GAIN = 2.5
"""How much farther than the target the goal is: standing, that policy stays 2 to 3 cm short of goals that do not move."""
SPEED, RATE = 0.125, 0.4
"""m/s, rad/s, of later goals: those of its trajectories, demonstration.HAND_SPEED and HAND_TURN_RATE at their pace of 0.5."""


def led(tool: Place, target: Place, ahead_s: float) -> Place:
    """Poses on the way from the tool to its targets, all in one frame: [N, 3] m, [N, 4] wxyz.

    Args:
        tool: where it is.
        target: where it should come to.
        ahead_s: s, how much later than now.
    """
    way = _within(GAIN * (target.pos - tool.pos), LEAD_M + SPEED * ahead_s)
    turn = _within(GAIN * rotation_error(target.quat, tool.quat), LEAD_RAD + RATE * ahead_s)
    angle = turn.norm(dim=1)
    quat = multiply(from_axis_angle(turn / angle.clamp_min(1e-6)[:, None], angle), tool.quat)
    return Place(tool.pos + way, quat)


def lead_words(target: tuple[str, str], ahead_s: float) -> tuple[str, str]:
    """The place and the orientation that `led` gives, in words that a robot's computer can follow.

    Args:
        target: words for the place and the orientation where the tool should come to.
        ahead_s: s, how much later than now.
    """
    way, turn = LEAD_M + SPEED * ahead_s, LEAD_RAD + RATE * ahead_s
    return (
        f"from the tool's position {GAIN:g} times the way to its target, {way:g} m of it at most; target: {target[0]}",
        f"the tool's rotation, turned by {GAIN:g} times the turn to its target, {turn:g} rad of it at most; "
        f"target: {target[1]}",
    )


def _within(vector: Tensor, most: float) -> Tensor:
    """Vectors [N, 3], none longer than `most`."""
    return vector * (most / vector.norm(dim=1, keepdim=True).clamp_min(most))


def pitched(pitch: float, yaw: Tensor) -> Tensor:
    """Orientations [N, 4] of a tool that points down by `pitch` rad, to the side `yaw` [N] rad."""
    x = torch.zeros(len(yaw), 3)
    z = x.clone()
    x[:, 1] = 1.0
    z[:, 2] = 1.0
    return multiply(from_axis_angle(z, yaw), from_axis_angle(x, torch.full_like(yaw, pitch)))
