"""Push: bring the puck to a place on the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop import PUCK_HALF
from rookery.sim.specs import CommandRange
from rookery.tasks.manipulation.meta_world import GOAL
from rookery.tasks.manipulation.puck_task import PuckTask, gripping_table
from rookery.tasks.rewards import distance, gripper_caging, tolerance

RADIUS = 0.05  # m
NEAR = 0.02  # m, of the tool and the puck: what counts as in the hand


class Push(PuckTask):
    """A Panda brings a puck to a place on the table.

    Done: the puck is within 5 cm of the goal.
    """

    name = "table-push"

    radius: ClassVar = RADIUS

    lift: ClassVar = 0.015  # the arm sets out a little low, and would press the puck into the table

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def reset_objects(self, ids: Tensor) -> None:
        # the goal is as high as the puck, whatever height was drawn, as in Meta-World
        super().reset_objects(ids)
        self._target[ids.numpy(), 2] = PUCK_HALF

    def command_ranges(self) -> Mapping[str, CommandRange]:
        low, high = ((*corner[:2], PUCK_HALF) for corner in self.goal_box)
        return {GOAL.name: CommandRange(low, high)}

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool, opening, puck = self.robot.tool, self.robot.opening, self.first[:, :3]
        error = self.misses()
        near = tolerance(error, 0.0, RADIUS, distance(self.first_0, self.target))
        caged = gripper_caging(
            tool, opening, puck, self.tool_0, self.first_0, self.closing, radius=0.015, pad=0.05, beside=0.005
        )
        held = (distance(tool, puck) < NEAR) & (opening > 0.0)
        score = torch.where(held, 4.0 * caged + 1.0 + 5.0 * near, 2.0 * caged)
        return {"score": torch.where(error < RADIUS, 10.0, score)}, error <= RADIUS
