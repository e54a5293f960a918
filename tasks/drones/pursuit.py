"""The base of hover and track: each drone has a point to be at, and is judged by its distance from it."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from rookery.sim.arrays import array
from rookery.tasks.drones import kernels
from rookery.tasks.drones.base import DroneTask


class Pursuit(DroneTask):
    """Base of tasks in which ``self.target`` is where each drone should be now.

    Subclasses set `counted_from`: the control step of an episode after which distance and turning count. Their config has
    `success_m`, the mean distance (m) that is still a success.
    """

    metric_definitions = MappingProxyType(
        {
            "success": "1 where no drone crashed and the mean of error_m is below success_m for every drone",
            "error_m": (
                "m, mean distance from the target over the counted part of the episode and over all drones; the "
                "present one before it begins"
            ),
            "crash": "1 where the episode ended in a crash",
            "yaw_drift": (
                "rad/s, size of the mean angular velocity about the vertical over the same part, of the drone that turns "
                "most; NaN of an episode that ended before it began. No success asks for it: the heading is free"
            ),
        }
    )

    deciding = MappingProxyType({"error_m": ("success_m", True)})

    counted_from: int
    distance: Tensor
    error_sum: Tensor
    error_count: Tensor

    def setup(self) -> None:
        super().setup()
        n, a = self.world.num_envs, self.cfg.num_drones
        self.buffer("distance", n, a)
        self.buffer("error_sum", n, a)
        self.buffer("error_count", n)
        self._errors = self.distance.numpy(), self.error_sum.numpy(), self.error_count.numpy()
        self._out_of_bounds = torch.zeros(n, a, dtype=torch.bool)
        self._out = self._out_of_bounds.numpy()
        self._closeness = {name: torch.zeros(n, a) for name in ("near", "on_target")}
        self._closeness_arrays = tuple(t.numpy() for t in self._closeness.values())
        self._speeds = torch.zeros(n, a)
        self._speeds_array = self._speeds.numpy()
        self._at_rest = np.zeros((n, a, 3), np.float32)
        self._figures = {name: torch.zeros(n) for name in ("success", "error_m", "crash")}
        self._figure_arrays = tuple(t.numpy() for t in self._figures.values())

    def place(self, ids: Tensor) -> None:
        super().place(ids)
        kernels.begin_pursuit(array(ids), array(self.drones.bodies.state), self._target, *self._errors)

    def advance(self) -> None:
        state = array(self.drones.bodies.state)
        kernels.pursue(state, self._target, self._clock, self.counted_from, self.cfg.bounds_m, *self._errors, self._out)
        self.detect_crashes(self._out_of_bounds)

    def closeness(self) -> dict[str, Tensor]:
        """Reward terms [N, A], unweighted: `near` pulls over half a meter, `on_target` over the last decimeter; those are
        `rewards.closeness_exp` of the distance with NEAR_M and ON_TARGET_M, in one compiled loop."""
        kernels.closeness(self._errors[0], *self._closeness_arrays)
        return self._closeness.copy()

    def speeds(self, reference: Tensor | None = None) -> Tensor:
        """[N, A] m/s: of the drones, against the velocities `reference` [N, A, 3] m/s, world, where given."""
        against = self._at_rest if reference is None else reference.numpy()
        kernels.speeds(array(self.drones.bodies.state), against, self._speeds_array)
        return self._speeds

    def metrics(self) -> dict[str, Tensor]:
        """Success, the mean distance while it counted (the present one before), whether the episode ended in a crash, and how
        fast the heading drifted."""
        kernels.pursuit_metrics(
            self._clock, self.max_steps, self.cfg.success_m, *self._errors, self._crash[0], *self._figure_arrays
        )
        return {**self._figures, **self.turning.metrics()}
