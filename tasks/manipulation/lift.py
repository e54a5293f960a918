"""Lift: pick up a cube and hold it at a place in the air."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.assets.blocks import RED, block
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import TOOL_POSITION, base, place
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.scene import Scene
from rookery.sim.specs import Command, CommandRange, Term, Weights
from rookery.tasks.manipulation.arm_task import DEFAULT_RANDOMIZATION, ArmTask, ArmTaskConfig
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject, faces, quarter_heading
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import closeness_tanh, distance

HALF, KG = 0.025, 0.1  # m, kg, of the cube
GOAL_BOX = (0.4, -0.2, 0.12), (0.6, 0.2, 0.35)  # m, world
REACHED = (
    0.012  # m, of the tool from the cube: from then on its way to the goal counts (Playground 0.2's PandaPickCube)
)
RADIUS = 0.03  # m, of the cube from its goal, within which the task is done
ABOVE = 0.09  # m, of the tool over the cube on the way there
HELD = 0.055  # m, the gripper's opening below which it holds the cube


@dataclass(frozen=True)
class LiftConfig(ArmTaskConfig):
    """Lift's values. The reward's weights are those of MuJoCo Playground 0.2.0's PandaPickCube."""

    cube_yaw: float = 0.25  # rad, largest yaw of the cube at the start: the tool's rotation is fixed in "cartesian"
    reward: Weights = Weights(reach=4.0, target=8.0, off_table=0.25, posture=0.3)


class Lift(ArmTask):
    """A Panda picks up a cube and holds it at a place in the air.

    Success: at the end the cube has been within 3 cm of its goal, 12 to 35 cm over the table, for a quarter of a second.
    """

    name = "panda-lift"
    engines = ("mujoco",)

    Config = LiftConfig
    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION

    target: Tensor
    reached: Tensor

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(lambda: block((HALF, HALF, HALF), KG, RED), "cube", pos=(0.5, 0.0, HALF))

    def setup(self) -> None:
        super().setup()
        self.cube = TableObject(self.world, "cube", ("block",))
        self.child("cube", self.cube)
        self.buffer("target", self.world.num_envs, 3)
        self.buffer("reached", self.world.num_envs, dtype=torch.bool)
        self._home = self.robot.home.float()

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.cube.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        pos = self.draw(ids, ((0.4, -0.2, HALF), (0.62, 0.2, HALF)))
        self.cube.put(ids, pos, self.cfg.cube_yaw * self.rng(ids).uniform(-1.0, 1.0))
        self.target[ids] = self.draw(ids, GOAL_BOX)
        self.reached[ids] = False

    def refresh_observation(self) -> None:
        self.cube.refresh()

    def observation_terms(self, group: str) -> tuple[Term, ...]:
        cube = place("cube's position")
        return (
            Term("cube", base(cube - TOOL_POSITION), scale=4.0, noise=0.002, estimated="cube's pose"),
            Term("cube_heading", faces("cube"), noise=0.01, estimated="cube's pose"),
            Term("goal", base(place("goal") - cube), scale=4.0, noise=0.002, estimated="cube's pose"),
        )

    def quantities(self, group: str) -> dict[str, Tensor]:
        thing = self.cube.body
        heading = quarter_heading(self.cube.rotation)
        return {"cube's position": thing.pos[:, 0], faces("cube").name: heading, "goal": self.target}

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool = self.robot.tool
        cube = self.cube.pos
        away, error = distance(tool, cube), distance(self.target, cube)
        self.reached |= away < REACHED
        terms = {
            "reach": closeness_tanh(away, 0.2),
            "target": closeness_tanh(error, 0.2) * self.reached,
            "off_table": (tool[:, 2] > 0.015).float(),
            "posture": closeness_tanh(distance(self.robot.pos, self._home), 1.0),
        }
        return terms, error < RADIUS

    def gauges(self, i: int) -> list[Gauge]:
        error = float((self.target[i] - self.cube.pos[i]).norm())
        return [Gauge("cube from its goal", error, RADIUS, "m"), *super().gauges(i)]

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Over the cube, down, close, and with it to the goal. The next motion follows from where things are."""
        tool = self.robot.tool
        cube = self.cube.pos
        offset = tool - cube
        over = offset[:, :2].norm(dim=1) < 0.01
        down = over & (offset[:, 2].abs() < 0.008)
        held = down & (self.robot.opening < HELD)
        place = cube.clone()
        place[:, 2] += torch.where(over, 0.0, ABOVE)
        place = torch.where(held[:, None], self.target + offset, place)
        return {"arm": ToolTarget(place, torch.where(down, 1.0, -1.0))}

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {"goal": CommandRange(*GOAL_BOX)}

    def commands(self) -> list[Command]:
        return [Command("target", self.target, place=True)]

    def markers(self, i: int) -> list[dict[str, Any]]:
        return [{"pos": self.target[i].tolist(), "size": 0.015, "rgba": [0.2, 0.8, 0.3, 0.7], "trail": False}]
