"""The base of reach, push and pick-place: a puck on the table, and how it is gripped and carried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.tabletop import PUCK_HALF, puck
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.scene import Scene
from rookery.sim.specs import Command, CommandRange
from rookery.tasks.manipulation.meta_world import DEFAULT_RANDOMIZATION, GOAL, MetaWorldTask
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject
from rookery.tasks.manipulation.scripted import ToolTarget

ABOVE = 0.08
"""m, of the tool over the puck on the way there: the finger tips pass 5 cm over it."""
BESIDE = 0.015  # m, off the puck's axis, from which the fingers go down around it
HELD = 0.0415  # m, the gripper's opening below which it holds the puck, which is 4 cm wide
LEAD = 0.025
"""m, along each axis, of the expert's goal before the tool while it carries something: with the robot's 5 cm, the tool sets out
1 cm too low, since each joint takes its own time, and swings past its goal."""


class PuckTask(MetaWorldTask):
    """Base of the tasks with a puck, which is drawn at least 15 cm from the goal.

    Attributes:
        puck: the object.
    """

    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION
    object_box: ClassVar = ((-0.1, 0.6, PUCK_HALF), (0.1, 0.7, PUCK_HALF))
    goal_box: ClassVar = ((-0.1, 0.8, 0.05), (0.1, 0.9, 0.3))
    separation: ClassVar = 0.15
    lift: ClassVar[float] = 0.0  # m, that the expert carries the puck over its target

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(puck, "puck", pos=(0.0, 0.6, PUCK_HALF))

    def setup(self) -> None:
        super().setup()
        self.puck = TableObject(self.world, "puck")
        self.child("puck", self.puck)

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.puck.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        objects, goals = self.draw_places(ids)
        self.puck.put(ids, objects)
        self._target[ids.numpy()] = goals

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {GOAL.name: CommandRange(*self.goal_box)}

    def commands(self) -> list[Command]:
        return [Command("target", self.target, place=True)]

    @property
    def first_pose(self) -> Tensor:
        return self.puck.pose

    def refresh_observation(self) -> None:
        self._frame[:, 4:11] = self.puck.pose

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Over the puck, down, close, and with it to the target. The next motion follows from where things are."""
        thing = self.first[:, :3]
        tool = self.robot.tool
        offset = tool - thing
        there = offset[:, :2].norm(dim=1) < BESIDE
        down = there & (offset[:, 2].abs() < 0.01)
        held = down & (self.robot.opening < HELD)
        over = thing.clone()
        over[:, 2] += torch.where(there, 0.0, ABOVE)
        move = self.target - thing
        move[:, 2] += self.lift
        place = torch.where(held[:, None], tool + move.clamp(-LEAD, LEAD), over)
        return {"arm": ToolTarget(place, torch.where(down, 1.0, -1.0))}


def gripping_table(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Give a scene elliptic friction cones, ten times harder sideways than along: a bar held off its middle then sinks by
    1.5 mrad in 2 s instead of by 16 (measured), at no measurable cost."""
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    return spec
