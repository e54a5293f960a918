"""Peg insertion, from the side: pick up a bar and slide it into the hole of a block."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop import BLOCK_HALF, HOLE_Z, PEG_HALF, block, peg
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import matrix
from rookery.sim.scene import Scene
from rookery.tasks.manipulation.arm_task import ToolTarget
from rookery.tasks.manipulation.meta_world import DEFAULT_RANDOMIZATION, MetaWorldTask
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject, at_rest
from rookery.tasks.manipulation.puck_task import LEAD, gripping_table
from rookery.tasks.manipulation.shaping import both, cage, tolerance

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


class PegInsertSide(MetaWorldTask):
    """Done: the head is within 7 cm of its goal in the hole, of which a centimetre to the side counts as two."""

    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION
    object_box: ClassVar = ((0.0, 0.5, PEG_HALF[2]), (0.2, 0.7, PEG_HALF[2]))
    goal_box: ClassVar = ((-0.35, 0.4, 0.0), (-0.25, 0.7, 0.0))
    """m, of the block's foot."""
    separation: ClassVar = 0.1

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
        self._points = torch.tensor([GRASP, HEAD])

    head: Tensor

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.peg.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        objects, goals = self.draw_places(ids)
        self.block.set_state(ids, at_rest(goals))
        self.peg.put(ids, objects)
        self.target[ids] = goals + torch.tensor(GOAL)

    def refresh_observation(self) -> None:
        pose = self.peg.pose
        points = pose[:, None, :3] + self._points @ matrix(pose[:, 3:]).view(-1, 3, 3).transpose(1, 2)
        self.first[:, :3] = points[:, 0]
        self.first[:, 3:] = pose[:, 3:]
        self.head.copy_(points[:, 1])

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool = self.robot.tool
        opening = self.robot.opening
        grasp = self.first[:, :3]
        weights = torch.tensor([1.0, 2.0, 2.0])
        # Meta-World's margin is from where the head was when the last episode ended; here from where this one begins
        head_0 = self.first_0 + (self._points[1] - self._points[0])
        error = ((self.head - self.target) * weights).norm(dim=1)
        near = tolerance(error, 0.0, RADIUS, ((head_0 - self.target) * weights).norm(dim=1))
        near = both(near, self._clear())
        # and a peg is lifted when it is 1 cm over where it lay, not over where it was dropped from
        held = ((tool - grasp).norm(dim=1) < NEAR) & (opening > 0.0) & (grasp[:, 2] > self.first_0[:, 2] + LIFTED)
        caged = cage(
            tool, opening, grasp, self.tool_0, self.first_0, self.closing, radius=0.0075, pad=0.03, beside=0.005
        )
        caged = torch.where(held, 1.0, caged)
        score = both(caged, near) + torch.where(held, 1.0 + 5.0 * near, 0.0)
        return {"score": torch.where(error <= RADIUS, 10.0, score)}, error <= RADIUS

    def _clear(self) -> Tensor:
        """[N] in [0, 1]: less where the head is about to hit the block's front."""
        at = self.head - self.target + torch.tensor(GOAL)
        shares = []
        for corners in (BELOW, OVER):
            zero, one = torch.tensor(corners)
            move = (at - zero) / (one - zero)
            inside = ((move >= 0.0) & (move <= 1.0)).all(1)
            shares.append(torch.where(inside, move.prod(1), 1.0))
        return both(shares[1], shares[0])

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
