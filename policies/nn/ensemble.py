"""Ensemble: several perceptrons of one shape, multiplied in one call, as critics and policies of off-policy learning."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.policies.policy import ACTIVATIONS

__all__ = ["Ensemble"]


class Ensemble(nn.Module):
    """G perceptrons: inputs [R, in] to outputs [G, R, out].

    A hidden layer is linear, dropout, layer normalisation, activation, in this order (Hiraoka et al. 2021, arXiv 2110.02034,
    figure 1).

    Args:
        networks: G.
        sizes: layer widths, input and output included.
        activation: "tanh", "elu" or "relu", after every layer but the last.
        generator: source of the initial weights and biases, uniform within +-1 / sqrt(inputs) as in torch.nn.Linear.
        layer_norm: whether hidden layers are normalised (Ba et al. 2016, arXiv 1607.06450).
        dropout: share of the hidden units that are zero in a call; the others are scaled up.

    Attributes:
        weights, biases: of each layer, [G, in, out] and [G, 1, out].
        gains, shifts: of each normalised layer, [G, 1, out]; empty without layer_norm.
    """

    def __init__(
        self,
        networks: int,
        sizes: tuple[int, ...],
        activation: str,
        generator: torch.Generator,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        self.gains = nn.ParameterList()
        self.shifts = nn.ParameterList()
        for i, o in pairwise(sizes):
            bound = 1.0 / math.sqrt(i)
            for parameters, rows in ((self.weights, i), (self.biases, 1)):
                draw = torch.rand(networks, rows, o, generator=generator)
                parameters.append(nn.Parameter((2.0 * draw - 1.0) * bound))
        if layer_norm:
            for width in sizes[1:-1]:
                self.gains.append(nn.Parameter(torch.ones(networks, 1, width)))
                self.shifts.append(nn.Parameter(torch.zeros(networks, 1, width)))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Outputs [G, R, out] for inputs [R, in]; `generator` draws which units are dropped, None drops none."""
        x = x.expand(self.weights[0].shape[0], *x.shape)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if k == last:
                break
            if self.dropout > 0.0 and generator is not None:
                kept = torch.rand(x.shape, generator=generator, device=x.device) >= self.dropout
                x = x * kept / (1.0 - self.dropout)
            if self.layer_norm:
                x = functional.layer_norm(x, x.shape[-1:]) * self.gains[k] + self.shifts[k]
            x = self.activation(x)
        return x
