"""A link to a simulated vehicle in this process, without a network: dry runs and tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.drone import QUANTITIES, SETPOINTS, DroneVehicle


class SimulatedLink(Link):
    """To drone i of a vehicle that its owner steps.

    Args:
        vehicle: the simulated vehicle.
        clock: of the runtime.
        number: i.

    Attributes:
        fault: turns a reading into a damaged one, or None for one that is lost; for tests.
        cut: nothing arrives any more, and nothing is sent.
    """

    def __init__(self, vehicle: DroneVehicle, clock: TimeSource, number: int = 0) -> None:
        self.url = f"sim://{number}"
        self.vehicle = vehicle
        self.fault: Callable[[Reading], Reading | None] | None = None
        self.cut = False
        self._clock = clock
        self._i = number
        self._reading: Reading | None = None

    def open(self, timeout_s: float = 10.0) -> Identity:
        return Identity(
            "multirotor", self.vehicle.drones.drone.name, tuple(SETPOINTS), QUANTITIES, 1.0 / self.vehicle.period
        )

    def receive(self) -> None:
        """Take what the vehicle measures now."""
        if self.cut:
            return
        now = self._clock.now()
        reading: Reading | None = dataclasses.replace(self.vehicle.sense(self._i), received=now)
        if self.fault is not None and reading is not None:
            reading = self.fault(reading)
        if reading is not None:
            self.heard = now
            self._reading = reading

    def read(self) -> Reading | None:
        return self._reading

    def arm(self) -> None:
        if not self.cut:
            self.vehicle.arm(self._i)

    def disarm(self) -> None:
        if not self.cut:
            self.vehicle.disarm(self._i)

    def engage(self) -> None:
        if not self.cut:
            self.vehicle.offboard(self._i)

    @property
    def engaged(self) -> bool:
        return self.vehicle.mode(self._i) == "offboard"

    def write(self, kind: str, command: ArrayLike) -> None:
        if not self.cut:
            self.vehicle.setpoint(self._i, kind, np.asarray(command, float).tolist())

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        self.write("position", [*np.asarray(position, float).tolist(), yaw])

    def react(self, reaction: str) -> None:
        if self.cut:
            return
        if reaction == "stop":
            self.vehicle.disarm(self._i)
        else:
            self.vehicle.land(self._i)

    def close(self) -> None:
        pass
