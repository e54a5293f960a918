"""Cabinet: pull a drawer open by its handle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.assets.blocks import HANDLE, cabinet
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import TOOL_POSITION, base, own, place
from rookery.sim.randomization.parameters import Parameter, joint_damping
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import Term, Weights
from rookery.tasks.manipulation.arm_task import DEFAULT_RANDOMIZATION, ArmTask, ArmTaskConfig
from rookery.tasks.manipulation.objects import at_rest
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import action_l2

OPENED = 0.39  # m, IsaacGymEnvs' franka_cabinet.py, as are the reward's terms
NEAR = 0.02  # m, of the tool from the handle, within which the reward for its distance is double
FINGER = 0.04  # m, of a finger from the handle, within which it is rewarded to be nearer
AHEAD = 0.07  # m, before the handle, from where the script goes to it
GRASP = 0.03  # m, the gripper's opening below which it is about to hold, and no longer as particular about its place
HELD = 0.022  # m, the gripper's opening below which it holds the handle, which is 18 mm thick


OPEN, RATE = "how far the drawer is open", "rate at which the drawer opens"
"""Quantities that the arm observes."""


@dataclass(frozen=True)
class CabinetConfig(ArmTaskConfig):
    """Cabinet's values. The reward's weights are IsaacGym's."""

    episode_s: float = 6.0  # s
    reward: Weights = Weights(distance=2.0, attitude=0.5, around=0.25, open=7.5, fingers=5.0, bonus=1.0, effort=-0.01)


class Cabinet(ArmTask):
    """A Panda pulls the drawer of a cabinet open by its handle.

    Success: at the end the drawer has been open by 39 cm for a quarter of a second.

    The hand leans forward, 30 degrees under the horizontal, and its fingers close upright, around a level handle.
    """

    name = "panda-cabinet"
    engines = ("mujoco",)

    Config = CabinetConfig
    default_randomization = DEFAULT_RANDOMIZATION | {"drawer_damping": Range(0.5, 3.0)}
    camera: Any = ((0.35, -1.35, 1.0), (0.6, 0.0, 0.35))
    home = (0.0, -0.402, 0.0, -2.514, 0.0, 3.159, -0.785)
    box = ((0.3, -0.3, 0.25), (0.84, 0.3, 0.7))
    start = (0.5, 0.0, 0.5)

    origin: Tensor

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(cabinet, "cabinet", pos=(1.05, 0.0, 0.0))

    def setup(self) -> None:
        super().setup()
        world = self.world
        n = self.world.num_envs
        self.base = world.bodies(["cabinet/base"])
        self.slide = world.joints(["cabinet/slide"])
        self.buffer("origin", n, 3)
        self.buffer("handle", n, 3)
        self.buffer("out", n)
        self.buffer("speed", n)

    handle: Tensor
    out: Tensor
    speed: Tensor

    def parameters(self) -> dict[str, Parameter]:
        own = joint_damping(self.world.params, self.slide.names, "resistance of the drawer to motion", 0.1, 10.0)
        return super().parameters() | {"drawer_damping": own}

    def reset_objects(self, ids: Tensor) -> None:
        n = len(ids)
        self.origin[ids] = self.draw(ids, ((1.03, -0.08, 0.0), (1.07, 0.08, 0.0)))
        self.base.set_state(ids, at_rest(self.origin[ids]))
        self.slide.set_state(ids, torch.zeros(n, 1), torch.zeros(n, 1))

    def refresh_observation(self) -> None:
        self.out.copy_(self.slide.pos[:, 0])
        self.speed.copy_(self.slide.vel[:, 0])
        self.handle.copy_(self.origin + torch.tensor(HANDLE))
        self.handle[:, 0] -= self.out

    def observation_terms(self, group: str) -> tuple[Term, ...]:
        handle = base(place("handle's position") - TOOL_POSITION)
        return (
            Term("handle", handle, scale=4.0, noise=0.002, estimated="handle's position"),
            Term("drawer", own(OPEN, 1, "m", doc="0 shut"), scale=4.0, noise=0.002, estimated="drawer's opening"),
            Term("drawer_speed", own(RATE, 1, "m/s", doc="positive while it opens"), noise=0.01,
                 estimated="drawer's opening"),
        )  # fmt: skip

    def quantities(self, group: str) -> dict[str, Tensor]:
        handle = self.origin + torch.tensor(HANDLE) - self.slide.pos * torch.tensor([1.0, 0.0, 0.0])
        return {"handle's position": handle, OPEN: self.slide.pos, RATE: self.slide.vel}

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        robot = self.robot
        handle = self.handle
        out = self.out
        distance = (robot.tool - handle).norm(dim=1)
        near = (1.0 / (1.0 + distance.square())).square()
        # heading of the approach into the cabinet, and of the fingers' axis upright; which finger is above does not matter
        into = robot.rotation[:, 0, 2]
        upright = robot.rotation[:, 2, 1].abs()
        side = 0.5 * robot.opening * robot.rotation[:, 2, 1].abs()
        above = robot.tool[:, 2] + side - handle[:, 2]
        below = handle[:, 2] - robot.tool[:, 2] + side
        around = 0.5 * ((above > 0.0) & (below > 0.0) & (distance < 0.1)).float()
        terms = {
            "distance": torch.where(distance <= NEAR, 2.0, 1.0) * near,
            "attitude": 0.5 * (into.sign() * into.square() + upright.square()),
            "around": around,
            "open": out * (2.0 * around + 1.0),
            "fingers": ((FINGER - above.abs()) + (FINGER - below.abs())).clamp_min(0.0) * 2.0 * around,
            "bonus": 0.5 * (out > 0.01) + 2.0 * around * ((out > 0.2).float() + (out > OPENED)),
            "effort": action_l2(self.given["arm"][:, 0, :-1]),
        }
        return terms, out > OPENED

    def gauges(self, i: int) -> list[Gauge]:
        return [Gauge("drawer out", float(self.out[i]), OPENED, "m", at_most=False), *super().gauges(i)]

    def expert_targets(self) -> dict[str, ToolTarget]:
        """To a place before the handle, around it, close, and back. The next motion follows from where things are."""
        tool = self.robot.tool
        handle = self.handle
        approach = self.start_rotation["arm"][:, 2].float()
        offset = tool - handle
        ahead = offset @ approach
        aside = (offset - ahead[:, None] * approach).norm(dim=1)
        on_line = aside < torch.where(self.robot.opening < GRASP, 0.03, 0.012)
        around = on_line & (ahead.abs() < torch.where(self.robot.opening < GRASP, 0.02, 0.004))
        held = around & (self.robot.opening < HELD)
        place = handle - torch.where(on_line, 0.0, AHEAD)[:, None] * approach
        back = handle.clone()
        back[:, 0] = torch.maximum(handle[:, 0] - 0.03, self.origin[:, 0] + HANDLE[0] - 0.397)
        return {"arm": ToolTarget(torch.where(held[:, None], back, place), torch.where(around, 1.0, -1.0))}
