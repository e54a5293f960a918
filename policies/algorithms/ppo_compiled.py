"""Gradients of PPO's loss in a compiled kernel, on the very tensors that torch uses."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from rookery.policies.algorithms import ppo_kernels as kernels
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.nn.compiled_mlp import Arena, layer_table
from rookery.policies.nn.elementwise import ACTIVATIONS
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.storage.rollout import Samples


class CompiledGradients:
    """One thread's part of the gradients.

    Args:
        parameters: [G, P], of policy, critic and log_std in that order.
        gradients: [G, P], the thread's own.
        actor, critic: the only chains that the kernel serves.
        one_input: whether both networks read the same input.
        config: settings.
        max_log_ratio: limit of log(p_new / p_old).
    """

    def __init__(
        self,
        parameters: Tensor,
        gradients: Tensor,
        actor: Perceptron,
        critic: Perceptron,
        one_input: bool,
        config: PPOConfig,
        max_log_ratio: float,
    ) -> None:
        arena = Arena()
        rows = kernels.CHUNK_ROWS
        actor_table = network_table(actor, 0, rows, arena, None)
        critic_table = network_table(critic, actor.weight_count, rows, arena, actor_table if one_input else None)
        log_std = actor.weight_count + critic.weight_count
        self._networks = kernels.PpoNetworks(actor_table, critic_table, ACTIVATIONS[config.activation], log_std)
        self._arena = arena.allocate()
        self._parameters = parameters.numpy()
        self._gradients = gradients.numpy()
        delta = config.huber_delta if config.value_loss == "huber" else math.inf
        value_clip = math.inf if config.value_clip is None else config.value_clip
        self._loss = kernels.Loss(config.clip, config.value_coef, delta, value_clip, max_log_ratio, False)

    def compute(self, batch: Samples, rows: slice, count: int | Tensor, policy_frozen: bool) -> Tensor:
        """Overwrite the gradients, see PPO.loss_gradients; returns FIGURES over these rows, [5, G]."""
        sets = len(self._parameters)
        counts = [float(count)] * sets if isinstance(count, int) else count.flatten().tolist()
        figures = np.zeros((sets, 5), np.float32)
        loss = self._loss._replace(policy_frozen=policy_frozen)
        active = np.zeros((sets, 0), np.bool_) if batch.active is None else batch.active.contiguous().numpy()
        for g in range(sets):
            samples = kernels.Rows(
                _array(batch.actor_input, g), _array(batch.critic_input, g), _array(batch.action, g),
                _array(batch.log_prob, g), _array(batch.advantage, g), _array(batch.value_target, g),
                _array(batch.value, g), active[g],
            )  # fmt: skip
            kernels.loss_gradients(
                self._networks, self._parameters[g], self._gradients[g], self._arena, samples, rows.start, rows.stop,
                counts[g], loss, figures[g],
            )  # fmt: skip
        return torch.from_numpy(figures.T)


def _array(rows: Tensor, g: int) -> np.ndarray:
    return rows[g].contiguous().numpy()


def network_table(spec: Perceptron, start: int, rows: int, arena: Arena, like: np.ndarray | None) -> np.ndarray:
    """Table of a network whose layers are in the parameters from `start` on, weights then biases (nn.mlp)."""
    sizes = spec.sizes
    starts = list(accumulate(((i + 1) * o for i, o in pairwise(sizes)), initial=start))[:-1]
    biases = [at + i * o for at, (i, o) in zip(starts, pairwise(sizes), strict=True)]
    return layer_table(sizes, starts, biases, rows, arena, like)
