"""Peg insertion, from the side: pick up a bar and slide it into the hole of a block."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.tabletop import BLOCK_HALF, HOLE_Z, PEG_HALF, block, peg
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import rotate
from rookery.sim.scene import Scene
from rookery.tasks.manipulation.meta_world import DEFAULT_RANDOMIZATION, MetaWorldTask
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject, at_rest
from rookery.tasks.manipulation.puck_task import LEAD, gripping_table
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import distance, gripper_caging, hamacher_product, tolerance

RADIUS = 0.07  # m
GRASP = (0.03, 0.0, 0.01)
HEAD = (-0.1, 0.0, 0.0)
"""m, in the peg's frame: where it is to be gripped, which is what is observed of it, and its head."""
GOAL = (0.03, 0.0, HOLE_Z)
"""m, from the foot of the block to where the head is to go."""
LIFTED, NEAR = 0.01, 0.08  # m
# m, from the foot of the block: regions where the head would hit its front, below and above the hole, from the corner
# where the reward's factor is 0 to that where it is 1
BELOW = ((0.11, 0.1, 0.01), (0.15, -0.1, 0.096))
OVER = ((0.11, 0.1, 0.16), (0.17, -0.1, 0.19))
MOUTH = BLOCK_HALF[0]  # m, from the middle of the block
HELD = 0.0315  # m, the gripper's opening below which it holds the peg
AHEAD = 0.04  # m, from the mouth to the peg's end where it is brought in line


def clearance(head: Tensor, target: Tensor) -> Tensor:
    """[N] in [0, 1]: less where the head [N, 3] m of a peg is about to hit the block's front."""
    place = head - target + torch.tensor(GOAL)
    share = []
    for zero, one in ((torch.tensor(corner) for corner in region) for region in (OVER, BELOW)):
        move = (place - zero) / (one - zero)
        share.append(torch.where(((move < 0.0) | (move > 1.0)).any(1), 1.0, move.prod(1)))
    return hamacher_product(*share)


class PegInsertSide(MetaWorldTask):
    """A Panda puts a peg into a hole from the side.

    Done: the head is within 7 cm of its goal in the hole, of which a centimeter to the side counts as two.
    """

    name = "table-peg-insert-side"

    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION
    object_box: ClassVar = ((0.0, 0.5, PEG_HALF[2]), (0.2, 0.7, PEG_HALF[2]))
    goal_box: ClassVar = ((-0.35, 0.4, 0.0), (-0.25, 0.7, 0.0))
    """m, of the block's foot."""
    separation: ClassVar = 0.1
    radius: ClassVar = RADIUS

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def add_objects(self, scene: Scene) -> Scene:
        scene.add(peg, "peg", pos=(0.0, 0.6, PEG_HALF[2]))
        return scene.add(block, "block", pos=(-0.3, 0.6, 0.0))

    def setup(self) -> None:
        super().setup()
        self.peg = TableObject(self.world, "peg")
        self.child("peg", self.peg)
        self.block = self.world.bodies(["block/base"])
        self.buffer("head", self.world.num_envs, 3)

    head: Tensor

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.peg.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        objects, goals = self.draw_places(ids)
        self.block.set_state(ids, at_rest(goals))
        self.peg.put(ids, objects)
        self._target[ids.numpy()] = goals.numpy() + np.array(GOAL, np.float32)

    @property
    def first_pose(self) -> Tensor:
        pose = self.peg.pose
        return torch.cat((pose[:, :3] + rotate(pose[:, 3:], torch.tensor(GRASP)), pose[:, 3:]), dim=1)

    def refresh_observation(self) -> None:
        self.first.copy_(self.first_pose)
        pose = self.peg.pose
        self.head.copy_(pose[:, :3] + rotate(pose[:, 3:], torch.tensor(HEAD)))

    def misses(self) -> Tensor:
        return self._misses(self.head)

    def _misses(self, head: Tensor) -> Tensor:
        """[N] m, of a head [N, 3] from its goal; a centimeter to the side counts as two."""
        return ((head - self.target) * torch.tensor([1.0, 2.0, 2.0])).norm(dim=1)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool, opening, grasp = self.robot.tool, self.robot.opening, self.first[:, :3]
        error = self.misses()
        # Meta-World's margin is from where the head was when the last episode ended; here from where this one begins
        head_0 = self.first_0 + (torch.tensor(HEAD) - torch.tensor(GRASP))
        near = hamacher_product(tolerance(error, 0.0, RADIUS, self._misses(head_0)), clearance(self.head, self.target))
        # and a peg is lifted when it is 1 cm over where it lay, not over where it was dropped from
        held = (distance(tool, grasp) < NEAR) & (opening > 0.0) & (grasp[:, 2] > self.first_0[:, 2] + LIFTED)
        caged = gripper_caging(
            tool, opening, grasp, self.tool_0, self.first_0, self.closing, radius=0.0075, pad=0.03, beside=0.005
        )
        score = torch.where(held, near + 1.0 + 5.0 * near, hamacher_product(caged, near))
        return {"score": torch.where(error <= RADIUS, 10.0, score)}, error <= RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Over the peg, down, close, in front of the hole, in. The next motion follows from where things are."""
        grasp = self.first[:, :3]
        tool = self.robot.tool
        offset = tool - grasp
        there = offset[:, :2].norm(dim=1) < 0.015
        down = there & (offset[:, 2].abs() < 0.01)
        held = down & (self.robot.opening < HELD)
        over = grasp.clone()
        over[:, 2] += torch.where(there, 0.0, 0.08)
        to = self.target - self.head
        in_line = to[:, 1:].norm(dim=1) < 0.006
        ahead = to.clone()
        ahead[:, 0] += MOUTH - GOAL[0] + (PEG_HALF[0] + HEAD[0]) + AHEAD
        move = torch.where((in_line | (ahead[:, 0] > AHEAD))[:, None], to, ahead)
        return {
            "arm": ToolTarget(
                torch.where(held[:, None], tool + move.clamp(-LEAD, LEAD), over), torch.where(down, 1.0, -1.0)
            )
        }
