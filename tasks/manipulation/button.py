"""Button press, top down: push a button down into its box."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.assets.tabletop import BUTTON_GOAL, BUTTON_TOP, button
from rookery.sim.randomization.parameters import Parameter, joint_damping
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.tasks.manipulation.arm_task import ToolTarget
from rookery.tasks.manipulation.meta_world import CARRY, DEFAULT_RANDOMIZATION, OPENING, MetaWorldTask
from rookery.tasks.manipulation.objects import at_rest
from rookery.tasks.manipulation.shaping import both, nearness, tolerance

RADIUS = 0.024  # m, of the cap from its goal, upwards
NEAR = 0.03  # m, of the tool from the cap: what counts as touching
DEEP = 0.030
"""m, from the goal up to the tool whose finger tips hold the cap 1 mm before its stop."""
LEAD = 0.03  # m, of the expert's goal under the tool


class ButtonPressTopdown(MetaWorldTask):
    """A Panda presses a button from above.

    Done: the cap is within 24 mm of its goal, that is, pressed by 69 of its 74 mm.
    """

    name = "table-button-press-topdown"

    radius: ClassVar = RADIUS

    default_randomization = DEFAULT_RANDOMIZATION | {"button_damping": Range(0.5, 2.0)}
    start: ClassVar = (0.0, 0.4, CARRY)
    object_box: ClassVar = ((-0.1, 0.8, 0.115), (0.1, 0.9, 0.115))

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(button, "button", pos=(0.0, 0.8, 0.115))

    def setup(self) -> None:
        super().setup()
        self.block = self.world.bodies(["button/base"])
        self.slide = self.world.joints(["button/slide"])
        self.buffer("cap_0", self.world.num_envs, 3)
        self._cap_0 = self.cap_0.numpy()
        self.first[:, 3] = 1.0

    cap_0: Tensor  # m, world, of the cap at rest

    def parameters(self) -> dict[str, Parameter]:
        own = joint_damping(self.world.params, self.slide.names, "resistance of the button to motion", 0.1, 10.0)
        return super().parameters() | {"button_damping": own}

    def reset_objects(self, ids: Tensor) -> None:
        objects, _ = self.draw_places(ids)
        self.block.set_state(ids, at_rest(objects))
        self.slide.set_state(ids, torch.zeros(len(ids), 1), torch.zeros(len(ids), 1))
        where = ids.numpy()
        self._target[where] = self._cap_0[where] = objects
        self._target[where, 2] += np.float32(BUTTON_GOAL)
        self._cap_0[where, 2] += np.float32(BUTTON_TOP)

    def refresh_observation(self) -> None:
        self._frame[:, 4:7] = self._cap_0
        self._frame[:, 6] += self.slide.pos.numpy()[:, 0]

    def misses(self) -> Tensor:
        return (self.first[:, 2] - self.target[:, 2]).abs()

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool, cap = self.robot.tool, self.first[:, :3]
        up = self.misses()
        error, reached = nearness(tool, cap, self.tool_0, 0.01)
        shut = 1.0 - (self.robot.opening / OPENING).clamp(0.0, 1.0)
        pressed = tolerance(up, 0.0, 0.005, BUTTON_TOP - BUTTON_GOAL)
        return {"score": 5.0 * both(shut, reached) + torch.where(error <= NEAR, 5.0 * pressed, 0.0)}, up <= RADIUS

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Over the cap with the fingers closed, then down on it."""
        cap = self.first[:, :3]
        tool = self.robot.tool
        over = (tool - cap)[:, :2].norm(dim=1) < 0.02
        place = cap.clone()
        down = torch.maximum(self.target[:, 2] + DEEP, tool[:, 2] - LEAD)
        place[:, 2] = torch.where(over, down, cap[:, 2] + 0.06)
        return {"arm": ToolTarget(place, torch.ones_like(self.closing))}
