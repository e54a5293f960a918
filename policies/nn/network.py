"""The interface of networks that learn: a flat vector of weights, one of gradients, forward and backward."""

from __future__ import annotations

import abc
from collections.abc import Iterable

import torch
from torch import Tensor


class Network(abc.ABC):
    """G networks of one shape, one for each independent set of weights, all multiplied in one call.

    Weights and gradients are views into flat vectors of the learner, so that one optimizer steps several networks at once,
    and several threads can have a network each over the same weights with gradients of their own.

    Attributes:
        networks: G.
        inputs, outputs: sizes of an input and an output.
        state_size: numbers that a network with memory keeps from step to step; 0 without.
        encoder: what an input goes through first; None where there is none.
    """

    networks: int
    inputs: int
    outputs: int
    state_size: int = 0
    encoder: Network | None = None

    @abc.abstractmethod
    def initialize(self, generator: torch.Generator, output_gain: float, output_bias: Tensor | None = None) -> None:
        """Draw initial weights.

        Args:
            generator: on the CPU.
            output_gain: of the last layer's orthogonal weights.
            output_bias: [out] its biases; None for zeros.
        """

    @abc.abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Outputs [G, R, out] for inputs [G, R, in].

        The result, and what `backward` needs, stay valid until the next call.
        """

    @abc.abstractmethod
    def backward(self, output_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        """Add d loss / d weights of the latest `forward` to the gradients.

        Args:
            output_grad: d loss / d output [G, R, out].
            input_grad: whether to return d loss / d input.

        Returns:
            d loss / d input [G, R, in], valid until the next call, or None.
        """

    @abc.abstractmethod
    def stage_weights(self, g: int) -> list[Tensor]:
        """The weights of network g as the stages of the deployed policy have them, in their order: views."""

    def write_to(self, parameters: Iterable[Tensor], g: int) -> None:
        """Copy the weights of network g into the parameters of the deployed policy's stages."""
        with torch.no_grad():
            for own, theirs in zip(self.stage_weights(g), parameters, strict=True):
                theirs.copy_(own)

    def read_from(self, parameters: Iterable[Tensor], g: int) -> None:
        """Copy the parameters of the deployed policy's stages into network g."""
        with torch.no_grad():
            for own, theirs in zip(self.stage_weights(g), parameters, strict=True):
                own.copy_(theirs)

    def forward_agents(self, x: Tensor) -> Tensor:
        """Outputs [N, A, out] for inputs [N, A, in]: all agents through the one network, or each through its own."""
        n, count, size = x.shape
        if self.networks == 1:
            return self.forward(x.reshape(1, n * count, size)).view(n, count, -1)
        return self.forward(x.transpose(0, 1)).transpose(0, 1)
