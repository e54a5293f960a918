"""Checkpoints of rl_games 1.6: `A2CBase.get_full_state_weights` (rl_games/common/a2c_common.py).

``model`` is the state dict of a `ModelA2CContinuousLogStd.Network` (rl_games/algos_torch/models.py), at times behind
torch.compile's ``_orig_mod.``: ``a2c_network.actor_mlp.N``, ``a2c_network.mu`` and ``a2c_network.sigma`` of
`A2CBuilder.Network` (rl_games/algos_torch/network_builder.py), and ``running_mean_std.*`` of `RunningMeanStd`
(rl_games/algos_torch/running_mean_std.py), ``clip((x - mean) / sqrt(var + 1e-5), -5, 5)``. A player acts by the mean, clipped.
Neither the layers' activation nor ``mu_activation`` is in the file.
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


def is_rl_games(saved: Mapping[Any, Any]) -> bool:
    """A checkpoint of one of its algorithms."""
    return isinstance(saved.get("model"), Mapping) or {"actor", "critic", "critic_target"} <= set(saved)


def read_rl_games(file: Path, saved: Mapping[Any, Any]) -> Actor:
    """The actor of a checkpoint.

    Raises:
        RookeryError: it is no perceptron with continuous actions.
    """
    if not isinstance(saved.get("model"), Mapping):
        raise RookeryError(f"{file} is of rl_games' SAC, which is not read: export the actor as TorchScript or ONNX.")
    model = {str(name).removeprefix(COMPILED): x for name, x in saved["model"].items()}
    weights = float_tensors(file, model)
    if f"{NETWORK}mu.weight" not in weights:
        raise RookeryError(
            f"{file} is of rl_games and holds no means of continuous actions: only such actors are taken over."
        )
    critic = rf"value_mean_std\..+|{NETWORK}(value|critic_mlp|critic_cnn)\..+"
    beside = rf"{critic}|{NETWORK}sigma(\.weight|\.bias)?|{NORMALIZER}(running_mean|running_var|count)"
    layers = layers_under(file, weights, f"{NETWORK}actor_mlp.", (f"{NETWORK}mu",), beside)
    norm = None
    if any(name.startswith(NORMALIZER) for name in model):
        if not {f"{NORMALIZER}running_mean", f"{NORMALIZER}running_var"} <= set(weights):
            raise no_normalizer(file, NORMALIZER.removesuffix("."))
        std = (weights[f"{NORMALIZER}running_var"] + EPSILON).sqrt()
        norm = Normalizer(weights[f"{NORMALIZER}running_mean"], std, LIMIT)
    frames = saved.get("frame")

    def reference(activation: str, squash: str) -> Predict | None:
        return _prediction(weights, layers, activation, squash)

    steps = frames if isinstance(frames, int) and frames >= 0 else None
    return Actor("rl_games", layers, squash="", normalizer=norm, steps=steps, reference=reference)


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
