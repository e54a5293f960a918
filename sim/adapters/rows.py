"""The agents of an Env as rows of one batch, for libraries that know nothing but independent agents.

Agent a of world w is row w * A + a. The rows of a world end together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.sim.adapters.spaces import one_number, table
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


class RowStep(NamedTuple):
    """What a control step gives, by row."""

    observation: Tensor
    """[R, O], the first one of the new episode where one ended."""
    reward: Tensor
    """[R] float32."""
    terminated: Tensor
    """[R] bool."""
    truncated: Tensor
    """[R] bool."""
    final: Tensor | None
    """[R, O], the last observation of the episodes that ended, in their rows; None where none did."""
    info: dict[str, Any]
    """The Env's own."""

    def last(self) -> Tensor:
        """[R, O] the last observation of an episode where one ended, `observation` elsewhere."""
        if self.final is None:
            return self.observation
        rows = (self.terminated | self.truncated).nonzero().flatten()
        out = self.observation.clone()
        out[rows] = self.final[rows]
        return out


class Rows:
    """One agent group of an Env as R = N * A rows.

    Args:
        env: with one agent group and rewards of one number.
        library: whose interface needs rows, for messages.

    Raises:
        RookeryError: several groups, or a vector reward.
    """

    def __init__(self, env: Env, library: str) -> None:
        one_number(env)
        if len(env.groups) != 1:
            raise RookeryError(
                f"{env.task_id!r} has the groups {list(env.groups)} and {library} knows one: use rookery.ParallelEnv, or "
                "rookery.make itself."
            )
        self.env = env
        ((self.name, self.group),) = env.groups.items()
        self.count = self.group.count
        self.num = env.num_envs * self.count
        self.observation_size = self.group.observation_size
        self.action_size = self.group.action.size
        self.privileged = "critic" in self.group.observation_sets

    def reset(self, seed: int | None = None) -> Tensor:
        """New episodes in all worlds; [R, O]."""
        return self._flat(self.env.reset(seed)[0])

    def step(self, actions: Any) -> RowStep:
        """Advance all worlds by one control step.

        Args:
            actions: [R, D] numbers in [-1, 1], on any device.

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        tensor = row_actions(actions, (self.num, self.action_size), self.env.device)
        by_group = {self.name: tensor.reshape(self.env.num_envs, self.count, self.action_size)}
        obs, reward, terminated, truncated, info = self.env.step(by_group)
        final = self._flat(info["final_observation"]) if "final_observation" in info else None
        ends = self.spread(terminated), self.spread(truncated)
        return RowStep(self._flat(obs), reward[self.name].flatten(), *ends, final, info)

    def _flat(self, by_group: dict[str, Tensor]) -> Tensor:
        return by_group[self.name].flatten(0, 1)

    def spread(self, by_world: Tensor) -> Tensor:
        """[R, ...] of what each world has, [N, ...]."""
        return by_world if self.count == 1 else by_world.repeat_interleave(self.count, 0)

    def critic(self) -> Tensor:
        """[R, O_critic] now: the observation set "critic" of a group that declares one (`privileged`)."""
        return self._flat(self.env.observation_set("critic"))

    def critic_size(self) -> int:
        """Length of a row of `critic`; 0 where the group declares none."""
        return self.group.observation_sets["critic"].size if self.privileged else 0


def row_actions(actions: Any, shape: tuple[int, int], device: torch.device | str) -> Tensor:
    """Actions [R, D] from anywhere as float32 on a device.

    Raises:
        RookeryError: another shape, or not numbers.
    """
    try:
        tensor = torch.as_tensor(actions, dtype=torch.float32, device=device).detach()
    except (TypeError, ValueError, RuntimeError) as e:
        raise RookeryError(f"actions must be numbers of shape {shape}, got {type(actions).__name__}.") from e
    if tuple(tensor.shape) != shape:
        raise RookeryError(f"actions must have shape {shape}, got {tuple(tensor.shape)}.")
    return tensor


def episode_means(env: Env, info: dict[str, Any]) -> dict[str, float]:
    """Means over the episodes that ended in a step: return, length in control steps, and the task's metrics; {} for none."""
    if "episode" not in info:
        return {}
    episode = info["episode"]
    out = {"return": float(table(episode["return"]).mean()), "length": float(episode["length"].numpy().mean())}
    if not episode["metrics"]:
        return out
    return out | dict(zip(episode["metrics"], table(episode["metrics"]).mean(1).tolist(), strict=True))
