"""Multilayer perceptrons for training: one flat vector of parameters, reused memory, and a backward pass by hand.

Why not nn.Module and autograd: a training step of a 64-wide network on thousands of samples allocates megabytes per
layer, and on a CPU the page faults of those allocations take several times as long as the arithmetic. Here every
intermediate result lives in memory that is allocated once, in chunks that stay in the cache. The finished network is
exported to the plain `policy.Policy`.

Several networks of one shape (one for each agent of a group that does not share weights) are one object with a
leading axis G: inputs [G, R, in], weights [G, in, out]; all G are multiplied in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from rookery.policies.nn.network import Network


def parameter_count(sizes: Sequence[int]) -> int:
    """Number of weights and biases of a perceptron with these layer widths, input and output included."""
    return sum((i + 1) * o for i, o in pairwise(sizes))


class MLP(Network):
    """G multilayer perceptrons of one shape over views into flat vectors.

    Args:
        parameters: [G, P] view that holds the weights.
        gradients: [G, P] view that `backward` adds to.
        sizes: layer widths, input and output included.
        activation: "tanh", "elu" or "relu", after every layer but the last.
    """

    def __init__(self, parameters: Tensor, gradients: Tensor, sizes: Sequence[int], activation: str) -> None:
        self.sizes = tuple(sizes)
        self.inputs = sizes[0]
        self.outputs = sizes[-1]
        self.activation = activation
        self.networks = parameters.shape[0]
        self.weights, self.biases = _layers(parameters, sizes)
        weight_gradients, bias_gradients = _layers(gradients, sizes)
        # A single network works on matrices without the leading axis, whose calls are the cheaper ones.
        single = self.networks == 1
        self._affine = torch.addmm if single else torch.baddbmm
        self._product = torch.mm if single else torch.bmm
        self._w, self._gw = ([w[0] if single else w for w in ws] for ws in (self.weights, weight_gradients))
        self._b, self._gb = ([b[0] if single else b for b in bs] for bs in (self.biases, bias_gradients))
        self._capacity = 0
        self._outputs: list[Tensor] = []
        self._deltas: list[Tensor] = []
        self._inputs: list[Tensor] = []
        self._minus_one = torch.tensor(-1.0, device=parameters.device)

    def initialize(self, generator: torch.Generator, output_gain: float, output_bias: Tensor | None = None) -> None:
        """Orthogonal weights of gain sqrt 2, as the interface says in the last layer, and zero biases."""
        for k, weight in enumerate(self.weights):
            gain = output_gain if k == len(self.weights) - 1 else math.sqrt(2.0)
            for g in range(self.networks):
                fresh = torch.empty(weight.shape[2], weight.shape[1])
                torch.nn.init.orthogonal_(fresh, gain, generator=generator)
                weight[g].copy_(fresh.T)
            self.biases[k].zero_()
        if output_bias is not None:
            self.biases[-1].copy_(output_bias)

    def forward(self, x: Tensor) -> Tensor:
        single = self.networks == 1
        last = len(self._w) - 1
        self._reserve(x.shape[1], x)
        x = x[0] if single else x
        rows = x.shape[-2]
        self._inputs.clear()
        for k, (weight, bias, memory) in enumerate(zip(self._w, self._b, self._outputs, strict=True)):
            self._inputs.append(x)
            out = memory[..., :rows, :]
            # tanh(a) is computed as 2 sigmoid(2 a) - 1, which torch does several times faster on a CPU; the first
            # factor 2 costs nothing here. It differs from torch.tanh by at most 2e-7.
            scale = 2.0 if self.activation == "tanh" and k < last else 1.0
            self._affine(bias, x, weight, beta=scale, alpha=scale, out=out)
            x = self._activate(out) if k < last else out
        return x.unsqueeze(0) if single else x

    def backward(self, output_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        single = self.networks == 1
        delta = output_grad[0] if single else output_grad
        for k in range(len(self._w) - 1, -1, -1):
            x = self._inputs[k]
            if single:
                self._gw[k].addmm_(x.T, delta)
            else:
                self._gw[k].baddbmm_(x.mT, delta)
            self._gb[k] += delta.sum(-2, keepdim=True)
            if k:
                below = self._deltas[k - 1][..., : x.shape[-2], :]
                delta = self._activate_backward(self._product(delta, self._w[k].mT, out=below), x)
        if not input_grad:
            return None
        delta = self._product(delta, self._w[0].mT)
        return delta.unsqueeze(0) if single else delta

    def stage_weights(self, g: int) -> list[Tensor]:
        pairs = zip(self.weights, self.biases, strict=True)
        return [part for weight, bias in pairs for part in (weight[g].T, bias[g, 0])]

    def _activate(self, x: Tensor) -> Tensor:
        if self.activation == "tanh":
            return torch.add(self._minus_one, x.sigmoid_(), alpha=2.0, out=x)
        if self.activation == "elu":
            return torch.nn.functional.elu_(x)
        return x.relu_()

    def _activate_backward(self, delta: Tensor, out: Tensor) -> Tensor:
        """delta times the activation's slope, in place; `out` is the activation's result."""
        aten = torch.ops.aten
        if self.activation == "tanh":
            aten.tanh_backward.grad_input(delta, out, grad_input=delta)
        elif self.activation == "elu":
            aten.elu_backward.grad_input(delta, 1.0, 1.0, 1.0, True, out, grad_input=delta)
        else:
            aten.threshold_backward.grad_input(delta, out, 0.0, grad_input=delta)
        return delta

    def _reserve(self, rows: int, like: Tensor) -> None:
        if rows <= self._capacity:
            return
        # Each network's memory begins at a multiple of 64 bytes, however many rows there are: matrix products round
        # otherwise at other addresses, and a resumed run, whose memory grew in another order, would not be bit-equal.
        rows = -(-rows // 16) * 16
        self._capacity = rows
        lead = (rows,) if self.networks == 1 else (self.networks, rows)
        self._outputs = [like.new_empty(*lead, size) for size in self.sizes[1:]]
        self._deltas = [like.new_empty(*lead, size) for size in self.sizes[1:-1]]


def _layers(flat: Tensor, sizes: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    """Weights [G, in, out] and biases [G, 1, out] as views into flat [G, P]."""
    weights = []
    biases = []
    at = 0
    for i, o in pairwise(sizes):
        weights.append(flat[:, at : at + i * o].view(-1, i, o))
        biases.append(flat[:, at + i * o : at + (i + 1) * o].view(-1, 1, o))
        at += (i + 1) * o
    return weights, biases
