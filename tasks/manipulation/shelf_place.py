"""Shelf: put a cube on a board."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop_more import CUBE_HALF, SHELF_Z, cube, shelf
from rookery.tasks.manipulation.carry_task import CarryTask
from rookery.tasks.rewards import gripper_caging, hamacher_product, tolerance

RADIUS = 0.07
FULL = 0.05
"""m, of the cube from its goal: within the first the task is done, within the second the reward is full."""
NEAR = 0.025  # m, of the tool and the cube: what counts as in the hand
LIFTED = 0.01  # m
HEIGHT = 0.3  # m, of the goal over the table, 3 cm over the middle of a cube on the board
UNDER = 0.24
WIDE = 0.15
DEEP = 0.15
"""m: a cube lower than that, and nearer to the goal than that along x and y, is under the board or about to hit it."""


class ShelfPlace(CarryTask):
    """A Panda puts a cube on a shelf.

    Done: the cube is within 7 cm of the goal, 3 cm over where it would stand on the board.

    The shelf has no roof and low walls (assets.tabletop_more.shelf), and the expert puts the cube 3 cm before the goal, as the
    palm is before the back then.
    """

    name = "table-shelf-place"

    radius: ClassVar = RADIUS

    object_box: ClassVar = ((-0.1, 0.5, CUBE_HALF), (0.1, 0.6, CUBE_HALF))
    goal_box: ClassVar = ((-0.1, 0.8, 0.0), (0.1, 0.9, 0.0))
    shift = (0.0, 0.0, HEIGHT)
    aim = (0.0, -0.03, SHELF_Z + CUBE_HALF + 0.003)
    near = (0.02, 0.004)
    wide = 2.0 * CUBE_HALF
    beside = 0.012
    travel = 0.31  # the cube passes 4 cm over the board

    def fixture(self) -> mujoco.MjSpec:
        return shelf()

    def thing(self) -> mujoco.MjSpec:
        return cube()

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool = self.robot.tool
        opening = self.robot.opening
        thing = self.first[:, :3]
        move = thing - self.target
        error = move.norm(dim=1)
        near = tolerance(error, 0.0, FULL, (self.first_0 - self.target).norm(dim=1))
        # the shelf's form of the caging counts nothing but the grip: what the dense form has over its half without one
        with_grip, without = (
            gripper_caging(tool, opening, thing, self.tool_0, self.first_0, e, radius=0.02, pad=0.05, beside=0.01)
            for e in (self.closing, torch.zeros_like(self.closing))
        )
        held = ((tool - thing).norm(dim=1) < NEAR) & (opening > 0.0) & (thing[:, 2] > self.first_0[:, 2] + LIFTED)
        score = hamacher_product(2.0 * (with_grip - without), near) + torch.where(
            held, 1.0 + 5.0 * self._clear(move, near), 0.0
        )
        return {"score": torch.where(error < FULL, 10.0, score)}, error <= RADIUS

    def _clear(self, offset: Tensor, near: Tensor) -> Tensor:
        """`near` [N], less before and under the board, and 0 behind its middle, where the cube would have to go up."""
        z, y = self.first[:, 2], offset[:, 1]
        low = (z > 0.0) & (z < UNDER) & (offset[:, 0].abs() < WIDE)
        loss = hamacher_product(((y + DEEP) / DEEP).clamp(0.0, 1.0), ((UNDER - z) / UNDER).clamp(0.0, 1.0))
        less = torch.where(low & (y > -DEEP) & (y < 0.0), (near - loss).clamp(0.0, 1.0), near)
        return torch.where(low & (y > 0.0), 0.0, less)
