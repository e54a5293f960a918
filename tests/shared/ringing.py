"""A task with an event that nobody measures and one that follows from what is measured, and hierarchies that decide at both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import torch
from random_policy import random_policy
from skilled import skilled
from torch import Tensor

from rookery.policies.policy import Policy
from rookery.policies.training.evaluate import act_with
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.env import Act
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.events import falling_below
from rookery.sim.quantities import POSITION, VELOCITY, place
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task
from rookery.sim.terms import Expression, Norm

MODEL = (
    """<mujoco><worldbody><body><joint name="x" type="slide"/><geom size=".1" mass="1"/></body></worldbody></mujoco>"""
)
NEAR_M = 1.2


@dataclass(frozen=True)
class RingingConfig:
    dt: float = 0.01
    control_dt: float = 0.02
    episode_s: float = 0.6
    bell: float = 0.1  # probability in a control step
    reward: Weights = Weights(one=1.0)


class Ringing(Task):
    """A point flies to a target that circles; a bell rings at random."""

    Config = RingingConfig
    event_definitions: ClassVar[dict[str, str]] = {
        "bell": "somebody rings a bell",
        "near": f"the point comes within {NEAR_M:g} m of its target",
    }
    cfg: RingingConfig
    pos: Tensor
    vel: Tensor
    target: Tensor
    before: Tensor
    rung: Tensor
    wind: Tensor

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(MODEL), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        action = ActionSpec("push", ("x", "y", "z"), (-2.0,) * 3, (2.0,) * 3, ("m/s",) * 3, (0.0,) * 3)
        terms = Term("offset", place("target") - POSITION), Term("speed", VELOCITY, scale=0.5)
        return {"point": Group(1, terms, action)}

    def setup(self) -> None:
        n = self.world.num_envs
        for name in ("pos", "vel", "target"):
            self.buffer(name, n, 1, 3)
        self.buffer("before", n)
        self.buffer("wind", n)
        self.buffer("rung", n, dtype=torch.bool)

    def parameters(self) -> dict[str, Parameter]:
        def write(ids: Tensor, v: Tensor) -> None:
            self.wind[ids] = v

        return {"wind": Parameter("blows along x", "m/s", 0.0, -1.0, 1.0, write)}

    @property
    def away(self) -> Tensor:
        return (self.target - self.pos)[:, 0].norm(dim=-1)

    def reset(self, ids: Tensor) -> None:
        self.pos[ids] = self.rng(ids).uniform(-1.0, 1.0, (1, 3))
        self.target[ids] = self.rng(ids).uniform(-1.0, 1.0, (1, 3))
        self.vel[ids] = 0.0

    def apply(self, actions: dict[str, Tensor]) -> None:
        action = actions["point"]
        self.vel.copy_(2.0 * (action if action.dim() == 3 else action[:, -1]))
        self.vel[..., 0] += self.wind[:, None]

    def advance(self) -> None:
        self.before.copy_(self.away)
        self.pos.add_(0.1 * self.vel).clamp_(-1.0, 1.0)
        turned = self.target[..., [1, 2, 0]]
        self.target.mul_(0.9).add_(0.4 * turned).clamp_(-1.5, 1.5)
        every = torch.arange(self.world.num_envs)
        self.rung.copy_(self.rng(every).uniform(0.0, 1.0) < self.cfg.bell)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"point": {"target": self.target, "position": self.pos, "velocity": self.vel}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"point": {"one": torch.ones(self.world.num_envs, 1)}}

    def terminated(self) -> Tensor:
        return torch.zeros(self.world.num_envs, dtype=torch.int64)

    def metrics(self) -> dict[str, Tensor]:
        return {"success": (self.away < 1e3).float(), "away": self.away}

    def events(self) -> dict[str, Tensor]:
        return {"bell": self.rung.clone(), "near": (self.away < NEAR_M) & (self.before > NEAR_M)}

    def event_expressions(self) -> dict[str, Expression]:
        return {"near": falling_below(Norm(place("target") - POSITION), NEAR_M)}


def ringing_env(num_envs: int, starts: int = 0, ranges: dict[str, Range] | None = None, **config: Any) -> VecEnv:
    task = Ringing(RingingConfig(**config))
    return VecEnv(task, MujocoWorld(task.scene(), num_envs, 1), ranges=ranges or {}, starts=starts, task_id="ringing")


def ringing_policy(env: VecEnv, **settings: Any) -> Policy:
    """A random high level that decides at both events, and seldom else, above three skills."""
    group = env.groups["point"]
    policies = {"gru": random_policy(group, 1, memory=5), "plain": random_policy(group, 2)}
    skills = {
        "gru": {"policy": "gru", "shift": {"offset": 0.5}},
        "plain": {"policy": "plain", "command": {"speed": [[-1.0, 1.0], 0.3, 0.0]}},
        "again": {"policy": "plain", "finished": "norm(offset) > 2.5"},
    }
    made = skilled(env, policies, **({"every": 25, "events": ["near", "bell"], "skills": skills} | settings))
    return made.deployed({"point": random_policy(made.groups["point"], 3)})["point"]


class RingingOpener:
    """Makes environments for the gate, with a policy that acts in them."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __call__(
        self, num_envs: int, *, starts: int = 0, fixed: dict[str, float] | None = None, engine: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> tuple[VecEnv, Act]:  # fmt: skip
        ranges = {name: Range(v, v, "startup") for name, v in (fixed or {}).items()}
        env = ringing_env(num_envs, starts, ranges, **(config or {}))
        return env, act_with({"point": self.policy}, env)
