"""Reach: bring the tool to a place in the air. A puck lies on the table and is of no concern."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from rookery.tasks.manipulation.arm_task import ToolTarget
from rookery.tasks.manipulation.puck_task import PuckTask
from rookery.tasks.manipulation.shaping import distance, nearness

RADIUS = 0.05  # m


class Reach(PuckTask):
    """A Panda brings its tool to a place in the air.

    Done: the tool is within 5 cm of the goal.
    """

    name = "table-reach"

    radius: ClassVar = RADIUS
    needs_gripper: ClassVar = False

    def misses(self) -> Tensor:
        return distance(self.robot.tool, self.target)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        error, near = nearness(self.robot.tool, self.target, self.tool_0, RADIUS)
        return {"score": 10.0 * near}, error <= RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        return {"arm": ToolTarget(self.target, torch.full_like(self.closing, -1.0))}
