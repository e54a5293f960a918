"""Decisions of the agents that are due, taken in one pass: observations gathered and normalized, the policy's outputs, what
is drawn by them; compiled. In torch it is `OptionLearner._decide`."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rookery.policies.algorithms.ppo_kernels import CHUNK_ROWS, put_inputs
from rookery.policies.nn.choice_kernels import draw
from rookery.policies.nn.compiled_mlp import IN, OUT_PAD, OUTPUT, forward
from rookery.policies.storage.normalizer_kernels import gather
from rookery.sim.random_kernels import kernel

__all__ = ["DrawnRows", "NormalizerArrays", "PolicyArrays", "decide"]


class NormalizerArrays(NamedTuple):
    """Statistics of an `ObservationNorm`, see `normalizer_kernels.gather`."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    clip: float
    sums: NDArray[np.float64]


class PolicyArrays(NamedTuple):
    """The policy's network, see compiled_mlp, and what its outputs are."""

    table: NDArray[np.int64]
    arena: NDArray[np.float32]  # its weights in it, by compiled_mlp.pack
    activation: int
    std: NDArray[np.float32]  # [1, D_c]
    sizes: NDArray[np.int64]  # [K] options of each choice


class DrawnRows(NamedTuple):
    """Storage of decisions, [R, ...]: who took each, and the fields; gumbel and log_probs are [0, 0] without choices."""

    agents: NDArray[np.int64]
    observation: NDArray[np.float32]
    noise: NDArray[np.float32]
    gumbel: NDArray[np.float32]
    log_probs: NDArray[np.float32]
    action: NDArray[np.float32]


@kernel
def decide(index, x, allowed, norm, policy, rows, first, out):
    """Take the decisions that are due.

    Args:
        index: [r] int64, whose, of M.
        x: [M, O] observations.
        allowed: [M, C] bool, the options that are; [0, C] for all.
        norm: `NormalizerArrays`.
        policy: `PolicyArrays`; it reads the last numbers of an observation.
        rows: `DrawnRows`, of which this writes r from `first` on.
        first: see there.
        out: [M, K + D_c], gets their actions.
    """
    last = first + len(index)
    rows.agents[first:last] = index
    gather(index, x, norm.mean, norm.std, norm.clip, norm.sums, rows.observation[first:last])
    table, arena = policy.table, policy.arena
    inputs = rows.observation[:, x.shape[1] - table[0, IN] :]
    outputs_pad, outputs_at = table[len(table) - 1, OUT_PAD], table[len(table) - 1, OUTPUT]
    outputs_size = out.shape[1] - len(policy.sizes) + policy.sizes.sum()
    for a in range(first, last, CHUNK_ROWS):
        b = min(a + CHUNK_ROWS, last)
        mask = np.empty((b - a if len(allowed) else 0, allowed.shape[1]), np.bool_)
        for k in range(len(mask)):
            mask[k] = allowed[rows.agents[a + k]]
        put_inputs(table, arena, inputs, a, b)
        forward(table, arena, b - a, policy.activation)
        outputs = arena[outputs_at : outputs_at + (b - a) * outputs_pad].reshape(b - a, outputs_pad)
        draw(
            outputs[:, :outputs_size], mask, rows.gumbel[a:b], rows.noise[a:b], policy.std, policy.sizes,
            rows.log_probs[a:b], rows.action[a:b],
        )  # fmt: skip
        for k in range(a, b):
            out[rows.agents[k]] = rows.action[k]
