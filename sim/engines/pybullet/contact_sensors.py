"""Contacts over all Bullet steps of a control step, on the `pybullet` engine: Bullet's own contact points, added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rookery.sim.engines.contact_sensors import ContactSums, Pair

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld

Seat = tuple[int, int]


class ContactReader(ContactSums):
    """Reads the contact points of all pairs of a `pybullet` world."""

    def __init__(self, world: PyBulletWorld, pairs: Sequence[Pair]) -> None:
        super().__init__(world.num_envs, len(pairs))
        self._world = world
        self._columns: dict[tuple[Seat, Seat], int] = {}
        for column, (a, b) in enumerate(pairs):
            first = self._seat(a)
            second = self._seat(b)
            self._columns[first, second] = self._columns[second, first] = column

    def _seat(self, name: str) -> Seat:
        """(Bullet body, link) of a geom: one that a contact sensor names has a collider of its own (see pybullet_model)."""
        world = self._world
        geom = self._world.model.geom(name).id
        at = next(i for i, c in enumerate(world.plan.colliders) if c.geoms == [geom])
        return world.built[0].seats[at]

    def take(self, time: float, dt: float) -> None:
        """Add the contacts of the last Bullet step of dt s, which began `time` s after the beginning of the control step."""
        impulse = np.zeros((self._world.num_envs, 1, self.impulse.shape[1]))
        for i in range(self._world.num_envs):
            for q in self._world.contacts(i):
                column = self._columns.get(((q[1], q[3]), (q[2], q[4])))
                if column is not None:
                    impulse[i, 0, column] += q[9] * dt
        self.add(impulse, time, dt)
