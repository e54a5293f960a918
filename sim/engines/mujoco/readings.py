"""Sensors of a `mujoco` world: which are computed at all, and those that are read after every physics step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.engines.contact_counts import CounterReader
from rookery.sim.engines.contact_sensors import Pair
from rookery.sim.engines.mujoco.contact_sensors import ContactRecorder

if TYPE_CHECKING:
    from rookery.sim.engines.mujoco.world import MujocoWorld

NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_NONE = int(mujoco.mjtStage.mjSTAGE_NONE.value)


class SensorReadings:
    """Readings of a world's sensors. At first none is computed, since they cost time in every step.

    Attributes:
        contacts: sums of contact sensors over the steps; None before somebody reads them.
        counts: likewise of counters.
    """

    def __init__(self, world: MujocoWorld) -> None:
        self._world = world
        self._flags = world.batch.expand("opt.disableflags")
        self._flags |= NO_SENSORS
        self._stages: np.ndarray | None = None  # [N, nsensor] at which each is computed
        self._recorded = np.zeros((world.num_envs, 0, world.model.nsensordata))
        self.contacts: ContactRecorder | None = None
        self.counts: CounterReader | None = None

    def compute(self, sensors: Sequence[int]) -> None:
        """From now on, compute these sensors in every step, and none that nobody reads: an accelerometer alone takes 3 % of a
        quadruped's physics."""
        world = self._world
        if self._stages is None:
            self._flags &= ~NO_SENSORS
            self._stages = world.batch.expand("sensor_needstage")
            self._stages[:] = _NONE
        self._stages[:, sensors] = world.model.sensor_needstage[sensors]

    def record(self, pairs: Sequence[Pair]) -> ContactRecorder:
        """From now on, sum up the contacts of pairs of geoms."""
        self.contacts = ContactRecorder(self._world, pairs)
        self.compute(self.contacts.sensors)
        return self.contacts

    def count(self, name: str) -> Tensor:
        """A count of the scene, see `World.contact_count`."""
        world = self._world
        if self.counts is None:
            self.counts = CounterReader(world.model, world.scene.contact_counts, world.num_envs)
            self.compute(self.counts.sensors)
        return self.counts.view(name)

    @property
    def every_step(self) -> bool:
        """Some are read after every physics step."""
        return self.counts is not None or self.contacts is not None

    def room(self, steps: int) -> np.ndarray:
        """An array [N, steps, nsensordata] to record them into."""
        if self._recorded.shape[1] != steps:
            self._recorded = np.zeros((self._world.num_envs, steps, self._world.model.nsensordata))
        return self._recorded

    def take(self, readings: np.ndarray, step: int) -> None:
        """Take in readings [N, k, nsensordata] of k physics steps, the first of which is number `step`."""
        if self.contacts is not None:
            self.contacts.take(readings, step)
        if self.counts is not None:
            self.counts.take(readings)

    def take_present(self, step: int) -> None:
        """Take in the present readings, of physics step number `step`."""
        if self.every_step:
            self.take(self._world.batch.bind("sensordata")[:, None], step)

    def clear_counts(self, rows: slice | torch.Tensor = slice(None)) -> None:
        """Forget the counts of some worlds."""
        if self.counts is not None:
            self.counts.clear(rows)
