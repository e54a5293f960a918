"""A tug of war with a known winner: the team whose agents act larger on average wins, after a head start that is known too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.env import Env, StepResult
from rookery.sim.specs import ActionSpec, Group, Term


def head_start(start: Tensor, episode: Tensor) -> Tensor:
    """Between -1 and 1, of the first team; another one for every start and episode."""
    return torch.sin(12.9898 * start + 78.233 * episode)


class Tug(Env):
    """Near (agents 0 and 2) against far (1, 3 and 4). Each agent observes the head start of its own team.

    Args:
        num_envs: N.
        starts: world i begins like world i % starts.
        advantage: times `head_start`; None for one of 0.3 for near in every episode.
        draw_below: nobody wins a lead of less.
        diverges: the physics of every episode diverge, whoever leads.
    """

    task_id = "tug"
    control_dt = 0.1
    max_episode_steps = 3
    causes = ("pulled over", "let go")
    teams = {"near": {"point": (0, 2)}, "far": {"point": (1, 3, 4)}}  # noqa: RUF012

    def __init__(
        self, num_envs: int, starts: int, advantage: float | None = 1.0, draw_below: float = 0.0, diverges: bool = False
    ) -> None:
        self.num_envs = num_envs
        self.starts = starts
        self.advantage = advantage
        self.draw_below = draw_below
        self.diverges = diverges
        self.device = torch.device("cpu")
        action = ActionSpec("pull", ("pull",), (-1.0,), (1.0,), ("1",), (0.0,))
        self.groups = {"point": Group(5, (Term("head_start", 1),), action)}
        self.near = torch.tensor([True, False, True, False, False])
        self.world = torch.arange(num_envs)

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self.episode = torch.zeros(self.num_envs, dtype=torch.int64)
        self.clock = torch.zeros(self.num_envs, dtype=torch.int64)
        self.lead = torch.zeros(self.num_envs)
        return self._obs(), {}

    def _head(self) -> Tensor:
        start = self.world % self.starts
        return torch.full((self.num_envs,), 0.3) if self.advantage is None else (
            self.advantage * head_start(start, self.episode)
        )  # fmt: skip

    def _obs(self) -> dict[str, Tensor]:
        head = self._head()[:, None]
        return {"point": torch.where(self.near, head, -head)[..., None]}

    def metrics(self) -> dict[str, Tensor]:
        lead = self._head() + self.lead
        won = lead.abs() > self.draw_below
        serves = (self.world % self.starts + self.episode) % 2 == 0
        measured = {"near_wins": won & (lead > 0), "far_wins": won & (lead < 0), "near_serves": serves}
        measured |= {"far_serves": ~serves, "lead": lead}
        return {name: value.float() for name, value in measured.items()}

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        assert isinstance(actions, dict)
        pull = actions["point"][..., 0]
        self.lead = pull[:, self.near].mean(1) - pull[:, ~self.near].mean(1)
        self.clock += 1
        done = self.clock > (self.world + self.episode) % 3
        ids = done.nonzero().squeeze(1)
        info: dict[str, Any] = {}
        if len(ids):
            metrics = {name: value[ids] for name, value in self.metrics().items()}
            cause = 2 - metrics["near_wins"].long() if not self.diverges else torch.full_like(ids, 3)
            info["episode"] = {"ids": ids, "cause": cause, "length": self.clock[ids].clone(), "metrics": metrics}
            self.episode[ids] += 1
            self.clock[ids] = 0
        zeros = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._obs(), {"point": torch.zeros(self.num_envs, 5)}, done, zeros, info

    def close(self) -> None:
        """Nothing to free."""

    def state_dict(self) -> dict[str, Tensor]:
        return {"episode": self.episode, "clock": self.clock}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.episode, self.clock = state["episode"], state["clock"]
