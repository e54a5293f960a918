"""Contacts over all physics steps of a control step, on the `mujoco` engine: readings of contact sensors, added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rookery.sim.engines.contact_sensors import ContactSums, Pair, sensor_name

if TYPE_CHECKING:
    from rookery.sim.engines.mujoco.world import MujocoWorld


class ContactRecorder(ContactSums):
    """Reads the contact sensors of all pairs of a `mujoco` world."""

    def __init__(self, world: MujocoWorld, pairs: Sequence[Pair]) -> None:
        super().__init__(world.num_envs, len(pairs))
        self._dt = world.dt
        columns: list[int] = []
        self._starts = []
        self.sensors: list[int] = []
        for pair in pairs:
            sensor = world.model.sensor(sensor_name(pair))
            self.sensors.append(int(sensor.id))
            self._starts.append(len(columns))
            # of each contact point the normal force, then two tangential ones
            columns += range(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0]), 3)
        self._columns = np.array(columns)
        self._simple = len(columns) == len(pairs)

    def take(self, readings: np.ndarray, step: int) -> None:
        """Add readings [N, k, nsensordata] of k successive physics steps, the first of which is number `step`."""
        force = np.abs(readings[:, :, self._columns])
        if not self._simple:
            force = np.add.reduceat(force, self._starts, axis=2)
        self.add(force * self._dt, step * self._dt, self._dt)
