"""Views of the `pybullet` engine: they read and write the world's qpos and qvel, kept in MuJoCo's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.engines.mujoco.views import object_ids
from rookery.sim.engines.pybullet.model import conjugate, rotate
from rookery.sim.errors import RookeryError
from rookery.sim.world import Actuators, Bodies, Ids, Joints

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld

_OBJ = mujoco.mjtObj
_JNT = mujoco.mjtJoint


def _rows(world: PyBulletWorld, ids: Ids) -> np.ndarray:
    return np.arange(world.num_envs) if ids is None else ids.cpu().numpy()


class PyBulletBodies(Bodies):
    """See Bodies. Floating and mocap bodies are read from the state, others from MuJoCo's kinematics at Bullet's state."""

    def __init__(self, world: PyBulletWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        model = world.model
        self.ids = np.array(object_ids(model, _OBJ.mjOBJ_BODY, "body", names), dtype=int)
        joints = model.body_jntadr[self.ids]
        self._free = all(j >= 0 and model.jnt_type[j] == _JNT.mjJNT_FREE for j in joints)
        self._state = torch.zeros(world.num_envs, len(names), 13)
        self._version = -1
        self._mocap = model.body_mocapid[self.ids]
        self._placed = bool((self._mocap >= 0).all())
        if self._free:
            self._q = model.jnt_qposadr[joints][:, None] + np.arange(7)
            self._v = model.jnt_dofadr[joints][:, None] + np.arange(6)

    @property
    def state(self) -> Tensor:
        world = self._world
        if self._version != world.version:
            if self._free:
                world.read()
                values = np.concatenate((world.qpos[:, self._q], world.qvel[:, self._v]), axis=-1)
            elif self._placed:
                values = np.pad(world.mocap[:, self._mocap], ((0, 0), (0, 0), (0, 6)))
            else:
                values = self._derived()
            self._state.copy_(torch.from_numpy(values))
            self._version = world.version
        return self._state

    def _derived(self) -> np.ndarray:
        pos, quat, velocity = self._world.kinematics.frames(self.ids)
        angular = rotate(conjugate(quat), velocity[..., 0:3])
        return np.concatenate((pos, quat, velocity[..., 3:6], angular), axis=-1)

    def set_state(self, ids: Ids, state: Tensor) -> None:
        if not (self._free or self._placed):
            raise RookeryError(
                f"bodies {list(self.names)} are not all free: only free and mocap bodies take a pose; write joints."
            )
        rows = _rows(self._world, ids)
        values = state.detach().cpu().numpy().astype(np.float64)
        self._world.read()
        quat = values[..., 3:7] / np.linalg.norm(values[..., 3:7], axis=-1, keepdims=True)
        pose = np.concatenate((values[..., 0:3], quat), axis=-1)
        if self._placed:
            self._world.mocap[rows[:, None], self._mocap] = pose
            self._world.written(rows)
            return
        self._world.qpos[rows[:, None, None], self._q] = pose
        self._world.qvel[rows[:, None, None], self._v] = values[..., 7:13]
        self._world.written(rows)

    def set_wrench(self, wrench: Tensor, ids: Ids = None) -> None:
        rows = _rows(self._world, ids)
        self._world.wrench[rows[:, None], self.ids] = wrench.detach().cpu().numpy()


class PyBulletJoints(Joints):
    """See Joints."""

    def __init__(self, world: PyBulletWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        model = world.model
        ids = np.array(object_ids(model, _OBJ.mjOBJ_JOINT, "joint", names), dtype=int)
        for name, j in zip(names, ids, strict=True):
            if int(model.jnt_type[j]) not in (int(_JNT.mjJNT_HINGE), int(_JNT.mjJNT_SLIDE)):
                raise RookeryError(f"joint {name!r} is not a hinge or slide: read its body instead.")
        self._j = ids
        self._q = model.jnt_qposadr[ids]
        self._v = model.jnt_dofadr[ids]

    @property
    def pos(self) -> Tensor:
        self._world.read()
        return torch.from_numpy(self._world.qpos[:, self._q].astype(np.float32))

    @property
    def vel(self) -> Tensor:
        self._world.read()
        return torch.from_numpy(self._world.qvel[:, self._v].astype(np.float32))

    def keep_torque(self) -> None:
        """They are always kept."""

    @property
    def torque(self) -> Tensor:
        gravity = np.stack([self._world.mj_data(i).qfrc_gravcomp[self._v] for i in range(self._world.num_envs)])
        torque = self._world.torque[:, self._v] + self._world.model.jnt_actgravcomp[self._j] * gravity
        return torch.from_numpy(torque.astype(np.float32))

    def set_state(self, ids: Ids, pos: Tensor | None = None, vel: Tensor | None = None) -> None:
        rows = _rows(self._world, ids)
        self._world.read()
        if pos is not None:
            self._world.qpos[rows[:, None], self._q] = pos.detach().cpu().numpy()
        if vel is not None:
            self._world.qvel[rows[:, None], self._v] = vel.detach().cpu().numpy()
        self._world.written(rows)


class PyBulletActuators(Actuators):
    """See Actuators."""

    def __init__(self, world: PyBulletWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        self._ids = np.array(object_ids(world.model, _OBJ.mjOBJ_ACTUATOR, "actuator", names), dtype=int)

    @property
    def force(self) -> Tensor:
        return torch.from_numpy(self._world.actuation.force[:, self._ids].astype(np.float32))

    def keep_peaks(self) -> None:
        """Peaks are always kept."""

    @property
    def peak(self) -> Tensor:
        return torch.from_numpy(self._world.peaks[:, self._ids].astype(np.float32))

    @property
    def control(self) -> Tensor:
        return torch.from_numpy(self._world.control[:, self._ids].astype(np.float32))

    def set_control(self, control: Tensor) -> None:
        n, u = self._world.num_envs, len(self.names)
        values = control.detach().cpu().numpy()
        if control.dim() == 3 and control.shape[0] == n and control.shape[2] == u:
            self._world.schedule(control.shape[1])[:, :, self._ids] = values
        elif control.shape == (n, u):
            self._world.control[:, self._ids] = values
            if self._world.rows is not None:
                self._world.rows[:, :, self._ids] = values[:, None]
        else:
            raise RookeryError(f"controls must be [{n}, {u}] or [{n}, K, {u}], got {tuple(control.shape)}.")
