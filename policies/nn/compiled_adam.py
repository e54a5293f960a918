"""Adam (Kingma and Ba 2015) with clipping of the gradient norm, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from torch import Tensor

BETA_1 = 0.9
BETA_2 = 0.999


class Optimized(NamedTuple):
    """Flat weights [P] with their gradients and Adam's moments, float32."""

    parameters: np.ndarray
    gradients: np.ndarray
    first: np.ndarray
    second: np.ndarray


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def adam_step(weights: Any, steps: int, learning_rate: float, eps: float, max_norm: float) -> None:
    """Clip, then descend.

    Args:
        weights: see Optimized.
        steps: number of this step, from 1.
        learning_rate, eps: of Adam.
        max_norm: limit of the gradient's norm; infinity for none.
    """
    parameters, gradients, first, second = weights
    scale = np.float32(1.0)
    if max_norm < np.inf:
        scale = np.float32(min(1.0, max_norm / (np.sqrt(_sum_of_squares(gradients)) + 1e-6)))
    b1 = np.float32(BETA_1)
    b2 = np.float32(BETA_2)
    c1 = np.float32(1.0 - BETA_1)
    c2 = np.float32(1.0 - BETA_2)
    rate = np.float32(learning_rate / (1.0 - BETA_1**steps))
    root = np.float32(1.0 / np.sqrt(1.0 - BETA_2**steps))
    small = np.float32(eps)
    for i in range(parameters.size):
        g = gradients[i] * scale
        m = b1 * first[i] + c1 * g
        v = b2 * second[i] + c2 * g * g
        first[i] = m
        second[i] = v
        parameters[i] -= rate * m / (np.sqrt(v) * root + small)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def follow(slow: Any, fast: Any, share: Any) -> None:
    """Move weights [P] by a share towards others, in place."""
    for i in range(slow.size):
        slow[i] += share * (fast[i] - slow[i])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _sum_of_squares(x: Any) -> float:
    """Sum of squares of a vector [P], summed in float64."""
    total = 0.0
    for i in range(x.size):
        total += float(x[i]) * float(x[i])
    return total


class CompiledAdam:
    """Steps on the rows of torch's tensors, each with its own norm and learning rate.

    Args:
        parameters, gradients, first, second: [G, P] on the CPU, which may not be replaced.
    """

    def __init__(self, parameters: Tensor, gradients: Tensor, first: Tensor, second: Tensor) -> None:
        arrays = [x.numpy() for x in (parameters, gradients, first, second)]
        self._rows = [Optimized(*rows) for rows in zip(*arrays, strict=True)]

    def step(self, steps: int, learning_rate: Tensor, eps: float, max_norm: float) -> None:
        """One step of every row, see `adam_step`; learning_rate [G, 1]."""
        for row, rate in zip(self._rows, learning_rate.flatten().tolist(), strict=True):
            adam_step(row, steps, rate, eps, max_norm)
