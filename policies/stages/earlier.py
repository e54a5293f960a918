"""Networks as contracts of version 2 and files of before named them, turned into stages; their tensors keep their bits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from rookery.policies.stages.chain import StageChain
from rookery.policies.stages.pictures import Convolutions, Picture
from rookery.policies.stages.standard import standard

__all__ = ["chain_of_network", "renamed"]

T = TypeVar("T")
OPTIONAL = {"actor_inputs", "estimator", "targets", "module", "memory", "memory_size", "encoder"}
REQUIRED = {"observation_size", "action_size", "hidden", "activation", "obs_clip", "squash"}

_NAMES = (
    (r"(mean|std)", r"normalize.\1"),
    (r"target_(mean|std)", r"estimator.\1"),
    (r"layers\.(\d+)\.(weight|bias)", r"perceptron.\2_\1"),
    (r"estimator\.(\d+)\.(weight|bias)", r"estimator.\2_\1"),
    (r"cell\.((?:weight|bias)_[ih]h)", r"gru.\1"),
    (r"encoder\.convolutions\.(\d+)\.(\d+)\.(weight|bias)", r"pictures.\3_\1_\2"),
    (r"body\.(.+)", r"module.\1"),
)
"""Names of tensors before, and those of today."""


def chain_of_network(network: Mapping[str, Any]) -> StageChain:
    """The stages of a network of version 2.

    Args:
        network: `groups.<name>.network` of its contract.

    Raises:
        RookeryError: sizes that do not fit together. KeyError, TypeError, ValueError: it is no such network.
    """
    values = dict(network)
    if not REQUIRED <= set(values) <= REQUIRED | OPTIONAL:
        raise KeyError(sorted(set(values) ^ REQUIRED))
    size = values.get("actor_inputs") or values["observation_size"]
    encoder = values.pop("encoder", None)
    links = []
    if encoder is not None:
        channels, kernels, strides = (tuple(encoder[name]) for name in ("channels", "kernels", "strides"))
        pictures = tuple(Picture(**picture) for picture in encoder["pictures"])
        frames = size // encoder["frame"]
        links = Convolutions(
            encoder["frame"], frames, pictures, channels, kernels, strides, values["activation"]
        ).beside_numbers()
    memory = values.pop("memory", "none")
    if memory not in ("none", "gru") or (memory == "gru") != ("memory_size" in values):
        raise ValueError(f"memory {memory!r}")
    return StageChain(tuple(standard(**values, encoder=links)))


def renamed(names: Iterable[str]) -> dict[str, str]:
    """Today's names of the tensors of a policy by those of before; those that are none are left out."""
    out = {}
    for name in names:
        for pattern, new in _NAMES:
            if re.fullmatch(pattern, name):
                out[name] = re.sub(pattern, new, name)
                break
    return out
