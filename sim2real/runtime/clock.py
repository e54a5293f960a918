"""Clocks of the runtime: the machine's, and one that a test turns by hand."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable

SPIN_S = 3e-4
"""s before a deadline at which waiting stops to sleep: a sleep ends late by up to this much on a busy machine."""


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
    """

    def __init__(self, step: Callable[[], None], period: float) -> None:
        super().__init__()
        self._step = step
        self._period = period

    def wait_until(self, moment: float) -> None:
        while self.moment < moment - 1e-9:
            self.moment += self._period
            self._step()
