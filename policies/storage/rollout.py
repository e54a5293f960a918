"""The samples of one iteration of on-policy learning, and the advantages computed from them.

Time runs along the first axis: row t holds the observation o_t, the action a_t taken on it, and its outcome: reward
r_t, and whether the episode ended there. Environments reset in the same step, so after an end at t the observation in
row t+1 is already the first of the next episode; the last one of the old episode arrives apart, with its own value:

    t            0     1     2         3
    episode      a     a     a         b
    truncated    -     -     yes       -
    next value   V(1)  V(2)  V(final)  last value       # had it terminated at 2: zero
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from rookery.policies.training.reduction import ALONE, Reduction
from rookery.sim.specs import ActionSpec


def gae(
    reward: Tensor,
    value: Tensor,
    final_value: Tensor,
    last_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float | Tensor,
    lam: float,
) -> Tensor:
    """Generalized advantage estimates (Schulman et al. 2016, arXiv 1506.02438) that never cross the end of an episode.

    Args:
        reward: [T, ...].
        value: V(o_t) [T, ...].
        final_value: V of the last observation of an episode truncated at t [T, ...]; read only there.
        last_value: V of the observation after the last row [...].
        terminated: [T, ...] bool (or broadcastable): the episode is over for good, nothing follows.
        truncated: [T, ...] bool: it was cut off and would have gone on. Where both hold, `terminated` counts.
        gamma: discount of what follows each row: one number, or [T, ...] where rows stand for several control steps.
        lam: weight of longer estimates, per row.

    Returns:
        advantages [T, ...]; adding `value` gives the returns.
    """
    following = torch.cat((value[1:], last_value.unsqueeze(0)))
    following = torch.where(truncated, final_value, following).masked_fill_(terminated, 0.0)
    if isinstance(gamma, Tensor):
        advantage = (reward + gamma * following).sub_(value)
    else:
        advantage = torch.add(reward, following, alpha=gamma).sub_(value)
    carry = (gamma * lam) * (~(terminated | truncated)).to(reward.dtype)
    carry = carry.expand_as(advantage)
    for t in range(reward.shape[0] - 2, -1, -1):
        advantage[t].addcmul_(carry[t], advantage[t + 1])
    return advantage


def moments(x: Tensor, active: Tensor | None, reduction: Reduction = ALONE) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the active entries of each row of all processes, [G, R] -> [G, 1] each."""
    if active is None and reduction.size == 1:
        return x.mean(1, keepdim=True), x.std(1, keepdim=True, correction=0)
    active = torch.ones_like(x, dtype=torch.bool) if active is None else active
    n = reduction.sum(active.sum(1, keepdim=True)).clamp(min=1)
    mean = reduction.sum(torch.where(active, x, 0.0).sum(1, keepdim=True)) / n
    return mean, (reduction.sum(torch.where(active, (x - mean).square(), 0.0).sum(1, keepdim=True)) / n).sqrt()


class ActionDraws:
    """Preallocated storage of what T steps of N worlds with A agents of one group each draw: observations and actions.

    Attributes:
        observation: normalized, [T, N, A, O].
        noise: standard normal draws behind the actions' continuous components, [T, N, A, D - K].
        gumbel: standard Gumbel draws behind the K choices, [T, N, A, C], or None without.
        choice_log_probs: of the C options when they were drawn, minus infinity where they were not allowed [T, N, A, C], or
            None without choices.
        action: as sampled, before the environment's clip, [T, N, A, D].
        state: normalized input of a central critic [T, N, S], or None.
    """

    def __init__(
        self, steps: int, worlds: int, agents: int, obs: int, act: ActionSpec, state: int, device: torch.device,
        new: Callable[..., Tensor] = torch.zeros,
    ) -> None:  # fmt: skip
        shape = (steps, worlds, agents)
        self.observation = new(*shape, obs, device=device)
        self.noise = new(*shape, len(act.names), device=device)
        self.action = new(*shape, act.size, device=device)
        self.gumbel = new(*shape, act.options, device=device) if act.choices else None
        self.choice_log_probs = new(*shape, act.options, device=device) if act.choices else None
        self.state = new(steps, worlds, state, device=device) if state else None

    def worlds(self, first: int, last: int) -> ActionDraws:
        """Views of the worlds from `first` to before `last`."""
        part = ActionDraws.__new__(ActionDraws)
        part.__dict__ = {k: None if x is None else x[:, first:last] for k, x in vars(self).items()}
        return part


