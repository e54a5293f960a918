"""SAC's actions (`act`), and its gradient steps as one compiled call (`learn`): the arithmetic of `sac_learner.SACLearner`, its
`sample` and `descend`, which are the reference.

Reading order: `learn` makes the steps; each gathers a batch, computes the value targets (`_target_values`), and descends
with the critics (`_critic_step`) and, where it is its turn, the policy (`_actor_step`) and the temperature. Critics, their
targets and the policy work in one arena; the critics and their targets share the input [rows, observation and action].
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from rookery.policies.algorithms.sac_arrays import POLICY_VALUES
from rookery.policies.nn.compiled_adam import adam_step, follow
from rookery.policies.nn.compiled_critic import critic_backward, critic_forward
from rookery.policies.nn.compiled_mlp import (
    GAIN,
    IN_PAD,
    INPUT,
    INPUT_GRAD,
    OUT_PAD,
    OUTPUT,
    OUTPUT_GRAD,
    backward,
    forward,
    pack,
    read_gradients,
    zero_gradients,
)  # fmt: skip
from rookery.policies.nn.elementwise import exp32, tanh32

EPS = 1e-8
"""Of Adam, as in torch.optim.Adam."""

FIGURES = 5
"""Critic loss, policy loss, entropy, mean value and temperature."""

_MIN, _MEAN = POLICY_VALUES["min"], POLICY_VALUES["mean"]
_HALF_LOG_2_PI = np.float32(0.5 * math.log(2.0 * math.pi))
_LOG_2 = np.float32(math.log(2.0))
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
_SOFTPLUS_LINEAR = np.float32(20.0)  # from here on softplus(x) is x, as in torch


@numba.njit(cache=True, nogil=True, error_model="numpy")
def learn(
    networks: Any, actor: Any, critics: Any, targets: Any, temperature: Any, sources: Any, settings: Any, batch: Any,
    arena: Any, index: Any, noise: Any, draws: Any, step: int, policy_step: int,
) -> Any:  # fmt: skip
    """Gradient steps in a row; returns the sums of their figures, [FIGURES] float32.

    Args:
        networks: see sac_arrays.SacNetworks.
        actor, critics, temperature: Optimized; the temperature's parameter is its logarithm, [1].
        targets: flat weights of the target critics [P].
        sources: see sac_arrays.Sources.
        settings: see sac_arrays.SacSettings.
        batch: see sac_arrays.BatchArrays.
        arena: of the networks.
        index: numbers of the drawn transitions in their sources, see Replay.draw, [U, B].
        noise: standard normal draws [U, 2, B, D], for the next and the present action.
        draws: see sac_arrays.Draws.
        step, policy_step: numbers of the first step of the critics and of the policy, from 1.
    """
    sums = np.zeros(FIGURES, np.float32)
    for g in range(networks.critics.shape[0]):
        pack(networks.critics[g], critics.parameters, arena, True)
    pack(networks.actor, actor.parameters, arena, True)
    tau = np.float32(settings.tau)
    for u in range(index.shape[0]):
        seeds = draws.seeds[u]
        alpha = np.exp(temperature.parameters[0])
        _find(sources, index[u], batch)
        for g in draws.chosen[u]:
            pack(networks.targets[g], targets, arena, False)
        _target_values(networks, sources, settings, batch, arena, noise[u, 0], alpha, draws.chosen[u], seeds[0])
        sums[0] += _critic_step(networks, critics, sources, settings, batch, arena, step + u, seeds[1])
        if draws.policy[u]:
            loss, entropy, value = _actor_step(
                networks, actor, settings, batch, arena, noise[u, 1], alpha, policy_step, seeds[2]
            )
            temperature.gradients[0] = alpha * np.float32(entropy - settings.target_entropy)
            adam_step(temperature, policy_step, settings.learning_rate, EPS, np.inf)
            policy_step += 1
            sums[1] += loss
            sums[2] += entropy
            sums[3] += value
            sums[4] += alpha
        follow(targets, critics.parameters, tau)
    return sums


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _source(sources: Any, b: int) -> Any:
    """The memory that row b comes from."""
    return sources.memory if b < sources.own else sources.demonstrations


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _find(sources: Any, index: Any, batch: Any) -> None:
    """Places and weights of the drawn transitions, as Replay.take."""
    taking_part = 0
    for b in range(index.size):
        memory = _source(sources, b)
        worlds, agents = memory.reward.shape[1:]
        slot = index[b] // (worlds * agents)
        world = index[b] // agents % worlds
        agent = index[b] % agents
        batch.places[0, b] = slot
        batch.places[1, b] = world
        batch.places[2, b] = agent
        taking_part += memory.active[slot, world, agent]
    share = _ONE / np.float32(max(taking_part, 1))
    for b in range(index.size):
        memory = _source(sources, b)
        active = memory.active[batch.places[0, b], batch.places[1, b], batch.places[2, b]]
        batch.weight[b] = share if active else _ZERO


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _put_observation(observation: Any, settings: Any, arena: Any, first: int, second: int) -> None:
    """Write a normalized observation to two places of the arena."""
    clip = np.float32(settings.clip)
    for i in range(observation.size):
        x = (observation[i] - settings.mean[i]) / settings.std[i]
        x = -clip if x < -clip else x
        x = clip if x > clip else x
        arena[first + i] = x
    for i in range(observation.size):  # apart, so that both loops are vectorized
        arena[second + i] = arena[first + i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def act(
    table: Any, parameters: Any, activation: int, settings: Any, arena: Any, observation: Any, noise: Any, action: Any
) -> None:
    """Actions of the policy with exploration, see sac_learner.squashed_sample.

    Args:
        table: of the policy (see sac_arrays.SacNetworks), in an arena of its own.
        parameters: its flat weights [P].
        activation: see sac_arrays.SacNetworks.
        settings: see sac_arrays.SacSettings.
        arena: of the table.
        observation: [R, O], not normalized.
        noise: standard normal draws [R, D].
        action: gets the result, [R, D].
    """
    first = table[0]
    last = table[-1]
    rows, size = noise.shape
    low = np.float32(settings.log_std_min)
    high = np.float32(settings.log_std_max)
    pack(table, parameters, arena, False)
    for b in range(rows):
        at = first[INPUT] + b * first[IN_PAD]
        _put_observation(observation[b], settings, arena, at, at)
    forward(table, arena, rows, activation)
    for b in range(rows):
        out = last[OUTPUT] + b * last[OUT_PAD]
        for d in range(size):
            log_std = min(max(arena[out + size + d], low), high)
            action[b, d] = tanh32(arena[out + d] + exp32(log_std) * noise[b, d])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _sample(networks: Any, settings: Any, batch: Any, arena: Any, noise: Any, at: int) -> None:
    """Actions of the policy for the observations in its input, put to column `at` of the critics' input, and their
    log-probabilities; see sac_learner.squashed_sample."""
    last = networks.actor[-1]
    first = networks.critics[0, 0]
    size = noise.shape[1]
    low = np.float32(settings.log_std_min)
    high = np.float32(settings.log_std_max)
    for b in range(noise.shape[0]):
        out = last[OUTPUT] + b * last[OUT_PAD]
        action = first[INPUT] + b * first[IN_PAD] + at
        total = _ZERO
        for d in range(size):
            log_std = min(max(arena[out + size + d], low), high)
            u = arena[out + d] + exp32(log_std) * noise[b, d]
            gaussian = -_HALF * noise[b, d] * noise[b, d] - log_std - _HALF_LOG_2_PI
            x = -_TWO * u
            softplus = x if x > _SOFTPLUS_LINEAR else np.log1p(exp32(x))
            total += gaussian - _TWO * (_LOG_2 - u - softplus)
            arena[action + d] = tanh32(u)
        batch.log_prob[b] = total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _follow(memory: Any, settings: Any, batch: Any, b: int) -> None:
    """Rewards, discount and last slot of row b's steps, as Replay.take."""
    slot, world, agent = batch.places[0, b], batch.places[1, b], batch.places[2, b]
    slots = memory.reward.shape[0]
    gamma = np.float32(settings.gamma)
    total = _ZERO
    discount = _ONE
    for _ in range(settings.n_step):
        total += discount * memory.reward[slot, world, agent]
        elapsed = memory.elapsed[slot, world, agent]
        discount *= gamma if elapsed == 1 else np.float32(gamma**elapsed)
        following = (slot + 1) % slots
        if memory.terminated[slot, world] or memory.left[slot, world, agent]:
            discount = _ZERO
        if memory.truncated[slot, world] or discount == _ZERO or following == memory.head:
            break
        slot = following
    else:
        slot = (slot - 1) % slots  # the loop has gone one beyond
    batch.places[3, b] = slot
    batch.target[b] = total
    batch.discount[b] = discount


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _target_values(
    networks: Any, sources: Any, settings: Any, batch: Any, arena: Any, noise: Any, alpha: Any, chosen: Any, seed: int
) -> None:
    """See OffPolicyLearner.target_values; of the chosen target critics."""
    rows = noise.shape[0]
    policy = networks.actor[0]
    critic = networks.critics[0, 0]
    for b in range(rows):
        memory = _source(sources, b)
        _follow(memory, settings, batch, b)
        world, agent, last = batch.places[1, b], batch.places[2, b], batch.places[3, b]
        number = memory.final_index[last, world]
        to_policy = policy[INPUT] + b * policy[IN_PAD]
        to_critic = critic[INPUT] + b * critic[IN_PAD]
        if number >= 0:
            _put_observation(
                memory.finals[number % memory.finals.shape[0], agent], settings, arena, to_policy, to_critic
            )
        else:
            following = memory.observation[(last + 1) % memory.reward.shape[0], world, agent]
            _put_observation(following, settings, arena, to_policy, to_critic)
    forward(networks.actor, arena, rows, networks.activation)
    _sample(networks, settings, batch, arena, noise, settings.mean.size)
    for g in chosen:
        critic_forward(networks.targets[g], arena, rows, networks.activation, settings.dropout, seed, g * rows)
    width = networks.targets[0, -1, OUT_PAD]
    for b in range(rows):
        q = arena[networks.targets[chosen[0], -1, OUTPUT] + b * width]
        for g in chosen[1:]:
            q = min(q, arena[networks.targets[g, -1, OUTPUT] + b * width])
        if batch.discount[b] > _ZERO:
            batch.target[b] += batch.discount[b] * (q - alpha * batch.log_prob[b])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _critic_step(
    networks: Any, critics: Any, sources: Any, settings: Any, batch: Any, arena: Any, step: int, seed: int
) -> Any:
    """Equation 5 of the paper; returns the loss, and leaves the new critics packed."""
    rows = batch.target.size
    policy = networks.actor[0]
    critic = networks.critics[0, 0]
    size = settings.mean.size
    for b in range(rows):
        memory = _source(sources, b)
        slot, world, agent = batch.places[0, b], batch.places[1, b], batch.places[2, b]
        to_critic = critic[INPUT] + b * critic[IN_PAD]
        to_policy = policy[INPUT] + b * policy[IN_PAD]
        _put_observation(memory.observation[slot, world, agent], settings, arena, to_policy, to_critic)
        for d in range(memory.action.shape[3]):
            arena[to_critic + size + d] = memory.action[slot, world, agent, d]
    loss = _ZERO
    for g in range(networks.critics.shape[0]):
        table = networks.critics[g]
        last = table[-1]
        critic_forward(table, arena, rows, networks.activation, settings.dropout, seed, g * rows)
        for b in range(rows):
            error = arena[last[OUTPUT] + b * last[OUT_PAD]] - batch.target[b]
            loss += _HALF * batch.weight[b] * error * error
            arena[last[OUTPUT_GRAD] + b * last[OUT_PAD]] = batch.weight[b] * error
        zero_gradients(table, arena)
        critic_backward(table, arena, rows, networks.activation, settings.dropout, seed, g * rows, True, False)
        read_gradients(table, arena, critics.gradients)
    adam_step(critics, step, settings.learning_rate, EPS, np.inf)
    for g in range(networks.critics.shape[0]):
        pack(networks.critics[g], critics.parameters, arena, True)
    return loss


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _actor_step(
    networks: Any, actor: Any, settings: Any, batch: Any, arena: Any, noise: Any, alpha: Any, step: int, seed: int
) -> Any:
    """Equation 9 of the paper, on the observations of `_critic_step`; returns loss, entropy and mean value."""
    rows = noise.shape[0]
    forward(networks.actor, arena, rows, networks.activation)
    _sample(networks, settings, batch, arena, noise, settings.mean.size)
    for g in range(networks.critics.shape[0]):
        critic_forward(networks.critics[g], arena, rows, networks.activation, settings.dropout, seed, g * rows)
    mean_value = _policy_value(networks, settings, batch, arena)
    log_prob = _ZERO
    for b in range(rows):
        log_prob += batch.weight[b] * batch.log_prob[b]
    for g in range(networks.critics.shape[0]):
        _action_gradient(networks.critics[g], networks.activation, settings, arena, batch.climbed[g], seed, g * rows)
    _policy_gradient(networks, settings, batch, arena, noise, alpha)
    zero_gradients(networks.actor, arena)
    backward(networks.actor, arena, rows, networks.activation, True, False)
    read_gradients(networks.actor, arena, actor.gradients)
    adam_step(actor, step, settings.learning_rate, EPS, np.inf)
    pack(networks.actor, actor.parameters, arena, True)
    return alpha * log_prob - mean_value, -log_prob, mean_value


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _policy_value(networks: Any, settings: Any, batch: Any, arena: Any) -> Any:
    """The mean of what the policy climbs, see OffPolicyNetworks.policy_value; minus its derivatives by the critics' values
    go to their outputs. The least value's are divided among the critics that share it, as in torch.amin."""
    kind = settings.policy_value
    count = networks.critics.shape[0]
    width = networks.critics[0, -1, OUT_PAD]
    total = _ZERO
    for b in range(batch.weight.size):
        w = batch.weight[b]
        first = arena[networks.critics[0, -1, OUTPUT] + b * width]
        least, mean, ties = first, first, 1
        for g in range(1, count):
            q = arena[networks.critics[g, -1, OUTPUT] + b * width]
            mean += q
            ties = 1 if q < least else ties + (q == least)
            least = min(q, least)
        mean /= np.float32(count)
        value = least if kind == _MIN else mean if kind == _MEAN else first
        total += w * value
        for g in range(count):
            q = arena[networks.critics[g, -1, OUTPUT] + b * width]
            share = _ONE / np.float32(count)
            if kind == _MIN:
                share = _ONE / np.float32(ties) if q == least else _ZERO
            elif kind != _MEAN:
                share = _ONE if g == 0 else _ZERO
            arena[networks.critics[g, -1, OUTPUT_GRAD] + b * width] = -w * share
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _action_gradient(
    table: Any, activation: int, settings: Any, arena: Any, climbed: Any, seed: int, first: int
) -> None:
    """Carry d loss / d value of a critic to its input.

    Without dropout and normalization in the rows alone that have a gradient, of the lower of two critics about half of them;
    they move to the front, and what `critic_forward` left of the hidden layers is lost.
    """
    last, count = table[-1], 0
    whole = settings.dropout > 0.0 or table[0, GAIN] >= 0
    for b in range(climbed.size):
        gradient = arena[last[OUTPUT_GRAD] + b * last[OUT_PAD]]
        climbed[b] = count if whole or gradient != _ZERO else -1
        if climbed[b] < 0:
            continue
        if count < b:
            arena[last[OUTPUT_GRAD] + count * last[OUT_PAD]] = gradient
            for k in range(1, table.shape[0]):
                to = table[k, INPUT] + count * table[k, IN_PAD]
                row = table[k, INPUT] + b * table[k, IN_PAD]
                arena[to : to + table[k, IN_PAD]] = arena[row : row + table[k, IN_PAD]]
        count += 1
    critic_backward(table, arena, count, activation, settings.dropout, seed, first, False, True)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _policy_gradient(networks: Any, settings: Any, batch: Any, arena: Any, noise: Any, alpha: Any) -> None:
    """Derivatives of the policy loss by the policy's outputs.

    With a = tanh(u), u = mean + std n, and w the row's weight: d log pi / d u = 2 a at fixed n, so that
    ``d loss / d u = 2 w alpha a + d loss / d a (1 - a^2)``, ``d loss / d log std = d loss / d u std n - w alpha``.
    """
    last, one = networks.actor[-1], networks.critics[0, 0]
    size, at = noise.shape[1], settings.mean.size
    low = np.float32(settings.log_std_min)
    high = np.float32(settings.log_std_max)
    for b in range(noise.shape[0]):
        out = last[OUTPUT] + b * last[OUT_PAD]
        grad = last[OUTPUT_GRAD] + b * last[OUT_PAD]
        scale = batch.weight[b] * alpha
        for d in range(size):
            column = b * one[IN_PAD] + at + d
            a = arena[one[INPUT] + column]
            by_action = _ZERO
            for g in range(networks.critics.shape[0]):
                row = batch.climbed[g, b]
                if row >= 0:
                    by_action += arena[networks.critics[g, 0, INPUT_GRAD] + row * one[IN_PAD] + at + d]
            by_u = _TWO * scale * a + by_action * (_ONE - a * a)
            raw = arena[out + size + d]
            arena[grad + d] = by_u
            inside = low <= raw <= high
            by_log_std = by_u * exp32(min(max(raw, low), high)) * noise[b, d] - scale
            arena[grad + size + d] = by_log_std if inside else _ZERO
