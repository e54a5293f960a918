"""Scripted experts of the table-top tasks: a target of the tool, and the action that brings an arm nearer to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.robots.manipulators.manipulator import Manipulator
from rookery.robots.manipulators.tool_actions import STEP
from rookery.sim.rotations import matrix


@dataclass(frozen=True)
class ToolTarget:
    """Target of the expert for the tool of one arm.

    Args:
        place: [N, 3] m, world.
        closing: [N] of the gripper, 1 closes, -1 opens.
        yaw: [N] rad about the vertical, from the rotation at the start of the episode; None: no rotation.
        step: m, largest change of the tool's goal in a control step, along each axis.
    """

    place: Tensor
    closing: Tensor
    yaw: Tensor | None = None
    step: float | Tensor = STEP


def command_towards(arm: Manipulator, target: ToolTarget, start_rotation: Tensor) -> Tensor:
    """The action [N, D] that brings an arm's goal nearer to a target.

    Args:
        arm: whose action kind moves the tool's goal.
        start_rotation: [3, 3] of the tool at home, to the world.
    """
    step = torch.as_tensor(target.step).reshape(-1, 1)
    move = (target.place - arm.goal.float()).clamp(-step, step)
    if arm.action.keeps_rotation:
        rotate = torch.zeros_like(move)
    else:
        yaw = torch.zeros_like(target.closing) if target.yaw is None else target.yaw
        wanted = about_z(yaw) @ start_rotation
        # the sine of the angle to it, along the axis of the rotation
        rotate = 0.5 * torch.linalg.cross(arm.goal_rotation.float(), wanted, dim=1).sum(2)
    command = arm.action.tool_command(move, rotate)
    if arm.grips:
        command = torch.cat((command, target.closing[:, None]), 1)
    return command.clamp(-1.0, 1.0)


def about_z(angle: Tensor) -> Tensor:
    """Rotation matrices [N, 3, 3] about the vertical."""
    zero = torch.zeros_like(angle)
    return matrix(torch.stack(((0.5 * angle).cos(), zero, zero, (0.5 * angle).sin()), 1)).view(-1, 3, 3)
