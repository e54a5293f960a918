"""Pictures in a byte for each value: observations whose values are whole numbers times a scale, and back to the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError

__all__ = ["Pixels"]


class Pixels:
    """Which components of an observation are kept as bytes.

    A pixel of 0 to 255 comes as ``float32(k) * scale`` (see `rookery.sim.specs.Term`). Dividing and rounding gives k back, and
    the same product the same bits.

    Args:
        scale: [O] float32, what a component is for k = 1; 0 for those that are kept as they are.

    Attributes:
        count: number of components that are bytes.
    """

    def __init__(self, scale: Tensor) -> None:
        self._pixels = scale.nonzero().squeeze(1)
        self._numbers = (scale == 0.0).nonzero().squeeze(1)
        self._scale = scale[self._pixels]
        self.count = len(self._pixels)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers [..., O - P] and bytes [..., P] uint8 of observations [..., O].

        Raises:
            RookeryError: a component that is no byte times its scale.
        """
        values = x[..., self._pixels]
        out = (values / self._scale).round().clamp(0.0, 255.0).to(torch.uint8)
        if not torch.equal(self._values(out), values):
            raise RookeryError(
                "a picture has values that are no whole numbers from 0 to 255, as its unit says: give its term another unit."
            )
        return x[..., self._numbers], out

    def join(self, numbers: Tensor, pixels: Tensor) -> Tensor:
        """Observations [..., O] of what `split` gave."""
        out = numbers.new_empty(*numbers.shape[:-1], len(self._numbers) + self.count)
        out[..., self._numbers] = numbers
        out[..., self._pixels] = self._values(pixels)
        return out

    def _values(self, pixels: Tensor) -> Tensor:
        return pixels.float() * self._scale
