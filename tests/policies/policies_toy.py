"""Environments for tests of algorithms, exact to save and restore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rookery.policies.storage.transitions import Transitions
from rookery.sim.env import Env, StepResult
from rookery.sim.specs import ActionSpec, Group, Term


class ToyEnv(Env):
    """Points on a line that their agents' actions push; the reward is minus the distance from the origin.

    Episodes are truncated after `horizon` steps and terminate when a world's first agent is beyond `limit`. With
    `drop_out`, all agents but the first take part only in the first half of an episode.
    """

    task_id = "toy"
    control_dt = 0.1
    causes = ("strayed",)

    def __init__(
        self, num_envs: int = 4, agents: int = 1, horizon: int = 10, limit: float = 2.0, drop_out: bool = False,
        neutral: float = 0.0, seed: int = 0,
    ) -> None:  # fmt: skip
        action = ActionSpec("push", ("push",), (-1.0,), (1.0,), ("m",), (neutral,))
        self.groups = {"point": Group(agents, (Term("position", 1, "m"), Term("age", 1)), action)}
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.max_episode_steps = horizon
        self.limit = limit
        self.drop_out = drop_out
        self.generator = torch.Generator().manual_seed(seed)
        self.x = torch.zeros(num_envs, agents)
        self.clock = torch.zeros(num_envs, dtype=torch.int64)

    def _begin(self, ids: Tensor) -> None:
        self.x[ids] = 2.0 * torch.rand(len(ids), self.x.shape[1], generator=self.generator) - 1.0
        self.clock[ids] = 0

    def _obs(self) -> dict[str, Tensor]:
        age = (self.clock / self.max_episode_steps)[:, None].expand_as(self.x)
        return {"point": torch.stack((self.x, age), -1)}

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self._begin(torch.arange(self.num_envs))
        return self._obs(), {}

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        assert isinstance(actions, dict)
        self.x += 0.5 * actions["point"].squeeze(-1).clamp(-1.0, 1.0)
        self.clock += 1
        reward = -self.x.abs()
        terminated = self.x[:, 0].abs() > self.limit
        truncated = (self.clock >= self.max_episode_steps) & ~terminated
        obs = self._obs()
        info: dict[str, Any] = {}
        ids = (terminated | truncated).nonzero().squeeze(1)
        if len(ids):
            info["final_observation"] = obs
            info["episode"] = {
                "ids": ids,
                "length": self.clock[ids].clone(),
                "return": {"point": reward[ids].mean(1)},
                "metrics": {"success": (self.x[ids, 0].abs() < 0.3).float()},
                "cause": terminated[ids].long(),
            }
            self._begin(ids)
            obs = self._obs()
        return obs, {"point": reward}, terminated, truncated, info

    @property
    def active(self) -> dict[str, Tensor] | None:
        if not self.drop_out:
            return None
        on = torch.ones(self.x.shape, dtype=torch.bool)
        on[:, 1:] = (self.clock < self.max_episode_steps // 2)[:, None]
        return {"point": on}

    def controller(self) -> Any:
        return lambda obs: {"point": (-2.0 * obs["point"][..., :1]).clamp(-1.0, 1.0)}

    def state_dict(self) -> dict[str, Tensor]:
        return {"x": self.x.clone(), "clock": self.clock.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.x.copy_(state["x"])
        self.clock.copy_(state["clock"])
        self.generator.set_state(state["generator"])

    def close(self) -> None: ...


def collect(algorithm: Any, env: Env, obs: dict[str, Tensor], steps: int) -> dict[str, Tensor]:
    """Act and observe; the observations to continue from."""
    for _ in range(steps):
        actions = algorithm.act(obs)
        result = env.step(actions)
        algorithm.observe(obs, actions, result)
        obs = result[0]
    return obs


def train(
    algorithm: Any, env: Env, obs: dict[str, Tensor], updates: int, progress: float = 0.0
) -> tuple[dict[str, Tensor], list[dict]]:
    """Collect and update; the observations to continue from, and each update's figures."""
    figures = []
    for _ in range(updates):
        obs = collect(algorithm, env, obs, algorithm.rollout_steps)
        figures.append(algorithm.update(progress))
    return obs, figures


def assert_resumes(make: Callable[[], Any], before: int) -> list[dict]:
    """An algorithm made anew, with the state saved after so many updates, makes the next five with the same bits; returns their
    figures."""
    one = make()
    obs, _ = train(one, one.env, one.env.reset()[0], before)
    other = make()
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    other.env.load_state_dict(one.env.state_dict())
    ends = [train(a, a.env, {k: v.clone() for k, v in obs.items()}, 5)[1] for a in (one, other)]
    assert ends[0] == ends[1]
    mine = one.state_dict()
    its = other.state_dict()
    assert mine.keys() == its.keys()
    assert all(torch.equal(mine[k], its[k]) for k in mine)
    return ends[0]


def batch_of(reward, discount: float = 1.0, terminated=None) -> Transitions:
    """Transitions of zeros with these rewards [B]."""
    rows = len(reward)
    ends = torch.zeros(rows, dtype=torch.bool) if terminated is None else terminated
    return Transitions(
        torch.zeros(rows, 2), torch.zeros(rows, 1), reward, torch.zeros(rows, 2), torch.full((rows,), discount), ends,
        torch.ones(rows, dtype=torch.bool), torch.zeros(rows, 0), torch.zeros(rows, 0),
    )  # fmt: skip


def distance(policy: torch.nn.Module) -> float:
    """Mean distance of points from the origin over an episode of ToyEnv."""
    env = ToyEnv(64, horizon=10, seed=9)
    obs, _ = env.reset()
    total = 0.0
    for _ in range(9):
        obs = env.step({"point": policy(obs["point"])})[0]
        total += obs["point"][..., 0].abs().mean().item() / 9
    return total
