"""The states of off-policy networks with memory while transitions are collected.

Policy and critics have a GRU each. Both make a step with every observation, and the states before it are stored with the
transition: sequences that are learnt from begin there (R2D2, Kapturowski et al. 2019, "stored state"). Those states are of the
weights of then; a burn-in brings them nearer to those of now. Where an episode ends, the state goes back to zero. An inactive
agent's state runs on with its observations, as it does where the policy is deployed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.nn.features import Features


class LiveStates:
    """States of one group's memories, for N worlds with A agents.

    Args:
        worlds, agents: N and A.
        actor_size, critic_size: numbers in a state of the policy and of the critics, which may be 0.
        device: where they live.

    Attributes:
        now: [N, A, M] states before the next observation, the policy's numbers first.
        before: [N, A, M] those before the latest one.
    """

    def __init__(self, worlds: int, agents: int, actor_size: int, critic_size: int, device: torch.device) -> None:
        self._actor_size = actor_size
        self.now = torch.zeros(worlds, agents, actor_size + critic_size, device=device)
        self.before = torch.zeros_like(self.now)

    def step(self, x: Tensor, policy: Features, critics: Features) -> Tensor:
        """States of the policy [N A, H] after encoded observations [N A, in]; those of the critics go on as well.

        Args:
            x: behind the encoder.
            policy: with memory.
            critics: with or without.
        """
        assert policy.memory is not None
        self.before.copy_(self.now)
        rows = self.now.flatten(0, 1)
        state = policy.memory.step(x, rows[:, : self._actor_size])
        if critics.memory is not None:
            rows[:, self._actor_size :] = critics.memory.step(x, rows[:, self._actor_size :])
        rows[:, : self._actor_size] = state
        return state

    def end_episodes(self, ended: Tensor) -> None:
        """Put the states of ended worlds [N] bool back."""
        self.now.masked_fill_(ended[:, None, None], 0.0)
