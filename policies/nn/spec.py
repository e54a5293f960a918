"""What a network is built from, as settings and contracts name it."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass

from torch import Tensor, nn

from rookery.policies.nn import gru
from rookery.policies.nn.autograd import AutogradNetwork
from rookery.policies.nn.encoder import Encoded, trainable
from rookery.policies.nn.mlp import MLP, parameter_count
from rookery.policies.nn.network import Network
from rookery.policies.nn.pictures import EncoderSpec
from rookery.policies.nn.recurrent import Recurrent
from rookery.sim.errors import RookeryError


def make_module(path: str, inputs: int, outputs: int) -> nn.Module:
    """A module by the name of its factory.

    Args:
        path: "package.module:function", importable; called with (inputs, outputs).
        inputs, outputs: sizes of a row.

    Raises:
        RookeryError: there is no such function, or it gives no torch.nn.Module.
    """
    name, _, function = path.partition(":")
    try:
        make = getattr(importlib.import_module(name), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise RookeryError(
            f"network {path!r} cannot be imported ({error}): give package.module:function of an installed package."
        ) from error
    module = make(inputs, outputs)
    if not isinstance(module, nn.Module):
        raise RookeryError(f"network {path!r} gives {type(module).__name__}, not a torch.nn.Module.")
    return module


TRUSTED = "ROOKERY_TRUST_MODULES"
"""Environment variable: packages, separated by commas, whose networks may be imported because a file names them."""


def refuse_untrusted(path: str, file: object) -> None:
    """Refuse a factory that a stored file names, unless it is Rookery's own or of a package in ROOKERY_TRUST_MODULES.

    To import a module is to run it: a file from elsewhere must not choose which.

    Args:
        path: as in `make_module`.
        file: which names it.

    Raises:
        RookeryError: it is not trusted.
    """
    name = path.partition(":")[0]
    trusted = ["rookery", *(t.strip() for t in os.environ.get(TRUSTED, "").split(","))]
    if not any(t and (name == t or name.startswith(f"{t}.")) for t in trusted):
        raise RookeryError(
            f"{file} asks for code of the module {name!r}, which is not imported because a file says so: if you trust it, set "
            f"{TRUSTED}={name.partition('.')[0]}."
        )


@dataclass(frozen=True)
class NetworkSpec:
    """A multilayer perceptron, or a module from a factory; perhaps with a memory before it, and an encoder before that.

    Args:
        inputs, outputs: sizes of a row.
        hidden: widths of the perceptron's hidden layers.
        activation: "tanh", "elu" or "relu", after every convolution and hidden layer.
        module: "package.module:function" of a factory instead (see `make_module`); "" for a perceptron.
        memory_size: H, size of the state of a GRU between input and network; 0 for none.
        encoder: of the pictures in a row; None where there are none, or they go to the network as they are.
        before: numbers of a row before its first frame, which the encoder passes on.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = ()
    activation: str = "tanh"
    module: str = ""
    memory_size: int = 0
    encoder: EncoderSpec | None = None
    before: int = 0

    @property
    def parameter_count(self) -> int:
        """P, number of weights of one network."""
        first = self._encoder_count + self._memory_count
        if self.module:
            return first + sum(p.numel() for p in make_module(self.module, self._width, self.outputs).parameters())
        return first + parameter_count((self._width, *self.hidden, self.outputs))

    @property
    def _encoder_count(self) -> int:
        return 0 if self.encoder is None else self.encoder.parameter_count(self.inputs, self.before)

    @property
    def _memory_count(self) -> int:
        return gru.parameter_count(self._encoded, self.memory_size) if self.memory_size else 0

    @property
    def _encoded(self) -> int:
        """Inputs of the memory, or without one of the perceptron or module."""
        return self.inputs if self.encoder is None else self.encoder.outputs(self.inputs, self.before)

    @property
    def _width(self) -> int:
        """Inputs of the perceptron or module."""
        return self.memory_size or self._encoded

    def build(self, parameters: Tensor, gradients: Tensor) -> Network:
        """Networks over views into flat vectors [G, P] of weights and gradients: those of encoder, memory and head."""
        sizes = [self._encoder_count, self._memory_count]
        sizes.append(parameters.shape[1] - sum(sizes))
        (w_encoder, w_memory, w_head), (g_encoder, g_memory, g_head) = (
            x.split(sizes, 1) for x in (parameters, gradients)
        )
        head = self._build_head(w_head, g_head)
        encoder = None
        if self.encoder is not None:
            encoder = trainable(self.encoder, self.inputs, self.activation, self.before, w_encoder, g_encoder)
        if self.memory_size:
            return Recurrent(gru.GRU(w_memory, g_memory, self._encoded, self.memory_size), head, encoder)
        return head if encoder is None else Encoded(encoder, head)

    def _build_head(self, parameters: Tensor, gradients: Tensor) -> Network:
        width, outputs = self._width, self.outputs
        if self.module:
            return AutogradNetwork(
                lambda: make_module(self.module, width, outputs), width, outputs, parameters, gradients
            )
        return MLP(parameters, gradients, (width, *self.hidden, outputs), self.activation)
