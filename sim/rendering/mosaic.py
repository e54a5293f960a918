"""Several pictures as one: a grid with narrow gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError

Picture = NDArray[np.uint8]
_GAP = 4  # pixels
_GROUND = (245, 246, 248)


@dataclass(frozen=True)
class Grid:
    """So many columns and rows of tiles of `size` (width, height) pixels in a picture of `whole` pixels."""

    columns: int
    rows: int
    size: tuple[int, int]
    whole: tuple[int, int]

    def join(self, tiles: Sequence[Picture]) -> Picture:
        """The tiles [H, W, 3], row by row from the upper left, as one picture."""
        if len(tiles) == 1:
            return tiles[0]
        out = np.full((self.whole[1], self.whole[0], 3), _GROUND, np.uint8)
        width, height = self.size
        for k, tile in enumerate(tiles):
            x = k % self.columns * (width + _GAP)
            y = k // self.columns * (height + _GAP)
            out[y : y + height, x : x + width] = tile
        return out


def grid(count: int, width: int, height: int) -> Grid:
    """The grid for `count` tiles that fills a picture of width x height pixels, as near to square as they allow.

    Raises:
        RookeryError: the tiles would be smaller than 64 x 48 pixels.
    """
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    size = ((width - (columns - 1) * _GAP) // columns, (height - (rows - 1) * _GAP) // rows)
    if count > 1 and (size[0] < 64 or size[1] < 48):
        raise RookeryError(f"{count} worlds are too many for a picture of {width} x {height} pixels: show fewer.")
    return Grid(columns, rows, size, (width, height))


def row(count: int, size: tuple[int, int]) -> Grid:
    """`count` tiles of `size` pixels beside each other."""
    return Grid(count, 1, size, (count * size[0] + (count - 1) * _GAP, size[1]))
