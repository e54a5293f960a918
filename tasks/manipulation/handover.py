"""Handover: one arm picks up a bar and hands it to another, which puts it down at its goal.

Two agents with a reward in common, each with its own observation in its own base's frame: the groups `giver` and `receiver`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.blocks import BLUE, block
from rookery.assets.scenery import table
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import TOOL_POSITION, axes, base, own, place, rotation
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import rotate
from rookery.sim.scene import Scene
from rookery.sim.specs import Command, CommandRange, Term, Weights
from rookery.tasks.manipulation.arm_scene import ArmMount
from rookery.tasks.manipulation.arm_task import DEFAULT_RANDOMIZATION, ArmTask, ArmTaskConfig
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import closeness_tanh, distance

HALF, KG = (0.11, 0.015, 0.015), 0.12  # m, kg, of the bar, of wood
GOAL_BOX = (0.68, -0.15, HALF[2]), (0.78, 0.15, HALF[2])  # m, world, of the bar's goal
GRIP = 0.065  # m, from the bar's middle to where each arm holds it: the palms, 6.6 cm wide, are 6.4 cm apart
MEET = (0.6, 0.0, 0.25)  # m, world, of the bar as it is handed over
RADIUS = 0.03  # m, of the bar from its goal
AWAY = 0.05  # m, of a tool from the bar, for it to have let go
STILL = 0.02  # m/s
HELD, OPEN = 0.036, 0.06  # m, openings below which the bar is held, and over which it has been let go
FAR = 0.1  # m, of the giver from the bar: the receiver has it to itself


HOLD, BAR_ROTATION = "place where this arm holds the bar", rotation("bar's rotation", "bar")
OTHER, OTHER_OPENING = "other arm's tool position", "distance between the other arm's fingers"
"""Quantities that an arm observes."""


@dataclass(frozen=True)
class HandoverConfig(ArmTaskConfig):
    """Handover's values."""

    episode_s: float = 10.0  # s
    bar_yaw: float = 0.15  # rad, largest yaw of the bar at the start
    reward: Weights = Weights(reach=0.5, lift=0.5, offer=1.0, take=1.0, passed=2.0, goal=4.0, done=8.0)


