"""Actors that other libraries trained, as policies: rsl_rl, Stable-Baselines3 and skrl.

Read are perceptrons on one observation, as their PPO, SAC and TD3 make them, with the normalizer that the file holds. Files are
read as weights alone: nothing in them is executed.
"""

from __future__ import annotations

import io
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.squash import SQUASHES
from rookery.policies.stages.standard import ACTIVATIONS, standard
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import parse_json, read_bytes, read_npz

NO_LIMIT = 1000.0
"""Limit of a normalised observation where the library has none; no observation of a task comes near it."""
RSL_RL_EPSILON = 1e-2  # rsl_rl's EmpiricalNormalization
SKRL_EPSILON, SKRL_LIMIT = 1e-8, 5.0  # skrl's RunningStandardScaler, as it is made by default
MOST_BYTES = 512 << 20
MOST_NUMBERS = 1 << 26
"""Of a tensor: a small file can ask for a large one."""
MOST_VALUE = 1e30
"""Of a mean or a variance: below what 32 bits hold."""

DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What zipfile raises, by the compression, for a damaged archive."""

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Normalizer:
    """``clip((obs - mean) / std, -limit, limit)``; mean and std [O]."""

    mean: Tensor
    std: Tensor
    limit: float = NO_LIMIT


@dataclass(frozen=True)
class Actor:
    """Contents of a file.

    Args:
        library: "rsl_rl", "sb3" or "skrl".
        layers: weight [out, in] and bias [out] of each linear layer.
        activation: between the layers; "" where the file does not say.
        squash: of the last layer's output, "clip" or "tanh".
        normalizer: of the observation; None for none.
        steps: control steps learned from, where the file says.
    """

    library: str
    layers: list[tuple[Tensor, Tensor]]
    activation: str = ""
    squash: str = "clip"
    normalizer: Normalizer | None = None
    steps: int | None = None


def read_actor(file: Path) -> Actor:
    """The actor of a file: rsl_rl's model_N.pt, Stable-Baselines3's .zip, or skrl's agent_N.pt.

    Raises:
        RookeryError: no such file, none of these, or no perceptron.
    """
    try:
        data = read_bytes(file, MOST_BYTES)
        archive = zipfile.ZipFile(io.BytesIO(data))
    except OSError as error:
        raise RookeryError(
            f"{file} cannot be read ({error.strerror}): give the file that the library saved."
        ) from error
    except (ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise _no_checkpoint(file) from error
    if "policy.pth" in archive.namelist():
        return _read_sb3(file, archive)
    saved = _load(file, data)
    if "model_state_dict" in saved:
        raise RookeryError(
            f"{file} is of an older rsl_rl: read are files that hold an actor_state_dict, as rsl_rl 5 writes them."
        )
    if isinstance(saved.get("actor_state_dict"), Mapping):
        return _read_rsl_rl(file, saved)
    if isinstance(saved.get("policy"), Mapping):
        return _read_skrl(file, saved)
    raise _no_checkpoint(file)


def read_normalizer(file: Path) -> Normalizer:
    """Statistics of a .npz file: arrays `mean` and `var` [O], and numbers `epsilon` (0 if missing) and `limit` (none).

    Raises:
        RookeryError: the file is missing or holds something else.
    """
    try:
        arrays = read_npz(file)
        mean = np.asarray(arrays["mean"], np.float64).ravel()
        var = np.asarray(arrays["var"], np.float64).ravel() + float(arrays.get("epsilon", 0.0))
        limit = float(arrays.get("limit", NO_LIMIT))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RookeryError(
            f"{file} holds no normalizer: write one with numpy.savez({file.name!r}, mean=..., var=..., epsilon=..., limit=...)."
        ) from error
    if not (np.abs(mean) < MOST_VALUE).all() or not ((var > 0) & (var < MOST_VALUE)).all() or not limit > 0:
        raise RookeryError(
            f"{file} holds no normalizer that can be used: mean must be finite, var + epsilon above 0, limit above 0 (or inf)."
        )
    std = np.sqrt(var).astype(np.float32)
    return Normalizer(
        torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(std), NO_LIMIT if np.isinf(limit) else limit
    )


def as_policy(actor: Actor, activation: str | None = None, squash: str | None = None) -> Policy:
    """A policy that acts as the actor does, deterministically.

    Args:
        actor: read from a file.
        activation: where the file does not tell it.
        squash: in place of what the library's algorithms do.

    Raises:
        RookeryError: an activation that is not told or not known, or another than the file's; sizes that do not fit
            together; or weights that are not finite.
    """
    between = activation or actor.activation
    if not between and len(actor.layers) > 1:
        raise RookeryError(
            f"this {actor.library} file does not tell the activation: give --activation with the one of the training, "
            f"{', '.join(ACTIVATIONS)}."
        )
    if between and between not in ACTIVATIONS:
        raise unknown("activation", between, ACTIVATIONS)
    if actor.activation not in ("", between):
        raise RookeryError(f"the {actor.library} file says {actor.activation}, not {between}: leave --activation out.")
    if squash is not None and squash not in SQUASHES:
        raise unknown("squash", squash, SQUASHES)
    sizes = [actor.layers[0][0].shape[1], *(weight.shape[0] for weight, _ in actor.layers)]
    norm = actor.normalizer or Normalizer(torch.zeros(sizes[0]), torch.ones(sizes[0]))
    policy = Policy(standard(sizes[0], sizes[-1], sizes[1:-1], between or "tanh", norm.limit, squash or actor.squash))
    pairs = [(policy.get_buffer(f"normalize.{name}"), getattr(norm, name)) for name in ("mean", "std")]
    for layer, (weight, bias) in zip(layers_of(policy), actor.layers, strict=True):
        pairs += [(layer.weight, weight), (layer.bias, bias)]
    if any(own.shape != given.shape for own, given in pairs):  # copy_ would repeat a row of one value
        raise RookeryError(
            f"the layers of this {actor.library} actor do not follow each other, or its normalizer is of another size: "
            "give a perceptron, and the normalizer of its training."
        )
    with torch.no_grad():
        for own, given in pairs:
            own.copy_(given)
    if fault := policy.fault():
        raise RookeryError(f"the actor holds {fault}: take an earlier checkpoint.")
    return policy.eval()


def with_normalizer(actor: Actor, normalizer: Normalizer) -> Actor:
    """The actor behind a normalizer that its file does not hold.

    Raises:
        RookeryError: it has one already.
    """
    if actor.normalizer is not None:
        raise RookeryError(f"the {actor.library} file holds a normalizer of its own: leave --normalizer out.")
    return replace(actor, normalizer=normalizer)


def _read_rsl_rl(file: Path, saved: Mapping[str, Any]) -> Actor:
    weights = _tensors(file, saved["actor_state_dict"])
    norm = None
    if any(str(name).startswith("obs_normalizer.") for name in saved["actor_state_dict"]):
        if not {"obs_normalizer._mean", "obs_normalizer._std"} <= set(weights):
            raise _no_normalizer(file, "obs_normalizer")
        std = weights["obs_normalizer._std"].flatten() + RSL_RL_EPSILON
        norm = Normalizer(weights["obs_normalizer._mean"].flatten(), std)
    beside = r"obs_normalizer\.(_mean|_var|_std|count)|distribution\.(log_)?std_param"
    return Actor("rsl_rl", _layers(file, weights, "mlp.", beside=beside), normalizer=norm)


def _read_skrl(file: Path, saved: Mapping[str, Any]) -> Actor:
    """skrl 2 names the normalizer `observation_preprocessor`, skrl 1 `state_preprocessor`."""
    norm = None
    names = [name for name in ("observation_preprocessor", "state_preprocessor") if saved.get(name) is not None]
    for name in names[:1]:  # beside an observation's, that of a state is the critic's
        found = saved[name]
        statistics = _tensors(file, found) if isinstance(found, Mapping) else {}
        if not {"running_mean", "running_variance"} <= set(statistics):
            raise _no_normalizer(file, name)
        std = statistics["running_variance"].sqrt() + SKRL_EPSILON
        norm = Normalizer(statistics["running_mean"], std, SKRL_LIMIT)
    layers = _layers(file, _tensors(file, saved["policy"]), "", beside="log_std(_parameter)?")
    return Actor("skrl", layers, normalizer=norm)


def _read_sb3(file: Path, archive: zipfile.ZipFile) -> Actor:
    if any(info.file_size > MOST_BYTES for info in archive.infolist()):
        raise _no_checkpoint(file)
    try:
        weights = _tensors(file, _load(file, archive.read("policy.pth")))
        about = parse_json(archive.read("data"))
    except (KeyError, ValueError, OSError, RuntimeError, EOFError, *DAMAGED) as error:  # RuntimeError: encrypted
        raise _no_checkpoint(file) from error
    if not isinstance(about, Mapping):
        raise _no_checkpoint(file)
    steps = about.get("num_timesteps")
    made = steps if isinstance(steps, int) else None
    critics = r"(critic|critic_target|actor_target|mlp_extractor\.value_net|value_net|vf_features_extractor)\..+"
    if "action_net.weight" in weights:  # PPO, A2C
        beside = rf"log_std|{critics}"
        layers = _layers(file, weights, "mlp_extractor.policy_net.", ("action_net",), beside)
        return Actor("sb3", layers, _sb3_activation(about, "tanh"), "clip", steps=made)
    if "actor.mu.weight" in weights:  # SAC
        layers = _layers(file, weights, "actor.latent_pi.", ("actor.mu",), rf"actor\.log_std\.(weight|bias)|{critics}")
        return Actor("sb3", layers, _sb3_activation(about, "relu"), "tanh", steps=made)
    layers = _layers(file, weights, "actor.mu.", beside=critics)  # TD3, DDPG
    return Actor("sb3", layers, _sb3_activation(about, "relu"), "tanh", steps=made)


def _sb3_activation(about: Mapping[str, Any], default: str) -> str:
    """`policy_kwargs["activation_fn"]`, which the file tells as a class's name, or the default of the library's policies; ""
    for a policy class of the user's own, which may have another default."""
    options = about.get("policy_kwargs")
    told = str(options.get("activation_fn", "")) if isinstance(options, Mapping) else ""
    match = re.search(r"(\w+)'>$", told)
    if match:
        return match.group(1).lower()
    policy = about.get("policy_class")
    module = str(policy.get("__module__", "")) if isinstance(policy, Mapping) else ""
    return default if module.startswith("stable_baselines3.") else ""


