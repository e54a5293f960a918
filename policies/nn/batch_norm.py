"""Batch normalization of several networks at once, in which only the rows that count give the statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["BatchNorm"]

MOMENTUM = 0.01
"""Share of the running statistics that those of a batch replace, and EPS, added to variances: both as in the authors' code of
CrossQ (Bhatt et al. 2024, arXiv 1902.05605, github.com/adityab/CrossQ)."""

EPS = 1e-3


class BatchNorm(nn.Module):
    """G networks' values brought to mean 0 and variance 1, then scaled and shifted (Ioffe and Szegedy 2015, arXiv 1502.03167).

    Args:
        networks: G.
        width: W, number of values.

    Attributes:
        gain, shift: [G, 1, W], learnt.
        mean, variance: [G, 1, W], running statistics; variances are those of the batches, not estimates for what they are from.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, networks: int, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(networks, 1, width))
        self.shift = nn.Parameter(torch.zeros(networks, 1, width))
        self.register_buffer("mean", torch.zeros(networks, 1, width))
        self.register_buffer("variance", torch.ones(networks, 1, width))

    def forward(self, x: Tensor, counted: Tensor | None = None) -> Tensor:
        """Normalized x [G, R, W].

        Args:
            x: finite everywhere, also in rows that do not count.
            counted: [R] bool, the rows that give the statistics, which in training mode also move the running ones; None takes
                the running statistics.
        """
        if counted is None:
            return self._scaled(x, self.mean, self.variance)
        share = (counted / counted.sum().clamp(min=1))[:, None]
        mean = (x * share).sum(-2, keepdim=True)
        variance = ((x - mean).square() * share).sum(-2, keepdim=True)
        if self.training:
            step = MOMENTUM * counted.any()
            self.mean.lerp_(mean.detach(), step)
            self.variance.lerp_(variance.detach(), step)
        return self._scaled(x, mean, variance)

    def _scaled(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return (x - mean) * torch.rsqrt(variance + EPS) * self.gain + self.shift
