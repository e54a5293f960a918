"""Contacts over all Bullet steps of a control step, on the `pybullet` engine: Bullet's own contact points, added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from torch import Tensor

from rookery.sim.engines.contact_counts import ContactCounts, members
from rookery.sim.engines.contact_sensors import ContactSums

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld

Seat = tuple[int, int]
Watcher = TypeVar("Watcher", "ContactReader", "ContactCounter")


class ContactReader(ContactSums):
    """Reads the contact points of all pairs of a `pybullet` world."""

    def __init__(self, world: PyBulletWorld) -> None:
        pairs = world.scene.contact_pairs
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


class ContactCounter(ContactCounts):
    """Counts the contact points of a `pybullet` world."""

    def __init__(self, world: PyBulletWorld) -> None:
        model = world.model
        super().__init__(model, world.scene.contact_counts, world.num_envs)
        self._world = world
        ends = (model.sensor_objtype, model.sensor_objid), (model.sensor_reftype, model.sensor_refid)
        sides = [np.stack([members(model, int(k[s]), int(i[s])) for s in self.sensors]) for k, i in ends]
        geoms = [c.geoms[0] for c in world.plan.colliders]  # geoms that a sensor names have colliders of their own
        one, other = (side[:, geoms] for side in sides)
        both = one[:, :, None] & other[:, None, :]
        self._pairs = (both | both.transpose(0, 2, 1)).transpose(1, 2, 0)  # [colliders, colliders, sensors]
        self._at: dict[Seat, int] = {seat: i for i, seat in enumerate(world.built[0].seats)}

    def take(self, time: float, dt: float) -> None:
        """Count the contacts of the last Bullet step; see ContactReader.take."""
        found = np.zeros((self._world.num_envs, 1, len(self.sensors)))
        for i in range(self._world.num_envs):
            for q in self._world.contacts(i):
                first, second = self._at.get((q[1], q[3])), self._at.get((q[2], q[4]))
                if first is not None and second is not None:
                    found[i, 0] += self._pairs[first, second]
        self.add(found)


class Watchers:
    """Observers of contacts in every Bullet step of a world, each made when it is first asked for."""

    def __init__(self, world: PyBulletWorld) -> None:
        self._world = world
        self._made: dict[type, ContactReader | ContactCounter] = {}

    def of(self, kind: type[Watcher]) -> Watcher:
        """The watcher of a kind."""
        if kind not in self._made:
            self._made[kind] = kind(self._world)
        return cast(Watcher, self._made[kind])

    def take(self, time: float, dt: float) -> None:
        """See ContactReader.take."""
        for watcher in self._made.values():
            watcher.take(time, dt)

    def clear(self, rows: slice | Tensor = slice(None)) -> None:
        """Forget all contacts of some worlds."""
        for watcher in self._made.values():
            watcher.clear(rows)