def _layers(
    file: Path, weights: Weights, prefix: str, last: tuple[str, ...] = (), beside: str = ""
) -> list[tuple[Tensor, Tensor]]:
    """Linear layers under `prefix` by their number, those named in `last` behind them.

    Raises:
        RookeryError: there are none, or others than linear ones, or something that is neither a layer nor named by the
            pattern `beside`: the actor would become another one without it.
    """
    lead = re.escape(prefix) if prefix else r"(?:\w+\.)*?"  # the user has named the network
    pattern = re.compile(lead + r"(\d{1,4})\.weight")
    found = sorted((int(m.group(1)), name) for name in weights if (m := pattern.fullmatch(name)))
    names = [name.removesuffix(".weight") for _, name in found] + list(last)
    out = [(weights.get(f"{name}.weight"), weights.get(f"{name}.bias")) for name in names]
    memory = any(word in name for name in weights for word in ("rnn", "lstm", "gru"))
    several = len({number for number, _ in found}) < len(found)
    if memory or several or not out or any(w is None or b is None or w.dim() != 2 for w, b in out):
        raise RookeryError(
            f"{file} holds no perceptron: actors with memory, cameras or several networks are not taken over."
        )
    used = {f"{name}.{part}" for name in names for part in ("weight", "bias")}
    for name in weights:
        if name not in used and not re.fullmatch(beside, name):
            raise RookeryError(f"{file} holds no perceptron alone: {name:.80} would be left out of its actor.")
    return [(w, b) for w, b in out if w is not None and b is not None]


