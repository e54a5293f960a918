"""Ensemble: several networks of one shape, multiplied in one call, as critics and policies of off-policy learning."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.policies.nn.batch_norm import BatchNorm
from rookery.policies.nn.dropout import draw_seed, kept_units

__all__ = ["Ensemble"]

SHIFT = 3.0
"""What a hypersphere's input gets beside its components, so that its length is not lost (SimbaV2)."""

EXPANSION = 4
"""Width of a hypersphere block's inner layer, in widths of the block (SimbaV2)."""

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}


class Ensemble(nn.Module):
    """G networks: inputs [R, in] to outputs [G, R, out].

    A hidden layer of a perceptron is linear, dropout, layer or batch normalization, activation, in this order (Hiraoka et al.
    2021, arXiv 2110.02034, figure 1). With batch normalization (XQC, Palenicek et al. 2025, arXiv 2509.25174) the
    inputs are normalized too, and hidden layers have no bias, which it would take away again.

    A `hypersphere` (SimbaV2, Lee et al. 2025, arXiv 2502.15280) has residual blocks in place of hidden layers, and
    features of length 1: with l(x) = x / |x|, weights W of unit columns, and gains g,

        first       h = l(g * W l([x, 3]))
        each block  h = l(h + r * (l(W2 relu(g * W1 h)) - h))      # r is learnt for each feature; W1 makes it 4 times as wide
        output      W2 (g * W1 h) + b

    Args:
        networks: G.
        sizes: layer widths, input and output included; of a hypersphere those of its blocks, all the same.
        activation: "tanh", "elu" or "relu", after every layer but the last; of a hypersphere in its blocks.
        generator: source of the initial weights and biases, uniform within +-1 / sqrt(inputs) as in torch.nn.Linear.
        layer_norm: whether hidden layers are normalized (Ba et al. 2016, arXiv 1607.06450).
        dropout: share of the hidden units that are zero in a call; the others are scaled up.
        batch_norm: whether inputs and hidden layers are normalized by statistics of a batch, see `BatchNorm`.
        unit_weights: whether `project` brings the weights of every unit to length 1, as is done at first; those of a
            hypersphere always are.
        hypersphere: whether it is one, without the other normalizations.

    Attributes:
        weights, biases: of each layer, [G, in, out] and [G, 1, out]; only the last has biases with `batch_norm` and in a
            hypersphere.
        gains, shifts: of each normalized layer, [G, 1, out]; empty without layer_norm. A hypersphere has gains of its first
            layer, its blocks and its output.
        norms: BatchNorm of the input and of each hidden layer; empty without batch_norm.
        rates: of each block of a hypersphere, [G, 1, out], the r above over sqrt(out) / (blocks + 1).
    """

    def __init__(
        self,
        networks: int,
        sizes: tuple[int, ...],
        activation: str,
        generator: torch.Generator,
        layer_norm: bool = False,
        dropout: float = 0.0,
        batch_norm: bool = False,
        unit_weights: bool = False,
        hypersphere: bool = False,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.unit_weights = unit_weights or hypersphere
        self.hypersphere = hypersphere
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        self.gains = nn.ParameterList()
        self.shifts = nn.ParameterList()
        self.rates = nn.ParameterList()
        self.norms = nn.ModuleList()
        shapes = _sphere(sizes) if hypersphere else list(pairwise(sizes))
        for k, (i, o) in enumerate(shapes):
            bound = 1.0 / math.sqrt(i)
            biased = k == len(shapes) - 1 or not (batch_norm or hypersphere)
            for parameters, rows in ((self.weights, i), (self.biases, 1)):
                if parameters is self.weights or biased:
                    draw = torch.rand(networks, rows, o, generator=generator)
                    parameters.append(nn.Parameter((2.0 * draw - 1.0) * bound))
        if layer_norm:
            for width in sizes[1:-1]:
                self.gains.append(nn.Parameter(torch.ones(networks, 1, width)))
                self.shifts.append(nn.Parameter(torch.zeros(networks, 1, width)))
        if batch_norm:
            self.norms.extend(BatchNorm(networks, width) for width in sizes[:-1])
        if hypersphere:
            self._make_scalers(networks)
        self.activation = ACTIVATIONS[activation]()
        if self.unit_weights:
            self.project()

    def _make_scalers(self, networks: int) -> None:
        """Gains begin at sqrt(2 / width), 1 in the output, rates at 1 / (blocks + 1). What is learnt of a rate is in other
        units, so that Adam moves it at a pace that fits the features' size, as in public ports of the authors' code
        (github.com/DAVIAN-Robotics/SimbaV2)."""
        width = self.sizes[1]
        blocks = len(self.sizes) - 2
        first = math.sqrt(2.0 / width)
        inner = first / math.sqrt(EXPANSION)
        for size, gain in ((width, first), *[(EXPANSION * width, inner)] * blocks, (width, 1.0)):
            self.gains.append(nn.Parameter(torch.full((networks, 1, size), gain)))
        self._rate_scale = math.sqrt(width) / (blocks + 1)
        for _ in range(blocks):
            self.rates.append(nn.Parameter(torch.full((networks, 1, width), 1.0 / math.sqrt(width))))

    @torch.no_grad()
    def project(self) -> None:
        """Bring the weights of every unit, biases apart, to length 1."""
        for weight in self.weights:
            weight.div_(weight.norm(dim=1, keepdim=True).clamp_min(1e-8))

    def forward(self, x: Tensor, generator: torch.Generator | None = None, counted: Tensor | None = None) -> Tensor:
        """Outputs [G, R, out] for inputs [R, in].

        Args:
            x: inputs.
            generator: draws the number that says which units are dropped, see dropout.py; None drops none.
            counted: [R] bool, the rows whose statistics normalize a batch, see `BatchNorm`; None takes running ones.
        """
        x = x.expand(self.weights[0].shape[0], *x.shape)
        if self.hypersphere:
            return self._on_sphere(x)
        if self.norms:
            x = self.norms[0](x, counted)
        seed = draw_seed(generator, x.device) if self.dropout > 0.0 and generator is not None else None
        last = len(self.weights) - 1
        for k, weight in enumerate(self.weights):
            x = x @ weight if self.norms and k < last else torch.baddbmm(self.biases[k - last - 1], x, weight)
            if k == last:
                break
            if seed is not None:
                x = x * kept_units(x.shape, self.dropout, seed, k) / (1.0 - self.dropout)
            if self.layer_norm:
                x = functional.layer_norm(x, x.shape[-1:]) * self.gains[k] + self.shifts[k]
            if self.norms:
                x = self.norms[k + 1](x, counted)
            x = self.activation(x)
        return x

    def _on_sphere(self, x: Tensor) -> Tensor:
        """`forward` of a hypersphere, for x [G, R, in]."""
        shift = x.new_full((*x.shape[:-1], 1), SHIFT)
        x = _unit(torch.cat((x, shift), -1)) @ self.weights[0]
        x = _unit(x * self.gains[0])
        for k, rate in enumerate(self.rates):
            inner = self.activation((x @ self.weights[2 * k + 1]) * self.gains[k + 1])
            found = _unit(inner @ self.weights[2 * k + 2])
            x = _unit(x + self._rate_scale * rate * (found - x))
        return torch.baddbmm(self.biases[-1], (x @ self.weights[-2]) * self.gains[-1], self.weights[-1])


def _sphere(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Inputs and outputs of a hypersphere's layers: the first, two for each block, two for the output."""
    width = sizes[1]
    blocks = [(width, EXPANSION * width), (EXPANSION * width, width)] * (len(sizes) - 2)
    return [(sizes[0] + 1, width), *blocks, (width, width), (width, sizes[-1])]


def _unit(x: Tensor) -> Tensor:
    """Vectors along the last axis at length 1."""
    return functional.normalize(x, dim=-1, eps=1e-8)
