"""Use of a CPU's cores: few threads with large pieces of work, each on one core."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


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


def limit_threads(count: int) -> None:
    """Let torch and compiled kernels of this process use no more threads than `count`."""
    torch.set_num_threads(count)
    limit_kernel_threads(count)


def limit_kernel_threads(count: int) -> None:
    """Let compiled kernels that this thread calls use no more threads than `count`."""
    import numba

    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]


@contextmanager
def one_kernel_thread() -> Iterator[None]:
    """Keep compiled kernels on the calling thread; the engines' own threads are not concerned.

    A part's kernels take tens of microseconds, less than a second thread takes to come and go: on two cores shared with a
    training, a step of 64 worlds of table-reach took 149 ms with two threads in its kernels and 35 ms with one.
    """
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)
