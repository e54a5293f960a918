"""From a rollout to what PPO learns: values, advantages, value targets; and the value loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.storage.rollout import Samples, gae, moments

if TYPE_CHECKING:
    from rookery.policies.algorithms.ppo_learner import GroupLearner

__all__ = ["final_values", "samples_of", "value_losses"]


def samples_of(
    learner: GroupLearner, last_obs: Tensor, last_state: Tensor | None, last_active: Tensor | None
) -> Samples:
    """Values, advantages and targets of the collected rollout; the arguments follow its last row (raw)."""
    c = learner.config
    roll = learner.rollout
    if learner.states is not None and last_state is not None:
        last_state = learner.states.normalize(last_state)
    else:
        last_state = None
    critic_input = learner.critic_input(roll.observation, roll.state)
    last_input = learner.critic_input(learner.observations.normalize(last_obs), last_state)
    memory = learner.memory
    if memory is None:
        value, last = learner.values(critic_input), learner.values(last_input)
    else:
        value, last = memory.values(learner.critic, critic_input, last_input, roll)
    denormalize = learner.returns.denormalize if learner.returns is not None else (lambda x: x)
    grid = learner.grid(denormalize(value), c.rollout_steps)
    last_grid = learner.grid(denormalize(last), 1)[0]
    final = final_values(learner, denormalize)
    terminated = roll.terminated.unsqueeze(-1)
    truncated = roll.truncated.unsqueeze(-1)
    leaves = roll.leaves(last_active)
    if leaves is not None:
        terminated = terminated | leaves  # an agent that drops out has had its last reward
    advantage = gae(roll.reward, grid, final, last_grid, terminated, truncated, roll.discount(c.gamma), c.lam)
    active = None if roll.active is None else learner.rows(roll.active.unsqueeze(-1)).squeeze(2)
    returns = learner.rows((advantage + grid).unsqueeze(-1)).squeeze(2)
    advantage = learner.rows(advantage.unsqueeze(-1)).squeeze(2)
    mean, std = moments(advantage, active, learner.reduction)
    learner.explained_variance = (
        1.0 - (std / moments(returns, active, learner.reduction)[1].clamp(min=1e-8)).square().mean()
    )
    if c.normalize_advantages:
        advantage = (advantage - mean) / (std + 1e-8)
    if learner.returns is not None:
        learner.returns.update(returns, active)
        returns = learner.returns.normalize(returns)
    actor_input = critic_input
    if roll.state is not None or roll.actor_input is not None:
        actor_input = learner.rows(roll.observation if roll.actor_input is None else roll.actor_input)
    privileged_targets = None if roll.privileged_targets is None else learner.rows(roll.privileged_targets)
    log_prob = learner.head.log_prob(learner.rows, roll, learner.log_std)
    options = None if roll.choice_log_probs is None else learner.rows(roll.choice_log_probs)
    action = learner.rows(roll.action)
    first, actor_state, critic_state = None, None, None
    if memory is not None:
        first, actor_state, critic_state = memory.first(roll), memory.actor_start, memory.critic_start
    return Samples(
        actor_input, critic_input, action, log_prob, advantage, returns, value, active, privileged_targets, first,
        actor_state, critic_state, options,
    )  # fmt: skip


def final_values(learner: GroupLearner, denormalize: Callable[[Tensor], Tensor]) -> Tensor:
    """V of the last observations of truncated episodes, [T, N, A], zero elsewhere."""
    roll = learner.rollout
    out = torch.zeros_like(roll.reward)
    finals = [f for f in roll.finals if len(f[1])]
    if not finals:
        return out
    state = None if learner.states is None else torch.cat([f[3] for f in finals if f[3] is not None])
    x = learner.critic_input(torch.cat([f[2] for f in finals]), state)
    t = torch.cat([torch.full_like(f[1], f[0]) for f in finals])
    worlds = torch.cat([f[1] for f in finals])
    value = learner.values(x) if learner.memory is None else learner.memory.final_values(learner.critic, x, t, worlds)
    out[t, worlds] = learner.grid(denormalize(value), 1)[0]
    return out


def value_losses(c: PPOConfig, value: Tensor, s: Samples) -> tuple[Tensor, Tensor]:
    """The value loss of each row and its derivative by the value, both [G, R]."""
    huber = c.value_loss == "huber"
    error = value - s.value_target
    grad = error.clamp(-c.huber_delta, c.huber_delta) if huber else error
    loss = grad * (error - 0.5 * grad)
    if c.value_clip is not None:
        change = value - s.value
        clipped_error = s.value + change.clamp(-c.value_clip, c.value_clip) - s.value_target
        clipped_grad = clipped_error.clamp(-c.huber_delta, c.huber_delta) if huber else clipped_error
        clipped_loss = clipped_grad * (clipped_error - 0.5 * clipped_grad)
        grad = torch.where((change.abs() > c.value_clip) & (loss < clipped_loss), 0.0, grad)
        loss = torch.maximum(loss, clipped_loss)
    return loss, error.clone() if grad is error else grad
