"""A task whose value is known: what an agent observes falls by a factor a step and is its reward.

The value of an observation o is o / (1 - GAMMA * beta) if time has no limit. With that value function a trainer's value
targets must equal the value at every step, where time is up too, and the reward alone where an episode terminates.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.env import Env, StepResult
from rookery.sim.specs import ActionSpec, Group, Term

GAMMA, BETA, LENGTH, WORLDS = 0.9, 0.8, 5, 3


class Decay(Env):
    """Episodes of LENGTH steps; agent a of world w begins at (w + 1) (a + 1).

    Args:
        beta: the factor.
        terminates: episodes end by termination rather than by the time limit.
        agents: A.
        worlds: N.
        drop: the last agent drops out in the step of this number, counted from 1; 0 for never.
        durations: control steps that the steps of an episode stand for, by turns, as options do that somebody else chooses.
        apart: agent a is a steps ahead in `durations`.
    """

    def __init__(
        self, beta: float = BETA, terminates: bool = False, agents: int = 1, worlds: int = WORLDS, drop: int = 0,
        durations: tuple[int, ...] = (1,), apart: bool = False,
    ) -> None:  # fmt: skip
        self.task_id = "decay"
        action = ActionSpec("none", ("a",), (-1.0,), (1.0,), ("1",), (0.0,))
        self.groups = {"agent": Group(agents, (Term("o", 1),), action)}
        self.num_envs = worlds
        self.device = torch.device("cpu")
        self.control_dt = 0.1
        self.max_episode_steps = LENGTH
        self.state_size = agents
        self.causes = ("over",)
        self.beta = beta
        self.terminates = terminates
        self.drop = drop
        self.durations = durations
        self.apart = apart
        self.start = torch.arange(1.0, worlds + 1)[:, None] * torch.arange(1.0, agents + 1)
        self.total = torch.zeros(worlds)
        self.o = self.start.clone()
        self.t = 0

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self.o, self.t = self.start.clone(), 0
        self.total = torch.zeros(self.num_envs)
        return self._observed(), {}

    def _observed(self) -> dict[str, Tensor]:
        return {"agent": self.o[..., None].clone()}

    @property
    def state(self) -> Tensor:
        return self.o.clone()

    @property
    def active(self) -> dict[str, Tensor] | None:
        if not self.drop:
            return None
        mask = torch.ones_like(self.o, dtype=torch.bool)
        mask[:, -1] = self.t < self.drop
        return {"agent": mask}

    def elapsed(self) -> Tensor:
        """[A] control steps that the coming step stands for."""
        agents = self.o.shape[1]
        return torch.tensor([self.durations[(self.t + a * self.apart) % len(self.durations)] for a in range(agents)])

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        elapsed = self.elapsed()
        each = torch.arange(max(self.durations))[:, None]
        factor = torch.where(each < elapsed, (GAMMA * self.beta) ** each, 0.0).sum(0)  # [A], 1 for one control step
        reward = self.o * factor
        if self.active is not None:
            reward *= self.active["agent"]
        self.total += reward.mean(1)
        self.o = self.o * self.beta**elapsed
        self.t += 1
        n = self.num_envs
        ended = torch.full((n,), self.t == LENGTH)
        info: dict[str, Any] = {}
        if self.apart:
            info["elapsed"] = {"agent": elapsed.expand(n, -1)}
        elif self.durations != (1,):
            info["elapsed"] = elapsed[:1].expand(n)
        if self.t == LENGTH:
            info |= {"final_observation": self._observed(), "final_state": self.o.clone()}
            if self.active is not None:
                info["final_active"] = self.active
            info["episode"] = {
                "ids": torch.arange(n),
                "return": {"agent": self.total},
                "length": torch.full((n,), LENGTH),
                "metrics": {},
                "cause": ended.long() * self.terminates,
            }
            self.reset()
        no = torch.zeros_like(ended)
        ends = (ended, no) if self.terminates else (no, ended)
        return self._observed(), {"agent": reward}, *ends, info

    def stagger(self) -> None:
        pass

    def close(self) -> None:
        pass

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        pass


def value(o: Tensor, beta: float = BETA) -> Tensor:
    """Of an observation, without a time limit."""
    return o / (1.0 - GAMMA * beta)


def targets(
    steps: int, terminates: bool = False, agents: int = 1, worlds: int = WORLDS, drop: int = 0, beta: float = BETA
) -> Tensor:
    """[steps, worlds, agents] discounted sums of rewards to infinity, or to the end; see `Decay` for the arguments."""
    scale = torch.arange(1.0, worlds + 1)[:, None] * torch.arange(1.0, agents + 1)
    out = sums(beta, LENGTH if terminates else None, steps)[..., None] * scale
    if drop:
        out[..., -1] = sums(beta, drop, steps) * scale[:, -1]
    return out


def sums(beta: float, end: int | None, steps: int) -> Tensor:
    """[steps, 1] discounted sums of rewards from 1 on, to infinity or to the step `end` of the episode, 0 after it."""
    k = torch.arange(steps)[:, None] % LENGTH
    o = beta**k
    left = torch.full((steps, 1), torch.inf) if end is None else (end - k).clamp_min(0)
    return value(o, beta) * (1.0 - (GAMMA * beta) ** left)


def linear(layer: torch.nn.Linear, beta: float = BETA, column: int = 0) -> None:
    """Make a layer the exact value function of an observation, or of one column of a state."""
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[:, column] = 1.0 / (1.0 - GAMMA * beta)
        layer.bias.zero_()