class Handover(ArmTask):
    """One Panda picks up a bar and hands it to another, which puts it at its goal.

    Success: at the end the bar has lain still within 3 cm of its goal, let go by both, for a quarter of a second, and the
    receiver brought it there.

    Attributes:
        target: [N, 3] m, world, of the bar's middle, on the receiver's side.
        passed: [N], the receiver has had the bar in the air, alone.
    """

    name = "dual-panda-handover"
    engines = ("mujoco",)

    Config = HandoverConfig
    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION
    mounts: ClassVar = {
        "giver": ArmMount("giver"),
        "receiver": ArmMount("receiver", (1.2, 0.0, 0.0), (math.cos(0.5 * math.pi), 0.0, 0.0, 1.0)),
    }
    camera: Any = ((0.6, -1.3, 0.8), (0.6, 0.0, 0.15))
    start = (0.45, 0.0, 0.35)
    ends: ClassVar = {"giver": -GRIP, "receiver": GRIP}
    """m, along the bar, where each arm holds it."""

    target: Tensor
    passed: Tensor

    def ground(self) -> mujoco.MjSpec:
        spec = table(half=(0.8, 0.7), centre=(0.6, 0.0))
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        return spec

    def add_objects(self, scene: Scene) -> Scene:
        return scene.add(lambda: block(HALF, KG, BLUE), "bar", pos=(0.45, 0.0, HALF[2]))

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.bar = TableObject(self.world, "bar", ("block",))
        self.child("bar", self.bar)
        self.buffer("target", n, 3)
        self.buffer("passed", n, dtype=torch.bool)
        self.grips = {g: self.buffer(f"grip_{g}", n, 3) for g in self.arms}

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.bar.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        pos = self.draw(ids, ((0.42, -0.15, HALF[2]), (0.52, 0.15, HALF[2])))
        self.bar.put(ids, pos, self.cfg.bar_yaw * self.rng(ids).uniform(-1.0, 1.0))
        self.target[ids] = self.draw(ids, GOAL_BOX)
        self.passed[ids] = False

    def refresh_observation(self) -> None:
        self.bar.refresh()
        for group, grip in self.grips.items():
            grip.copy_(self.bar.pos + self.ends[group] * self.bar.rotation[:, :, 0])

    def observation_terms(self, group: str) -> tuple[Term, ...]:
        both = (
            Term("bar", base(place(HOLD) - TOOL_POSITION), scale=4.0, noise=0.002, estimated="bar's pose"),
            Term("bar_heading", base(axes(BAR_ROTATION, "x"))[:2], noise=0.01, estimated="bar's pose"),
            Term("partner", base(place(OTHER) - TOOL_POSITION), scale=2.0, noise=0.002),
            Term("partner_opening", own(OTHER_OPENING, 1, "m"), scale=12.5, noise=0.0005),
        )
        goal = Term("goal", base(place("bar's goal") - TOOL_POSITION), scale=2.0, noise=0.002)
        return (*both, goal) if group == "receiver" else both

    def quantities(self, group: str) -> dict[str, Tensor]:
        other = self.arms["receiver" if group == "giver" else "giver"]
        bar = self.bar.body
        along = rotate(bar.quat[:, 0], torch.tensor([1.0, 0.0, 0.0]))
        return {
            HOLD: bar.pos[:, 0] + self.ends[group] * along, BAR_ROTATION.name: bar.quat[:, 0], OTHER: other.tool,
            OTHER_OPENING: other.opening[:, None], "bar's goal": self.target,
        }  # fmt: skip

    def grip_error(self, group: str) -> Tensor:
        """[N] m, of an arm's tool from where it holds the bar."""
        return (self.arms[group].tool - self.grips[group]).norm(dim=1)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        """Stages: what is behind counts in full once the bar is passed, so that nothing is gained by going back."""
        bar = self.bar.pos
        giver = self.arms["giver"]
        receiver = self.arms["receiver"]
        give = self.grip_error("giver")
        take = self.grip_error("receiver")
        height = bar[:, 2] - HALF[2]
        gripped = (take < 0.02) & (receiver.opening < HELD)
        alone = gripped & ((giver.tool - self.grips["giver"]).norm(dim=1) > AWAY) & (height > 0.05)
        self.passed |= alone
        held = ((give < 0.02) & (giver.opening < HELD)).float()
        meet = closeness_tanh(distance(bar, torch.tensor(MEET)), 0.25)
        aloft = (height / 0.1).clamp(0.0, 1.0)
        error = distance(bar, self.target)
        free = torch.minimum(self._clear("giver"), self._clear("receiver")) > AWAY
        done = self.passed & (error < RADIUS) & free & (self.bar.speed < STILL)
        one = torch.ones_like(aloft)
        terms = {
            "reach": torch.where(self.passed, one, closeness_tanh(give, 0.2)),
            "lift": torch.where(self.passed, one, aloft * torch.maximum(held, gripped.float())),
            "offer": torch.where(self.passed, one, aloft * meet),
            "take": torch.where(self.passed, one, aloft * closeness_tanh(take, 0.2) * (0.5 + 0.5 * gripped)),
            "passed": self.passed.float(),
            "goal": closeness_tanh(error, 0.25) * self.passed,
            "done": done.float(),
        }
        return terms, done

    def _clear(self, group: str) -> Tensor:
        """[N] m, of a tool from the bar's axis, within its length."""
        offset = self.arms[group].tool - self.bar.pos
        axis = self.bar.rotation[:, :, 0]
        along = (offset * axis).sum(1, keepdim=True).clamp(-HALF[0], HALF[0])
        return (offset - along * axis).norm(dim=1)

    def gauges(self, i: int) -> list[Gauge]:
        error = float((self.bar.pos[i] - self.target[i]).norm())
        return [Gauge("bar from its goal", error, RADIUS, "m"), *super().gauges(i)]

    def expert_targets(self) -> dict[str, ToolTarget]:
        """Phases of both: giver over the bar, down, close, to the meeting place; receiver over it, down, close; giver opens,
        goes up and away; receiver to the goal, down, open, up."""
        giver = self.arms["giver"]
        receiver = self.arms["receiver"]
        g = giver.tool
        r = receiver.tool
        bar = self.bar.pos
        grip_g = self.grips["giver"]
        grip_r = self.grips["receiver"]
        over_g, over_r = (torch.cat((v[:, :2], v[:, 2:] + 0.08), 1) for v in (grip_g, grip_r))
        carried_g = torch.tensor(MEET) + (g - bar)
        carried_r = self.target + (r - bar)
        above = torch.cat((carried_r[:, :2], carried_r[:, 2:] + 0.12), 1)
        back = torch.cat((torch.minimum(g[:, :1], torch.tensor(0.40)), g[:, 1:2], torch.full_like(g[:, 2:], 0.40)), 1)
        waits = torch.tensor((0.85, 0.0, 0.40)).expand_as(r)
        stay_g = giver.goal.float()
        stay_r = receiver.goal.float()
        up_g, up_r = (torch.cat((v[:, :2], torch.full_like(v[:, 2:], 0.40)), 1) for v in (stay_g, stay_r))

        def at(a: Tensor, b: Tensor, m: float) -> Tensor:
            return (a - b).norm(dim=1) < m

        self.next_phase([
            at(g, over_g, 0.01), at(g, grip_g, 0.006), giver.opening < HELD, at(bar, torch.tensor(MEET), 0.01),
            at(r, over_r, 0.01), at(r, grip_r, 0.006), receiver.opening < HELD, giver.opening > OPEN,
            g[:, 2] > 0.36, at(bar[:, :2], self.target[:, :2], 0.01), bar[:, 2] < HALF[2] + 0.002,
            receiver.opening > OPEN,
        ])  # fmt: skip
        place_g = self.of_phase([
            over_g, grip_g, grip_g, carried_g, *[stay_g] * 4, up_g, *[back] * 4,
        ])  # fmt: skip
        place_r = self.of_phase([
            waits, waits, waits, waits, over_r, grip_r, grip_r, stay_r, stay_r, above, carried_r, stay_r, up_r,
        ])  # fmt: skip
        p = self.phase
        closed_g = (p >= 2) & (p <= 6)
        closed_r = (p >= 6) & (p <= 10)
        slow = torch.where(p == 10, 0.005, 0.01)
        return {
            "giver": ToolTarget(place_g, torch.where(closed_g, 1.0, -1.0)),
            "receiver": ToolTarget(place_r, torch.where(closed_r, 1.0, -1.0), step=slow),
        }

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {"bar's goal": CommandRange(*GOAL_BOX)}

    def commands(self) -> list[Command]:
        return [Command("target", self.target, place=True)]

    def markers(self, i: int) -> list[dict[str, Any]]:
        return [{"pos": self.target[i].tolist(), "size": 0.015, "rgba": [0.2, 0.8, 0.3, 0.7], "trail": False}]
