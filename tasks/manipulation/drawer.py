"""Drawers: pull one open, push one shut."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.furniture import BAR, drawer
from rookery.tasks.manipulation.furniture_task import FurnitureTask
from rookery.tasks.manipulation.meta_world import PALM
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import distance, hamacher_product, tolerance

OPEN_RADIUS, SHUT_RADIUS = 0.03, 0.065  # m
DEEP = 0.004
"""m, how far over the bar's axis the tool grips: the palm is then 11 mm over the case, and the tips 5 mm under the axis."""
BEFORE = 0.02
"""m, of the open fingers' middle before the bar: 1 cm from the bar and 2 cm from the drawer's face to the finger between."""
PULL = (
    0.196  # m, of the tool before where the shut drawer's bar was: 31 mm are from the tool to a bar that a finger pulls
)
OVER = 0.06  # m, the same while it goes there: the tips are clear of the bar


class _Drawer(FurnitureTask):
    """Base of both. What is observed is `above` m over the bar and 1 cm before its axis."""

    joint = "slide"
    object_box: ClassVar = ((-0.1, 0.9, 0.0), (0.1, 0.9, 0.0))
    above: ClassVar[float] = 0.0

    def furniture(self) -> mujoco.MjSpec:
        return drawer()

    def setup(self) -> None:
        super().setup()
        self._bar = torch.tensor(BAR)
        self._observed_point = np.array((BAR[0], BAR[1] - 0.01, BAR[2] + self.above), np.float32)

    def refresh_observation(self) -> None:
        self._frame[:, 4:7] = self._origin + self._observed_point
        self._frame[:, 5] -= self.opened.numpy()

    def bar(self) -> Tensor:
        """[N, 3] m, world: the middle of the bar."""
        bar = self.origin + self._bar
        bar[:, 1] -= self.opened
        return bar


class DrawerOpen(_Drawer):
    """A Panda pulls a drawer open.

    Done: what is observed is within 3 cm of its goal, that is, the drawer is out by 16 cm of 17.
    """

    name = "table-drawer-open"

    radius: ClassVar = OPEN_RADIUS

    shift = (0.0, -0.36, 0.09)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        error = self.misses()
        scale = torch.tensor([3.0, 3.0, 1.0])  # the differences in x and y count three times, that in height once
        palm = self.robot.tool + torch.tensor([0.0, 0.0, PALM])
        hand = distance(self.first[:, :3] * scale, palm * scale)
        hand_0 = distance((self.origin + self._bar) * scale, self.tool_0 * scale)
        score = 5.0 * (tolerance(hand, 0.0, 0.01, hand_0) + tolerance(error, 0.0, 0.02, 0.2))
        return {"score": score}, error <= OPEN_RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Down around the bar with open fingers, then back."""
        tool = self.robot.tool
        grip = self.bar()
        grip[:, 1] -= BEFORE
        offset = tool - grip
        above = offset[:, :2].norm(dim=1) < 0.01
        around = (offset[:, 0].abs() < 0.03) & (offset[:, 1].abs() < 0.02) & (offset[:, 2] < 0.015)
        place = grip.clone()
        place[:, 2] += torch.where(above | around, DEEP, OVER)
        out = self.origin[:, 1] + BAR[1] - PULL
        place[:, 1] = torch.where(around, out, grip[:, 1])
        return {"arm": ToolTarget(self.towards(place, around), torch.full_like(self.closing, -1.0))}


class DrawerClose(_Drawer):
    """A Panda pushes a drawer shut.

    Done: what is observed is within 6.5 cm of its goal, 5 of which are its height: the drawer is out by 3 cm at most.
    """

    name = "table-drawer-close"

    radius: ClassVar = SHUT_RADIUS

    begin = 0.15
    shift = (0.0, -0.16, 0.09)
    above = 0.05

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        error = self.misses()
        margin = (distance(self.first_0, self.tool_0) - 0.005).abs()
        reach = tolerance(distance(self.first[:, :3], self.robot.tool), 0.0, 0.005, margin, gaussian=True)
        shut = tolerance(error, 0.0, 0.05, (distance(self.first_0, self.target) - 0.05).abs())
        score = 10.0 * hamacher_product(hamacher_product(reach, self.closing.clamp(0.0, 1.0)), shut)
        return {"score": torch.where(error <= SHUT_RADIUS, 10.0, score)}, error <= SHUT_RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Down before the bar with the fingers closed, then forth."""
        tool = self.robot.tool
        bar = self.bar()
        offset = tool - bar
        before = (offset[:, 0].abs() < 0.03) & (offset[:, 1] < -0.015)
        low = before & (offset[:, 2] < 0.012)
        place = bar.clone()
        place[:, 2] += torch.where(before, DEEP, OVER)
        # bar and finger are 28.5 mm apart when they touch
        shut = self.origin[:, 1] + BAR[1] - 0.03
        place[:, 1] = torch.where(low, shut, bar[:, 1] - 0.05)
        return {"arm": ToolTarget(self.towards(place, low), torch.ones_like(self.closing))}
