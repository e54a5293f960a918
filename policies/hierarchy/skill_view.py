"""A skill's side of a hierarchy: the worlds as its policy finds them, for a PPO that trains it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

if TYPE_CHECKING:
    from rookery.sim.env_wrapper import EnvWrapper

__all__ = ["SkillView"]


class SkillView(Env):
    """An environment of a skill's policy, of which a trainer reads all but the loop: that is the hierarchy's.

    Every agent of every world is a world of its own here, M = N A in number, with one agent: a skill begins and ends for each
    of them at another moment.

    Args:
        env: the hierarchy.
        name: of the group here.
        spec: the agents as the skill's policy observes and acts.
        count: A.

    Attributes:
        acting_now: [M, 1] bool, whose skill has this policy now; None where it is everybody's at all times.
    """

    def __init__(self, env: EnvWrapper, name: str, spec: Group, count: int) -> None:
        self._hierarchy = env
        self._count = count
        self.task_id = env.task_id
        self.num_envs = env.num_envs * count
        self.device = env.device
        self.control_dt = env.control_dt
        self.max_episode_steps = env.max_episode_steps
        self.state_size = env.state_size
        self.groups = {name: replace(spec, count=1, targets=(), future=(), observation_sets={}, mirror=None)}
        self.acting_now: Tensor | None = None

    @property
    def active(self) -> dict[str, Tensor] | None:
        return None if self.acting_now is None else dict.fromkeys(self.groups, self.acting_now)

    @property
    def state(self) -> Tensor:
        return self.each(self._hierarchy.state)

    def each(self, values: Tensor) -> Tensor:
        """[M, ...] of the agents, of [N, ...] of their worlds."""
        return torch.repeat_interleave(values, self._count, 0)

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        raise RookeryError("a skill's worlds are those of the hierarchy: reset and step that.")

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        raise RookeryError("a skill's worlds are those of the hierarchy: reset and step that.")

    def close(self) -> None:
        """Nothing: the worlds are the hierarchy's."""

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: the worlds are the hierarchy's."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Nothing."""
