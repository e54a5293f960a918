"""Gradients of PPO's loss as one compiled call: the arithmetic of `ppo.PPO.loss_gradients`, which is its reference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from rookery.policies.nn.compiled_mlp import (
    IN_PAD,
    INPUT,
    OUT_PAD,
    OUTPUT,
    OUTPUT_GRAD,
    backward,
    forward,
    pack,
    read_gradients,
    zero_gradients,
)  # fmt: skip
from rookery.policies.nn.elementwise import exp32

CHUNK_ROWS = 128
"""Rows that go through the networks at once: their activations then stay in a core's cache."""

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)


class PpoNetworks(NamedTuple):
    """Tables of compiled_mlp, and where the parameters go on after them."""

    actor: np.ndarray  # [layers, COLUMNS]
    critic: np.ndarray  # [layers, COLUMNS]
    activation: int  # elementwise.ACTIVATIONS
    log_std: int  # offset in the parameters


class Rows(NamedTuple):
    """Samples of one set of weights; `active` is empty where every row counts."""

    actor_input: np.ndarray  # [R, K]
    critic_input: np.ndarray  # [R, C]
    action: np.ndarray  # [R, D]
    log_prob: np.ndarray  # [R]
    advantage: np.ndarray  # [R]
    value_target: np.ndarray  # [R]
    value: np.ndarray  # [R]
    active: np.ndarray  # [R] bool, or [0]


class Loss(NamedTuple):
    """Settings of the loss; infinity where there is no limit."""

    clip: float
    value_coef: float
    huber_delta: float
    value_clip: float
    max_log_ratio: float
    policy_frozen: bool


@numba.njit(cache=True, nogil=True, error_model="numpy")
def loss_gradients(
    networks: Any, parameters: Any, gradients: Any, arena: Any, rows: Any, start: int, stop: int, count: float,
    loss: Any, figures: Any,
) -> None:  # fmt: skip
    """Gradients of the loss over the rows from `start` to `stop`.

    Args:
        networks: see PpoNetworks.
        parameters, gradients: [P]; the latter are overwritten.
        arena: of the networks.
        rows: see Rows.
        start, stop: of the rows.
        count: samples of the whole minibatch that count.
        loss: see Loss.
        figures: [5] float32; gets ppo.FIGURES over these rows, without the estimator's.
    """
    actor, critic, activation, log_std_at = networks
    size = rows.action.shape[1]
    log_std = parameters[log_std_at : log_std_at + size]
    log_std_grad = gradients[log_std_at : log_std_at + size]
    log_std_grad[:] = 0.0
    sums = np.zeros(4)
    for table in (actor, critic):
        pack(table, parameters, arena, True)
        zero_gradients(table, arena)
    weight = np.float32(1.0 / count)
    for first in range(start, stop, CHUNK_ROWS):
        last = min(first + CHUNK_ROWS, stop)
        put_inputs(actor, arena, rows.actor_input, first, last)
        forward(actor, arena, last - first, activation)
        _policy_loss(actor, arena, rows, first, last, weight, loss, log_std, log_std_grad, sums)
        backward(actor, arena, last - first, activation, True, False)
        if critic[0, INPUT] != actor[0, INPUT]:
            put_inputs(critic, arena, rows.critic_input, first, last)
        forward(critic, arena, last - first, activation)
        _value_loss(critic, arena, rows, first, last, weight, loss, sums)
        backward(critic, arena, last - first, activation, True, False)
    read_gradients(actor, arena, gradients)
    read_gradients(critic, arena, gradients)
    for i in range(sums.size):
        figures[i] = sums[i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def put_inputs(table: Any, arena: Any, inputs: Any, first: int, last: int) -> None:
    """Copy rows of inputs to where the network reads them."""
    size = inputs.shape[1]
    for r in range(first, last):
        at = table[0, INPUT] + (r - first) * table[0, IN_PAD]
        arena[at : at + size] = inputs[r]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _policy_loss(
    actor: Any, arena: Any, rows: Any, first: int, last: int, weight: Any, loss: Any, log_std: Any, log_std_grad: Any,
    sums: Any,
) -> None:  # fmt: skip
    """Derivatives of the clipped surrogate by mean and log std, see ppo.PPO.loss_gradients."""
    layer = actor[-1]
    size = log_std.size
    inverse_std = np.exp(-log_std)
    sum_log_std = log_std.sum()
    limit = np.float32(loss.max_log_ratio)
    low, high = np.float32(1.0 - loss.clip), np.float32(1.0 + loss.clip)
    clip = np.float32(loss.clip)
    for r in range(first, last):
        w = weight if rows.active.size == 0 or rows.active[r] else _ZERO
        mean = layer[OUTPUT] + (r - first) * layer[OUT_PAD]
        grad = layer[OUTPUT_GRAD] + (r - first) * layer[OUT_PAD]
        squares = _ZERO
        for d in range(size):
            z = (rows.action[r, d] - arena[mean + d]) * inverse_std[d]
            arena[grad + d] = z
            squares += z * z
        log_ratio = -_HALF * squares - sum_log_std - rows.log_prob[r]
        log_ratio = limit if log_ratio > limit else log_ratio
        ratio = exp32(log_ratio)
        surrogate = ratio * rows.advantage[r]
        clipped = min(max(ratio, low), high) * rows.advantage[r]
        by_log_prob = -w * surrogate if surrogate <= clipped and not loss.policy_frozen else _ZERO
        for d in range(size):
            z = arena[grad + d]
            arena[grad + d] = z * inverse_std[d] * by_log_prob
            log_std_grad[d] += (z * z - _ONE) * by_log_prob
        sums[0] -= w * min(surrogate, clipped)
        sums[2] += w * (ratio - _ONE - log_ratio)
        sums[3] += w if abs(ratio - _ONE) > clip else _ZERO


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _value_loss(critic: Any, arena: Any, rows: Any, first: int, last: int, weight: Any, loss: Any, sums: Any) -> None:
    """Derivatives of the value loss by the value, see ppo_targets.value_losses."""
    layer = critic[-1]
    delta = np.float32(loss.huber_delta)
    limit = np.float32(loss.value_clip)
    coef = np.float32(loss.value_coef)
    for r in range(first, last):
        w = weight if rows.active.size == 0 or rows.active[r] else _ZERO
        at = (r - first) * layer[OUT_PAD]
        value = arena[layer[OUTPUT] + at]
        error = value - rows.value_target[r]
        grad = min(max(error, -delta), delta)
        value_loss = grad * (error - _HALF * grad)
        change = value - rows.value[r]
        if abs(change) > limit:
            clipped_error = rows.value[r] + min(max(change, -limit), limit) - rows.value_target[r]
            clipped_grad = min(max(clipped_error, -delta), delta)
            clipped_loss = clipped_grad * (clipped_error - _HALF * clipped_grad)
            if value_loss < clipped_loss:
                value_loss = clipped_loss
                grad = _ZERO
        arena[layer[OUTPUT_GRAD] + at] = coef * w * grad
        sums[1] += w * value_loss
