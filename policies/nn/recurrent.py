"""A network with memory: perhaps an encoder, a GRU, and on its state any network of rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.policies.nn.gru import TrainedGRU
from rookery.policies.nn.network import Network


class Recurrent(Network):
    """G recurrent networks of one shape.

    Args:
        gru: the memory.
        head: takes its state to the output.
        encoder: takes the input to that of the memory; None where it is the memory's input.

    Attributes:
        state_size: H, size of the state.
    """

    def __init__(self, gru: TrainedGRU, head: Network, encoder: Network | None = None) -> None:
        self.gru = gru
        self.head = head
        self.encoder = encoder
        self.networks = head.networks
        self.inputs = gru.inputs if encoder is None else encoder.inputs
        self.outputs = head.outputs
        self.state_size = gru.size

    def initialize(self, generator: torch.Generator, output_gain: float, output_bias: Tensor | None = None) -> None:
        if self.encoder is not None:
            self.encoder.initialize(generator, math.sqrt(2.0))
        self.gru.initialize(generator)
        self.head.initialize(generator, output_gain, output_bias)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [G, S, out] and next states [G, S, H] for inputs [G, S, in] and states [G, S, H]; not for `backward`."""
        state = self.gru.step(self._encode(x), state)
        return self.head.forward(state), state

    def forward(self, x: Tensor, first: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Outputs [G, T S, out] for inputs [G, T S, in].

        Args:
            x, first, state: see `TrainedGRU.forward`; without a state every row is an episode of its own.
        """
        if state is None:
            state = x.new_zeros(*x.shape[:2], self.state_size)
        if first is None:
            first = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return self.head.forward(self.gru.forward(self._encode(x), first, state))

    def backward(self, output_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        """As `Network.backward`, through time up to the first step of the latest `forward`."""
        state_grad = self.head.backward(output_grad, input_grad=True)
        assert state_grad is not None
        if self.encoder is None:
            return self.gru.backward(state_grad, input_grad)
        features_grad = self.gru.backward(state_grad, input_grad=True)
        assert features_grad is not None
        return self.encoder.backward(features_grad, input_grad)

    def stage_weights(self, g: int) -> list[Tensor]:
        encoder = [] if self.encoder is None else self.encoder.stage_weights(g)
        return [*encoder, *self.gru.stage_weights(g), *self.head.stage_weights(g)]

    def _encode(self, x: Tensor) -> Tensor:
        return x if self.encoder is None else self.encoder.forward(x)
