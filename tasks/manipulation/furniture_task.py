"""The base of the tasks with one piece of furniture: it stands elsewhere in each episode and has one joint."""

from __future__ import annotations

import abc
from typing import ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.randomization.parameters import Parameter, joint_damping
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.tasks.manipulation.meta_world import DEFAULT_RANDOMIZATION, MetaWorldTask
from rookery.tasks.manipulation.objects import at_rest

LEAD = 0.03
PUSH = 0.013
"""m, of the expert's goal before the tool, free and in touch. With the 5 cm that the robot allows, the tool swings past its
goal by up to 3 cm, and hits handles hard."""


class FurnitureTask(MetaWorldTask):
    """Base of tasks about a door, a drawer or a window.

    Attributes:
        origin: [N, 3] m, world: where the furniture stands.
        opened: [N] m or rad, of its joint, 0 shut.
    """

    default_randomization = DEFAULT_RANDOMIZATION | {"handle_damping": Range(0.5, 2.0)}
    joint: ClassVar[str]
    """Name of its joint."""
    begin: ClassVar[float] = 0.0
    """m or rad, of the joint at the start of an episode."""
    push: ClassVar[float] = PUSH
    """m, how far the expert's goal is ahead of a tool that touches."""
    shift: ClassVar[tuple[float, float, float]]
    """m, from `origin` to the goal."""
    origin: Tensor

    @abc.abstractmethod
    def furniture(self) -> mujoco.MjSpec:
        """A fresh spec, see assets.furniture."""

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(self.furniture, "furniture", pos=self.object_box[0])

    def setup(self) -> None:
        super().setup()
        world = self.world
        self.base = world.bodies(["furniture/base"])
        self.handle = world.joints([f"furniture/{self.joint}"])
        self.buffer("origin", world.num_envs, 3)
        self._origin = self.origin.numpy()
        self._shift = np.array(self.shift, np.float32)
        self.first[:, 3] = 1.0

    def parameters(self) -> dict[str, Parameter]:
        own = joint_damping(self.world.params, self.handle.names, "resistance of the handle to motion", 0.1, 10.0)
        return super().parameters() | {"handle_damping": own}

    def reset_objects(self, ids: Tensor) -> None:
        n = len(ids)
        objects, _ = self.draw_places(ids)
        self.base.set_state(ids, at_rest(objects))
        self.handle.set_state(ids, torch.full((n, 1), self.begin), torch.zeros(n, 1))
        where = ids.numpy()
        self._origin[where] = objects
        self._target[where] = objects.numpy() + self._shift

    @property
    def opened(self) -> Tensor:
        return self.handle.pos[:, 0]

    def towards(self, place: Tensor, touching: Tensor) -> Tensor:
        """[N, 3] m, world: a goal on the way to `place`, nearer to the tool where that is `touching` [N] bool."""
        tool = self.robot.tool
        lead = torch.where(touching, self.push, LEAD)[:, None]
        return tool + torch.maximum(torch.minimum(place - tool, lead), -lead)
