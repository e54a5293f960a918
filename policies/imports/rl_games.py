"""Checkpoints of rl_games 1.6: `A2CBase.get_full_state_weights` (rl_games/common/a2c_common.py).

``model`` is the state dict of a `ModelA2CContinuousLogStd.Network` (rl_games/algos_torch/models.py), at times behind
torch.compile's ``_orig_mod.``: ``a2c_network.actor_mlp.N``, ``a2c_network.mu`` and ``a2c_network.sigma`` of
`A2CBuilder.Network` (rl_games/algos_torch/network_builder.py), and ``running_mean_std.*`` of `RunningMeanStd`
(rl_games/algos_torch/running_mean_std.py), ``clip((x - mean) / sqrt(var + 1e-5), -5, 5)``. A player acts by the mean, clipped.
Neither the layers' activation nor ``mu_activation`` is in the file.

SAC (rl_games/algos_torch/sac_agent.py) saves ``actor``, the state dict of a `DiagGaussianActor`: layers ``trunk.N``, of which
the last gives means, then deviations, and ``running_mean_std`` beside it. It acts by the tanh of the mean.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from rookery.policies.imports.actor import Actor, Normalizer, Predict
from rookery.policies.imports.weights import Layers, Weights, float_tensors, hidden_sizes, layers_under, no_normalizer
from rookery.sim.errors import RookeryError

EPSILON, LIMIT = 1e-5, 5.0
NORMALIZER = "running_mean_std."
NETWORK = "a2c_network."
COMPILED = "_orig_mod."
SAC_NETWORK = "trunk."


def is_rl_games(saved: Mapping[Any, Any]) -> bool:
    """A checkpoint of one of its algorithms."""
    return isinstance(saved.get("model"), Mapping) or {"actor", "critic", "critic_target"} <= set(saved)


def read_rl_games(file: Path, saved: Mapping[Any, Any]) -> Actor:
    """The actor of a checkpoint.

    Raises:
        RookeryError: it is no perceptron with continuous actions.
    """
    if not isinstance(saved.get("model"), Mapping):
        return _read_sac(file, saved)
    model = {str(name).removeprefix(COMPILED): x for name, x in saved["model"].items()}
    weights = float_tensors(file, model)
    if f"{NETWORK}mu.weight" not in weights:
        raise RookeryError(
            f"{file} is of rl_games and holds no means of continuous actions: only such actors are taken over."
        )
    critic = rf"value_mean_std\..+|{NETWORK}(value|critic_mlp|critic_cnn)\..+"
    beside = rf"{critic}|{NETWORK}sigma(\.weight|\.bias)?|{NORMALIZER}(running_mean|running_var|count)"
    layers = layers_under(file, weights, f"{NETWORK}actor_mlp.", (f"{NETWORK}mu",), beside)
    statistics = {name.removeprefix(NORMALIZER): x for name, x in model.items() if name.startswith(NORMALIZER)}
    norm = _normalizer(file, statistics) if statistics else None

    def reference(activation: str, squash: str) -> Predict | None:
        return _prediction(weights, layers, activation, squash)

    return Actor("rl_games", layers, squash="", normalizer=norm, steps=_steps(saved), reference=reference)


def _read_sac(file: Path, saved: Mapping[Any, Any]) -> Actor:
    """The actor of a checkpoint of SAC.

    Raises:
        RookeryError: it is no perceptron of two outputs for each action.
    """
    actor = saved["actor"]
    weights = float_tensors(file, actor) if isinstance(actor, Mapping) else {}
    whole = layers_under(file, weights, SAC_NETWORK)
    weight, bias = whole[-1]
    if weight.shape[0] % 2:
        raise RookeryError(
            f"{file} is of rl_games' SAC and gives no deviation for each mean: only its own actors are read."
        )
    size = weight.shape[0] // 2
    norm = None
    if saved.get("running_mean_std") is not None:
        statistics = saved["running_mean_std"]
        norm = _normalizer(file, statistics if isinstance(statistics, Mapping) else {})
    layers = [*whole[:-1], (weight[:size], bias[:size])]

    def reference(activation: str, squash: str) -> Predict | None:
        return _sac_prediction(weights, whole, norm, activation)

    return Actor("rl_games", layers, squash="tanh", normalizer=norm, steps=_steps(saved), reference=reference)


def _normalizer(file: Path, statistics: Mapping[str, Any]) -> Normalizer:
    """Of a `RunningMeanStd`'s state dict.

    Raises:
        RookeryError: it is none.
    """
    found = float_tensors(file, statistics)
    if not {"running_mean", "running_var"} <= set(found):
        raise no_normalizer(file, NORMALIZER.removesuffix("."))
    return Normalizer(found["running_mean"], (found["running_var"] + EPSILON).sqrt(), LIMIT)


def _steps(saved: Mapping[Any, Any]) -> int | None:
    frames = saved.get("frame")
    return frames if isinstance(frames, int) and frames >= 0 else None


def _prediction(weights: Weights, layers: Layers, activation: str, squash: str) -> Predict | None:
    """Prediction of rl_games' own network with the actor's weights."""
    try:
        from rl_games.algos_torch.models import (  # type: ignore[import-not-found, unused-ignore]
            ModelA2CContinuousLogStd,
        )
        from rl_games.algos_torch.network_builder import A2CBuilder  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    default = {"name": "default"}
    space = {"mu_activation": "tanh" if squash == "tanh" else "None", "mu_init": default, "sigma_activation": "None"}
    space |= {"sigma_init": {"name": "const_initializer", "val": 0.0}, "fixed_sigma": True}  # type: ignore[dict-item]
    mlp = {"units": hidden_sizes(layers), "activation": activation or "None", "initializer": default}
    builder = A2CBuilder()
    builder.load({"separate": False, "space": {"continuous": space}, "mlp": mlp})
    normal = f"{NORMALIZER}running_mean" in weights
    sizes = {"input_shape": (layers[0][0].shape[1],), "actions_num": layers[-1][0].shape[0], "num_seqs": 1}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it builds
        model: nn.Module = ModelA2CContinuousLogStd(builder).build(sizes | {"normalize_input": normal})
    actor = (f"{NETWORK}actor_mlp.", f"{NETWORK}mu.", NORMALIZER)
    model.load_state_dict({name: x for name, x in weights.items() if name.startswith(actor)}, strict=False)
    model.eval()

    def predict(obs: Tensor) -> Tensor:
        actions: Tensor = model({"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": None})["mus"]
        return actions

    return predict


def _sac_prediction(weights: Weights, layers: Layers, norm: Normalizer | None, activation: str) -> Predict | None:
    """Prediction of rl_games' own actor with the file's weights."""
    try:
        from rl_games.algos_torch.network_builder import SACBuilder  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    builder = SACBuilder()
    mlp = {"units": hidden_sizes(layers), "activation": activation or "None", "initializer": {"name": "default"}}
    builder.load({"separate": False, "space": {"continuous": {}}, "mlp": mlp, "log_std_bounds": [-5.0, 2.0]})
    sizes = {"obs_dim": layers[0][0].shape[1], "action_dim": layers[-1][0].shape[0] // 2, "actions_num": 1}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it builds
        network: nn.Module = builder.build("sac", **sizes, input_shape=(sizes["obs_dim"],))
    actor = network.get_submodule("actor")
    actor.load_state_dict(dict(weights))

    def predict(obs: Tensor) -> Tensor:
        actions: Tensor = actor(norm(obs) if norm else obs).mean
        return actions

    return predict
