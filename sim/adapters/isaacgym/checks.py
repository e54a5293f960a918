"""What the tensor functions of Isaac Gym refuse, which there would crash the GPU's context or go unnoticed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError


def rows_of(what: str, values: Any, rows: int, width: int) -> Tensor:
    """`values` as float32 [rows, width].

    Raises:
        RookeryError: they are no numbers of that many.
    """
    try:
        return torch.as_tensor(values, dtype=torch.float32).reshape(rows, width)
    except (RuntimeError, TypeError, ValueError) as error:
        shape = f"[{rows}, {width}]" if width > 1 else f"[{rows}]"
        raise RookeryError(f"{what} takes a tensor {shape}, got {_shape(values)}.") from error


def require_finite(what: str, values: Tensor) -> None:
    """Refuse NaN and infinity: physics would diverge steps later, where nobody knows from what.

    Raises:
        RookeryError: a value is not finite.
    """
    if not bool(values.isfinite().all()):
        raise RookeryError(f"{what} was given NaN or infinity: look for a division by zero in the task.")


def chosen_indices(what: str, given: Any, count: int | None, most: int) -> Tensor:
    """The first `count` indices as int64 [n].

    Raises:
        RookeryError: one is not within 0 to most - 1.
    """
    out = torch.as_tensor(given).long().flatten()[:count]
    wrong = out[(out < 0) | (out >= most)]
    if len(wrong):
        raise RookeryError(f"{what} takes indices from 0 to {most - 1}, got {int(wrong[0])}.")
    return out


def _shape(values: Any) -> str:
    return str(list(values.shape)) if isinstance(values, Tensor) else type(values).__name__
