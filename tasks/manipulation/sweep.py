"""Sweep: slide a cube along the table to a place at its side, or into a hole in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop_more import CUBE_HALF, HOLE, cube, holed_table
from rookery.sim.scene import Scene
from rookery.sim.specs import Command, CommandRange
from rookery.tasks.manipulation.meta_world import BOX, OPENING
from rookery.tasks.manipulation.puck_task import PuckTask, gripping_table
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import hamacher_product, tolerance

RADIUS = 0.05  # m, along the table
SIDE = 0.5  # m, along x: where sweep's goal is, beside where the cube began
PAD = 0.05  # m, a pad farther from the cube's middle does not count as beside it
HAIR = 0.01  # m, least margin of a pad
DROP = 0.03  # m, from the middle of the hole, along the table, where the cube is let go


class _Sweep(PuckTask):
    """Base of both: the object is a cube, which the expert grips and takes along, a finger's width over the table."""

    engines = ("mujoco",)

    radius: ClassVar = RADIUS

    object_box: ClassVar = ((-0.1, 0.6, CUBE_HALF), (0.1, 0.7, CUBE_HALF))
    lift: ClassVar = 0.015  # as in push
    beside: ClassVar[float]
    """m, how far off the tool may be in x and z to be around the cube."""
    slack: ClassVar[float]
    """m, between pad and cube, within which it is gripped."""

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(cube, "puck", pos=(0.0, 0.6, CUBE_HALF))

    def distance_to_goal(self, place: Tensor) -> Tensor:
        """[N] m, of a place [N, 3] from the target, along the table: a cube in the hole is not too low."""
        return (place - self.target)[:, :2].norm(dim=1)

    def misses(self) -> Tensor:
        return self.distance_to_goal(self.first[:, :3])

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        error = self.misses()
        near = tolerance(error, 0.0, RADIUS, self.distance_to_goal(self.first_0))
        caged = self._cage()
        return {
            "score": torch.where(error < RADIUS, 10.0, 2.0 * caged + 6.0 * hamacher_product(caged, near))
        }, error <= RADIUS

    def _cage(self) -> Tensor:
        """Measure of how well the fingers are around the cube [N]: Meta-World's form for its two sweeps, in which pads count as
        gripping by where they are, whatever the effort is. A margin of nearly 0, which it can have, is HAIR here."""
        tool = self.robot.tool
        thing = self.first[:, :3]
        signs = torch.tensor([1.0, -1.0])
        gaps = (tool[:, 1:2] + 0.5 * self.robot.opening[:, None] * signs - thing[:, 1:2]) * signs
        gaps_0 = (self.tool_0[:, 1:2] + 0.5 * OPENING * signs - thing[:, 1:2]).abs()
        margin = (gaps_0 - PAD).abs().clamp_min(HAIR)
        around, grip = (
            hamacher_product(*tolerance(gaps, CUBE_HALF, high, margin).unbind(1))
            for high in (PAD, CUBE_HALF + self.slack)
        )
        far = (tool - thing)[:, ::2].norm(dim=1)
        far_0 = (self.tool_0 - self.first_0)[:, ::2].norm(dim=1)
        caged = hamacher_product(around, tolerance(far, 0.0, self.beside, (far_0 - self.beside).abs()))
        return 0.5 * (caged + torch.where(caged > 0.95, grip, 0.0))

    def commands(self) -> list[Command]:
        return []  # the goal is a part of the scene

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {}  # likewise


class Sweep(_Sweep):
    """A Panda brings a cube along the table to its side.

    Done: the cube is within 5 cm of the goal, half a meter to the right of the middle.

    The goal is as far away as the cube, and as high, as in Meta-World's code, where the drawn goals are not used.
    """

    name = "table-sweep"

    goal_box: ClassVar = ((0.49, 0.6, 0.0), (0.51, 0.7, CUBE_HALF))
    beside = 0.005
    slack = 0.01

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def setup(self) -> None:
        super().setup()
        # the other tasks' box ends 10 cm before the goal
        self.robot.box = torch.tensor((BOX[0], (SIDE, *BOX[1][1:])), dtype=torch.float64)

    def reset_objects(self, ids: Tensor) -> None:
        super().reset_objects(ids)
        self.target[ids] = self.puck.pose[ids, :3]
        self.target[ids, 0] = SIDE


class SweepInto(_Sweep):
    """A Panda brings a cube into a hole in the table.

    Done: the cube is within 5 cm of the middle of the hole, along the table, as in Meta-World.

    The hole is 16 cm wide and 5 cm deep; the expert lets go there, so that the cube falls in.
    """

    name = "table-sweep-into"

    goal_box: ClassVar = ((*HOLE[:2], CUBE_HALF), (*HOLE[:2], CUBE_HALF))
    beside = 0.01
    slack = 0.005

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(holed_table())

    def expert_targets(self) -> dict[str, ToolTarget]:
        target = super().expert_targets()["arm"]
        there = self.distance_to_goal(self.first[:, :3]) < DROP
        place = torch.where(there[:, None], self.robot.tool, target.place)
        return {"arm": ToolTarget(place, torch.where(there, -1.0, target.closing))}
