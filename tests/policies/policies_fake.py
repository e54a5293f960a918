"""A small vectorized environment exact to save and restore.

Each agent is a point on a line that its action pushes; the reward is minus its distance from the origin.
Episodes are cut at `max_episode_steps`, and end when the first agent strays beyond `limit`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.specs import ActionSpec, Group, Term


class FakeEnv(Env):
    control_dt = 0.01
    causes = ("strayed",)

    def __init__(self, num_envs=8, agents=1, obs=3, act=1, horizon=20, limit=3.0, seed=0, drop_out=False, vector=False):
        self.num_envs = num_envs
        self.max_episode_steps = horizon
        self.limit = limit
        self.device = torch.device("cpu")
        self.task_id = "fake"
        names = tuple(f"a{i}" for i in range(act))
        action = ActionSpec("push", names, (-1.0,) * act, (1.0,) * act, ("1",) * act, (0.1,) * act)
        self.groups = {"point": Group(agents, (Term("state", obs),), action)}
        self.state_size = agents * obs
        self.drop_out = drop_out
        self.vector = vector
        self.generator = torch.Generator().manual_seed(seed)
        self.x = torch.zeros(num_envs, agents, obs)
        self.clock = torch.zeros(num_envs, dtype=torch.int64)
        self.total = torch.zeros(num_envs, agents)

    def _draw(self, ids: Tensor) -> None:
        self.x[ids] = torch.randn(len(ids), *self.x.shape[1:], generator=self.generator)
        self.clock[ids] = 0
        self.total[ids] = 0.0

    def reset(self, seed=None):
        if seed is not None:
            self.generator.manual_seed(seed)
        self._draw(torch.arange(self.num_envs))
        return {"point": self.x.clone()}, {}

    def stagger(self):
        self.clock[:] = torch.arange(self.num_envs) % self.max_episode_steps

    def step(self, actions):
        a = actions["point"].clamp(-1.0, 1.0)
        self.x[..., 0] += 0.3 * a.mean(-1) + 0.05 * torch.randn(self.x.shape[:2], generator=self.generator)
        self.x[..., 1:] *= 0.95
        self.clock += 1
        reward = -self.x[..., 0].abs()
        self.total += reward
        terminated = self.x[:, 0, 0].abs() > self.limit
        truncated = (self.clock >= self.max_episode_steps) & ~terminated
        done = terminated | truncated
        info = {}
        if done.any():
            ids = done.nonzero().squeeze(1)
            info["final_observation"] = {"point": self.x.clone()}
            info["final_state"] = self.state.clone()
            info["episode"] = {
                "ids": ids,
                "return": {"point": self.total[ids].mean(1)},
                "length": self.clock[ids].clone(),
                "metrics": {"success": (self.x[ids, 0, 0].abs() < 0.3).float()},
                "cause": terminated[ids].long(),
                "reward_terms": {"point/distance": self.total[ids].mean(1)},
            }
            self._draw(ids)
        if self.vector:
            reward = reward.unsqueeze(-1).expand(-1, -1, 2)
        return {"point": self.x.clone()}, {"point": reward}, terminated, truncated, info

    @property
    def state(self):
        return self.x.reshape(self.num_envs, -1).clone()

    @property
    def active(self):
        if not self.drop_out:
            return None
        on = torch.ones(self.x.shape[:2], dtype=torch.bool)
        on[:, 1:] = self.clock.unsqueeze(1) < self.max_episode_steps // 2
        return {"point": on}

    def state_dict(self):
        return {
            "x": self.x.clone(),
            "clock": self.clock.clone(),
            "total": self.total.clone(),
            "rng": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        for name in ("x", "clock", "total"):
            if getattr(self, name).shape != state[name].shape:
                raise ValueError(f"{name} has another shape")
            getattr(self, name).copy_(state[name])
        self.generator.set_state(state["rng"])

    def close(self):
        pass
