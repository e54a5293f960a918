"""The tool of a walking robot, and its goals, in the world."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rookery.robots.arms.kinematics import Place
from rookery.robots.quadrupeds.quadruped import Quadruped
from rookery.sim.quantities import ROTATION
from rookery.sim.rotations import multiply, rotate
from rookery.sim.terms import Heading
from rookery.tasks.locomanip.goal_terms import goal_name, goal_rotation

__all__ = ["tool_in_world", "tool_quantities"]


def tool_in_world(robot: Quadruped, tool: Place) -> Tensor:
    """[N, 3] m, where a tool is that has the pose `tool` in the trunk's frame."""
    return robot.base.pos[:, 0] + torch.einsum("nij,nj->ni", robot.rotation.view(-1, 3, 3), tool.pos)


def tool_quantities(
    robot: Quadruped, tool: Place, height: Tensor, goals: Iterable[tuple[str, float, Place]]
) -> dict[str, Tensor]:
    """Poses in the world, by the names of what a policy observes.

    Args:
        robot: that carries the tool.
        tool: in the trunk's frame.
        height: [N] m, of the trunk above the ground.
        goals: name, s from now, and pose in the stance frame: on the ground below the trunk, ahead where it heads.
    """
    at, trunk = robot.base.pos[:, 0], robot.base.quat[:, 0]
    out = {
        "tool's position": (at + rotate(trunk, tool.pos))[:, None],
        "tool's rotation": multiply(trunk, tool.quat)[:, None],
    }
    level = Heading(ROTATION).evaluate({"rotation": trunk[:, None]})[:, 0]
    below = at - torch.nn.functional.pad(height[:, None], (2, 0))
    for what, ahead_s, goal in goals:
        out[goal_name(ahead_s, what)] = (below + rotate(level, goal.pos))[:, None]
        out[goal_rotation(ahead_s, what).name] = multiply(level, goal.quat)[:, None]
    return out
