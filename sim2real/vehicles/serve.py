"""Vehicles in real time: physics and telemetry at their own rate, until somebody stops it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rookery.sim2real.runtime.clock import TimeSource

BEHIND_S = 0.5  # s behind real time at which the schedule starts anew: the machine is too slow, or slept


class Vehicle(Protocol):
    """Simulated robots."""

    period: float
    """s, of `step`."""

    def step(self) -> None:
        """Onboard software and physics of a period."""


class Server(Protocol):
    """One robot behind a protocol."""

    where: str
    """Its address, for people."""

    def receive(self) -> None:
        """Take all packets that have arrived."""

    def send(self) -> None:
        """Telemetry of this control step."""

    def close(self) -> None:
        """Free the port."""


def serve(
    vehicle: Vehicle,
    servers: Sequence[Server],
    clock: TimeSource,
    over: Callable[[], bool],
    late: Callable[[float], None],
) -> None:
    """Step the vehicle in real time.

    Args:
        vehicle: of all servers.
        servers: one for each robot.
        clock: the machine's.
        over: asked in every step whether to end.
        late: told how far behind real time it was, s, when the schedule starts anew.
    """
    due = clock.now()
    try:
        while not over():
            for server in servers:
                server.receive()
            vehicle.step()
            for server in servers:
                server.send()
            due += vehicle.period
            behind = clock.now() - due
            if behind > BEHIND_S:
                late(behind)
                due = clock.now()
            clock.wait_until(due)
    finally:
        for server in servers:
            server.close()
