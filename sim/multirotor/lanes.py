"""Between arrays in lanes, [blocks, ..., k LANES] (see layout), and rows of worlds, [N, ..., k], as saved states hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.multirotor.layout import LANES

__all__ = ["from_lanes", "to_lanes"]


def from_lanes(lanes: NDArray[Any], worlds: int) -> NDArray[Any]:
    """A copy [worlds, ..., k] of an array [blocks, ..., k LANES]; the filling lanes of the last block are left out."""
    return _rows(lanes)[:worlds].copy()


def to_lanes(rows: NDArray[Any], lanes: NDArray[Any]) -> None:
    """Write rows [worlds, ..., k] into an array [blocks, ..., k LANES]; the filling lanes stay as they are."""
    whole = _rows(lanes)
    whole[: len(rows)] = rows
    blocks, *middle, width = lanes.shape
    by_block = whole.reshape(blocks, LANES, *middle, width // LANES)
    lanes[...] = np.moveaxis(by_block, 1, -1).reshape(lanes.shape)


def _rows(lanes: NDArray[Any]) -> NDArray[Any]:
    """[blocks LANES, ..., k], a copy."""
    blocks, *middle, width = lanes.shape
    by_field = lanes.reshape(blocks, *middle, width // LANES, LANES)
    return np.moveaxis(by_field, -1, 1).reshape(blocks * LANES, *middle, width // LANES).copy()
