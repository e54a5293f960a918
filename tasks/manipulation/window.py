"""Sliding windows: open one, shut one."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.furniture import GRIP, WINDOW_RANGE, window
from rookery.tasks.manipulation.furniture_task import FurnitureTask
from rookery.tasks.manipulation.meta_world import CARRY
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import distance, hamacher_product, tolerance

RADIUS = 0.05  # m, in x
DEEP = 0.03  # m, of the tool over the handle's middle: the palm is then 14 mm over its upper end
OVER = 0.08  # m, the same while it goes there
BESIDE = 0.045  # m, from the handle's axis when the fingers come down
BEFORE = 0.008  # m, of the tool before the handle's axis, so that the palm keeps clear of the frame: the fingers are 39 mm wide


class _Window(FurnitureTask):
    """Base of both. The goal counts in x only; what is observed is `aside` m from the origin at a shut window.

    Meta-World's tool begins at y = .4, where the Panda cannot bring it: here it is .5. The reward's margins there come
    from the handle's place in the episode before, here from this one's.
    """

    radius: ClassVar = RADIUS

    joint = "slide"
    start: ClassVar = (0.0, 0.5, CARRY)
    aside: ClassVar[float]
    margin: ClassVar[float]
    """m, of the reward for the way to the goal."""
    gaussian: ClassVar[bool]
    side: ClassVar[float]
    """1: pushed to the right."""
    stop: ClassVar[float]
    """m, of the joint when the expert stops."""

    def furniture(self) -> mujoco.MjSpec:
        return window(self.object_box[0][2])

    def refresh_observation(self) -> None:
        self._frame[:, 4:7] = self._origin + np.array((self.aside, GRIP[1], 0.0), np.float32)
        self._frame[:, 4] += self.opened.numpy()

    def misses(self) -> Tensor:
        return (self.first[:, 0] - self.target[:, 0]).abs()

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        error = self.misses()
        margin = (distance(self.first_0, self.tool_0) - 0.02).abs()
        reach = tolerance(distance(self.first[:, :3], self.robot.tool), 0.0, 0.02, margin, self.gaussian)
        return {"score": 10.0 * hamacher_product(reach, tolerance(error, 0.0, RADIUS, self.margin))}, error <= RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Down beside the handle with the fingers closed, then along."""
        tool = self.robot.tool
        side = self.side
        grip = self.origin + torch.tensor(GRIP)
        end = grip[:, 0] + self.stop - side * 0.0185  # the handle's radius and half a finger
        grip[:, 0] += self.opened
        grip[:, 1] -= BEFORE
        offset = tool - grip
        beside = (side * offset[:, 0] < -0.017) & (side * offset[:, 0] > -0.07) & (offset[:, 1].abs() < 0.02)
        low = beside & (offset[:, 2] < DEEP + 0.008)
        place = grip.clone()
        place[:, 2] += torch.where(beside, DEEP, OVER)
        place[:, 0] = torch.where(low, end, grip[:, 0] - side * BESIDE)
        return {"arm": ToolTarget(self.towards(place, low), torch.ones_like(self.closing))}


class WindowOpen(_Window):
    """A Panda slides a window open.

    Done: what is observed is within 5 cm of its goal in x, that is, the window is open by 19 cm of 21.
    """

    name = "table-window-open"

    object_box: ClassVar = ((-0.1, 0.7, 0.16), (0.1, 0.9, 0.16))
    shift = (0.2, 0.0, 0.0)
    aside = -0.04
    margin = 0.15
    gaussian = False
    side = 1.0
    stop = WINDOW_RANGE - 0.005


class WindowClose(_Window):
    """A Panda slides a window shut.

    Done: what is observed is within 5 cm of its goal in x, that is, the window is open by 4 cm at most.
    """

    name = "table-window-close"

    object_box: ClassVar = ((0.0, 0.75, 0.2), (0.0, 0.9, 0.2))
    begin = 0.2
    shift = (0.0, 0.0, 0.0)
    aside = 0.01
    margin = 0.16
    gaussian = True
    side = -1.0
    stop = 0.005
