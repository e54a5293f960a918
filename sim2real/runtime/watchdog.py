"""The watchdog: judges by the stamp that the policy's own step sets, never by packets."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.pilot import Phase, Pilot

PERIOD_S = 0.01  # s, between looks


class Watchdog:
    """Brings vehicles down whose policy's step does not return, from a thread of its own.

    Args:
        pilots: that it watches.
        clock: of the runtime.
    """

    def __init__(self, pilots: Sequence[Pilot], clock: TimeSource) -> None:
        self._pilots = list(pilots)
        self._clock = clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rookery-watchdog", daemon=True)

    def look(self) -> None:
        """One look at all pilots."""
        now = self._clock.now()
        for pilot in self._pilots:
            limit = pilot.settings.limits.policy_ms / 1e3
            stamp = pilot.policy_stamp
            if limit <= 0.0:
                continue
            hung = pilot.phase is Phase.POLICY and 0.0 <= stamp < now - limit
            still = (
                pilot.step_stamp < now - limit
            )  # a loop that goes on brings the vehicle down, and switches it off, itself
            if hung or (
                still and pilot.fault is not None and pilot.fault.name == "hung" and pilot.phase is Phase.EMERGENCY
            ):
                pilot.hang()

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.look()

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._over.set()
        self._thread.join(1.0)
