"""An actor as a file of another library holds it, and the policy that acts alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.squash import SQUASHES
from rookery.policies.stages.standard import ACTIVATIONS, standard
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_npz

NO_LIMIT = 1000.0
"""Limit of a normalized observation where the library has none; no observation of a task comes near it."""
MOST_VALUE = 1e30
"""Of a mean or a variance: below what 32 bits hold."""
OBSERVATIONS = 64
"""Rows on which a policy is compared with the library's own prediction."""
TOLERANCE = 1e-4
"""Of actions in [-1, 1]: sums in another order differ by 1e-6."""

Predict = Callable[[Tensor], Tensor]
"""From observations [N, O] to actions [N, D], deterministically."""


@dataclass(frozen=True)
class Normalizer:
    """``clip((obs - mean) / std, -limit, limit)``; mean and std [O]."""

    mean: Tensor
    std: Tensor
    limit: float = NO_LIMIT

    def __call__(self, obs: Tensor) -> Tensor:
        """Normalized observations [N, O]."""
        return ((obs - self.mean) / self.std).clamp(-self.limit, self.limit)


@dataclass(frozen=True)
class Actor:
    """Actor of a file.

    Args:
        library: "rsl_rl", "sb3", "skrl", "rl_games", "torchrl", "torchscript" or "onnx".
        layers: weight [out, in] and bias [out] of each linear layer.
        activation: between the layers; "" where the file does not say.
        squash: of the last layer's output, "clip" or "tanh"; "" where the file does not say.
        normalizer: of the observation; None for none.
        steps: control steps learned from, where the file says.
        means_first: a last layer that gives twice the task's actions gives their means, then their deviations.
        assumed: the library's defaults that the file does not tell, in words.
        reference: from activation and squash to what the library's own code gives for the file's weights, or None where the
            library is not installed. Observations come as the file's own normalizer takes them.
    """

    library: str
    layers: list[tuple[Tensor, Tensor]]
    activation: str = ""
    squash: str = "clip"
    normalizer: Normalizer | None = None
    steps: int | None = None
    means_first: bool = False
    assumed: tuple[str, ...] = ()
    reference: Callable[[str, str], Predict | None] | None = None

    @property
    def observation_size(self) -> int:
        return self.layers[0][0].shape[1]


def as_policy(
    actor: Actor, activation: str | None = None, squash: str | None = None, action_size: int | None = None
) -> Policy:
    """A policy that acts as the actor does, deterministically.

    Args:
        actor: read from a file.
        activation: where the file does not tell it.
        squash: where the file does not tell it.
        action_size: D of the task; None for all that the last layer gives.

    Raises:
        RookeryError: an activation or squash that is not told, not known, or another than the file's; sizes that do not fit
            together; weights that are not finite; or actions that are not those of the library's own code.
    """
    between = _told(actor, "activation", actor.activation, activation, ACTIVATIONS) if len(actor.layers) > 1 else ""
    last = _told(actor, "squash", actor.squash, squash, SQUASHES)
    layers = list(actor.layers)
    if actor.means_first and action_size is not None and layers[-1][0].shape[0] == 2 * action_size:
        layers[-1] = (layers[-1][0][:action_size], layers[-1][1][:action_size])
    sizes = [layers[0][0].shape[1], *(weight.shape[0] for weight, _ in layers)]
    norm = actor.normalizer or Normalizer(torch.zeros(sizes[0]), torch.ones(sizes[0]))
    policy = Policy(standard(sizes[0], sizes[-1], sizes[1:-1], between or "tanh", norm.limit, last))
    pairs = [(policy.get_buffer(f"normalize.{name}"), getattr(norm, name)) for name in ("mean", "std")]
    for layer, (weight, bias) in zip(layers_of(policy), layers, strict=True):
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
    policy.eval()
    _compare(actor, policy, norm, between, last)
    return policy


def _told(actor: Actor, what: str, own: str, given: str | None, known: tuple[str, ...]) -> str:
    """The file's value or the user's; the user's may not be another."""
    if given is not None and given not in known:
        raise unknown(what, given, known)
    if own and own not in known:
        raise RookeryError(
            f"the {actor.library} actor has the {what} {own:.60}, and a perceptron here has one of {', '.join(known)}: train "
            "it with one of those."
        )
    if own and given is not None and given != own:
        raise RookeryError(f"the {actor.library} file says {own}, not {given}: leave --{what} out.")
    if not own and given is None:
        words = {
            "activation": "the activation between its layers",
            "squash": "the function behind its last layer, clip for none",
        }
        raise RookeryError(
            f"this {actor.library} file does not tell {words[what]}: give --{what} with the one of the training, "
            f"{', '.join(known)}."
        )
    return own or given or ""


def _compare(actor: Actor, policy: Policy, norm: Normalizer, activation: str, squash: str) -> None:
    """Refuse a policy whose actions are not those that the library's own code gives.

    Half of the observations are everyday ones for the normalizer, half are far out, where limits show.
    """
    predict = actor.reference(activation, squash) if actor.reference else None
    if predict is None:
        return
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(OBSERVATIONS, actor.observation_size, generator=generator)
    rows[OBSERVATIONS // 2 :] *= 6.0
    obs = rows * norm.std + norm.mean
    with torch.no_grad():
        ours = policy(obs)
        theirs = predict(obs)[:, : ours.shape[1]].clamp(-1.0, 1.0)
    error = (ours - theirs).abs().max().item()
    if not error <= TOLERANCE:
        raise RookeryError(
            f"the policy would act otherwise than {actor.library} does, by up to {error:.3g} on {OBSERVATIONS} observations: "
            "export the actor as TorchScript or ONNX and import that."
        )


def with_normalizer(actor: Actor, normalizer: Normalizer) -> Actor:
    """The actor behind a normalizer that its file does not hold.

    Raises:
        RookeryError: it has one already.
    """
    if actor.normalizer is not None:
        raise RookeryError(f"the {actor.library} file holds a normalizer of its own: leave --normalizer out.")
    inner = actor.reference

    def reference(activation: str, squash: str) -> Predict | None:
        predict = inner(activation, squash) if inner else None
        return None if predict is None else lambda obs: predict(normalizer(obs))

    return replace(actor, normalizer=normalizer, reference=reference)


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
