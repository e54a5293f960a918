"""How the cores of a CPU are used: few threads with large pieces of work, each on one core."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")

WORTH_A_THREAD = 100_000
"""ns of work for which another thread is woken up, which takes a third of that."""


def share_worlds(kernel: Callable[..., object], ids: NDArray[np.int64], *others: Any, cost: float) -> None:
    """Call a compiled function for the worlds `ids`, on several threads where that pays.

    Args:
        kernel: takes world indices [m] and `others`. It holds no lock of Python, and each world touches memory of its own.
        ids: [n] worlds.
        cost: ns that a world takes, about.
    """
    parts = min(_cores(), int(len(ids) * cost / WORTH_A_THREAD), len(ids))
    if parts < 2:
        kernel(ids, *others)
        return
    cuts = [len(ids) * i // parts for i in range(parts + 1)]
    helpers = _helpers(os.getpid())
    waiting = [helpers.submit(kernel, ids[a:b], *others) for a, b in zip(cuts[1:], cuts[2:], strict=False)]
    kernel(ids[: cuts[1]], *others)
    for one in waiting:
        one.result()


@functools.cache
def _cores() -> int:
    """How many threads compiled loops may take, at most: NUMBA_NUM_THREADS, by default the cores of this process."""
    limit = int(os.environ.get("NUMBA_NUM_THREADS", "0"))
    cores = len(os.sched_getaffinity(0))
    return min(limit, cores) if limit > 0 else cores


@functools.cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """Threads beside the calling one; a forked process has lost its parent's and gets its own."""
    return ThreadPoolExecutor(max(_cores() - 1, 1), "kernels")


def one_thread_each(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with every torch operation in it on the calling thread alone.

    Left to itself torch divides each operation among its threads, which in a training iteration meet thousands of times
    and wait for each other by spinning. That costs up to 50 us for an operation of 2 us and takes the cores from the
    engine's threads; beside any other program it slows training tenfold (measured: 3.3 s instead of 0.43 s for 32 steps
    of 1024 worlds on two busy cores). The trainer's own threads (see `PPO.learn`) meet once a minibatch.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        threads = torch.get_num_threads()
        if threads == 1:
            return function(*args, **kwargs)
        torch.set_num_threads(1)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_num_threads(threads)

    return wrapped
