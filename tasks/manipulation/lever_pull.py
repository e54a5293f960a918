"""Lever: turn a lever up until it stands upright."""

from __future__ import annotations

import math
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop_more import BAR_RADIUS, LEVER_AXIS, LEVER_BAR, LEVER_RADIUS, lever
from rookery.sim.gauge import Gauge
from rookery.tasks.manipulation.furniture_task import FurnitureTask
from rookery.tasks.manipulation.meta_world import CARRY
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import hamacher_product, tolerance

UPRIGHT = 0.5 * math.pi  # rad
ERROR = math.pi / 24.0  # rad
GRIP = 0.7 * LEVER_BAR  # m, from the lever along its bar to where it is gripped
DEEP = 0.008  # m, of the bar over the tool: it slips through the pads as the lever turns, and level with the tool, out of them
HELD = 2.0 * BAR_RADIUS + 0.008
"""m, the gripper's opening under which it holds the bar. Half-way up, the arm pulls harder than a finger presses, which yields
by 7 mm."""
CLEAR = 0.06  # m, of the tool over the bar on the way there
AHEAD = 0.15  # rad, that the expert's goal is before the lever


class LeverPull(FurnitureTask):
    """A Panda turns a lever upright.

    Done: the lever is upright within 7.5 degrees.

    Meta-World's hand goes under the lever's ball and lifts it with its side, and is rewarded for being there; the Panda's
    fingers, which point down, close around a bar at the lever's end instead, and the reward is for being there.
    """

    name = "table-lever-pull"
    engines = ("mujoco",)

    joint = "hinge"
    push = 0.024  # with 0.013 one lever in twenty waits half-way for most of an episode
    object_box: ClassVar = ((-0.1, 0.7, 0.0), (0.1, 0.8, 0.0))
    shift = (LEVER_AXIS[0], LEVER_AXIS[1], LEVER_AXIS[2] + LEVER_RADIUS)
    start: ClassVar = (-0.1, 0.4, CARRY)  # Meta-World's is 10 cm to the right, where the palm may be under the lever

    def furniture(self) -> mujoco.MjSpec:
        return lever()

    def _end(self, angle: Tensor) -> Tensor:
        """[N, 3] m, world: the lever's end when it is turned up by `angle`."""
        zero = torch.zeros_like(angle)
        arm = torch.stack((zero, -angle.cos(), angle.sin()), 1)
        return self.origin + torch.tensor(LEVER_AXIS) + LEVER_RADIUS * arm

    def refresh_observation(self) -> None:
        angle = self.opened
        self.first[:, :3] = self._end(angle)
        self.first[:, 3] = (0.5 * angle).cos()
        self.first[:, 4] = -(0.5 * angle).sin()

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        end = self.first[:, :3]
        scale = torch.tensor([4.0, 1.0, 4.0])
        grip = torch.tensor([GRIP, 0.0, 0.0])
        move = self.robot.tool - end - grip
        way_0 = self.tool_0 - self.first_0 - grip
        ready = tolerance((move * scale).norm(dim=1), 0.0, 0.02, (way_0 * scale).norm(dim=1))
        error = (end - self.target).norm(dim=1)
        off_0 = (self.first_0 - self.target).norm(dim=1)
        score = 10.0 * hamacher_product(ready, tolerance(error, 0.0, 0.04, off_0))
        return {"score": score}, (self.opened - UPRIGHT).abs() <= ERROR

    def gauges(self, i: int) -> list[Gauge]:
        return [Gauge("angle from upright", float((self.opened[i] - UPRIGHT).abs()), ERROR, "rad")]

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Up, over the bar, down around it, close; then along the lever's circle."""
        tool = self.robot.tool
        angle = self.opened
        grip = torch.tensor([GRIP, 0.0, -DEEP])
        bar = self._end(angle) + grip
        offset = tool - bar
        around = (offset[:, 0].abs() < 0.025) & (offset[:, 1].abs() < 0.02) & (offset[:, 2].abs() < 0.02)
        above = (offset[:, :2].norm(dim=1) < 0.01) & (offset[:, 2] > 0.0)
        held = around & (self.robot.opening < HELD)
        high = offset[:, 2] > CLEAR - 0.02
        place = bar.clone()
        place[:, 2] += torch.where(above | around, 0.0, CLEAR)
        place[:, :2] = torch.where((above | around | high)[:, None], place[:, :2], tool[:, :2])
        pull = self._end((angle + AHEAD).clamp_max(UPRIGHT)) + grip
        place = torch.where(held[:, None], pull, place)
        return {"arm": ToolTarget(self.towards(place, around), torch.where(around & (offset[:, 2] < 0.01), 1.0, -1.0))}
