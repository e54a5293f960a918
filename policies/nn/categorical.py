"""Categorical value distributions: what a critic gives when it predicts how returns are distributed, not their mean.

Bellemare, Dabney and Munos, "A Distributional Perspective on Reinforcement Learning" (2017, arXiv 1707.06887; C51): the
probabilities of K equally spaced values, learnt by cross-entropy from the target distribution projected onto them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Categorical"]


class Categorical:
    """The K values and what is computed on them.

    Args:
        low, high: first and last value.
        atoms: K, at least 2.
        device: where they live.

    Attributes:
        values: [K].
    """

    def __init__(self, low: float, high: float, atoms: int, device: torch.device) -> None:
        self.values = torch.linspace(low, high, atoms, device=device)
        self._low = low
        self._gap = (high - low) / (atoms - 1)

    def mean(self, logits: Tensor) -> Tensor:
        """Expected values [...] of logits [..., K]."""
        return logits.softmax(-1) @ self.values

    def project(self, probabilities: Tensor, shift: Tensor, discount: Tensor) -> Tensor:
        """The distribution [B, K] of ``shift + discount * value``, equation 7 of the paper.

        Mass that falls between two values goes to both, by nearness, so that the mean stays; mass beyond the first or last
        value goes to it.

        Args:
            probabilities: [B, K] of the values.
            shift, discount: [B].
        """
        moved = shift[:, None] + discount[:, None] * self.values
        place = ((moved - self._low) / self._gap).clamp(0.0, len(self.values) - 1.0)
        below = place.floor()
        upper = place - below
        index = below.long()
        out = torch.zeros_like(probabilities)
        out.scatter_add_(1, index, probabilities * (1.0 - upper))
        out.scatter_add_(1, (index + 1).clamp_max(len(self.values) - 1), probabilities * upper)
        return out

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy [...] of logits [..., K] against target distributions that broadcast to them."""
        return -(target * functional.log_softmax(logits, -1)).sum(-1)
