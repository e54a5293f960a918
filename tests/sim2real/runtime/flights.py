"""Flights in lock-step: a simulated vehicle, a link in this process and a clock that a test turns."""

from __future__ import annotations

import ctypes
import math
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.sim2real.links.simulated import SimulatedDrone
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.pilot import Phase, Pilot, StepRecord
from rookery.sim2real.runtime.safety import load_filter
from rookery.sim2real.runtime.settings import safety_settings
from rookery.sim2real.runtime.watchdog import Watchdog
from rookery.sim2real.vehicles.drone import DroneVehicle

TIMEOUT_S = 0.06


@cache
def library() -> ctypes.CDLL:
    """The safety filter."""
    return load_filter(Path(tempfile.mkdtemp(prefix="rookery-test-")))


class Flight:
    """One drone from the ground to the policy and down again; `run` steps everything by control steps."""

    flown = 50
    """Control steps of the policy after which a flight has begun."""

    def __init__(self, bundle: Path, *, seed: int = 0, seconds: float = math.inf, **overrides: Any) -> None:
        self.bundle = bundle
        self.clock = ManualClock()
        self.controller = self.load(bundle)
        self.link = self.connect(seed)
        self.vehicle = self.link.vehicle
        self.said: list[str] = []
        self.pilot = self.pilot_of(seconds, **overrides)
        self.watchdog = self.watchdog_of()
        self.runtime_alive = True
        self.record: StepRecord | None = None

    def pilot_of(self, seconds: float, **overrides: Any) -> Any:
        """The pilot."""
        settings = safety_settings(self.controller.contract, self.controller.group)
        return Pilot(
            self.controller,
            self.link,
            library(),
            settings,
            self.clock,
            seconds=seconds,
            say=self.said.append,
            **overrides,
        )

    def watchdog_of(self) -> Any:
        """The watchdog of the pilot."""
        return Watchdog([self.pilot], self.clock)

    def close(self) -> None:
        """End the runtime."""

    def load(self, bundle: Path) -> Controller:
        """The policy."""
        return Controller(bundle)

    def connect(self, seed: int) -> Any:
        """A link to a new vehicle."""
        vehicle = DroneVehicle(rookery.make("drone-hover", num_envs=1, seed=seed), seed=seed, timeout_s=TIMEOUT_S)
        return SimulatedDrone(vehicle, self.clock)

    def begin(self) -> None:
        """Check, arm, and go until the policy has gone for `flown` control steps."""
        self.pilot.check()
        self.link.receive()
        self.pilot.start()
        for _ in range(2000):
            self.run(1)
            if self.pilot.phase is Phase.POLICY:
                self.run(self.flown)
                return
        raise AssertionError(f"no policy after 2000 control steps: {self.said}")

    def run(self, steps: int) -> None:
        """Control steps of the vehicle, the link, the pilot and the watchdog."""
        for _ in range(steps):
            if self.runtime_alive:
                self.link.receive()
                self.record = self.pilot.step()
                self.watchdog.look()
            self.vehicle.step()
            self.clock.moment += self.vehicle.period

    @property
    def safe(self) -> bool:
        """Whether the vehicle comes down by its own controller, or stands."""
        return self.vehicle.mode(0) == "land" or not self.vehicle.armed(0)

    def seconds_to_safety(self, limit: float = 0.5) -> float:
        """s from now until it is safe; infinity beyond the limit."""
        for i in range(round(limit / self.vehicle.period)):
            if self.safe:
                return i * self.vehicle.period
            self.run(1)
        return math.inf

    def lands(self, hardest: float = 1.5) -> bool:
        """Whether it stands with motors off within 20 s, and never fell faster than `hardest` m/s."""
        for _ in range(2000):
            self.run(1)
            fell = self.vehicle.truth(0)["velocity"][2] < -hardest
            if fell:
                return False
            if not self.vehicle.armed(0):
                return bool(np.linalg.norm(self.vehicle.truth(0)["velocity"]) < 0.5)  # it may slide
        return False
