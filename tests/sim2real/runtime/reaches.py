"""Arms in lock-step: a simulated arm, a link in this process and a clock that waiting turns."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.sim2real.links.simulated_arm import SimulatedArm
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.vehicles.arm import ArmVehicle
from tests.sim2real.runtime.flights import Flight


@cache
def controller(bundle: Path) -> Controller:
    """The policy, compiled once."""
    return Controller(bundle)


def vehicle(task: str = "table-reach", seed: int = 0, **options: Any) -> ArmVehicle:
    """A Panda at its table."""
    return ArmVehicle(rookery.make(task, num_envs=1, seed=seed), seed=seed, **options)


class Reach(Flight):
    """An arm from its home to the policy and back; `run` takes control steps of the policy, of many periods of the arm."""

    flown = 80

    def __init__(self, bundle: Path, *, seed: int = 0, noise: float = 1.0, seconds: float = math.inf) -> None:
        self._noise = noise
        super().__init__(bundle, seed=seed, seconds=seconds)
        self._due = self.clock.moment

    def load(self, bundle: Path) -> Controller:
        return controller(bundle)

    def connect(self, seed: int) -> SimulatedArm:
        task = self.controller.contract.task_id
        return SimulatedArm(vehicle(task, seed, noise=self._noise), self.clock, self.controller.spec)

    def run(self, steps: int) -> None:
        """Control steps of the pilot and the watchdog, and the arm's periods up to each of them."""
        for _ in range(steps):
            if self.runtime_alive:
                self.record = self.pilot.step()
                self.watchdog.look()
            self._due += self.controller.control_dt
            while self.clock.moment < self._due - 1e-9:
                self.clock.moment += self.vehicle.period
                if self.runtime_alive:
                    self.link.advance()
                else:
                    self.vehicle.step()
                self.seen()

    def seen(self) -> None:
        """Called after each period of the arm."""

    @property
    def safe(self) -> bool:
        """Whether it brakes, or is held where it is: no command of the policy moves it."""
        return not self.vehicle.armed or self.link._stopping

    def seconds_to_safety(self, limit: float = 0.5) -> float:
        """s from now until it is safe; infinity beyond the limit."""
        began = self.clock.moment
        while self.clock.moment - began < limit:
            if self.safe:
                return self.clock.moment - began
            self.run(1)
        return math.inf

    def stops(self) -> bool:
        """Whether it stands still, held by its own controller, within a second."""
        for _ in range(80):
            self.run(1)
            if not self.vehicle.armed and self.vehicle.still:
                return bool(np.abs(self.vehicle.truth()["joint velocities"]).max() < 0.05)
        return False
