"""What one iteration of on-policy collecting leaves behind, and the advantages computed from it.

Time runs along the first axis: row t holds the observation o_t, the action a_t taken on it, and what came of it: reward
r_t, and whether the episode ended there. Environments reset in the same step, so after an end at t the observation in
row t+1 is already the first of the next episode; the last one of the old episode arrives apart, with its own value:

    t            0     1     2         3
    episode      a     a     a         b
    truncated    -     -     yes       -
    next value   V(1)  V(2)  V(final)  last value       # had it terminated at 2: zero
"""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    final_value: Tensor,
    last_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016, arXiv 1506.02438) that never cross the end of an episode.

    Args:
        reward: [T, ...].
        value: V(o_t) [T, ...].
        final_value: V of the last observation of an episode truncated at t [T, ...]; read only there.
        last_value: V of the observation after the last row [...].
        terminated: [T, ...] bool (or broadcastable): the episode is over for good, nothing follows.
        truncated: [T, ...] bool: it was cut off and would have gone on. Where both hold, `terminated` counts.
        gamma: discount per control step.
        lam: weight of longer estimates.

    Returns:
        advantages [T, ...]; adding `value` gives the returns.
    """
    following = torch.cat((value[1:], last_value.unsqueeze(0)))
    following = torch.where(truncated, final_value, following).masked_fill_(terminated, 0.0)
    advantage = torch.add(reward, following, alpha=gamma).sub_(value)
    carry = (gamma * lam) * (~(terminated | truncated)).to(reward.dtype)
    carry = carry.expand_as(advantage)
    for t in range(reward.shape[0] - 2, -1, -1):
        advantage[t].addcmul_(carry[t], advantage[t + 1])
    return advantage


def moments(x: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the active entries of each row, [G, R] -> [G, 1] each."""
    if active is None:
        return x.mean(1, keepdim=True), x.std(1, keepdim=True, correction=0)
    n = active.sum(1, keepdim=True).clamp(min=1)
    mean = torch.where(active, x, 0.0).sum(1, keepdim=True) / n
    return mean, (torch.where(active, (x - mean).square(), 0.0).sum(1, keepdim=True) / n).sqrt()


class Rollout:
    """Preallocated storage of T steps of N worlds with A agents of one group each.

    Attributes:
        observation: normalised, [T, N, A, O].
        noise: standard normal draws behind the actions, [T, N, A, D].
        action: as sampled, before the environment's clip, [T, N, A, D].
        reward: [T, N, A].
        active: [T, N, A] bool, or None as long as every agent takes part.
        terminated, truncated: [T, N] bool.
        state: normalised input of a central critic [T, N, S], or None.
        seen: what the actor saw instead of `observation` [T, N, A, K], or None where it sees that.
        privileged_targets: normalised targets of the predictor [T, N, A, M], or None.
        finals: (t, ids [m], observations [m, A, O], states [m, S] or None) of truncated episodes, normalised.
    """

    def __init__(
        self, steps: int, worlds: int, agents: int, obs: int, act: int, state: int, device: torch.device,
        seen: int = 0, privileged_targets: int = 0,
    ) -> None:  # fmt: skip
        shape = (steps, worlds, agents)
        self.observation = torch.zeros(*shape, obs, device=device)
        self.noise = torch.zeros(*shape, act, device=device)
        self.action = torch.zeros(*shape, act, device=device)
        self.reward = torch.zeros(shape, device=device)
        self._active = torch.ones(shape, dtype=torch.bool, device=device)
        self.active: Tensor | None = None
        self.terminated = torch.zeros(steps, worlds, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(steps, worlds, dtype=torch.bool, device=device)
        self.state = torch.zeros(steps, worlds, state, device=device) if state else None
        self.seen = torch.zeros(*shape, seen, device=device) if seen else None
        self.privileged_targets = torch.zeros(*shape, privileged_targets, device=device) if privileged_targets else None
        self.finals: list[tuple[int, Tensor, Tensor, Tensor | None]] = []

    def set_active(self, t: int, active: Tensor | None) -> None:
        """Note who takes part in step t, [N, A] bool; None stands for everyone."""
        if active is not None:
            self._active[t].copy_(active)
            self.active = self._active
        elif self.active is not None:
            self._active[t].fill_(True)

    def clear(self) -> None:
        """Begin a new iteration."""
        self.finals.clear()
        self.active = None
        self._active.fill_(True)
