"""A point in the plane that is to reach a goal: its reward says only whether it is there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.env import Env, StepResult
from rookery.sim.specs import ActionSpec, Group, Term


class ReachEnv(Env):
    """Each control step moves the point by the action times `step`; the reward is `weight` within 0.1 of the goal, less a tenth
    of the action's length.

    Episodes are truncated after `horizon` steps and terminate beyond `limit` from the origin. Goals lie on a circle.

    Args:
        offset: the observation has the offset of the goal; else the goal and the place of the point.
        goals: [N, 2] fixed goals, with starts at `starts` [N, 2]; None draws the goals, and starts at the origin.
    """

    task_id = "reach"
    control_dt = 0.1
    causes = ("strayed",)

    def __init__(
        self, num_envs: int = 8, horizon: int = 12, limit: float = 9.0, step: float = 0.25, radius: float = 1.0,
        weight: float = 1.0, offset: bool = True, seed: int = 0, goals: Tensor | None = None, starts: Tensor | None = None,
        cost: float = 0.1,
    ) -> None:  # fmt: skip
        own = (Term("offset", 2, "m", scale=0.5),)
        terms = own if offset else (Term("goal", 2, "m", scale=0.5), Term("place", 2, "m", scale=0.5))
        action = ActionSpec("push", ("x", "y"), (-1.0, -1.0), (1.0, 1.0), ("m", "m"), (0.0, 0.0))
        self.groups = {"point": Group(1, (*terms, Term("age", 1)), action)}
        self.num_envs, self.max_episode_steps = num_envs, horizon
        self.device = torch.device("cpu")
        self.limit, self.speed, self.radius, self.weight, self.offset, self.cost = (
            limit,
            step,
            radius,
            weight,
            offset,
            cost,
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.fixed = None if goals is None else (goals, starts)
        self.place, self.goal = torch.zeros(num_envs, 2), torch.zeros(num_envs, 2)
        self.clock = torch.zeros(num_envs, dtype=torch.int64)

    def _begin(self, ids: Tensor) -> None:
        self.clock[ids] = 0
        if self.fixed is not None:
            self.goal[ids], self.place[ids] = (x[ids] for x in self.fixed)
            return
        angle = 6.2831853 * torch.rand(len(ids), generator=self.generator)
        self.place[ids] = 0.0
        self.goal[ids] = self.radius * torch.stack((angle.cos(), angle.sin()), -1)

    def _obs(self) -> dict[str, Tensor]:
        parts = [self.goal - self.place] if self.offset else [self.goal, self.place]
        age = (self.clock / self.max_episode_steps)[:, None]
        return {"point": torch.cat([*(0.5 * x for x in parts), age], 1)[:, None]}

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self._begin(torch.arange(self.num_envs))
        return self._obs(), {}

    def step(self, actions: Any) -> StepResult:
        action = actions["point"][:, 0].clamp(-1.0, 1.0)
        self.place += self.speed * action
        self.clock += 1
        there = (self.goal - self.place).norm(dim=1) < 0.1
        reward = self.weight * there.float() - self.cost * action.norm(dim=1)
        terminated = self.place.norm(dim=1) > self.limit
        truncated = (self.clock >= self.max_episode_steps) & ~terminated
        obs = self._obs()
        info: dict[str, Any] = {}
        ids = (terminated | truncated).nonzero().squeeze(1)
        if len(ids):
            info["final_observation"] = obs
            self._begin(ids)
            obs = self._obs()
        return obs, {"point": reward[:, None]}, terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        return {"place": self.place, "goal": self.goal, "clock": self.clock, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name in ("place", "goal", "clock"):
            getattr(self, name).copy_(state[name])
        self.generator.set_state(state["generator"])

    def close(self) -> None: ...
