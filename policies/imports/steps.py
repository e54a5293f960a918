"""Steps of a computation graph on one row, and the perceptron that they are.

TorchScript and ONNX files tell everything that an actor computes: every step must be one of these, in the order of a policy
here, or the file is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.policies.imports.actor import NO_LIMIT, Actor, Normalizer
from rookery.policies.imports.weights import Layers
from rookery.sim.untrusted import Damaged


@dataclass(frozen=True)
class Linear:
    """``x @ weight.T + bias``; weight [out, in], bias [out]."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Affine:
    """``x * scale + offset``, of numbers or vectors."""

    scale: Tensor
    offset: Tensor


@dataclass(frozen=True)
class Activation:
    """An activation by its name."""

    name: str


@dataclass(frozen=True)
class Clip:
    """``min(max(x, low), high)``."""

    low: float
    high: float


Step = Linear | Affine | Activation | Clip


def actor_of(library: str, steps: Sequence[Step]) -> Actor:
    """The actor that a chain of steps is: a normalizer, layers with one activation between them, tanh or limits.

    Raises:
        Damaged: it is no such chain.
    """
    left = list(steps)
    norm, scale = _normalizer(left)
    layers: Layers = []
    between = ""
    while left and isinstance(left[0], Linear):
        layers.append(_linear(left, scale))
        scale = None
        if len(left) > 1 and isinstance(left[0], Activation) and isinstance(left[1], Linear):
            name = left.pop(0).name  # type: ignore[union-attr]
            if between not in ("", name):
                raise Damaged(f"its layers have different activations, {between} and {name}")
            between = name
        elif left and isinstance(left[0], Linear):
            raise Damaged("it has two linear layers without an activation between them")
    if not layers:
        raise Damaged("it has no linear layer")
    squash = _squash(left)
    if left:
        raise Damaged(f"it goes on with {type(left[0]).__name__.lower()} where a perceptron here has ended")
    if norm is not None:
        size = layers[0][0].shape[1]
        norm = Normalizer(_spread(norm.mean, size), _spread(norm.std, size), norm.limit)
    return Actor(library, layers, between, squash, norm)


def _normalizer(left: list[Step]) -> tuple[Normalizer | None, Affine | None]:
    """Takes what stands before the first layer; gives the normalizer and what remains to be folded into the layer."""
    before = _affine(left)
    limit = math.inf
    while left and isinstance(left[0], Clip):
        clip = left.pop(0)
        assert isinstance(clip, Clip)
        if clip.low != -clip.high or not clip.high > 0.0:
            raise Damaged(f"it limits its observations to {clip.low:g} and {clip.high:g}, which are not opposite")
        limit = min(limit, clip.high)
    after = _affine(left)
    if before is None and math.isinf(limit):
        return None, after
    if before is None:
        before = Affine(torch.ones(()), torch.zeros(()))
    if after is None and math.isinf(limit) and not (before.scale > 0.0).all():
        return None, before
    if not (before.scale > 0.0).all():
        raise Damaged("it normalizes by a standard deviation that is not above zero")
    std = 1.0 / before.scale
    return Normalizer(-before.offset * std, std, NO_LIMIT if math.isinf(limit) else limit), after


def _affine(left: list[Step]) -> Affine | None:
    """Takes the affine steps at the beginning, as one."""
    whole: Affine | None = None
    while left and isinstance(left[0], Affine):
        step = left.pop(0)
        assert isinstance(step, Affine)
        if whole is None:
            whole = step
            continue
        size = max(whole.scale.numel(), step.scale.numel())
        scale, offset, factor, more = (_spread(x, size) for x in (whole.scale, whole.offset, step.scale, step.offset))
        whole = Affine(scale * factor, offset * factor + more)
    return whole


def _linear(left: list[Step], scale: Affine | None) -> tuple[Tensor, Tensor]:
    """Takes a layer and the affine steps behind it, which it swallows with the one before it."""
    step = left.pop(0)
    assert isinstance(step, Linear)
    weight, bias = step.weight, step.bias
    if scale is not None:
        bias = bias + weight @ _spread(scale.offset, weight.shape[1])
        weight = weight * _spread(scale.scale, weight.shape[1])
    behind = _affine(left)
    if behind is not None:
        factor = _spread(behind.scale, len(bias))
        weight = weight * factor[:, None]
        bias = bias * factor + _spread(behind.offset, len(bias))
    return weight, bias


def _spread(x: Tensor, size: int) -> Tensor:
    """A number or a vector as a vector of a size.

    Raises:
        Damaged: it is a vector of another size.
    """
    if x.numel() not in (1, size):
        raise Damaged(f"it has a vector of {x.numel()} numbers beside rows of {size}")
    return x.expand(size)


def _squash(left: list[Step]) -> str:
    """Takes tanh, and limits that do not lie within [-1, 1]."""
    squash = "clip"
    if left and left[0] == Activation("tanh"):
        left.pop(0)
        squash = "tanh"
    while left and isinstance(left[0], Clip) and left[0].low <= -1.0 and left[0].high >= 1.0:
        left.pop(0)
    return squash


def vector(x: Tensor) -> Tensor:
    """A constant that is added to or multiplied with a row: a number [] or a vector [n].

    Raises:
        Damaged: it has another shape.
    """
    if x.dim() > 1 and x.numel() == x.shape[-1]:
        x = x.reshape(-1)
    if x.dim() > 1 or x.numel() == 0:
        raise Damaged(f"it adds or multiplies an array of shape {tuple(x.shape)!s:.60} to a row")
    return x.reshape(()) if x.numel() == 1 else x


def added(x: Tensor) -> Affine:
    """The step that adds a constant."""
    x = vector(x)
    return Affine(torch.ones_like(x), x)


def multiplied(x: Tensor) -> Affine:
    """The step that multiplies with a constant."""
    x = vector(x)
    return Affine(x, torch.zeros_like(x))


def linear(weight: Tensor, bias: Tensor | None) -> Linear:
    """A layer.

    Raises:
        Damaged: weight and bias are no matrix and vector that fit together.
    """
    if weight.dim() != 2 or not weight.numel():
        raise Damaged(f"a layer's weights have the shape {tuple(weight.shape)!s:.60}")
    if bias is None:
        bias = torch.zeros(weight.shape[0])
    if bias.dim() == 2 and bias.shape[0] == 1:
        bias = bias[0]
    if bias.shape != weight.shape[:1]:
        raise Damaged(f"a layer of {weight.shape[0]} outputs has biases of shape {tuple(bias.shape)!s:.60}")
    return Linear(weight, bias)
