"""Archives of Stable-Baselines3 2: PPO, A2C, SAC, TD3 and DDPG with the library's own policies.

`save_to_zip_file` (stable_baselines3/common/save_util.py) writes ``policy.pth``, the policy's state dict, and ``data``, JSON
that shows what a pickle beside each value holds; the pickles are never loaded. What a policy does follows from its class and
``policy_kwargs``:

* `ActorCriticPolicy` (stable_baselines3/common/policies.py): ``mlp_extractor.policy_net.N`` and ``action_net``, clipped; with
  gSDE and ``squash_output=True`` tanh;
* `SACPolicy` (stable_baselines3/sac/policies.py): ``actor.latent_pi.N`` and ``actor.mu``, tanh; with gSDE the mean is first cut
  at ``clip_mean``, which no perceptron here does;
* `TD3Policy` (stable_baselines3/td3/policies.py): ``actor.mu.N``, tanh.

Another class, argument, features extractor or action space is refused.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.policies.imports.actor import Actor, Predict
from rookery.policies.imports.weights import (
    Layers,
    Weights,
    float_tensors,
    hidden_sizes,
    layers_under,
    load,
    no_checkpoint,
)
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import parse_json

POLICY, DATA = "policy.pth", "data"
ACTS = "ActorCriticPolicy"
SAC = "SACPolicy"
TD3 = "TD3Policy"
CLASSES = {
    "stable_baselines3.common.policies": ACTS, "stable_baselines3.sac.policies": SAC, "stable_baselines3.td3.policies": TD3
}  # fmt: skip
"""The library's policies on vectors, by their modules."""
WITHOUT_EFFECT = {
    "net_arch", "ortho_init", "log_std_init", "full_std", "use_expln", "share_features_extractor", "normalize_images",
    "optimizer_class", "optimizer_kwargs", "n_critics",
}  # fmt: skip
"""Arguments that change nothing in the mean of given weights."""
ELSEWHERE = "export its actor as TorchScript or ONNX and import that"
CRITICS = r"(critic|critic_target|actor_target|mlp_extractor\.value_net|value_net|vf_features_extractor)\..+"
ACTIVATION = re.compile(r"<class 'torch\.nn\.modules\.activation\.(\w+)'>")


def is_sb3(archive: zipfile.ZipFile) -> bool:
    """An archive of an algorithm."""
    return POLICY in archive.namelist()


def read_sb3(file: Path, archive: zipfile.ZipFile, unpack: Any) -> Actor:
    """The actor of an archive.

    Args:
        file: for errors.
        archive: open.
        unpack: gives the bytes of an entry.

    Raises:
        RookeryError: it is damaged, no perceptron, or has a class or an argument that is not understood.
    """
    weights = float_tensors(file, load(file, unpack(POLICY)))
    try:
        about = parse_json(unpack(DATA))
    except ValueError as error:
        raise no_checkpoint(file) from error
    if not isinstance(about, Mapping):
        raise no_checkpoint(file)
    kind = _class(file, about)
    options = _options(file, about)
    _check_space(file, about.get("action_space"))
    steps = about.get("num_timesteps")
    activation = _activation(file, options, "tanh" if kind == ACTS else "relu")
    layers, squash = _layers(file, weights, kind, options)

    def reference(activation: str, squash: str) -> Predict | None:
        return _prediction(weights, layers, kind, activation, options)

    return Actor(
        "sb3", layers, activation, squash, steps=steps if isinstance(steps, int) else None, reference=reference
    )


def _class(file: Path, about: Mapping[str, Any]) -> str:
    """The policy's class, one of the library's."""
    told = about.get("policy_class")
    module = str(told.get("__module__", "")) if isinstance(told, Mapping) else ""
    found = (
        re.match(r"<function (\w+)\.__init__ ", str(told.get("__init__", ""))) if isinstance(told, Mapping) else None
    )
    name = found.group(1) if found else ""
    if CLASSES.get(module) != name:
        raise RookeryError(
            f"{file} has a policy of the class {module:.60}.{name:.60}, which may act in any way: {ELSEWHERE}."
        )
    return name


