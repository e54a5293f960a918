"""Sensors of the `pybullet` engine.

Positions, velocities and what follows from them are MuJoCo's sensors at Bullet's state. Contacts and touch come from
Bullet's own contact points; the accelerometer is the change of the site's velocity over the last Bullet step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.engines.mujoco.views import object_ids
from rookery.sim.errors import RookeryError
from rookery.sim.world import EngineSensor

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld

_SENS = mujoco.mjtSensor
_OBJ = mujoco.mjtObj
_DATA = mujoco.mjtConDataField

_FROM_STATE = {
    _SENS.mjSENS_VELOCIMETER, _SENS.mjSENS_GYRO, _SENS.mjSENS_MAGNETOMETER, _SENS.mjSENS_CAMPROJECTION,
    _SENS.mjSENS_RANGEFINDER, _SENS.mjSENS_JOINTPOS, _SENS.mjSENS_JOINTVEL, _SENS.mjSENS_ACTUATORPOS,
    _SENS.mjSENS_ACTUATORVEL, _SENS.mjSENS_FRAMEPOS, _SENS.mjSENS_FRAMEQUAT, _SENS.mjSENS_FRAMEXAXIS,
    _SENS.mjSENS_FRAMEYAXIS, _SENS.mjSENS_FRAMEZAXIS, _SENS.mjSENS_FRAMELINVEL, _SENS.mjSENS_FRAMEANGVEL,
    _SENS.mjSENS_GEOMDIST, _SENS.mjSENS_GEOMNORMAL, _SENS.mjSENS_GEOMFROMTO, _SENS.mjSENS_INSIDESITE,
}  # fmt: skip

_WIDTH = {_DATA.mjCONDATA_FOUND: 1, _DATA.mjCONDATA_FORCE: 3, _DATA.mjCONDATA_DIST: 1, _DATA.mjCONDATA_POS: 3,
          _DATA.mjCONDATA_NORMAL: 3}  # fmt: skip
_NETFORCE = 3  # value of "reduce" in sensor_intprm


class PyBulletSensor(EngineSensor):
    """See EngineSensor.

    Raises:
        RookeryError: a sensor that this engine cannot give.
    """

    def __init__(self, world: PyBulletWorld, name: str) -> None:
        self.name = name
        self._world = world
        model = world.model
        (self._id,) = object_ids(model, _OBJ.mjOBJ_SENSOR, "sensor", [name])
        self._kind = mujoco.mjtSensor(int(model.sensor_type[self._id]))
        start = int(model.sensor_adr[self._id])
        self._columns = slice(start, start + int(model.sensor_dim[self._id]))
        if model.sensor_delay[self._id] or model.sensor_interval[self._id].any():
            self._refuse("with a delay or interval")
        if self._kind == _SENS.mjSENS_ACCELEROMETER:
            world.needs_previous = True
        elif self._kind == _SENS.mjSENS_CONTACT:
            self._fields = _fields(int(model.sensor_intprm[self._id, 0]))
            if any(f not in _WIDTH for f in self._fields):
                self._refuse("with torque, tangent or velocity among its data")
            if int(model.sensor_intprm[self._id, 2]) != 1:
                self._refuse("with num above 1")
            sides = ((model.sensor_objtype, model.sensor_objid), (model.sensor_reftype, model.sensor_refid))
            self._first, self._second = (self._seats(int(kind[self._id]), int(i[self._id])) for kind, i in sides)
            world.needs_contacts = True
        elif self._kind == _SENS.mjSENS_TOUCH:
            body = int(model.site_bodyid[model.sensor_objid[self._id]])
            self._seats_of_site = self._seats(int(_OBJ.mjOBJ_BODY), body)
            world.needs_contacts = True
        elif self._kind not in _FROM_STATE:
            self._refuse(f"of type {self._kind.name}")

    def _refuse(self, what: str) -> None:
        raise RookeryError(
            f"the engine 'pybullet' cannot give sensor {self.name!r}, a sensor {what}: use engine 'mujoco'."
        )

    @property
    def data(self) -> Tensor:
        world = self._world
        if self._kind in _FROM_STATE:
            values = world.kinematics.derived().bind("sensordata")[:, self._columns]
        elif self._kind == _SENS.mjSENS_ACCELEROMETER:
            values = world.kinematics.acceleration(int(world.model.sensor_objid[self._id]))
        elif self._kind == _SENS.mjSENS_CONTACT:
            values = np.array([self._contact(world.contacts(i)) for i in range(world.num_envs)])
        else:
            values = np.array([self._touch(i) for i in range(world.num_envs)])
        cutoff = float(world.model.sensor_cutoff[self._id])
        if cutoff > 0 and self._kind != _SENS.mjSENS_CONTACT:
            values = np.clip(values, -cutoff, cutoff)
        return torch.from_numpy(values.astype(np.float32))

    def _seats(self, kind: int, obj: int) -> set[tuple[int, int]] | None:
        """(Bullet body, link) of the colliders that a side of a contact sensor means; None for any."""
        world = self._world
        model = self._world.model
        if kind == _OBJ.mjOBJ_UNKNOWN:
            return None
        if kind == _OBJ.mjOBJ_SITE:
            self._refuse("that watches a site")

        def wanted(body: int, geoms: list[int]) -> bool:
            if kind == _OBJ.mjOBJ_GEOM:
                return obj in geoms
            if kind == _OBJ.mjOBJ_BODY:
                return body == obj
            while body > 0 and body != obj:  # a subtree
                body = int(model.body_parentid[body])
            return body == obj

        seats = zip(world.built[0].seats, world.plan.colliders, strict=True)
        return {seat for seat, c in seats if wanted(c.body, c.geoms)}

    def _contact(self, points: list[Any]) -> np.ndarray:
        """Values in MuJoCo's layout, with the deepest contact standing for all, or their net force."""
        matched = []
        for q in points:
            a, b = (q[1], q[3]), (q[2], q[4])
            # Bullet's normal points from its B to its A; MuJoCo's from the sensor's first object to its second
            if _in(b, self._first) and _in(a, self._second):
                matched.append((q, 1.0))
            elif _in(a, self._first) and _in(b, self._second):
                matched.append((q, -1.0))
        out = []
        best = min(matched, key=lambda m: m[0][8], default=None)
        net = int(self._world.model.sensor_intprm[self._id, 1]) == _NETFORCE
        for f in self._fields:
            if best is None:
                out.append(np.zeros(_WIDTH[f]))
                continue
            q, sign = best
            if f == _DATA.mjCONDATA_FOUND:
                out.append(np.array([float(len(matched))]))
            elif f == _DATA.mjCONDATA_FORCE and net:
                out.append(sum((s * _force_on_a(c) for c, s in matched), np.zeros(3)))
            elif f == _DATA.mjCONDATA_FORCE:
                out.append(np.array([q[9], q[10], q[12]]))
            elif f == _DATA.mjCONDATA_DIST:
                out.append(np.array([q[8]]))
            elif f == _DATA.mjCONDATA_POS:
                out.append((np.array(q[5]) + np.array(q[6])) / 2)
            else:
                out.append(sign * np.array(q[7]))
        return np.concatenate(out)

    def _touch(self, i: int) -> np.ndarray:
        """Sum of the normal forces on the body whose line from the contact meets the site's volume."""
        model = self._world.model
        site = int(self._world.model.sensor_objid[self._id])
        batch = self._world.kinematics.derived()
        pos = batch.bind("site_xpos")[i, site]
        turn = batch.bind("site_xmat")[i, site].ravel()
        total = 0.0
        for q in self._world.contacts(i):
            on_a = _in((q[1], q[3]), self._seats_of_site)
            on_b = _in((q[2], q[4]), self._seats_of_site)
            if on_a == on_b:
                continue
            point = np.array(q[5] if on_a else q[6])
            along = np.array(q[7]) * (1.0 if on_a else -1.0)
            if mujoco.mju_rayGeom(pos, turn, model.site_size[site], point, along, int(model.site_type[site])) >= 0:
                total += q[9]
        return np.array([total])


def _fields(bits: int) -> list[mujoco.mjtConDataField]:
    return [f for f in (_DATA(i) for i in range(int(_DATA.mjNCONDATA))) if bits & (1 << int(f))]


def _in(seat: tuple[int, int], seats: set[tuple[int, int]] | None) -> bool:
    return seats is None or seat in seats


def _force_on_a(q: Any) -> np.ndarray:
    """World-frame force of a Bullet contact point on its body A."""
    return q[9] * np.array(q[7]) + q[10] * np.array(q[11]) + q[12] * np.array(q[13])
