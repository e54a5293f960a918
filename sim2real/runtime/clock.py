"""Clocks of the runtime: the machine's, and one that a test turns by hand."""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Callable

SPIN_S = 3e-4
"""s before a deadline at which waiting stops to sleep: a sleep ends late by up to this much on a busy machine."""

BEHIND_S = 0.1  # s, that a simulated world in real time makes up for where the machine was busy


class TimeSource(abc.ABC):
    """Seconds since some moment, never going back."""

    @abc.abstractmethod
    def now(self) -> float:
        """s."""

    @abc.abstractmethod
    def wait_until(self, moment: float) -> None:
        """Return at `moment`, or at once where it has passed."""


class MonotonicClock(TimeSource):
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def wait_until(self, moment: float) -> None:
        """Sleeps, and spins through the last `SPIN_S`."""
        left = moment - time.monotonic() - SPIN_S
        if left > 0.0:
            time.sleep(left)
        while time.monotonic() < moment:
            pass


class ManualClock(TimeSource):
    """A clock that stands until it is told to move; waiting moves it.

    Args:
        start: s.
    """

    def __init__(self, start: float = 1000.0) -> None:
        self.moment = start

    def now(self) -> float:
        return self.moment

    def wait_until(self, moment: float) -> None:
        self.moment = max(self.moment, moment)


class SteppedClock(ManualClock):
    """A clock whose waiting steps a simulated world, for flights faster than real time.

    Args:
        step: steps the world by its period.
        period: s.
        real_time: sleep where the world is ahead of the machine's clock; one that falls behind shows slow motion.
    """

    def __init__(self, step: Callable[[], None], period: float, real_time: bool = False) -> None:
        super().__init__()
        self._step = step
        self._period = period
        self._real_time = real_time
        self._due = -math.inf  # s, the machine's clock, when the last waiting should have ended

    def wait_until(self, moment: float) -> None:
        before = self.moment
        while self.moment < moment - 1e-9:
            self.moment += self._period
            self._step()
        if self._real_time:
            self._due = max(self._due + self.moment - before, time.monotonic() - BEHIND_S)
            time.sleep(max(0.0, self._due - time.monotonic()))
