"""Quantities that follow from positions and velocities: frames of bodies and sensors, as MuJoCo computes them from the same
state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np
from mujoco.batch import Batch

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld

_DERIVED = ("sensordata", "xpos", "xquat", "cvel", "subtree_com", "site_xpos", "site_xmat")


class BulletKinematics:
    """MuJoCo's kinematics at the present state of a world's copies, computed when something reads it."""

    def __init__(self, world: PyBulletWorld) -> None:
        self._world = world
        self._batch: Batch | None = None
        self._version = -1

    def derived(self) -> Batch:
        """MuJoCo's kinematics and sensors of positions and velocities at the present state of all worlds."""
        if self._batch is None:
            self._batch = Batch(self._world.model, self._world.num_envs, 1)
        if self._version != self._world.version:
            self._world.read()
            self._evaluate(self._world.qpos, self._world.qvel)
            self._version = self._world.version
        return self._batch

    def _evaluate(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        assert self._batch is not None
        for name in _DERIVED:
            self._batch.bind(name)
        self._batch.bind("qpos")[:] = qpos
        self._batch.bind("qvel")[:] = qvel
        self._batch.bind("ctrl")[:] = self._world.control
        if self._world.mocap.shape[1]:
            self._batch.bind("mocap_pos")[:] = self._world.mocap[..., :3]
            self._batch.bind("mocap_quat")[:] = self._world.mocap[..., 3:]
        self._batch.forward(stage=int(mujoco.mjtStage.mjSTAGE_VEL.value))

    def frames(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bodies' positions [N, B, 3], quaternions [N, B, 4], and velocities [N, B, 6]: angular, then linear of the
        frame's origin, both world."""
        batch = self.derived()
        pos = batch.bind("xpos")[:, ids]
        return pos.copy(), batch.bind("xquat")[:, ids].copy(), self._velocity(batch, ids, pos)

    def _velocity(self, batch: Batch, ids: np.ndarray, pos: np.ndarray) -> np.ndarray:
        # cvel is taken at the centre of mass of the whole tree
        cvel = batch.bind("cvel")[:, ids]
        com = batch.bind("subtree_com")[:, self._world.model.body_rootid[ids]]
        angular = cvel[..., 0:3]
        return np.concatenate((angular, cvel[..., 3:6] + np.cross(angular, pos - com)), axis=-1)

    def acceleration(self, site: int) -> np.ndarray:
        """[N, 3] m/s^2, site frame: what an accelerometer reads there; just after a write of the state, 1 g upwards."""
        gravity = self._world.params.arrays["gravity"]
        body = np.array([int(self._world.model.site_bodyid[site])])
        batch = self.derived()
        rotation = batch.bind("site_xmat")[:, site].reshape(-1, 3, 3).copy()
        now = self._velocity(batch, body, batch.bind("site_xpos")[:, [site]])[:, 0, 3:6]
        change = np.zeros_like(now)
        if self._world.previous is not None:
            self._evaluate(*self._world.previous)
            change = now - self._velocity(batch, body, batch.bind("site_xpos")[:, [site]])[:, 0, 3:6]
            self._version = -1
        return np.einsum("nji,nj->ni", rotation, change / (self._world.dt / self._world.substeps) - gravity)
