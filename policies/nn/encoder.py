"""A network behind another that reads its input first: an encoder of pictures, attention, or whatever stages there are."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.policies.nn.network import Network


class Encoded(Network):
    """G networks of one shape, each behind an encoder of its own.

    Args:
        encoder: takes the input to numbers and features.
        head: takes these to the output.
    """

    def __init__(self, encoder: Network, head: Network) -> None:
        self.encoder: Network = encoder
        self.head = head
        self.networks = head.networks
        self.inputs = encoder.inputs
        self.outputs = head.outputs

    def initialize(self, generator: torch.Generator, output_gain: float, output_bias: Tensor | None = None) -> None:
        self.encoder.initialize(generator, math.sqrt(2.0))
        self.head.initialize(generator, output_gain, output_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head.forward(self.encoder.forward(x))

    def backward(self, output_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        features_grad = self.head.backward(output_grad, input_grad=True)
        assert features_grad is not None
        return self.encoder.backward(features_grad, input_grad)

    def stage_weights(self, g: int) -> list[Tensor]:
        return [*self.encoder.stage_weights(g), *self.head.stage_weights(g)]