def _options(file: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `policy_kwargs` that change the actor: squash_output, use_sde, clip_mean, activation_fn."""
    given = about.get("policy_kwargs", {})
    if not isinstance(given, Mapping):
        raise no_checkpoint(file)
    given = {str(k): v for k, v in given.items() if k not in (":type:", ":serialized:")}
    extractor = given.pop("features_extractor_class", None)
    if extractor is not None and not re.fullmatch(
        r"<class 'stable_baselines3\.common\.[\w.]+\.FlattenExtractor'>", str(extractor)
    ):
        raise RookeryError(
            f"{file} has the features extractor {extractor!s:.80}, which may compute anything: {ELSEWHERE}."
        )
    if given.pop("features_extractor_kwargs", {}) not in ({}, None):
        raise RookeryError(f"{file} has arguments for its features extractor, which are not understood: {ELSEWHERE}.")
    options = {
        name: given.pop(name) for name in ("squash_output", "use_sde", "clip_mean", "activation_fn") if name in given
    }
    if others := sorted(set(given) - WITHOUT_EFFECT):
        raise RookeryError(f"{file} has the policy argument {others[0]:.60}, which is not understood: {ELSEWHERE}.")
    sde = about.get("use_sde", False)
    options = {"squash_output": False, "clip_mean": 2.0, "use_sde": sde} | options
    if not isinstance(options["squash_output"], bool) or not isinstance(options["use_sde"], bool):
        raise no_checkpoint(file)
    if not isinstance(options["clip_mean"], (int, float)):
        raise no_checkpoint(file)
    return options


def _check_space(file: Path, space: object) -> None:
    """Refuse an action space other than [-1, 1], to whose limits the library scales."""
    if not isinstance(space, Mapping):
        return
    for name, limit in (("low", -1.0), ("high", 1.0)):
        numbers = re.findall(r"-?(?:inf|nan|[\d.]+(?:e[+-]?\d+)?)", str(space.get(name, "")).replace("...", " "))
        if any(float(x) != limit for x in numbers if x.strip(".-")):
            raise RookeryError(
                f"{file} was trained with actions whose {name} is {space.get(name)!s:.60}, and tasks here take actions in "
                "[-1, 1]: train it on the task."
            )


def _activation(file: Path, options: Mapping[str, Any], default: str) -> str:
    """`activation_fn`, a class of torch."""
    if "activation_fn" not in options:
        return default
    found = ACTIVATION.fullmatch(str(options["activation_fn"]))
    if not found:
        raise RookeryError(
            f"{file} has the activation {options['activation_fn']!s:.80}, which is none of torch's: {ELSEWHERE}."
        )
    return found.group(1).lower()


def _layers(file: Path, weights: Weights, kind: str, options: Mapping[str, Any]) -> tuple[Layers, str]:
    """The layers, and the function behind the last one."""
    if kind == ACTS:
        layers = layers_under(file, weights, "mlp_extractor.policy_net.", ("action_net",), rf"log_std|{CRITICS}")
        return layers, "tanh" if options["squash_output"] and options["use_sde"] else "clip"
    if kind == TD3:
        return layers_under(file, weights, "actor.mu.", beside=CRITICS), "tanh"
    if options["use_sde"] and options["clip_mean"] > 0.0:
        raise RookeryError(
            f"{file} is of SAC with gSDE, which cuts the mean at {options['clip_mean']:g} before its tanh, and no policy here "
            'does: train it with policy_kwargs={"clip_mean": 0.0} or without use_sde.'
        )
    beside = rf"actor\.log_std(\.weight|\.bias)?|{CRITICS}"
    return layers_under(file, weights, "actor.latent_pi.", ("actor.mu",), beside), "tanh"


def _prediction(
    weights: Weights, layers: Layers, kind: str, activation: str, options: Mapping[str, Any]
) -> Predict | None:
    """Prediction of the library's own policy with the actor's weights."""
    try:
        import gymnasium
        from stable_baselines3.common.policies import (  # type: ignore[import-not-found, unused-ignore]
            ActorCriticPolicy,
        )
        from stable_baselines3.sac.policies import SACPolicy  # type: ignore[import-not-found, unused-ignore]
        from stable_baselines3.td3.policies import TD3Policy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    observations = gymnasium.spaces.Box(-np.inf, np.inf, (layers[0][0].shape[1],), np.float32)
    actions = gymnasium.spaces.Box(-1.0, 1.0, (layers[-1][0].shape[0],), np.float32)
    hidden = hidden_sizes(layers)
    shape: Any = {"pi": hidden, "vf": []} if kind == ACTS else {"pi": hidden, "qf": [1]}
    own = {"net_arch": shape, "activation_fn": {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}[activation or "tanh"]}
    if kind == ACTS:
        own |= {"use_sde": options["use_sde"], "squash_output": options["use_sde"] and options["squash_output"]}
    elif kind == SAC:
        own |= {"use_sde": options["use_sde"], "clip_mean": float(options["clip_mean"])}
    policy = {ACTS: ActorCriticPolicy, SAC: SACPolicy, TD3: TD3Policy}[kind](
        observations, actions, lambda _: 0.0, **own
    )
    actor = ("mlp_extractor.policy_net.", "action_net.") if kind == ACTS else ("actor.latent_pi.", "actor.mu.")
    policy.load_state_dict({name: x for name, x in weights.items() if name.startswith(actor)}, strict=False)

    def predict(obs: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(policy.predict(obs.numpy(), deterministic=True)[0], np.float32))

    return predict
