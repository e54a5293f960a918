"""Views of the `mujoco` engine: names to columns of the batch, once; then tensors at every read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.world import Actuators, Bodies, EngineSensor, Ids, Joints

if TYPE_CHECKING:
    from rookery.sim.engines.mujoco.world import MujocoWorld

_OBJ = mujoco.mjtObj
_CHANGES_ONLY_BY_CALL = -1
Columns = slice | np.ndarray
"""Columns of the batch's arrays."""


def object_ids(model: mujoco.MjModel, kind: mujoco.mjtObj, what: str, names: Sequence[str]) -> list[int]:
    """Ids of named model elements; an unknown name is an error with its nearest match."""
    count = {
        _OBJ.mjOBJ_BODY: model.nbody,
        _OBJ.mjOBJ_JOINT: model.njnt,
        _OBJ.mjOBJ_ACTUATOR: model.nu,
        _OBJ.mjOBJ_SENSOR: model.nsensor,
        _OBJ.mjOBJ_GEOM: model.ngeom,
    }[kind]
    table = {mujoco.mj_id2name(model, kind, i): i for i in range(count)}
    for name in names:
        if name not in table:
            raise unknown(what, name, [n for n in table if n])
    return [table[n] for n in names]


def _columns(addresses: Sequence[int], width: int) -> Columns:
    """Columns of several blocks of one width: a slice where they lie side by side, else an index."""
    if all(b - a == width for a, b in zip(addresses, addresses[1:], strict=False)):
        return slice(addresses[0], addresses[0] + width * len(addresses))
    return np.array([a + i for a in addresses for i in range(width)])


class MujocoBodies(Bodies):
    """See Bodies. Free bodies are read from qpos and qvel, mocap bodies from their poses, others from MuJoCo's kinematics."""

    def __init__(self, world: MujocoWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        model = world.model
        batch = world.batch
        self.ids = object_ids(model, _OBJ.mjOBJ_BODY, "body", names)
        joints = [int(model.body_jntadr[b]) for b in self.ids]
        self._free = all(j >= 0 and model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE for j in joints)
        self._state = torch.zeros(world.num_envs, len(names), 13)
        self._rows = self._state.numpy()
        self._version = _CHANGES_ONLY_BY_CALL
        self._xfrc = torch.from_numpy(batch.bind("xfrc_applied"))
        self._mocap = [int(model.body_mocapid[b]) for b in self.ids]
        self._placed = all(m >= 0 for m in self._mocap)
        if self._placed:
            self._places = batch.bind("mocap_pos"), batch.bind("mocap_quat")
        elif self._free:
            self._qpos = batch.bind("qpos")
            self._qvel = batch.bind("qvel")
            self._qcols = _columns([int(model.jnt_qposadr[j]) for j in joints], 7)
            self._vcols = _columns([int(model.jnt_dofadr[j]) for j in joints], 6)
        else:
            self._roots = [int(model.body_rootid[b]) for b in self.ids]

    @property
    def state(self) -> Tensor:
        if self._version != self._world.version:
            if self._free:
                n, b = self._rows.shape[:2]
                self._rows[..., 0:7] = self._qpos[:, self._qcols].reshape(n, b, 7)
                self._rows[..., 7:13] = self._qvel[:, self._vcols].reshape(n, b, 6)
            elif self._placed:
                self._rows[..., 0:3] = self._places[0][:, self._mocap]
                self._rows[..., 3:7] = self._places[1][:, self._mocap]
            else:
                self._read_derived()
            self._version = self._world.version
        return self._state

    def _read_derived(self) -> None:
        # here and not at the start: who only pushes a body does not pay for kinematics, nor for copies of all bodies' poses
        xpos, xmat, xquat, cvel, com = self._world.derived("xpos", "xmat", "xquat", "cvel", "subtree_com")
        # cvel is the spatial velocity (rotation first) in world axes, taken at the centre of mass of the whole tree
        ang = cvel[:, self.ids, 0:3]
        lin = cvel[:, self.ids, 3:6]
        pos = xpos[:, self.ids]
        lin = lin + np.cross(ang, pos - com[:, self._roots])
        mat = xmat[:, self.ids].reshape(*pos.shape[:2], 3, 3)
        ang_body = np.einsum("nbij,nbi->nbj", mat, ang)
        self._state.copy_(torch.from_numpy(np.concatenate((pos, xquat[:, self.ids], lin, ang_body), axis=-1)))

    def set_state(self, ids: Ids, state: Tensor) -> None:
        rows = np.arange(self._world.num_envs) if ids is None else ids.numpy()
        values = state.numpy()
        if self._placed:
            self._places[0][rows[:, None], self._mocap] = values[..., 0:3]
            self._places[1][rows[:, None], self._mocap] = values[..., 3:7]
            self._world.version += 1
            return
        if not self._free:
            raise RookeryError(
                f"bodies {list(self.names)} are not all free: only free and mocap bodies take a pose; write joints."
            )
        _write(self._qpos, rows, self._qcols, values[..., 0:7].reshape(len(rows), -1))
        _write(self._qvel, rows, self._vcols, values[..., 7:13].reshape(len(rows), -1))
        self._world.version += 1

    def set_wrench(self, wrench: Tensor, ids: Ids = None) -> None:
        if ids is None:
            self._xfrc[:, self.ids] = wrench.to(torch.float64)
        else:
            self._xfrc[ids[:, None], self.ids] = wrench.to(torch.float64)


def _write(target: np.ndarray, rows: np.ndarray, columns: Columns, values: np.ndarray) -> None:
    if isinstance(columns, slice):
        target[rows, columns] = values
    else:
        target[rows[:, None], columns] = values


def _single(values: np.ndarray) -> Tensor:
    """A float32 tensor of the batch's numbers."""
    return torch.from_numpy(values.astype(np.float32, order="C"))


class MujocoJoints(Joints):
    """See Joints."""

    def __init__(self, world: MujocoWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        model = world.model
        ids = object_ids(model, _OBJ.mjOBJ_JOINT, "joint", names)
        for name, j in zip(names, ids, strict=True):
            # an enum equals its number, but `in` does not find it: numbers on both sides
            if int(model.jnt_type[j]) not in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)):
                raise RookeryError(f"joint {name!r} is not a hinge or slide: read its body instead.")
        self._qpos = world.batch.bind("qpos")
        self._qvel = world.batch.bind("qvel")
        self._q = _columns([int(model.jnt_qposadr[j]) for j in ids], 1)
        self._v = _columns([int(model.jnt_dofadr[j]) for j in ids], 1)

    @property
    def pos(self) -> Tensor:
        return _single(self._qpos[:, self._q])

    @property
    def vel(self) -> Tensor:
        return _single(self._qvel[:, self._v])

    def keep_torque(self) -> None:
        self._world.batch.bind("qfrc_actuator")

    @property
    def torque(self) -> Tensor:
        return _single(self._world.batch.bind("qfrc_actuator")[:, self._v])

    def set_state(self, ids: Ids, pos: Tensor | None = None, vel: Tensor | None = None) -> None:
        rows = np.arange(self._world.num_envs) if ids is None else ids.numpy()
        if pos is not None:
            _write(self._qpos, rows, self._q, pos.numpy())
        if vel is not None:
            _write(self._qvel, rows, self._v, vel.numpy())
        self._world.version += 1


