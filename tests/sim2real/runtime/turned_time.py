"""A clock that waiting turns, in place of the module `time` of links: who waits for a vehicle lets its world go on, so that no
verdict depends on how fast this machine is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest


class TurnedTime:
    """Takes the place of the module `time`.

    Args:
        world: a step of it.
        step_s: s, its length.
    """

    def __init__(self, world: Callable[[], object], step_s: float) -> None:
        self._world, self._step_s = world, step_s
        self._now = 0.0

    def monotonic(self) -> float:
        """s."""
        return self._now

    def monotonic_ns(self) -> int:
        """ns."""
        return round(1e9 * self._now)

    def sleep(self, seconds: float) -> None:
        """Let so much time pass, at least a step."""
        for _ in range(max(1, round(seconds / self._step_s))):
            self._world()
            self._now += self._step_s


@contextmanager
def turning(world: Callable[[], object], step_s: float, *modules: ModuleType) -> Iterator[None]:
    """Within the block modules wait by a clock that their waiting turns; see TurnedTime."""
    with pytest.MonkeyPatch.context() as patch:
        turned = TurnedTime(world, step_s)
        for module in modules:
            patch.setattr(module, "time", turned)
        yield
