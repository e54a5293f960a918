"""Checks of the tensor functions of Isaac Gym, which there would crash the GPU's context or go unnoticed."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError


def rows_of(what: str, values: Any, rows: int, width: int) -> Tensor:
    """`values` as float32 [rows, width]: they may be flat, or in any shape that ends with `width`, rows in order.

    Raises:
        RookeryError: they are no numbers of that many, or their last dimension is another one, as of a transposed tensor.
    """
    try:
        given = torch.as_tensor(values)
        flat = given.numel() == max(given.shape, default=1)
        if given.is_complex() or not (flat or given.shape[-1] == width):
            raise ValueError("other rows")
        return given.to(torch.float32).reshape(rows, width)
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
        RookeryError: they are no whole numbers, one is not within 0 to most - 1, or `count` is no number of them.
    """
    try:
        out = torch.as_tensor(given).flatten()
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise RookeryError(f"{what} takes a tensor of indices, int32 or int64, got {_shape(given)}.") from error
    other = out.is_floating_point() or out.is_complex() or out.dtype is torch.bool
    if other and len(out):  # a list without items becomes float32
        raise RookeryError(
            f"{what} takes a tensor of indices, int32 or int64, got {out.dtype}: `mask.nonzero()` gives those of a mask."
        )
    if count is not None:
        try:
            number = operator.index(count)
        except (TypeError, ValueError) as error:
            raise RookeryError(f"{what} takes as count a whole number of at least 0, got {count!r}.") from error
        if number < 0:
            raise RookeryError(f"{what} takes as count a whole number of at least 0, got {number}.")
        out = out[:number]
    out = out.long()
    wrong = out[(out < 0) | (out >= most)]
    if len(wrong):
        raise RookeryError(f"{what} takes indices from 0 to {most - 1}, got {int(wrong[0])}.")
    return out


def _shape(values: Any) -> str:
    return str(list(values.shape)) if isinstance(values, Tensor) else type(values).__name__
