"""A task whose success is known in closed form for every factor, and policies with planted faults.

The agent sees a target direction in body axes and the clock. It is to act in that direction and to repeat the clock:

    offset      an episode succeeds while offset < u, with u uniform in [0, 1) of the episode: the success is 1 - offset
    friction    succeeds from 0.3 on
    heading     body axes against the world's; changes nothing for a policy that reads body axes
    delays      succeeds while no action is older than 3 control steps, and so do losses of commands
    noise       of the direction: the angle to it must stay below acos(0.95) in all steps
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
import torch
from torch import Tensor

from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.env import Act
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task

MODEL = (
    """<mujoco><worldbody><body><joint name="x" type="slide"/><geom size=".1" mass="1"/></body></worldbody></mujoco>"""
)
STEPS = 10
OLDEST = 3
"""Control steps."""
NOISE = 0.05
"""Standard deviation of each component of the direction in body axes."""
STRAIGHT = 0.95
"""Least cosine of the angle between action and target."""


@dataclass(frozen=True)
class ToyConfig:
    dt: float = 0.01
    control_dt: float = 0.02
    episode_s: float = 0.2
    coarsest: float = 1.0
    friction_applied: bool = True
    reward: Weights = Weights(one=1.0)


class Toy(Task):
    Config = ToyConfig

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(MODEL), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        action = ActionSpec("aim", ("x", "y", "clock"), (-1.0,) * 3, (1.0,) * 3, ("1",) * 3, (0.0,) * 3)
        return {"agent": Group(1, (Term("body", 2, noise=NOISE), Term("world", 2), Term("clock", 1)), action)}

    def setup(self) -> None:
        n = self.world.num_envs
        self.buffer("u", n)
        self.buffer("angle", n)
        self.buffer("age", n)
        self.buffer("aimed", n)
        for name, p in self.parameters().items():
            self.buffer(name, n)
            self.named(name).fill_(p.nominal)

    def named(self, name: str) -> Tensor:
        values: Tensor = getattr(self, name)
        return values

    def parameters(self) -> dict[str, Parameter]:
        def writes(name: str) -> Callable[[Tensor, Tensor], None]:
            def write(ids: Tensor, v: Tensor) -> None:
                if name != "friction" or self.cfg.friction_applied:
                    self.named(name)[ids] = v

            return write

        return {
            "offset": Parameter("lowers the success", "m", 0.0, 0.0, 1.0, writes("offset")),
            "other": Parameter("lowers it too", "m", 0.0, 0.0, 1.0, writes("other")),
            "friction": Parameter("needed", "1", 0.8, 0.05, 3.0, writes("friction")),
            "heading": Parameter("of the body", "rad", 0.0, -math.pi, math.pi, writes("heading")),
        }

    def reset(self, ids: Tensor) -> None:
        draw = self.rng(ids)
        self.u[ids] = draw.uniform()
        self.angle[ids] = draw.uniform(-math.pi, math.pi)
        self.age[ids] = 0.0
        self.aimed[ids] = 1.0

    def direction(self, angle: Tensor) -> Tensor:
        return torch.stack((angle.cos(), angle.sin()), -1)[:, None]

    def apply(self, actions: dict[str, Tensor]) -> None:
        action = actions["agent"]
        rows = action if action.dim() == 4 else action[:, None]
        clock = rows[:, :, 0, 2] * STEPS
        self.age[:] = torch.maximum(self.age, (self.steps[:, None] - clock).amax(1))
        aim = torch.nn.functional.normalize(self.given["agent"][:, 0, :2], dim=-1)
        self.aimed[:] = torch.minimum(self.aimed, (aim * self.direction(self.angle - self.heading)[:, 0]).sum(-1))

    def observe(self) -> dict[str, dict[str, Tensor]]:
        clock = self.steps[:, None, None].float()
        body = self.direction(self.angle - self.heading)
        return {"agent": {"body": body, "world": self.direction(self.angle), "clock": clock}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"agent": {"one": torch.ones(self.world.num_envs, 1)}}

    def terminated(self) -> Tensor:
        return torch.zeros(self.world.num_envs, dtype=torch.int64)

    def metrics(self) -> dict[str, Tensor]:
        good = (self.u >= self.offset + self.other) & (self.friction >= 0.3) & (self.aimed > STRAIGHT)
        good &= (self.age < OLDEST + 0.5) & torch.tensor(self.cfg.dt <= self.cfg.coarsest)
        figures = {"age": self.age, "aimed": self.aimed, "grip": self.friction, "offset": self.offset + self.other}
        return {"success": good.float(), **figures, "heading": self.heading}


def body_axes(obs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The right policy."""
    o = obs["agent"]
    return {"agent": torch.cat((o[..., :2], o[..., 4:] / STEPS), -1)}


def world_axes(obs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Planted: the world's frame in place of the body's, which is the same while the heading is nominal."""
    o = obs["agent"]
    return {"agent": torch.cat((o[..., 2:4], o[..., 4:] / STEPS), -1)}


def swapped(obs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Planted: one axis for the other, pitch for roll."""
    o = obs["agent"]
    return {"agent": torch.cat((o[..., 1:2], o[..., 0:1], o[..., 4:] / STEPS), -1)}


def one_step_late(obs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Planted: answers with the clock of one control step ago."""
    o = obs["agent"]
    return {"agent": torch.cat((o[..., :2], (o[..., 4:] - 1.0).clamp(min=0.0) / STEPS), -1)}


class ToyOpener:
    """Makes toy environments, as `rookery.experiments.gating.opener` does of real ones.

    Args:
        act: the policy.
        broken: engines on which another policy acts.
        config: of the task.
    """

    def __init__(self, act: Act = body_axes, broken: dict[str, Act] | None = None, **config: Any) -> None:
        self.act = act
        self.broken = broken or {}
        self.config = config

    def __call__(
        self, num_envs: int, *, starts: int = 0, fixed: dict[str, float] | None = None, engine: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> tuple[VecEnv, Act]:  # fmt: skip
        task = Toy(ToyConfig(**{**self.config, **(config or {})}))
        ranges = {name: Range(v, v, "startup") for name, v in (fixed or {}).items()}
        world = MujocoWorld(task.scene(), num_envs, 1)
        env = VecEnv(task, world, ranges=ranges, starts=starts, task_id="toy")
        return env, self.broken.get(engine or "", self.act)
