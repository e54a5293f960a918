"""Weights in files of torch: read as tensors and numbers alone, and sorted into layers. Nothing in a file is executed."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError

MOST_NUMBERS = 1 << 26
"""Of a tensor: a small file can ask for a large one."""
KINDS = (
    "rsl_rl (model_N.pt), Stable-Baselines3 (.zip), skrl (agent_N.pt), rl_games (.pth), a state_dict of TorchRL, TorchScript "
    "(.pt) or ONNX (.onnx)"
)

Weights = Mapping[str, Tensor]


class Ignored:
    """Stand-in for a number or an array of NumPy, such as rl_games' best reward: nothing of it is read or called."""

    def __init__(self, *given: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


IGNORED = tuple(
    (Ignored, name)
    for name in (
        "numpy.dtype",
        "numpy.ndarray",
        *(f"numpy.{core}.multiarray.{x}" for core in ("core", "_core") for x in ("scalar", "_reconstruct")),
    )
)
Layers = list[tuple[Tensor, Tensor]]


def load(file: Path, data: bytes) -> dict[Any, Any]:
    """Tensors and numbers of a file of torch.

    Raises:
        RookeryError: it is damaged, holds objects of other kinds, or no dict.
    """
    try:
        # warnings are of other kinds of files, which are refused below
        with warnings.catch_warnings(action="ignore"), torch.serialization.safe_globals(list(IGNORED)):
            saved = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what the damage happens to cause
        if found := re.search(r"GLOBAL ([\w.]{1,120})", str(error)):
            raise RookeryError(
                f"{file} holds objects of {found.group(1)}, which reading would execute: save its tensors alone, with "
                "torch.save(actor.state_dict(), ...)."
            ) from error
        raise no_checkpoint(file) from error
    if not isinstance(saved, Mapping):
        raise no_checkpoint(file)
    return dict(saved)


def float_tensors(file: Path, saved: Mapping[Any, Any]) -> dict[str, Tensor]:
    """The float tensors of a state dict, as float32.

    Raises:
        RookeryError: one is too large, or of a kind that no weight has.
    """
    out = {}
    for name, x in saved.items():
        if not isinstance(name, str) or not isinstance(x, Tensor) or not x.is_floating_point():
            continue
        if x.layout != torch.strided or x.is_meta or x.numel() > MOST_NUMBERS:
            raise no_checkpoint(file)
        out[name] = x.float()
    return out


def layers_under(file: Path, weights: Weights, prefix: str, last: tuple[str, ...] = (), beside: str = "") -> Layers:
    """Linear layers under `prefix` by their number, those named in `last` behind them.

    Args:
        file: for errors.
        weights: by name.
        prefix: of the names; "" for one that the user has chosen.
        last: names of layers without a number.
        beside: pattern of what belongs to no actor's mean.

    Raises:
        RookeryError: there are none, or others than linear ones, or something that is neither a layer nor beside them: the
            actor would become another one without it.
    """
    lead = re.escape(prefix) if prefix else r"(?:\w+\.)*?"
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


def hidden_sizes(layers: Layers) -> list[int]:
    """Widths of the layers between the first input and the last output."""
    return [weight.shape[0] for weight, _ in layers[:-1]]


def no_normalizer(file: Path, name: str) -> RookeryError:
    """The error for statistics of a form that the library does not write."""
    return RookeryError(
        f"{file} has statistics in {name} that are not those of its library: save it with the library's own."
    )


def no_checkpoint(file: Path) -> RookeryError:
    """The error for a file of no kind that is read."""
    return RookeryError(f"{file} is damaged, or no file of {KINDS}: give the file that the library saved.")
