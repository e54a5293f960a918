"""Checkpoints of rsl_rl, versions 1 to 5.

What `OnPolicyRunner.save` (rsl_rl/runners/on_policy_runner.py) writes in each:

* 5: ``actor_state_dict`` of an `MLPModel` (rsl_rl/models/mlp_model.py): ``mlp.N``, ``obs_normalizer.*``,
  ``distribution.std_param`` or ``distribution.log_std_param``;
* 4: the same with ``std`` or ``log_std``;
* 3: ``model_state_dict`` of an `ActorCritic` (rsl_rl/modules/actor_critic.py): ``actor.N``, ``actor_obs_normalizer.*``,
  ``critic.N``, ``critic_obs_normalizer.*``, ``std`` or ``log_std``; neither where the deviation depends on the state, and the
  last layer then gives means and deviations;
* 1 and 2: ``model_state_dict`` with ``actor.N``, ``critic.N``, ``std`` or ``log_std``, and ``obs_norm_state_dict`` beside it.

All take the actor's mean without a function behind it, and normalize by `EmpiricalNormalization`,
``(x - _mean) / (_std + 0.01)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.policies.imports.actor import Actor, Normalizer, Predict
from rookery.policies.imports.weights import Layers, Weights, float_tensors, hidden_sizes, layers_under, no_normalizer
from rookery.sim.errors import RookeryError

EPSILON = 1e-2
"""Of `EmpiricalNormalization`, which the models make with its default."""


def is_rsl_rl(saved: Mapping[Any, Any]) -> bool:
    """A checkpoint of any version."""
    return any(isinstance(saved.get(name), Mapping) for name in ("actor_state_dict", "model_state_dict"))


def read_rsl_rl(file: Path, saved: Mapping[Any, Any]) -> Actor:
    """The actor of a checkpoint.

    Raises:
        RookeryError: it is no perceptron, or its distribution's mean is not its last layer.
    """
    if isinstance(saved.get("actor_state_dict"), Mapping):
        found = saved["actor_state_dict"]
        weights = float_tensors(file, found)
        beside = r"obs_normalizer\.(_mean|_var|_std)|distribution\.(log_)?std_param|(log_)?std"
        layers = layers_under(file, weights, "mlp.", beside=beside)
        return _actor(layers, _normalizer(file, found, weights, "obs_normalizer."), means_first=False)
    found = saved["model_state_dict"]
    weights = float_tensors(file, found)
    beside = r"actor_obs_normalizer\.(_mean|_var|_std)|(log_)?std|critic\..+|critic_obs_normalizer\..+"
    layers = layers_under(file, weights, "actor.", beside=beside)
    inside = _normalizer(file, found, weights, "actor_obs_normalizer.")
    older = saved.get("obs_norm_state_dict")
    if older is not None:
        if inside is not None or not isinstance(older, Mapping):
            raise no_normalizer(file, "obs_norm_state_dict")
        inside = _normalizer(file, older, float_tensors(file, older), "", "obs_norm_state_dict")
    dependent = not {"std", "log_std"} & set(weights)
    if dependent and layers[-1][0].shape[0] % 2:
        raise RookeryError(
            f"{file} has no deviations, and a last layer of an odd size: give the file that rsl_rl saved."
        )
    return _actor(layers, inside, means_first=dependent)


def _normalizer(
    file: Path, found: Mapping[Any, Any], weights: Weights, prefix: str, name: str = ""
) -> Normalizer | None:
    if prefix and not any(str(key).startswith(prefix) for key in found):
        return None
    if not {f"{prefix}_mean", f"{prefix}_std"} <= set(weights):
        raise no_normalizer(file, name or prefix.removesuffix("."))
    return Normalizer(weights[f"{prefix}_mean"].flatten(), weights[f"{prefix}_std"].flatten() + EPSILON)


def _actor(layers: Layers, normalizer: Normalizer | None, means_first: bool) -> Actor:
    def reference(activation: str, squash: str) -> Predict | None:
        return _prediction(layers, normalizer, activation)

    return Actor("rsl_rl", layers, normalizer=normalizer, means_first=means_first, reference=reference)


def _prediction(layers: Layers, normalizer: Normalizer | None, activation: str) -> Predict | None:
    """Prediction of the installed version's own modules."""
    try:
        from rsl_rl.modules import MLP, EmpiricalNormalization  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    if len(layers) < 2:  # its MLP has a hidden layer at least
        return None
    mlp = MLP(layers[0][0].shape[1], layers[-1][0].shape[0], hidden_sizes(layers), activation)
    state = {
        f"{2 * i}.{name}": x for i, pair in enumerate(layers) for name, x in zip(("weight", "bias"), pair, strict=True)
    }
    mlp.load_state_dict(state)
    scale: torch.nn.Module = torch.nn.Identity()
    if normalizer is not None:
        scale = EmpiricalNormalization(len(normalizer.mean))
        std = normalizer.std - EPSILON
        values = {"_mean": normalizer.mean, "_std": std, "_var": std.square()}
        scale.load_state_dict({k: v.unsqueeze(0) for k, v in values.items()} | {"count": torch.tensor(1)})
    scale.eval()

    def predict(obs: Tensor) -> Tensor:
        actions: Tensor = mlp(scale(obs))
        return actions

    return predict