def _load(file: Path, data: bytes) -> dict[str, Any]:
    """Tensors and numbers of a file of torch; nothing in it is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of other kinds of files, which are refused below
            saved = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what the damage happens to cause
        raise _no_checkpoint(file) from error
    if not isinstance(saved, Mapping):
        raise _no_checkpoint(file)
    return dict(saved)


def _tensors(file: Path, saved: Mapping[Any, Any]) -> dict[str, Tensor]:
    """The float tensors of a state dict, as float32.

    Raises:
        RookeryError: one is too large, or of a kind that no weight has.
    """
    out = {}
    for name, x in saved.items():
        if not isinstance(name, str) or not isinstance(x, Tensor) or not x.is_floating_point():
            continue
        if x.layout != torch.strided or x.is_meta or x.numel() > MOST_NUMBERS:
            raise _no_checkpoint(file)
        out[name] = x.float()
    return out


def _no_normalizer(file: Path, name: str) -> RookeryError:
    return RookeryError(
        f"{file} has statistics in {name} that are not those of its library: save it with the library's own."
    )


def _no_checkpoint(file: Path) -> RookeryError:
    return RookeryError(
        f"{file} is damaged, or no checkpoint of rsl_rl (model_N.pt), Stable-Baselines3 (.zip) or skrl (agent_N.pt): give the "
        "file that the library saved."
    )
