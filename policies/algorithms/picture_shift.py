"""Random shifts of the pictures in a batch, so that critics do not learn pixels by heart (DrQ, Kostrikov et al. 2020, arXiv
2004.13649, section 3.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.stages.pictures import Convolutions
from rookery.policies.storage.transitions import Transitions

__all__ = ["PictureShift"]


class PictureShift:
    """Moves each picture of a row by up to so many pixels; what comes in at an edge repeats the edge.

    All frames of a history move together. The observations before and after a transition move by draws of their own.

    Args:
        spec: where the pictures stand in the frames of an observation.
        pixels: most that a picture moves, along rows and columns.
    """

    def __init__(self, spec: Convolutions, pixels: int) -> None:
        self._spec = spec
        self._pixels = pixels

    def turn(self, batch: Transitions, generator: torch.Generator) -> None:
        """Shift the pictures of a batch, in place."""
        for rows in (batch.observation, batch.next_observation):
            frames = rows.view(len(rows), self._spec.frames, self._spec.frame)
            for p in self._spec.pictures:
                part = frames[:, :, p.start : p.start + p.size]
                pixels = part.unflatten(2, (p.rows, p.columns, p.channels))
                part.copy_(self._shifted(pixels, generator).flatten(2))

    def _shifted(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """[B, frames, rows, columns, channels] where the value at (r, c) is that at (r + dr, c + dc), drawn for each of B."""
        count, _, rows, columns, _ = pixels.shape
        most = self._pixels
        down, across = torch.randint(-most, most + 1, (2, count, 1), generator=generator, device=pixels.device)
        r = (torch.arange(rows, device=pixels.device) + down).clamp_(0, rows - 1)
        c = (torch.arange(columns, device=pixels.device) + across).clamp_(0, columns - 1)
        each = torch.arange(count, device=pixels.device)[:, None, None]
        return pixels.movedim(1, 3)[each, r[:, :, None], c[:, None, :]].movedim(3, 1)
