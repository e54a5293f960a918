"""Checkpoints of skrl, versions 1 and 2: `Agent.save` (skrl/agents/torch/base.py) writes the state dict of each module by name.

``policy`` is a model of the user's own or of `skrl.utils.model_instantiators`, whose layers have numbers;
``observation_preprocessor`` (version 1: ``state_preprocessor``) is a `RunningStandardScaler`
(skrl/resources/preprocessors/torch/running_standard_scaler.py), ``clip((x - mean) / (sqrt(variance) + 1e-8), -5, 5)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from rookery.policies.imports.actor import Actor, Normalizer, Predict
from rookery.policies.imports.weights import Layers, Weights, float_tensors, layers_under, no_normalizer

EPSILON, LIMIT = 1e-8, 5.0
"""Of `RunningStandardScaler`, as it is made by default."""
ACTIVATIONS = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}


def is_skrl(saved: Mapping[Any, Any]) -> bool:
    """A checkpoint of an agent."""
    return isinstance(saved.get("policy"), Mapping)


def read_skrl(file: Path, saved: Mapping[Any, Any]) -> Actor:
    """The actor of a checkpoint.

    Raises:
        RookeryError: it is no perceptron.
    """
    norm = None
    statistics: Weights = {}
    names = [name for name in ("observation_preprocessor", "state_preprocessor") if saved.get(name) is not None]
    for name in names[:1]:  # beside an observation's, that of a state is the critic's
        found = saved[name]
        statistics = float_tensors(file, found) if isinstance(found, Mapping) else {}
        if not {"running_mean", "running_variance"} <= set(statistics):
            raise no_normalizer(file, name)
        std = statistics["running_variance"].sqrt() + EPSILON
        norm = Normalizer(statistics["running_mean"], std, LIMIT)
    layers = layers_under(file, float_tensors(file, saved["policy"]), "", beside="log_std(_parameter)?")
    assumed = ("a clip_threshold of 5 in skrl's RunningStandardScaler",) if norm else ()

    def reference(activation: str, squash: str) -> Predict | None:
        return _prediction(layers, statistics, activation, squash)

    return Actor("skrl", layers, squash="", normalizer=norm, assumed=assumed, reference=reference)


def _prediction(layers: Layers, statistics: Weights, activation: str, squash: str) -> Predict | None:
    """Prediction of skrl's own scaler and torch's layers."""
    try:
        from skrl.resources.preprocessors.torch import (  # type: ignore[import-not-found, unused-ignore]
            RunningStandardScaler,
        )
    except ImportError:
        return None
    scale: nn.Module = nn.Identity()
    if statistics:
        scale = RunningStandardScaler(size=len(statistics["running_mean"]), device="cpu")
        scale.load_state_dict(dict(statistics), strict=False)
    chain = nn.Sequential()
    for weight, bias in layers:
        if len(chain):
            chain.append(ACTIVATIONS[activation]())
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.load_state_dict({"weight": weight, "bias": bias})
        chain.append(layer)

    def predict(obs: Tensor) -> Tensor:
        out: Tensor = chain(scale(obs))
        return out.tanh() if squash == "tanh" else out

    return predict
