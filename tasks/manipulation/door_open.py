"""Door: pull a small door open by its lever."""

from __future__ import annotations

import math
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.furniture import DOOR_HANDLE, HINGE, LEVER, door
from rookery.sim.rotations import rotate
from rookery.tasks.manipulation.furniture_task import FurnitureTask
from rookery.tasks.manipulation.meta_world import PALM
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import hamacher_product, tolerance

RADIUS = 0.08  # m, in x
WIDE = 2.0 * math.pi / 3.0  # rad, from where on it is wide open
PULL = 0.40
"""m, from the hinge to where the lever is pulled."""
BEFORE = 0.012  # m, of the open fingers' middle before the lever's axis: 9 mm from the lever to the finger behind it
AJAR = 0.42
"""rad, how far it is pulled: farther, the arm would have to fold up; beyond .8 the fingers, which do not turn, would bind."""
END = 1.5  # rad, to which the expert pushes it: the handle is at its goal in x at 1.6
EDGE = 0.345
INNER = 0.21
"""m, from the hinge to where the leaf is pushed from behind, when ajar and when open."""
OVER = 0.115
"""m, of the tool over the door's middle when it pushes: 17 mm of the finger are behind the leaf, the palm is over the case."""


class DoorOpen(FurnitureTask):
    """A Panda opens a door by its handle.

    Done: the handle is within 8 cm of its goal in x, that is, the door is open by 80 degrees.
    """

    name = "table-door-open"

    radius: ClassVar = RADIUS

    joint = "hinge"
    object_box: ClassVar = ((0.0, 0.85, 0.15), (0.1, 0.95, 0.15))
    shift = (-0.3, -0.45, 0.0)

    def furniture(self) -> mujoco.MjSpec:
        return door()

    def _axes(self, angle: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors [N, 3], world, of the leaf opened by `angle`: away from the hinge, and away from the lever."""
        c = angle.cos()
        s = angle.sin()
        zero = torch.zeros_like(angle)
        return torch.stack((c, -s, zero), 1), torch.stack((s, c, zero), 1)

    @property
    def first_pose(self) -> Tensor:
        half = -0.5 * self.opened[:, None]
        quat = torch.cat((half.cos(), torch.zeros(len(half), 2), half.sin()), dim=1)
        lever = torch.tensor((DOOR_HANDLE[0], DOOR_HANDLE[1], 0.0))
        return torch.cat((self.origin + torch.tensor(HINGE) + rotate(quat, lever), quat), dim=1)

    def refresh_observation(self) -> None:
        self.first.copy_(self.first_pose)

    def misses(self) -> Tensor:
        return (self.first[:, 0] - self.target[:, 0]).abs()

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        hand = self.robot.tool + torch.tensor([0.0, 0.0, PALM])
        offset, height = hand - self.first[:, :3], hand[:, 2]
        rho = (offset[:, :2] + torch.tensor([0.05, 0.0])).norm(dim=1)
        # far from the lever the hand has to be high
        floor = torch.where(rho <= 0.12, 0.0, 0.04 * (rho - 0.12).clamp_min(1e-9).log() + 0.4)
        high = torch.where(height >= floor, 1.0, tolerance(floor - height, 0.0, 0.01, 0.5 * floor))
        close = tolerance((offset + torch.tensor([0.0, -0.03, 0.01])).norm(dim=1), 0.0, 0.06, 0.5)
        wide = 0.8 * tolerance(WIDE - self.opened, 0.0, 0.5, math.pi / 3.0) + 0.2 * (self.opened > math.pi / 90.0)
        grip = 0.5 * (self.closing.clamp(-1.0, 1.0) + 1.0)
        done = self.misses() <= RADIUS
        return {
            "score": torch.where(done, 10.0, 2.0 * hamacher_product(hamacher_product(high, close), grip) + 8.0 * wide)
        }, done

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Pull at the lever between open fingers; when the door is ajar, push the leaf from behind, over its upper edge."""
        angle = self.opened
        (pull, around), (push, pushing) = self._pull(angle), self._push(angle)
        ajar = angle > AJAR
        place = torch.where(ajar[:, None], push, pull)
        return {
            "arm": ToolTarget(self.towards(place, torch.where(ajar, pushing, around)), torch.where(ajar, 1.0, -1.0))
        }

    def _local(self, angle: Tensor) -> tuple[Tensor, Tensor]:
        """[N] m: where the tool is in the leaf's frame, along it and behind it."""
        along, behind = self._axes(angle)
        offset = self.robot.tool - self.origin - torch.tensor(HINGE)
        return (offset * along).sum(1), (offset * behind).sum(1)

    def _at(self, angle: Tensor, out: Tensor, behind: Tensor, height: Tensor) -> Tensor:
        """[N, 3] m, world: a place in the frame of a leaf opened by `angle`, `height` over the door's middle."""
        a, b = self._axes(angle)
        place = self.origin + torch.tensor(HINGE) + out[:, None] * a + behind[:, None] * b
        place[:, 2] += height
        return place

    def _pull(self, angle: Tensor) -> tuple[Tensor, Tensor]:
        """Place for the tool [N, 3], and True where the lever is between the fingers [N]."""
        along, behind = self._local(angle)
        z = self.robot.tool[:, 2] - self.origin[:, 2]
        beside = (along - PULL).abs()
        across = behind + LEVER + BEFORE
        around = (beside < 0.05) & (across.abs() < 0.035) & (z < 0.02)
        above = (beside < 0.012) & (across.abs() < 0.012)
        low = around | above
        height = torch.where(low, -0.006, 0.10)
        full = torch.full_like(angle, 1.0)
        return self._at(angle + 0.25 * around, PULL * full, -(LEVER + BEFORE) * full, height), around

    def _push(self, angle: Tensor) -> tuple[Tensor, Tensor]:
        """Place for the tool [N, 3], and True where it is behind the leaf [N]."""
        along, behind = self._local(angle)
        z = self.robot.tool[:, 2] - self.origin[:, 2]
        share = ((angle - AJAR) / (1.4 - AJAR)).clamp(0.0, 1.0)
        out = EDGE + share * (INNER - EDGE)
        pushing = (behind > 0.018) & (z < 0.13)
        there = ((along - out).abs() < 0.03) & (behind > 0.035) & (behind < 0.08)
        high = z > 0.15
        height = torch.where(pushing | there, OVER, 0.19)
        place = self._at(
            torch.where(pushing, (angle + 0.15).clamp_max(END), angle), out, torch.where(pushing, 0.03, 0.05), height
        )
        rise = self._at(angle, torch.full_like(out, PULL), torch.full_like(out, -LEVER - BEFORE), height)
        return torch.where((pushing | there | high)[:, None], place, rise), pushing
