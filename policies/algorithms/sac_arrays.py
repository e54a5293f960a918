"""Arrays of SAC's compiled kernels: tables of networks, replay memories, and the working memory of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["POLICY_VALUES", "BatchArrays", "Draws", "ReplayArrays", "SacNetworks", "SacSettings", "Sources"]

POLICY_VALUES = {"min": 0, "mean": 1, "first": 2}
"""Number of each policy_value in the kernels."""


class SacNetworks(NamedTuple):
    """Tables of compiled_mlp, and the number of the activation (elementwise.ACTIVATIONS)."""

    actor: np.ndarray  # [layers, COLUMNS]
    critics: np.ndarray  # [C, layers, COLUMNS]
    targets: np.ndarray  # [C, layers, COLUMNS]
    activation: int


class ReplayArrays(NamedTuple):
    """The arrays of a storage.replay.Replay."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    active: np.ndarray
    left: np.ndarray
    elapsed: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_index: np.ndarray
    finals: np.ndarray
    head: int


class Sources(NamedTuple):
    """Sources of the rows of a batch: the first `own` from the memory, the others from the demonstrations."""

    memory: ReplayArrays
    demonstrations: ReplayArrays  # the memory again where there are none
    own: int


class Draws(NamedTuple):
    """Draws that U gradient steps have besides transitions and noise."""

    chosen: np.ndarray  # [U, M] int64, the target critics whose least value counts
    seeds: np.ndarray  # [U, 3] int64, of dropout in the target critics, in the critics, and in these for the policy
    policy: np.ndarray  # [U] bool, whether the policy takes a step


class BatchArrays(NamedTuple):
    """Working memory for the rows of a batch."""

    places: np.ndarray  # [4, B] int64: slot, world, agent, and the slot of the last step
    climbed: (
        np.ndarray
    )  # [C, B] int64: where a critic gives the policy a gradient, the row of its backward pass, else -1
    weight: np.ndarray  # [B] float32, share of the row in the loss
    target: np.ndarray  # [B] float32
    discount: np.ndarray  # [B] float32, of what follows; 0 where nothing does
    log_prob: np.ndarray  # [B] float32


class SacSettings(NamedTuple):
    """Hyperparameters and the observations' statistics."""

    gamma: float
    n_step: int
    tau: float
    learning_rate: float
    target_entropy: float
    log_std_min: float
    log_std_max: float
    clip: float
    dropout: float  # of the critics
    policy_value: int  # see POLICY_VALUES
    mean: np.ndarray  # [O]
    std: np.ndarray  # [O]
