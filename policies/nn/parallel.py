"""Threads that share the rows of a minibatch, each with activations and gradients of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

T = TypeVar("T")

MAX_THREADS = 64


def split(rows: slice, parts: int, unit: int = 1) -> list[slice]:
    """Consecutive slices that together make `rows`, of lengths that are multiples of `unit` and differ by at most one of it."""
    size = (rows.stop - rows.start) // unit
    bounds = [rows.start + size * i // parts * unit for i in range(parts + 1)]
    return [slice(start, stop) for start, stop in zip(bounds, bounds[1:], strict=False)]


class Threads:
    """Calls a function once per argument tuple, each call on a thread of its own.

    Torch runs every operation of such a thread on that thread alone: few threads with large pieces of work are faster than
    many threads that meet at each operation (see `rookery.sim.threads`).
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_THREADS, "learner", initializer=torch.set_num_threads, initargs=(1,))

    def map(self, function: Callable[..., T], jobs: Sequence[tuple[Any, ...]]) -> list[T]:
        """Results of ``function(*job)`` in the order of `jobs`; the first job runs on the calling thread.

        Args:
            function: thread-safe for these jobs.
            jobs: argument tuples, at least one.
        """
        others = [self._pool.submit(function, *job) for job in jobs[1:]]
        first = function(*jobs[0])
        return [first, *(other.result() for other in others)]

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
