"""Reach: bring the tool to a place in the air. A puck lies on the table and is of no concern."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.tasks.manipulation.arm_task import ToolTarget
from rookery.tasks.manipulation.puck_task import PuckTask
from rookery.tasks.manipulation.shaping import tolerance

RADIUS = 0.05  # m


class Reach(PuckTask):
    """Done: the tool is within 5 cm of the goal."""

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        error = (self.robot.tool - self.target).norm(dim=1)
        return {"score": 10.0 * tolerance(error, 0.0, RADIUS, (self.tool_0 - self.target).norm(dim=1))}, error <= RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        return {"arm": ToolTarget(self.target, torch.full_like(self.closing, -1.0))}