class Rollout(ActionDraws):
    """Preallocated storage of T steps of N worlds with A agents of one group each, see also `ActionDraws`.

    Attributes:
        reward: [T, N, A].
        elapsed: [T, N, A] float, control steps that a row stands for, or None as long as all stand for 1.
        active: [T, N, A] bool, or None as long as every agent takes part.
        final_active: [T, N, A] bool, who took part at the end of an episode that ended at t; read only there, and only where
            `active` is not None.
        terminated, truncated: [T, N] bool.
        actor_input: input of the actor's network [T, N, A, K], or None where it is `observation`.
        privileged_targets: normalized targets of the state estimator [T, N, A, M], or None.
        finals: (t, ids [m], observations [m, A, O], states [m, S] or None) of truncated episodes, normalized.
    """

    def __init__(
        self, steps: int, worlds: int, agents: int, obs: int, act: ActionSpec, state: int, device: torch.device,
        actor_input: int = 0, privileged_targets: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(steps, worlds, agents, obs, act, state, device)
        shape = (steps, worlds, agents)
        self.reward = torch.zeros(shape, device=device)
        self._active = torch.ones(shape, dtype=torch.bool, device=device)
        self.active: Tensor | None = None
        self.elapsed: Tensor | None = None
        self.final_active = torch.ones(shape, dtype=torch.bool, device=device)
        self.terminated = torch.zeros(steps, worlds, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(steps, worlds, dtype=torch.bool, device=device)
        self.actor_input = torch.zeros(*shape, actor_input, device=device) if actor_input else None
        self.privileged_targets = torch.zeros(*shape, privileged_targets, device=device) if privileged_targets else None
        self.finals: list[tuple[int, Tensor, Tensor, Tensor | None]] = []
        # views made once: an index takes as long as the copy that it is for
        self._outcomes = tuple(zip(self.reward, self.terminated, self.truncated, strict=True))

    def put_outcome(self, t: int, reward: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        """Record what step t brought, [N, A], [N] and [N]."""
        for to, x in zip(self._outcomes[t], (reward, terminated, truncated), strict=True):
            to.copy_(x)

    def set_active(self, t: int, active: Tensor | None) -> None:
        """Record who takes part in step t, [N, A] bool; None stands for everyone."""
        if active is not None:
            self._active[t].copy_(active)
            self.active = self._active
        elif self.active is not None:
            self._active[t].fill_(True)

    def set_elapsed(self, t: int, elapsed: Tensor | None) -> None:
        """Record how many control steps row t stands for, [N, 1] or [N, A]; None for 1."""
        if elapsed is not None and self.elapsed is None:
            self.elapsed = torch.ones_like(self.reward)
        if elapsed is not None and self.elapsed is not None:
            self.elapsed[t] = elapsed

    def discount(self, gamma: float) -> float | Tensor:
        """By how much what follows each row counts: gamma, or [T, N, A] where some stand for several control steps."""
        return gamma if self.elapsed is None else gamma**self.elapsed

    def leaves(self, last_active: Tensor | None) -> Tensor | None:
        """[T, N, A] bool: nothing follows step t for the agent, which takes no part after it, though its episode goes on or was
        cut off; None where every agent takes part.

        Args:
            last_active: [N, A] bool, who takes part after the last row; None for everyone.
        """
        if self.active is None:
            return None
        now = torch.ones_like(self.active[0]) if last_active is None else last_active
        following = torch.cat((self.active[1:], now.unsqueeze(0)))
        return ~torch.where(self.truncated.unsqueeze(-1), self.final_active, following)

    def clear(self) -> None:
        """Begin a new iteration."""
        self.finals.clear()
        self.active = None
        self.elapsed = None
        self._active.fill_(True)
        self.final_active.fill_(True)


SEQUENCE_FIELDS = ("actor_state", "critic_state")
"""Fields of `Samples` with one row for each sequence."""


@dataclass
class Samples:
    """The samples of one update, as rows [G, R, ...] of all steps, worlds and agents.

    Attributes:
        actor_input: [G, R, K].
        critic_input: [G, R, C], the same tensor as `actor_input` unless the critic is central, or the actor gets fewer frames
            or a state estimator's predictions.
        action: [G, R, D].
        log_prob: of the action under the policy that took it, without the constant [G, R].
        advantage: [G, R].
        value_target: in units of the critic's output [G, R].
        value: of the critic before the update, in the same units [G, R].
        active: [G, R] bool, or None when every row counts.
        privileged_targets: the state estimator's regression targets [G, R, M], or None.
        first: [G, R] bool, rows that are the first of an episode, for networks with memory; None without.
        choice_log_probs: of the options under the policy that chose [G, R, C], or None without choices.
        reference: mean actions of the policy that this one is held near to [G, R, D], or None.
        actor_state, critic_state: states of their memories before the first row of each sequence [G, S, H], or None.

    Of networks with memory, every minibatch and every chunk of it holds whole sequences, step by step: of S sequences of T
    steps, rows 0 to S - 1 are the first steps.
    """

    actor_input: Tensor
    critic_input: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    value_target: Tensor
    value: Tensor
    active: Tensor | None
    privileged_targets: Tensor | None = None
    first: Tensor | None = None
    actor_state: Tensor | None = None
    critic_state: Tensor | None = None
    choice_log_probs: Tensor | None = None
    reference: Tensor | None = None

    def shuffled(self, order: Tensor, out: Samples | None, sequences: Tensor | None = None) -> Samples:
        """A copy with rows in that order [R], and states in the order `sequences` [S], in `out`'s memory if given."""

        def pick(name: str) -> Any:
            rows = getattr(self, name)
            memory = getattr(out, name) if out is not None else None
            index = sequences if name in SEQUENCE_FIELDS else order
            return None if rows is None or index is None else torch.index_select(rows, 1, index, out=memory)

        actor_input = pick("actor_input")
        critic_input = actor_input if self.critic_input is self.actor_input else pick("critic_input")
        names = [field.name for field in fields(self)][2:]
        return Samples(actor_input, critic_input, *(pick(name) for name in names))

    def chunks(self, rows: slice, size: int) -> Iterator[Samples]:
        """Views of consecutive pieces of `rows`, each at most `size` long."""
        for start in range(rows.start, rows.stop, size):
            stop = min(start + size, rows.stop)
            steps = 1 if self.actor_state is None else self.action.shape[1] // self.actor_state.shape[1]
            sequences = slice(start // steps, stop // steps)
            pieces = {name: sequences if name in SEQUENCE_FIELDS else slice(start, stop) for name in vars(self)}
            views: list[Any] = [None if v is None else v[:, pieces[name]] for name, v in vars(self).items()]
            yield Samples(*views)
