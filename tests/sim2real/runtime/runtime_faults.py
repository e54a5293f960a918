"""Faults of a runtime, alike for every link whose thread a flight in lock-step takes along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def hung(flight: Any) -> None:
    """The policy's step does not return; the link's thread and the watchdog run on."""
    flight.pilot.step = lambda: flight.record


def hung_without_watchdog(flight: Any) -> None:
    """The link's thread alone is left."""
    hung(flight)
    flight.watchdog.look = lambda: None


def no_thread(flight: Any) -> None:
    """The link's thread is gone, the loop runs on."""
    flight.link._cycle = lambda: None


def killed(flight: Any) -> None:
    """SIGKILL: nothing of the runtime runs any more."""
    flight.runtime_alive = False


def operator(flight: Any) -> None:
    """The stop key."""
    flight.pilot.commands.stop = True


RUNTIME_FAULTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "hung": (hung, "hung"), "hung, no watchdog": (hung_without_watchdog, ""), "no thread": (no_thread, "silent"),
    "killed": (killed, ""), "operator": (operator, "operator"),
}  # fmt: skip
"""Each with the name of what the filter finds; "" where nothing is left to find it."""
