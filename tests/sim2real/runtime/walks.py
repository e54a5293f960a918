"""Walks in lock-step: a simulated quadruped, a link in this process and a clock that a test turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.sim2real.links.simulated import SimulatedJoints
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.pilot import commanded
from rookery.sim2real.vehicles.joints import DRIVE_DT, JointVehicle
from tests.sim2real.runtime.flights import TIMEOUT_S, Flight

SPEED = 0.5  # m/s, forward


@cache
def controller(bundle: Path) -> Controller:
    """The policy, compiled once."""
    return Controller(bundle)


def vehicle(control_dt: float = 0.02, timeout_s: float = TIMEOUT_S, **options: Any) -> JointVehicle:
    """A Go2 on the ground."""
    config: Any = {"dt": DRIVE_DT, "control_dt": control_dt}
    return JointVehicle(rookery.make("go2-velocity", num_envs=1, config=config), timeout_s=timeout_s, **options)


class Walk(Flight):
    """A quadruped from lying on the ground to the policy and down again."""

    def __init__(
        self, bundle: Path, *, seed: int = 0, noise: float = 1.0, joints: Sequence[str] | None = None, seconds: float = math.inf
    ) -> None:  # fmt: skip
        self._options = {"noise": noise, "joints": joints}
        super().__init__(bundle, seed=seed, seconds=seconds, commands=commanded({"velocity": (SPEED, 0.0, 0.0)}))

    def load(self, bundle: Path) -> Controller:
        return controller(bundle)

    def connect(self, seed: int) -> SimulatedJoints:
        return SimulatedJoints(vehicle(seed=seed, **self._options), self.clock, self.controller.spec)

    @property
    def safe(self) -> bool:
        """Whether its joints only resist motion."""
        return not self.vehicle.stiff

    @property
    def height(self) -> float:
        """m, of its trunk."""
        return float(self.vehicle.truth()["position"][2])

    def lands(self, hardest: float = 0.5) -> bool:
        """Whether it lies, and its pilot knows, within 15 s, and never sank faster than `hardest` m/s."""
        for _ in range(750):
            self.run(1)
            if self.vehicle.truth()["velocity"][2] < -hardest:
                return False
            if self.vehicle.lying and (self.pilot.done or not self.runtime_alive):
                return bool(np.abs(self.vehicle.truth()["joint velocities"]).max() < 0.3 and self.height < 0.15)
        return False
