"""The agents of an Env one by one, for libraries that know several agents: names, and ends of episodes for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.env import Env


def agent_names(env: Env) -> dict[str, tuple[str, int]]:
    """Group and index in it of every agent, by its name ``<group>_<i>``."""
    return {f"{g}_{i}": (g, i) for g, group in env.groups.items() for i in range(group.count)}


def final_states(env: Env, final: Tensor, ended: Tensor) -> Tensor:
    """[N, S]: the last state of an episode where one ended, the state now elsewhere.

    Args:
        env: after the step.
        final: [N, S] ``info["final_state"]`` of the step.
        ended: [N] bool.
    """
    return torch.where(ended[:, None], final, env.state)


class AgentEnds:
    """Which agents are terminated and which truncated by a step, from the ends of worlds and `Env.active`.

    An agent that drops out is terminated in that step and in all later ones of the episode, the one at the time limit
    included: there is nothing left whose value could be taken.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._gone: dict[str, Tensor] = {}

    def reset(self) -> None:
        """New episodes have begun in all worlds."""
        self._gone = self._inactive()

    def _inactive(self) -> dict[str, Tensor]:
        active = self._env.active
        return {} if active is None else {name: ~mask for name, mask in active.items()}

    def step(self, terminated: Tensor, truncated: Tensor, info: dict[str, Any]) -> dict[str, tuple[Tensor, Tensor]]:
        """By group: terminated [N, A, 1] and truncated [N, A, 1].

        Args:
            terminated, truncated: [N] bool, of the step that the Env has just made.
            info: of that step.
        """
        ended = (terminated | truncated)[:, None]
        final = info.get("final_active", {})
        before, self._gone = self._gone, self._inactive()
        out = {}
        for name, group in self._env.groups.items():
            ends = (terminated[:, None].expand(-1, group.count), truncated[:, None].expand(-1, group.count))
            if self._gone:
                # where an episode ended, `active` is that of the next one
                left = ~final[name] if name in final else torch.zeros_like(ended)
                gone = before[name] | torch.where(ended, left, self._gone[name])
                ends = ends[0] | gone, ends[1] & ~gone
            out[name] = ends[0][..., None], ends[1][..., None]
        return out
