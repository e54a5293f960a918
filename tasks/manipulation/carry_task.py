"""The base of basketball and shelf-place: a thing is gripped, lifted, brought over its place, lowered and let go."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.sim.scene import Scene
from rookery.sim.specs import Command, CommandRange
from rookery.tasks.manipulation.objects import at_rest
from rookery.tasks.manipulation.puck_task import ABOVE, LEAD, PuckTask, gripping_table
from rookery.tasks.manipulation.scripted import ToolTarget

SLACK = 0.0015  # m, of the gripper's opening around what it holds
LOW = 0.03  # m, of the tool over the thing, under which the fingers are around it
CLOSE = 0.03
FINE = 0.012
"""m: nearer than the first along the table to what it fetches, the tool is led by the second, and swings less."""
OVER = 0.015  # m, along the table, of the thing from the place over which it is lowered


class CarryTask(PuckTask):
    """Base of tasks that bring a thing to a fixture, which stands elsewhere in each episode.

    Attributes:
        origin: [N, 3] m, world: where the fixture stands.
    """

    engines = ("mujoco",)

    wide: ClassVar[float]
    """m, of the thing between the fingers."""
    beside: ClassVar[float]
    """m, off the thing's axis, from which the fingers go down around it."""
    travel: ClassVar[float]
    """m, height at which the expert carries the thing."""
    aim: ClassVar[tuple[float, float, float]]
    """m, from the origin to where the expert lets go."""
    near: ClassVar[tuple[float, float]]
    """m, along the table and in height: within that of `aim`, it lets go; lower, it leaves the thing alone."""
    shift: ClassVar[tuple[float, float, float]]
    """m, from the origin to the goal."""
    origin: Tensor

    @abc.abstractmethod
    def fixture(self) -> mujoco.MjSpec:
        """A fresh spec, see assets.tabletop_more."""

    @abc.abstractmethod
    def thing(self) -> mujoco.MjSpec:
        """Likewise, with the geom `puck`."""

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def add_objects(self, scene: Scene) -> Scene:
        scene.add(self.thing, "puck", pos=self.object_box[0])
        return scene.add(self.fixture, "fixture", pos=(0.0, 0.9, 0.0))

    def setup(self) -> None:
        super().setup()
        self.base = self.world.bodies(["fixture/base"])
        self.buffer("origin", self.world.num_envs, 3)

    def reset_objects(self, ids: Tensor) -> None:
        super().reset_objects(ids)
        origin = self.target[ids]
        self.base.set_state(ids, at_rest(origin))
        self.origin[ids] = origin
        self.target[ids] = origin + torch.tensor(self.shift)

    def commands(self) -> list[Command]:
        return []  # the goal is a part of the scene

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {}  # likewise

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Over the thing, down, close; up, across, down to its place, open. The next motion follows from where things are."""
        thing = self.first[:, :3]
        tool = self.robot.tool
        offset = tool - thing
        aim = self.origin + torch.tensor(self.aim)
        beside = torch.where(offset[:, 2] < LOW, 2.0 * self.beside, self.beside)
        there = offset[:, :2].norm(dim=1) < beside
        down = there & (offset[:, 2].abs() < 0.01)
        held = down & (self.robot.opening < self.wide + SLACK)
        move = aim - thing
        far = move[:, :2].norm(dim=1)
        over = far < OVER
        high = thing[:, 2] > self.travel - OVER
        move[:, 2] = torch.where(over, move[:, 2], self.travel - thing[:, 2])
        move[:, :2] *= (over | high)[:, None]
        fetch = thing.clone()
        fetch[:, 2] += torch.where(there, 0.0, ABOVE)
        lead = torch.where(~held & (offset[:, :2].norm(dim=1) < CLOSE), FINE, LEAD)[:, None]
        step = torch.where(held[:, None], move, fetch - tool)
        place = tool + torch.maximum(torch.minimum(step, lead), -lead)
        put = (far < self.near[0]) & (thing[:, 2] < aim[:, 2] + self.near[1])
        return {"arm": ToolTarget(torch.where(put[:, None], tool, place), torch.where(down & ~put, 1.0, -1.0))}
