"""The states of PPO's recurrent networks, while samples are collected and when they are learnt from.

Policy and critic have a GRU each, as in rsl_rl (Schwarke et al. 2025, arXiv 2509.10771, ActorCriticRecurrent): the critic may
read what the policy does not, and its gradient does not disturb what the policy remembers.

The states run on from rollout to rollout. Those before a rollout's first step are kept, and the update goes through the whole
rollout from there: backpropagation through time, truncated at the rollout's beginning. Where an episode ends, the state goes
back to zero; the value of a truncated episode's last observation is that of the state before.

    t              0      1      2 (ends)   3
    state before   h0     h1     h2         0         h0 from the rollout before
    value          V(o0)  V(o1)  V(o2)      V(o3)
    final value                  V(final; h3)         h3 after o2, before the state goes back

An inactive agent's state runs on with its observations, as it does where the policy is deployed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from rookery.policies.nn.network import Network
from rookery.policies.nn.parallel import split
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.storage.rollout import Rollout


class RolloutMemory:
    """The states of one group's policy and critic, for G sets of weights and S sequences (worlds, or worlds and agents).

    Args:
        rows: brings [..., A, k] to rows [G, R, k].
        sets, sequences: G and S.
        size: H, of a state.
        steps: T, of a rollout.
        device: where they live.

    Attributes:
        actor, critic: [G, S, H] before the next observation.
        actor_start, critic_start: [G, S, H] before the rollout's first.
    """

    def __init__(
        self, rows: Callable[[Tensor], Tensor], sets: int, sequences: int, size: int, steps: int, device: torch.device
    ) -> None:
        self._rows = rows
        self._steps = steps
        self.sequences = sequences
        self.actor, self.critic, self.actor_start, self.critic_start = (
            torch.zeros(sets, sequences, size, device=device) for _ in range(4)
        )
        self._after = torch.zeros(steps, sets, sequences, size, device=device)  # critic's, before it goes back

    def start(self) -> None:
        """Begin a rollout."""
        self.actor_start.copy_(self.actor)
        self.critic_start.copy_(self.critic)

    def mean_action(self, actor: Network, x: Tensor) -> Tensor:
        """The policy's mean action [N, A, D] for inputs [N, A, K]; its state makes a step."""
        assert isinstance(actor, Recurrent)
        out, state = actor.step(self._rows(x), self.actor)
        self.actor.copy_(state)
        return out.view(*x.shape[:2], -1) if len(out) == 1 else out.transpose(0, 1)

    def end_episodes(self, ended: Tensor, agents: int) -> None:
        """Put the policy's states of ended worlds [N] bool back."""
        self.actor.masked_fill_(self._by_sequence(ended, agents), 0.0)

    def first(self, roll: Rollout) -> Tensor:
        """[G, R] bool: rows of the rollout that are the first of an episode; before row 0 the states are back already."""
        ended = roll.terminated | roll.truncated
        first = torch.cat((torch.zeros_like(ended[:1]), ended[:-1]))
        return self._by_sequence(first, roll.reward.shape[2]).squeeze(2)

    def values(self, critic: Network, x: Tensor, last: Tensor, roll: Rollout) -> tuple[Tensor, Tensor]:
        """The critic's outputs for a rollout, and for the observation after it; its state goes to there.

        Args:
            critic: with memory.
            x: its inputs in the rollout [G, R, C].
            last: the input after it [G, S, C].
            roll: where episodes ended.

        Returns:
            [G, R] and [G, S].
        """
        assert isinstance(critic, Recurrent)
        ended = self._by_sequence(roll.terminated | roll.truncated, roll.reward.shape[2])
        parts = []
        for t in range(self._steps):
            now = slice(t * self.sequences, (t + 1) * self.sequences)
            out, state = critic.step(x[:, now], self.critic)
            parts.append(out.squeeze(2).clone())
            self._after[t].copy_(state)
            self.critic.copy_(state.masked_fill(ended[:, now], 0.0))
        return torch.cat(parts, 1), critic.step(last, self.critic)[0].squeeze(2).clone()

    def final_values(self, critic: Network, x: Tensor, t: Tensor, worlds: Tensor) -> Tensor:
        """The critic's outputs [G, R] for last observations of episodes, after `values`.

        Args:
            critic: with memory.
            x: its inputs [G, R, C], R = m or m A.
            t, worlds: [m] steps and worlds in which the episodes ended.
        """
        assert isinstance(critic, Recurrent)
        agents = x.shape[1] // len(t)
        each = worlds.unsqueeze(1) * agents + torch.arange(agents, device=worlds.device)
        state = self._after[t.unsqueeze(1), :, each].flatten(0, 1).transpose(0, 1)
        return critic.step(x, state)[0].squeeze(2)

    def order(self, sequences: Tensor, bounds: list[int], parts: int, chunk: int) -> Tensor:
        """Rows [R] in the order in which an epoch takes them: those of sequences that are learnt from together step by step.

        Args:
            sequences: [S] their order.
            bounds: rows at which the minibatches begin and end.
            parts: threads that share each of them.
            chunk: most rows that one takes at once.
        """
        first = torch.arange(self._steps, device=sequences.device).unsqueeze(1) * self.sequences
        out = []
        for start, stop in pairwise(bounds):
            for part in split(slice(start, stop), parts, self._steps):
                for a, b in pairwise([*range(part.start, part.stop, chunk), part.stop]):
                    out.append((first + sequences[a // self._steps : b // self._steps]).flatten())
        return torch.cat(out)

    def state_dict(self) -> dict[str, Tensor]:
        """The states before the next observation (not copied)."""
        return {"actor": self.actor, "critic": self.critic}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put saved states back, in place."""
        self.actor.copy_(state["actor"])
        self.critic.copy_(state["critic"])

    def _by_sequence(self, worlds: Tensor, agents: int) -> Tensor:
        """[..., N] of worlds as rows [G, R, 1]."""
        return self._rows(worlds.unsqueeze(-1).expand(*worlds.shape, agents).unsqueeze(-1))
