"""Pick and place: lift the puck, and hold it at a place in the air."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.tasks.manipulation.meta_world import OPENING
from rookery.tasks.manipulation.puck_task import PuckTask, gripping_table
from rookery.tasks.manipulation.push import NEAR
from rookery.tasks.manipulation.shaping import both, cage, distance, nearness

RADIUS = 0.07
FULL = 0.05
"""m, of the puck from its goal: within the first the task is done, within the second the reward is full."""
LIFTED = 0.01  # m


class PickPlace(PuckTask):
    """A Panda brings a puck to a place in the air.

    Done: the puck is within 7 cm of the goal.
    """

    name = "table-pick-place"

    radius: ClassVar = RADIUS

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool, opening, puck = self.robot.tool, self.robot.opening, self.first[:, :3]
        error, near = nearness(puck, self.target, self.first_0, FULL)
        caged = cage(
            tool, opening, puck, self.tool_0, self.first_0, self.closing,
            radius=0.015, pad=0.05, beside=0.005, opening_0=OPENING,
        )  # fmt: skip
        held = (distance(tool, puck) < NEAR) & (opening > 0.0) & (puck[:, 2] > self.first_0[:, 2] + LIFTED)
        score = both(caged, near) + torch.where(held, 1.0 + 5.0 * near, 0.0)
        return {"score": torch.where(error < FULL, 10.0, score)}, error <= RADIUS