class MujocoActuators(Actuators):
    """See Actuators."""

    def __init__(self, world: MujocoWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        ids = object_ids(world.model, _OBJ.mjOBJ_ACTUATOR, "actuator", names)
        self._cols = _columns(ids, 1)
        self._ctrl = world.batch.bind("ctrl")
        self._force = world.batch.bind("actuator_force")

    @property
    def force(self) -> Tensor:
        return _single(self._force[:, self._cols])

    def keep_peaks(self) -> None:
        self._world.keep_peaks()

    @property
    def peak(self) -> Tensor:
        assert self._world.peaks is not None, "keep_peaks was not called"
        return _single(self._world.peaks[:, self._cols])

    @property
    def control(self) -> Tensor:
        return _single(self._ctrl[:, self._cols])

    def set_control(self, control: Tensor) -> None:
        n, u = self._world.num_envs, len(self.names)
        if control.dim() == 3 and control.shape[0] == n and control.shape[2] == u:
            rows = self._world.schedule(control.shape[1], begin=u < self._world.model.nu)
            rows[:, :, self._cols] = control.numpy()
        elif control.shape == (n, u):
            values = control.numpy()
            self._ctrl[:, self._cols] = values
            self._world.hold(self._cols, values)
        else:
            raise RookeryError(f"controls must be [{n}, {u}] or [{n}, K, {u}], got {tuple(control.shape)}.")


class MujocoSensor(EngineSensor):
    """See EngineSensor."""

    def __init__(self, world: MujocoWorld, name: str) -> None:
        self.name = name
        self._world = world
        (i,) = object_ids(world.model, _OBJ.mjOBJ_SENSOR, "sensor", [name])
        self.id = i
        start = int(world.model.sensor_adr[i])
        dim = int(world.model.sensor_dim[i])
        self._data = world.batch.bind("sensordata")[:, start : start + dim]

    @property
    def data(self) -> Tensor:
        return _single(self._data)
