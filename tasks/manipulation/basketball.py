"""Basketball: bring a ball over a hoop."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop_more import BALL_RADIUS, RING, ball, hoop
from rookery.tasks.manipulation.carry_task import CarryTask
from rookery.tasks.rewards import gripper_caging, hamacher_product, tolerance

RADIUS = 0.08  # m, in which height counts twice
NEAR = 0.035  # m, of the tool and the ball: what counts as in the hand
LIFTED = 0.01  # m


class Basketball(CarryTask):
    """A Panda brings a ball over a hoop.

    Done: the ball is within 8 cm of a place 5 cm over the hoop, height counted twice.

    The observed goal is that place; Meta-World observes the hoop's middle, 5 cm lower, and evaluates by this one. The expert
    drops the ball through the hoop.
    """

    name = "table-basketball"

    radius: ClassVar = RADIUS

    object_box: ClassVar = ((-0.1, 0.6, BALL_RADIUS), (0.1, 0.7, BALL_RADIUS))
    goal_box: ClassVar = ((-0.1, 0.85, 0.0), (0.1, 0.9, 0.0))
    separation: ClassVar = 0.22  # from the pole; at Meta-World's 15 cm the wrist, over the ball, is under the ring
    shift = (RING[0], RING[1], 0.3)
    aim = (RING[0], RING[1], 0.31)
    near = (0.006, 0.012)
    wide = 2.0 * BALL_RADIUS
    beside = 0.008  # a centimeter is left on each side
    travel = 0.34  # the ball passes 5 cm over the ring

    def fixture(self) -> mujoco.MjSpec:
        return hoop()

    def thing(self) -> mujoco.MjSpec:
        return ball()

    def misses(self) -> Tensor:
        return ((self.first[:, :3] - self.target) * torch.tensor([1.0, 1.0, 2.0])).norm(dim=1)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool = self.robot.tool
        opening = self.robot.opening
        thing = self.first[:, :3]
        scale = torch.tensor([1.0, 1.0, 2.0])
        error = ((thing - self.target) * scale).norm(dim=1)
        near = tolerance(error, 0.0, RADIUS, ((self.first_0 - self.target) * scale).norm(dim=1))
        caged = gripper_caging(
            tool, opening, thing, self.tool_0, self.first_0, self.closing, radius=0.025, pad=0.06, beside=0.005
        )
        held = ((tool - thing).norm(dim=1) < NEAR) & (opening > 0.0) & (thing[:, 2] > self.first_0[:, 2] + LIFTED)
        score = torch.where(held, near + 1.0 + 5.0 * near, hamacher_product(caged, near))
        return {"score": torch.where(error < RADIUS, 10.0, score)}, error <= RADIUS
