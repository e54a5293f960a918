"""Contacts over all physics steps of a control step: the sensors of pairs of geoms, and the sums that views show.

For every pair of `Scene.add_contact_sensor` the MuJoCo model has a contact sensor, which `mujoco` reads; to other engines it
names the geoms.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.world import ContactSensor

Pair = tuple[str, str]

_POINTS = 8
"""Contact points of a pair whose forces are added up, the strongest first: as many as two boxes have."""
_GEOM = mujoco.mjtGeom
_SIMPLE = (_GEOM.mjGEOM_PLANE, _GEOM.mjGEOM_SPHERE, _GEOM.mjGEOM_CAPSULE, _GEOM.mjGEOM_CYLINDER, _GEOM.mjGEOM_BOX)
_MAX_FORCE = 2  # value of "reduce" in a contact sensor's intprm


def add_sensors(spec: mujoco.MjSpec, pairs: Sequence[Pair]) -> None:
    """A contact sensor for each pair of geom names.

    Raises:
        RookeryError: a geom is unknown, or collides with nothing.
    """
    geoms = {g.name: g for g in spec.geoms if g.name}
    listed = {name for p in spec.pairs for name in (p.geomname1, p.geomname2)}
    for pair in pairs:
        for name in pair:
            if name not in geoms:
                raise unknown("geom", name, geoms)
            g = geoms[name]
            if not g.contype and not g.conaffinity and name not in listed:
                raise RookeryError(
                    f"geom {name!r} collides with nothing (contype = conaffinity = 0): choose another one."
                )
        kinds = [geoms[name].type for name in pair]
        one = any(k == _GEOM.mjGEOM_SPHERE for k in kinds) and all(any(k == s for s in _SIMPLE) for k in kinds)
        sensor = spec.add_sensor(
            name=sensor_name(pair), type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_GEOM, objname=pair[0], reftype=mujoco.mjtObj.mjOBJ_GEOM, refname=pair[1],
        )  # fmt: skip
        sensor.intprm = [1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), _MAX_FORCE, 1 if one else _POINTS]


def sensor_name(pair: Pair) -> str:
    return f"contact:{pair[0]}:{pair[1]}"


def columns_of(pairs: Sequence[Pair], geom: str, others: Sequence[str]) -> list[int]:
    """Which of the pairs are those of `geom` with `others`, named in either order.

    Raises:
        RookeryError: a pair has no contact sensor, or there are no others.
    """
    if not others:
        raise RookeryError(f"contacts of {geom!r} with no other geom were asked for: name at least one.")
    out = []
    for other in others:
        pair = next((p for p in ((geom, other), (other, geom)) if p in pairs), None)
        if pair is None:
            raise RookeryError(
                f"contacts of {geom!r} with {other!r} are not measured: call "
                f"scene.add_contact_sensor({geom!r}, [{other!r}]) in the task's scene()."
            )
        out.append(pairs.index(pair))
    return out


class ContactSums:
    """Sums over the steps of a control step, for P pairs in N worlds.

    Attributes:
        impulse: [N, P] N s.
        when: [N, P] s, inf where there was no contact.
    """

    def __init__(self, num_envs: int, pairs: int) -> None:
        self.impulse = torch.zeros(num_envs, pairs)
        self.when = torch.full((num_envs, pairs), torch.inf)
        self._impulse = self.impulse.numpy()
        self._when = self.when.numpy()

    def clear(self, rows: slice | Tensor = slice(None)) -> None:
        """Forget all contacts of some worlds."""
        self.impulse[rows] = 0.0
        self.when[rows] = torch.inf

    def add(self, impulse: np.ndarray, time: float, dt: float) -> None:
        """Add impulses [N, k, P] of k successive steps of dt s, the first of which began `time` s after the beginning."""
        self._impulse += impulse.sum(axis=1)
        touched = impulse > 0.0
        first = np.where(touched.any(axis=1), time + dt * touched.argmax(axis=1), np.inf)
        np.minimum(self._when, first, out=self._when)


class SummedContacts(ContactSensor):
    """See ContactSensor. Columns of a ContactSums."""

    def __init__(self, sums: ContactSums, geom: str, others: Sequence[str], columns: list[int]) -> None:
        self.geom = geom
        self.names = tuple(others)
        self._sums = sums
        self._columns = torch.tensor(columns)

    @property
    def impulse(self) -> Tensor:
        return self._sums.impulse[:, self._columns]

    @property
    def when(self) -> Tensor:
        return self._sums.when[:, self._columns]
