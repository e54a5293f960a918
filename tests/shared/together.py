"""Processes that learn together, as threads of one: each calls its own `Together`, and all wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rookery.policies.training.reduction import Reduction


class Together(Reduction):
    """One of several; see `together`."""

    def __init__(self, rank: int, barrier: threading.Barrier, slots: list[Any]) -> None:
        self.rank = rank
        self.size = len(slots)
        self._barrier = barrier
        self._slots = slots
        self.calls = 0

    def _exchange(self, x: Tensor) -> Tensor:
        self.calls += 1
        self._slots[self.rank] = x.clone()
        self._barrier.wait(60)
        shapes = {(tuple(s.shape), s.dtype) for s in self._slots}
        assert len(shapes) == 1, f"the processes reduce different tensors: {shapes}"
        out = torch.stack(self._slots)
        self._barrier.wait(60)
        return out

    def sum(self, x: Tensor) -> Tensor:
        return x.copy_(self._exchange(x).sum(0))

    def max(self, x: Tensor) -> Tensor:
        return x.copy_(self._exchange(x).amax(0))

    def gather(self, value: Any) -> list[Any] | None:
        self._slots[self.rank] = value
        self._barrier.wait(60)
        out = list(self._slots)
        self._barrier.wait(60)
        return None if self.rank else out

    def broadcast(self, x: Tensor) -> Tensor:
        return x.copy_(self._exchange(x)[0])

    def collect(self, message: bytes) -> list[bytes] | None:
        return self.gather(message)


def together(size: int) -> list[Together]:
    """Reductions of `size` threads."""
    barrier, slots = threading.Barrier(size), [None] * size
    return [Together(rank, barrier, slots) for rank in range(size)]


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Results of functions, each called in a thread of its own."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = calls[i]()
        except BaseException as error:  # whatever it is, the others wait no longer
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    return results
