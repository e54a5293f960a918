"""State dicts of TorchRL's actors: ``torch.save(actor.state_dict(), file)`` of a `ProbabilisticActor`, an `Actor` or an `MLP`.

An `MLP` (torchrl/modules/models/models.py) numbers its layers and activations; a `TensorDictModule` around it puts ``module.``
before. Beside it stands ``state_independent_scale`` of `AddStateIndependentNormalScale`, or the last layer gives means and
deviations to a `NormalParamExtractor` (tensordict/nn/distributions/continuous.py), which has no weights. Deterministically a
`TanhNormal` (torchrl/modules/distributions/continuous.py) acts by tanh of the mean, a normal distribution by the mean. Neither
the activation nor the distribution is in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rookery.policies.imports.actor import Actor, Predict
from rookery.policies.imports.weights import Layers, float_tensors, hidden_sizes, layers_under

ACTIVATIONS = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}
SCALE = r"(?:\w+\.)*state_independent_scale"


def is_torchrl(saved: Mapping[Any, Any]) -> bool:
    """A state dict: layers with numbers, and nothing but tensors."""
    tensors = all(
        isinstance(x, Tensor) or not x for x in saved.values()
    )  # an empty OrderedDict for a module's extra state
    return tensors and any(isinstance(name, str) and re.search(r"(^|\.)\d{1,4}\.weight$", name) for name in saved)


def read_torchrl(file: Path, saved: Mapping[Any, Any]) -> Actor:
    """The actor of a state dict.

    Raises:
        RookeryError: it is no perceptron.
    """
    weights = float_tensors(file, saved)
    layers = layers_under(file, weights, "", beside=SCALE)
    means_first = not any(re.fullmatch(SCALE, name) for name in weights)
    assumed = ("tanh_loc=False of TorchRL's TanhNormal, where it has one",)

    def reference(activation: str, squash: str) -> Predict | None:
        return _prediction(layers, activation, squash)

    return Actor("torchrl", layers, squash="", means_first=means_first, assumed=assumed, reference=reference)


def _prediction(layers: Layers, activation: str, squash: str) -> Predict | None:
    """Prediction of TorchRL's own perceptron and distributions."""
    try:
        from torchrl.modules import MLP, TanhNormal  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    sizes = {"in_features": layers[0][0].shape[1], "out_features": layers[-1][0].shape[0]}
    mlp = MLP(**sizes, num_cells=hidden_sizes(layers), activation_class=ACTIVATIONS[activation or "tanh"])
    linear = [x for x in mlp if isinstance(x, nn.Linear)]
    for layer, (weight, bias) in zip(linear, layers, strict=True):
        layer.load_state_dict({"weight": weight, "bias": bias})

    def predict(obs: Tensor) -> Tensor:
        loc: Tensor = mlp(obs)
        if squash != "tanh":
            return loc
        out: Tensor = TanhNormal(loc, torch.ones_like(loc)).deterministic_sample
        return out

    return predict
