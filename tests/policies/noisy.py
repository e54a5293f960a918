"""A small environment with events at random."""

from __future__ import annotations

from typing import Any

import torch
from policies_fake import FakeEnv
from torch import Tensor

from rookery.sim.env import StepResult


class Noisy(FakeEnv):
    """With events at random: one for a world, one for each agent."""

    event_names = ("bell", "tap")

    def step(self, actions: Any) -> StepResult:
        result = super().step(actions)
        bell = torch.rand(self.num_envs, generator=self.generator) < 0.05
        tap = torch.rand(self.x.shape[:2], generator=self.generator) < 0.1
        self.latest = {"bell": bell, "tap": tap}
        result[4]["events"] = self.latest
        return result

    @property
    def latest_events(self) -> dict[str, Tensor]:
        return self.latest

    @property
    def episode_start(self) -> Tensor:
        return self.clock == 0

    def reset(self, seed: int | None = None) -> Any:
        self.latest: dict[str, Tensor] = {}
        return super().reset(seed)
