"""The loop: pilots are stepped at a fixed rate by absolute deadlines, and what the machine made of it is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.pilot import Pilot, StepRecord

LATE_SHARE = 0.5  # of the period, past its deadline, at which a step counts as missed


@dataclass(frozen=True)
class LoopTiming:
    """Punctuality of a loop.

    Args:
        steps: control steps.
        missed: of them, that began more than half a period late.
        jitter_ms: ms past the deadlines: median, 99th percentile, greatest.
        age_ms: ms, age of measurements when a step used them, likewise.
        cycle_us: us that a step took, likewise.
    """

    steps: int
    missed: int
    jitter_ms: tuple[float, float, float]
    age_ms: tuple[float, float, float]
    cycle_us: tuple[float, float, float]


class ControlLoop:
    """Steps pilots in time.

    Args:
        pilots: of vehicles that fly by policies of one control period.
        clock: of the runtime.
        seen: told every step of every pilot.

    Attributes:
        over: ends `run` after the present step.
    """

    def __init__(
        self,
        pilots: Sequence[Pilot],
        clock: TimeSource,
        seen: Callable[[int, StepRecord], None] = lambda i, record: None,
    ) -> None:
        self._pilots = list(pilots)
        self._clock = clock
        self._seen = seen
        self.over = False
        self._late: list[float] = []
        self._age: list[float] = []
        self._cycle: list[float] = []

    def run(self, done: Callable[[], bool] | None = None) -> None:
        """Step until all pilots are idle, or `done` says so."""
        clock = self._clock
        period = self._pilots[0].controller.control_dt
        finished = done or (lambda: all(pilot.done for pilot in self._pilots))
        due = clock.now()
        while not self.over:
            began = clock.now()
            late = began - due
            for i, pilot in enumerate(self._pilots):
                pilot.late = pilot.late + 1 if late > LATE_SHARE * period else 0
                record = pilot.step()
                self._seen(i, record)
                if record.reading is not None:
                    self._age.append(record.now - record.reading.received)
            self._late.append(late)
            self._cycle.append(clock.now() - began)
            if finished():
                return
            # deadlines that have passed are left out, not made up for
            due += period * max(1, int((clock.now() - due) // period))
            clock.wait_until(due)

    def timing(self) -> LoopTiming:
        """Statistics of all steps so far."""
        period = self._pilots[0].controller.control_dt
        late = np.array(self._late or [0.0])
        return LoopTiming(
            len(self._late), int((late > LATE_SHARE * period).sum()), _spread(1e3 * late),
            _spread(1e3 * np.array(self._age or [0.0])), _spread(1e6 * np.array(self._cycle or [0.0])),
        )  # fmt: skip


def _spread(values: np.ndarray) -> tuple[float, float, float]:
    median, high = np.percentile(values, (50, 99))
    return float(median), float(high), float(values.max())
