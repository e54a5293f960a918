"""A task that needs memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.env import Env, StepResult
from rookery.sim.specs import ActionSpec, Group, Term


class CueEnv(Env):
    """An episode shows -1 or 1 in its first observation, and pays for the sign of the action of its last step.

    In between it shows the time alone. Half of the worlds terminate at the end, the others are truncated.
    """

    task_id = "cue"
    control_dt = 0.1
    causes = ("over",)
    device = torch.device("cpu")

    def __init__(self, num_envs: int = 8, horizon: int = 6, seed: int = 0) -> None:
        action = ActionSpec("answer", ("sign",), (-1.0,), (1.0,), ("1",), (0.0,))
        self.groups = {"player": Group(1, (Term("cue", 1), Term("time", 1)), action)}
        self.num_envs = num_envs
        self.max_episode_steps = horizon
        self.generator = torch.Generator().manual_seed(seed)
        self.cue = torch.zeros(num_envs)
        self.clock = torch.zeros(num_envs, dtype=torch.int64)

    def _begin(self, ids: Tensor) -> None:
        self.cue[ids] = (torch.rand(len(ids), generator=self.generator) < 0.5).float() * 2.0 - 1.0
        self.clock[ids] = 0

    def _obs(self) -> dict[str, Tensor]:
        shown = torch.where(self.clock == 0, self.cue, 0.0)
        return {"player": torch.stack((shown, self.clock / self.max_episode_steps), -1).unsqueeze(1)}

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self._begin(torch.arange(self.num_envs))
        return self._obs(), {}

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        assert isinstance(actions, dict)
        action = actions["player"][:, 0, 0].clamp(-1.0, 1.0)
        self.clock += 1
        over = self.clock >= self.max_episode_steps
        reward = torch.where(over, action * self.cue, 0.0)
        even = torch.arange(self.num_envs) % 2 == 0
        obs = self._obs()
        info: dict[str, Any] = {}
        ids = over.nonzero().squeeze(1)
        if len(ids):
            info["final_observation"] = obs
            info["episode"] = {
                "ids": ids,
                "length": self.clock[ids].clone(),
                "return": {"player": reward[ids]},
                "metrics": {"success": (reward[ids] > 0.0).float()},
                "cause": even[ids].long(),
            }
            self._begin(ids)
            obs = self._obs()
        return obs, {"player": reward.unsqueeze(1)}, over & even, over & ~even, info

    @property
    def episode_start(self) -> Tensor:
        return self.clock == 0

    def state_dict(self) -> dict[str, Tensor]:
        return {"cue": self.cue.clone(), "clock": self.clock.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.cue.copy_(state["cue"])
        self.clock.copy_(state["clock"])
        self.generator.set_state(state["generator"])

    def close(self) -> None: ...
