"""A multilayer perceptron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rookery.policies.stages.c_text import function, layer_scratch, layers
from rookery.policies.stages.stage import Stage, Tensors, Weight, check_sizes, dense_weights

if TYPE_CHECKING:
    from torch import Tensor

Activation = Literal["tanh", "elu", "relu"]


@dataclass(frozen=True)
class Perceptron(Stage):
    """Layers ``W x + b`` with an activation between them.

    Args:
        inputs, outputs: sizes of a row.
        hidden: widths of the hidden layers.
        activation: after every hidden layer.

    Raises:
        RookeryError: a size below 1.
    """

    kind: ClassVar[str] = "perceptron"
    formula: ClassVar[str] = "weight_k x + bias_k, layer by layer, the activation after all but the last"

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, hidden=self.hidden, outputs=self.outputs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths, input and output included."""
        return (self.inputs, *self.hidden, self.outputs)

    @property
    def words(self) -> str:
        return f"multilayer perceptron {' -> '.join(map(str, self.sizes))}" + f", {self.activation}" * bool(self.hidden)

    def weights(self) -> dict[str, Weight]:
        return dense_weights(self.sizes)

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        return dense(weights, x, len(self.hidden), self.activation)

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("dense", f"activate_{self.activation}") if self.hidden else ("dense",)

    @property
    def scratch(self) -> int:
        return sum(layer_scratch(self.sizes))

    def code(self, name: str) -> str:
        head = f"{name}(const float in[{self.inputs}], float out[{self.outputs}])"
        return function(head, *layers(name, self.sizes, self.activation))


def dense(weights: Tensors, x: Tensor, hidden: int, activation: str) -> Tensor:
    """The layers `weight_0` to `weight_<hidden>` of rows, with the activation between them."""
    from torch.nn import functional

    for k in range(hidden + 1):
        x = functional.linear(x, weights[f"weight_{k}"], weights[f"bias_{k}"])
        x = _activated(x, activation) if k < hidden else x
    return x


def _activated(x: Tensor, activation: str) -> Tensor:
    """The activation of a layer's outputs, which may be overwritten where nothing is differentiated."""
    import torch
    from torch.nn import functional

    if activation == "tanh" and x.device.type == "cpu" and not torch.is_grad_enabled():
        # 2 sigmoid(2 a) - 1: torch computes it in less than half of the time, to within 2e-7
        return x.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)
    out: Tensor = getattr(functional, activation)(x)
    return out
