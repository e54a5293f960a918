"""Door: push a small open door shut by its lever."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from rookery.assets.furniture import LEVER
from rookery.tasks.manipulation.door_open import RADIUS, DoorOpen
from rookery.tasks.manipulation.meta_world import CARRY, PALM
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import tolerance

FULL, NEAR = 0.05, 0.0125  # m, of the handle and of the tool from the goal, for the full reward
ALONG = 0.37  # m, from the hinge to where the lever is pushed
GAP = 0.035
"""m, from the lever's axis to the tool: half of that is the lever, the rest the closed fingers."""
AWAY = 0.055  # m, likewise before they touch
AHEAD = 0.2  # rad, that the expert's goal is before the door


class DoorClose(DoorOpen):
    """A Panda pushes a small door shut.

    Done: the handle is within 8 cm of its goal, that is, the door is open by 11 degrees at most.

    Meta-World's hand begins at x = -.5 m, which is out of the Panda's workspace; here the tool begins at -.38 m, as there on
    the far side of the lever.
    """

    name = "table-door-close"
    engines = ("mujoco",)

    radius: ClassVar = RADIUS

    begin = 0.5 * math.pi
    shift = (0.2, -0.2, 0.0)
    start: ClassVar = (-0.38, 0.5, CARRY)

    def misses(self) -> Tensor:
        return (self.first[:, :3] - self.target).norm(dim=1)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        handle = self.first[:, :3]
        error = self.misses()
        shut = tolerance(error, 0.0, FULL, math.hypot(*self.shift), gaussian=True)
        hand_0 = self.tool_0 + torch.tensor([0.0, 0.0, PALM])
        distance = (self.robot.tool - self.target).norm(dim=1)
        near = tolerance(distance, 0.0, NEAR, (hand_0 - handle).norm(dim=1) + 0.1, gaussian=True)
        return {"score": torch.where(error < FULL, 10.0, 3.0 * near + 6.0 * shut)}, error <= RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        """To the lever's outer side with closed fingers, then along with it."""
        angle = self.opened
        along, behind = self._local(angle)
        before = -LEVER - behind
        pushing = ((along - ALONG).abs() < 0.04) & (before > 0.0) & (before < AWAY + 0.02)
        out = torch.full_like(angle, ALONG)
        zero = torch.zeros_like(angle)
        gap = torch.where(pushing, GAP, AWAY)
        place = self._at(torch.where(pushing, (angle - AHEAD).clamp_min(0.0), angle), out, -LEVER - gap, zero)
        return {"arm": ToolTarget(self.towards(place, pushing), torch.ones_like(angle))}
