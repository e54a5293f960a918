"""Copies between the CPU and another device: all tensors of a call in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Staging", "tensors_of", "with_tensors"]

ALIGN = 256
"""Bytes at whose multiples tensors begin, as those that a GPU's memory is asked for do."""


class Staging:
    """Buffers through which tensors of the CPU go to a device, and back.

    Each call to `send` packs its tensors into one buffer and copies that in one piece: on a GPU a copy takes some 10 us
    whatever its size. There the buffers are page-locked, and the copies go on while the caller does. Two buffers take turns,
    and one is written to again only when its copy is over.

    Args:
        device: the other device; the CPU too.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._locked = device.type == "cuda" and torch.cuda.is_available()
        self._buffers = [torch.empty(0, dtype=torch.uint8)] * 2
        self._copied: list[Any] = [None, None]
        self._turn = 0
        self._received: dict[str, Tensor] = {}

    def send(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """New tensors on the device with the values of those of the CPU, which may be written to again at once."""
        places, end = [], 0
        for x in tensors:
            places.append(end)
            end += -(-x.nbytes // ALIGN) * ALIGN
        if not end:
            return [torch.empty(x.shape, dtype=x.dtype, device=self.device) for x in tensors]
        buffer = self._buffer(end)
        for x, at in zip(tensors, places, strict=True):
            _part(buffer, at, x).copy_(x)
        out = torch.empty(end, dtype=torch.uint8, device=self.device)
        out.copy_(buffer, non_blocking=True)
        if self._locked:
            self._copied[self._turn].record(torch.cuda.current_stream(self.device))
        return [_part(out, at, x) for x, at in zip(tensors, places, strict=True)]

    def _buffer(self, size: int) -> Tensor:
        """The buffer whose turn it is, [size] uint8, once its latest copy is over."""
        self._turn = 1 - self._turn
        if self._locked:
            if self._copied[self._turn] is None:
                self._copied[self._turn] = torch.cuda.Event()
            self._copied[self._turn].synchronize()
        if len(self._buffers[self._turn]) < size:
            larger = size + size // 2  # sizes differ with the number of episodes that end, and locking pages takes long
            self._buffers[self._turn] = torch.empty(larger, dtype=torch.uint8, pin_memory=self._locked)
        return self._buffers[self._turn][:size]

    def receive(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The values on the CPU of tensors of the device, valid until the next call."""
        if not self._locked:
            return {name: x.detach().to("cpu") for name, x in tensors.items()}
        for name, x in tensors.items():
            own = self._received.get(name)
            if own is None or own.shape != x.shape or own.dtype != x.dtype:
                own = self._received[name] = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
            own.copy_(x.detach(), non_blocking=True)
        torch.cuda.current_stream(self.device).synchronize()
        return {name: self._received[name] for name in tensors}

    def __reduce__(self) -> tuple[type[Staging], tuple[torch.device]]:
        """Copies and pickles begin with buffers of their own."""
        return Staging, (self.device,)


def _part(buffer: Tensor, at: int, like: Tensor) -> Tensor:
    """The bytes of a buffer from `at` on as a tensor of the same shape and type as `like`."""
    return buffer[at : at + like.nbytes].view(like.dtype).view(like.shape)


def tensors_of(tree: Any) -> list[Tensor]:
    """The tensors in nested mappings, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [x for value in tree.values() for x in tensors_of(value)] if isinstance(tree, Mapping) else []


def with_tensors(tree: Any, tensors: list[Tensor]) -> Any:
    """Nested dicts of the same form with other tensors, those of `tensors_of`, which are taken from the list."""
    if isinstance(tree, Tensor):
        return tensors.pop(0)
    return {key: with_tensors(value, tensors) for key, value in tree.items()} if isinstance(tree, Mapping) else tree
