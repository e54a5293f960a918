"""Convolutional encoders for training and in deployed policies; see pictures.py for what goes where."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rookery.policies.nn.autograd import AutogradNetwork
from rookery.policies.nn.network import Network
from rookery.policies.nn.pictures import EncoderSpec


class Encoder(nn.Module):
    """Rows of numbers and pictures [R, in] to rows of numbers and features [R, out].

    Args:
        spec: the pictures and the convolutions.
        inputs: size of a row: `before` numbers, then whole frames of an observation.
        activation: "tanh", "elu" or "relu", after every convolution.
        before: numbers before the first frame, such as a central critic's state.

    Attributes:
        convolutions: for each picture a ModuleList of torch.nn.Conv2d.
    """

    def __init__(self, spec: EncoderSpec, inputs: int, activation: str, before: int = 0) -> None:
        super().__init__()
        self.spec = spec
        self.before = before
        self.frames = spec.frames(inputs, before)
        self._activate = getattr(nn.functional, activation)
        self.convolutions = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(x.inputs, x.outputs, x.kernel, x.stride) for x in spec.layers(picture, self.frames))
            for picture in spec.pictures
        )

    def forward(self, x: Tensor) -> Tensor:
        """Numbers as they come, then the features of picture after picture, each channel by channel."""
        frames = x[:, self.before :].unflatten(1, (self.frames, self.spec.frame))
        numbers = [frames[:, :, a:b] for a, b in self.spec.numbers]
        out = [x[:, : self.before]] if self.before else []
        if numbers:
            out.append(torch.cat(numbers, 2).flatten(1))
        for picture, layers in zip(self.spec.pictures, self.convolutions, strict=True):
            values = frames[:, :, picture.start : picture.start + picture.size]
            y = values.unflatten(2, (picture.rows, picture.columns, picture.channels))
            y = y.permute(0, 1, 4, 2, 3).flatten(1, 2)  # [R, frames * channels, rows, columns]
            for layer in layers:  # type: ignore[attr-defined]
                y = self._activate(layer(y))
            out.append(y.flatten(1))
        return torch.cat(out, 1)


def new_encoder(
    spec: EncoderSpec, inputs: int, activation: str, generator: torch.Generator | None = None, before: int = 0
) -> Encoder:
    """An encoder of orthogonal weights of gain sqrt 2 and zero biases, as the convolutions of CleanRL's ppo_atari.py have.

    Args:
        spec, inputs, activation, before: see `Encoder`.
        generator: source of the weights; None for torch's global one.
    """
    module = Encoder(spec, inputs, activation, before)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.orthogonal_(layer.weight, math.sqrt(2.0), generator=generator)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]  # there is one by default
    return module


def trainable(
    spec: EncoderSpec, inputs: int, activation: str, before: int, parameters: Tensor, gradients: Tensor
) -> AutogradNetwork:
    """G encoders over views into flat vectors [G, P] of weights and gradients, see `new_encoder`."""

    def make() -> Encoder:
        return new_encoder(spec, inputs, activation, before=before)

    return AutogradNetwork(make, inputs, spec.outputs(inputs, before), parameters, gradients)


class Encoded(Network):
    """G networks of one shape, each behind an encoder of its own.

    Args:
        encoder: takes the input to numbers and features.
        head: takes these to the output.
    """

    def __init__(self, encoder: AutogradNetwork, head: Network) -> None:
        self.encoder: AutogradNetwork = encoder
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

    def write_to(self, module: nn.Module, g: int) -> None:
        """As `Network.write_to`, for the head; `encoder` writes itself."""
        self.head.write_to(module, g)
