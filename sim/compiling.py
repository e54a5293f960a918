"""A count of what Numba compiles in this process and in those that it waits for, and its time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any


class Compilations:
    """Counts the functions that Numba compiles from now on; those that it finds in its caches do not count.

    Args:
        begin: takes the module of each of them that is not compiled for the sake of another one.

    Attributes:
        done: functions begun so far.
        seconds: s that those which are finished took.
    """

    def __init__(self, begin: Callable[[str], None] = lambda module: None) -> None:
        from numba.core import event

        self.done = 0
        self.seconds = 0.0
        self._within = 0
        self._began = 0.0
        counter = self

        class Listener(event.Listener):
            def on_start(self, event: Any) -> None:
                if counter._within == 0:
                    begin(event.data["dispatcher"].__module__)
                    counter._began = time.perf_counter()
                counter._within += 1
                counter.done += 1

            def on_end(self, event: Any) -> None:
                counter._within -= 1
                if counter._within == 0:
                    counter.seconds += time.perf_counter() - counter._began

        self._listener = Listener()
        event.register("numba:compile", self._listener)

    def stop(self) -> None:
        """Count no more."""
        from numba.core import event

        event.unregister("numba:compile", self._listener)


@functools.cache
def _all() -> Compilations:
    return Compilations()


def compiling_s() -> float:
    """s that have been spent compiling since the first call, in this process or while it waited for others."""
    return _all().seconds


def add_compiling(seconds: float) -> None:
    """Count s for which this process waited while others compiled."""
    _all().seconds += seconds
