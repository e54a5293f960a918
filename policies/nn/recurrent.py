"""A network with memory: a GRU, and on its state any network of rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rookery.policies.nn.gru import GRU
from rookery.policies.nn.network import Network


class Recurrent(Network):
    """G recurrent networks of one shape.

    Args:
        gru: the memory.
        head: takes its state to the output.

    Attributes:
        memory_size: H, size of the state.
    """

    def __init__(self, gru: GRU, head: Network) -> None:
        self.gru = gru
        self.head = head
        self.networks = head.networks
        self.inputs = gru.inputs
        self.outputs = head.outputs
        self.memory_size = gru.size

    def initialize(self, generator: torch.Generator, output_gain: float, output_bias: Tensor | None = None) -> None:
        self.gru.initialize(generator)
        self.head.initialize(generator, output_gain, output_bias)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [G, S, out] and next states [G, S, H] for inputs [G, S, in] and states [G, S, H]; not for `backward`."""
        state = self.gru.step(x, state)
        return self.head.forward(state), state

    def forward(self, x: Tensor, first: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Outputs [G, T S, out] for inputs [G, T S, in].

        Args:
            x, first, state: see `GRU.forward`; without a state every row is an episode of its own.
        """
        if state is None:
            state = x.new_zeros(*x.shape[:2], self.memory_size)
        if first is None:
            first = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return self.head.forward(self.gru.forward(x, first, state))

    def backward(self, output_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        """As `Network.backward`, through time up to the first step of the latest `forward`."""
        state_grad = self.head.backward(output_grad, input_grad=True)
        assert state_grad is not None
        return self.gru.backward(state_grad, input_grad)

    def write_to(self, module: nn.Module, g: int) -> None:
        """As `Network.write_to`, for the head; `gru` writes itself."""
        self.head.write_to(module, g)
