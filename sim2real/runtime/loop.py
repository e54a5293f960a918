"""The loop: pilots are stepped at a fixed rate by absolute deadlines, and what the machine made of it is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        steps, missed: control steps so far, and those that began more than half a period late.
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
        self.steps = self.missed = 0
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
            self.steps += 1
            self.missed += late > LATE_SHARE * period
            self._cycle.append(clock.now() - began)
            if finished():
                return
            # deadlines that have passed are left out, not made up for
            due += period * max(1, int((clock.now() - due) // period))
            clock.wait_until(due)

    def timing(self, last: int | None = None) -> LoopTiming:
        """Statistics of all steps so far, or of the last ones; from any thread."""
        late, age, cycle = (
            list(values) if last is None else values[-last:] for values in (self._late, self._age, self._cycle)
        )
        limit = LATE_SHARE * self._pilots[0].controller.control_dt
        return LoopTiming(
            len(late), sum(x > limit for x in late), _spread(late, 1e3), _spread(age, 1e3), _spread(cycle, 1e6)
        )


def _spread(values: list[float], unit: float) -> tuple[float, float, float]:
    """Median, 99th percentile and greatest; a panel asks while the loop runs, and NumPy takes several times as long for a few
    hundred values."""
    ordered = sorted(values) or [0.0]
    places = (0.5, 0.99, 1.0)
    median, high, most = (unit * ordered[round(share * (len(ordered) - 1))] for share in places)
    return median, high, most
