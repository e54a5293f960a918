"""The `pybullet` engine: the same Scene on Bullet, an independent check of policies that were trained elsewhere.

One Bullet client a world, built from the scene's compiled MuJoCo model (pybullet_model, pybullet_build). The state is
kept in MuJoCo's layout (qpos, qvel), so views, rendering and everything that follows from positions and velocities are
the same as on `mujoco`; what differs is what should: integration, contacts, constraints, inertia bookkeeping.

Multirotors and balls fly by the leapfrog method, with the air of the middle of every Bullet step.

Known differences: contacts are rigid, with MuJoCo's bounce as a coefficient of restitution (none for links on joints where
it is below 0.2); joint servos are explicit torques (on more, smaller steps where that needs it); armature is a small disc
geared to its joint; margins and gaps of geoms are ignored. What Bullet has no counterpart for is refused by name when the
world is made.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.buffers import check_tensors
from rookery.sim.engines.contact_sensors import SummedContacts, columns_of
from rookery.sim.engines.pybullet import build as bullet
from rookery.sim.engines.pybullet import client as pybullet_client
from rookery.sim.engines.pybullet import model as pybullet_model
from rookery.sim.engines.pybullet import poses
from rookery.sim.engines.pybullet.actuation import BulletActuation, substeps
from rookery.sim.engines.pybullet.contact_sensors import ContactCounter, ContactReader, Watchers
from rookery.sim.engines.pybullet.forces import apply_local, apply_world, external_wrenches
from rookery.sim.engines.pybullet.kinematics import BulletKinematics
from rookery.sim.engines.pybullet.params import PyBulletParams
from rookery.sim.engines.pybullet.sensors import PyBulletSensor
from rookery.sim.engines.pybullet.views import PyBulletActuators, PyBulletBodies, PyBulletJoints
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.external_aerodynamics import external_aerodynamics
from rookery.sim.multirotor.free_bodies import FreeBodies
from rookery.sim.scene import Scene
from rookery.sim.world import Ids, World

_MAX_WORLDS = 256
_LIMIT = 1e6  # m, m/s, rad/s: positions and velocities beyond it have diverged
_STATE_PARTS = ("time", "qpos", "qvel", "mocap", "control", "wrench")


class PyBulletWorld(World):
    """N copies of a scene on Bullet, for evaluation: tens of worlds, not thousands.

    Args:
        scene: what is simulated.
        num_envs: N, at most 256 (each world is a client of its own, about 30 MB and 30 ms). `threads` is not used.

    Raises:
        RookeryError: too many worlds, pybullet is missing, or the scene has parts that Bullet cannot do.
    """

    engine = "pybullet"

    def __init__(self, scene: Scene, num_envs: int, threads: int = 0) -> None:
        if not 1 <= num_envs <= _MAX_WORLDS:
            raise RookeryError(
                f"the engine 'pybullet' holds 1 to {_MAX_WORLDS} worlds, got num_envs={num_envs}: it is for "
                "evaluation; train on 'rotor' or 'mujoco'."
            )
        self.model = model = scene.compile()
        self.num_envs = num_envs
        self.dt = float(model.opt.timestep)
        self.device = torch.device("cpu")
        self.plan = pybullet_model.read(model)
        self.actuation = BulletActuation(self.plan, num_envs)
        self.substeps = substeps(model)
        self._params = PyBulletParams(self)
        self.qpos = np.repeat(model.qpos0[None], num_envs, axis=0)
        self.qvel = np.zeros((num_envs, model.nv))
        self.control = np.zeros((num_envs, model.nu))
        self.peaks = np.zeros((num_envs, model.nu))  # N or N m, largest sizes of forces in the last step(k)
        self.wrench = np.zeros((num_envs, model.nbody, 6))
        self.time = np.zeros(num_envs)  # s
        placed = np.flatnonzero(model.body_mocapid >= 0)[np.argsort(model.body_mocapid[model.body_mocapid >= 0])]
        self._mocap_0 = np.concatenate((model.body_pos[placed], model.body_quat[placed]), axis=1)
        self.mocap = np.repeat(self._mocap_0[None], num_envs, axis=0)  # [N, nmocap, 7] m, wxyz
        self._com = np.repeat(model.body_ipos[None], num_envs, axis=0)  # m, body frame, as Bullet has them now
        self.torque = np.zeros((num_envs, model.nv))  # of joints, in the last Bullet step
        self.rows: np.ndarray | None = None  # [N, K, nu] controls of the next step
        self._flying = FreeBodies(scene, model, num_envs)
        self.wind = self._flying.wind
        self.aerodynamics = external_aerodynamics(self._flying)
        ahead = 0.5 * self.dt / self.substeps  # s, see poses.body_to_base
        self._ahead = dict.fromkeys(self._flying.ids.tolist(), ahead)
        self.scene = scene
        self._watchers = Watchers(self)
        self._failed = torch.zeros(0, dtype=torch.int64)
        self.version = 0
        self.needs_previous = False  # set by accelerometers
        self.needs_contacts = False  # set by contact and touch sensors
        self.previous: tuple[np.ndarray, np.ndarray] | None = None  # qpos, qvel before the last Bullet step
        self._unread = False  # Bullet has stepped since qpos and qvel were read
        self._dirty = np.zeros(num_envs, dtype=bool)  # qpos and qvel were written since Bullet had them
        self.kinematics = BulletKinematics(self)
        self._tables()
        self._p = pybullet_client.load()
        self._clients = pybullet_client.acquire(num_envs)
        self._release = weakref.finalize(self, pybullet_client.release, self._clients)
        self._release.atexit = False
        self.built = [self._build(i) for i in range(num_envs)]
        if (error := self.built[0].factor_error) > 0.05:
            warnings.warn(
                "Bullet multiplies one friction factor of each collider and cannot give all pairs of this scene MuJoCo's "
                f"friction: the worst is off by {100 * error:.0f} %.", stacklevel=2,
            )  # fmt: skip

    def _tables(self) -> None:
        """Addresses in qpos and qvel of each tree's base and of its joints, in Bullet's order of links."""
        m = self.model
        self._base = [int(m.body_jntadr[t.root]) if t.free else -1 for t in self.plan.trees]
        self._moving = [[k for k, link in enumerate(t.links) if link.joint >= 0] for t in self.plan.trees]
        joints = [[t.links[k].joint for k in ks] for t, ks in zip(self.plan.trees, self._moving, strict=True)]
        self._qadr = [m.jnt_qposadr[j].astype(int) if j else np.zeros(0, int) for j in joints]
        self._vadr = [m.jnt_dofadr[j].astype(int) if j else np.zeros(0, int) for j in joints]
        self.damped = [b for b in self.plan.at if self.plan.at[b][1] < 0 and m.dof_damping[m.body_dofadr[b]] > 0]
        self.compensated = [b for b in self.plan.at if m.body_gravcomp[b]]

    # --- views -------------------------------------------------------------------------------------------------------

    def bodies(self, names: Sequence[str]) -> PyBulletBodies:
        return PyBulletBodies(self, names)

    def joints(self, names: Sequence[str]) -> PyBulletJoints:
        return PyBulletJoints(self, names)

    def actuators(self, names: Sequence[str]) -> PyBulletActuators:
        return PyBulletActuators(self, names)

    def sensors(self, name: str) -> PyBulletSensor:
        return PyBulletSensor(self, name)

    def contact_sensor(self, geom: str, others: Sequence[str]) -> SummedContacts:
        columns = columns_of(self.scene.contact_pairs, geom, others)
        return SummedContacts(self._watchers.of(ContactReader), geom, others, columns)

    def contact_count(self, name: str) -> torch.Tensor:
        return self._watchers.of(ContactCounter).view(name)

    @property
    def params(self) -> PyBulletParams:
        return self._params

    def schedule(self, k: int) -> np.ndarray:
        """[N, k, nu] rows of controls for the next step of k physics steps, begun from what is held."""
        if self.rows is None or self.rows.shape[1] != k:
            self.rows = np.repeat(self.control[:, None], k, axis=1)
        return self.rows

    # --- stepping ----------------------------------------------------------------------------------------------------

    def step(self, k: int = 1) -> None:
        if self.rows is not None and self.rows.shape[1] != k:
            raise RookeryError(
                f"controls were given for {self.rows.shape[1]} physics steps, but step({k}) was called: give one row "
                "each."
            )
        self._flush()
        if self.wind is not None:
            self.wind.blow(k)
        bad = np.zeros(self.num_envs, dtype=bool)
        self._watchers.clear()
        self.peaks[:] = 0.0
        for i in range(k):
            for loop in self.inner_loops:
                loop(i)
            control = self.control if self.rows is None else self.rows[:, i]
            for s in range(self.substeps):
                self._bullet_step(control, bad)
                np.maximum(self.peaks, np.abs(self.actuation.force), out=self.peaks)
                self._watchers.take(i * self.dt + s * self.dt / self.substeps, self.dt / self.substeps)
        if self.rows is not None:
            self.control[:] = self.rows[:, -1]
            self.rows = None
        self._collect_failures(bad)

    def _bullet_step(self, control: np.ndarray, bad: np.ndarray) -> None:
        """One Bullet step in all worlds; a world whose forces are not finite is marked in `bad` and left alone."""
        dt = self.dt / self.substeps
        if self.actuation.feeds_back or self.damped:
            self.read()
        if self.aerodynamics is not None:
            self.read()
            self.aerodynamics.update(self.qpos, self.qvel, control, dt, self.wrench[:, self._flying.ids])
        if self.needs_previous:
            self.read()
            self.previous = (self.qpos.copy(), self.qvel.copy())
        self.torque = tau = self.actuation.forces(control, self.qpos, self.qvel, dt)
        sites = [(s.wrench @ self.actuation.force[:, s.columns, None])[..., 0] for s in self.actuation.sites]
        wrench = external_wrenches(self)
        bad |= ~np.isfinite(tau).all(axis=1) | ~np.isfinite(wrench).all(axis=(1, 2))
        for w in sites:
            bad |= ~np.isfinite(w).all(axis=1)
        pushed = [np.flatnonzero(w.any(axis=-1)).tolist() for w in wrench]
        for i in np.flatnonzero(~bad).tolist():
            client = self._clients[i]
            built = self.built[i]
            for s, w in zip(self.actuation.sites, sites, strict=True):
                apply_local(self._p, client, built, s.tree, s.link, w[i])
            for b in pushed[i]:
                apply_world(self._p, client, built, *self.plan.at[b], wrench[i, b])
            for t, ks in enumerate(self._moving):
                if ks:
                    links = [built.links[t][k] for k in ks]
                    self._p.setJointMotorControlArray(
                        built.trees[t], links, self._p.TORQUE_CONTROL, forces=tau[i, self._vadr[t]].tolist(),
                        physicsClientId=client,
                    )  # fmt: skip
            self._p.stepSimulation(physicsClientId=client)
        self.time += dt
        self._unread = True
        self.version += 1

    # --- state -------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Bring qpos and qvel up to date with Bullet."""
        if not self._unread:
            return
        self._unread = False
        for t, tree in enumerate(self.plan.trees):
            if tree.free:
                each = zip(self._clients, self.built, strict=True)
                raw = np.array([poses.read_base(self._p, c, b.trees[t]) for c, b in each])
                q, v = int(self.model.jnt_qposadr[self._base[t]]), int(self.model.jnt_dofadr[self._base[t]])
                com = self._com[:, tree.root]
                self.qpos[:, q : q + 7], self.qvel[:, v : v + 6] = poses.base_to_body(
                    self.plan, tree.root, com, raw, self._ahead.get(tree.root, 0.0)
                )
            if self._moving[t]:
                each = zip(self._clients, self.built, strict=True)
                states = np.array([poses.read_joints(self._p, c, b, t, self._moving[t]) for c, b in each])
                self.qpos[:, self._qadr[t]] = states[:, :, 0] + self.model.qpos0[self._qadr[t]]
                self.qvel[:, self._vadr[t]] = states[:, :, 1]

    def written(self, rows: np.ndarray) -> None:
        """qpos and qvel of these worlds were written."""
        self._dirty[rows] = True
        self._forget_previous(rows)
        self.version += 1

    def _forget_previous(self, rows: np.ndarray) -> None:
        if self.previous is not None:  # no velocity change across a write
            self.previous[0][rows] = self.qpos[rows]
            self.previous[1][rows] = self.qvel[rows]

    def _flush(self) -> None:
        """Hand written parameters and states to Bullet."""
        if self._params.stale.any():
            self.read()
            for i in np.flatnonzero(self._params.stale).tolist():
                self.built[i] = self._build(i)
                self._dirty[i] = True
            self._params.stale[:] = False
            self._flying.set_constants(self._params.fields)
        for i in np.flatnonzero(self._dirty).tolist():
            self._push_state(i)
        self._dirty[:] = False

    def _build(self, i: int) -> bullet.Built:
        constants = self._params.constants(i)
        self._com[i] = constants.com
        self.actuation.place(i, constants.com)
        return bullet.build(self._p, self._clients[i], self.plan, constants, self.dt / self.substeps)

    def _push_state(self, i: int) -> None:
        p = self._p
        client = self._clients[i]
        built = self.built[i]
        for t, tree in enumerate(self.plan.trees):
            uid = built.trees[t]
            if tree.free:
                q, v = int(self.model.jnt_qposadr[self._base[t]]), int(self.model.jnt_dofadr[self._base[t]])
                qpos = self.qpos[i : i + 1, q : q + 7]
                qvel = self.qvel[i : i + 1, v : v + 6]
                placed = self._com[i : i + 1, tree.root], qpos, qvel, self._ahead.get(tree.root, 0.0)
                base = poses.body_to_base(self.plan, tree.root, *placed)[0].tolist()
                p.resetBasePositionAndOrientation(uid, base[0:3], base[3:7], physicsClientId=client)
                p.resetBaseVelocity(uid, base[7:10], base[10:13], physicsClientId=client)
            elif (m := int(self.model.body_mocapid[tree.root])) >= 0:
                poses.write_mocap(p, client, uid, self.mocap[i, m], self._mocap_0[m])
            for k, q, v in zip(self._moving[t], self._qadr[t], self._vadr[t], strict=True):
                target = float(self.qpos[i, q] - self.model.qpos0[q])
                p.resetJointState(uid, built.links[t][k], target, float(self.qvel[i, v]), physicsClientId=client)
            for k, rotor in built.rotors[t]:
                speed = bullet.ROTOR_GEAR * float(self.qvel[i, self.model.jnt_dofadr[tree.links[k].joint]])
                p.resetJointState(uid, rotor, 0.0, speed, physicsClientId=client)

    def set_gravity(self, rows: np.ndarray) -> None:
        """Hand these worlds' gravity to Bullet."""
        for i in rows:
            self._p.setGravity(*map(float, self._params.arrays["gravity"][i]), physicsClientId=self._clients[i])
        self._flying.set_constants(self._params.fields)

    def reset(self, ids: Ids = None) -> None:
        rows = np.arange(self.num_envs) if ids is None else ids.cpu().numpy()
        self.read()
        self.qpos[rows] = self.model.qpos0
        self.mocap[rows] = self._mocap_0
        for array in (self.time, self.qvel, self.control, self.wrench, self.actuation.act, self.actuation.force):
            array[rows] = 0.0
        if self.rows is not None:
            self.rows[rows] = 0.0
        if self.wind is not None:
            self.wind.begin(rows)
        self.written(rows)

    def forward(self, ids: Ids = None) -> None:
        self._flush()
        if self.needs_contacts:
            for i in range(self.num_envs) if ids is None else ids.tolist():
                self._p.performCollisionDetection(physicsClientId=self._clients[i])
        self.version += 1

    def _collect_failures(self, bad: np.ndarray) -> None:
        self.read()
        state = np.concatenate((self.qpos, self.qvel), axis=1)
        bad |= ~(np.abs(state) < _LIMIT).all(axis=1)  # also true of NaN
        rows = np.flatnonzero(bad)
        self._failed = torch.from_numpy(rows.astype(np.int64))
        if len(rows):
            self.failures += len(rows)
            self._watchers.clear(self._failed)
            self.peaks[rows] = 0.0
            for i in rows:  # anew, since NaN can stay in Bullet's broad phase and caches
                self.built[i] = self._build(int(i))
            self.reset(self._failed)
            self._flush()

    @property
    def failed(self) -> Tensor:
        return self._failed

    def snapshot(self) -> dict[str, Tensor]:
        """See World. Bullet's warm starts are not in it: after `restore` contacts differ in the last digits."""
        self.read()
        out = {name: torch.from_numpy(getattr(self, name).copy()) for name in _STATE_PARTS}
        out |= {"act": torch.from_numpy(self.actuation.act.copy()), "failures": torch.tensor(self.failures)}
        out.update({f"params.{k}": torch.from_numpy(v.copy()) for k, v in self._params.arrays.items()})
        return out | self._wind_snapshot()

    def check_snapshot(self, snapshot: dict[str, Tensor]) -> None:
        if "qpos" not in snapshot or tuple(snapshot["qpos"].shape) != self.qpos.shape:
            raise RookeryError(
                f"the snapshot is not of {self.num_envs} worlds of this scene on 'pybullet': use the same task and num_envs."
            )
        arrays = {name: getattr(self, name) for name in _STATE_PARTS} | {"act": self.actuation.act}
        arrays |= {f"params.{name}": array for name, array in self._params.arrays.items()}
        own = {"failures": torch.tensor(0)} | {name: torch.from_numpy(array) for name, array in arrays.items()}
        check_tensors(own | self._wind_snapshot(), snapshot)

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        self.check_snapshot(snapshot)
        for name in _STATE_PARTS:
            getattr(self, name)[:] = snapshot[name].numpy()
        self.actuation.act[:] = snapshot["act"].numpy()
        for name, values in self._params.arrays.items():
            values[:] = snapshot[f"params.{name}"].numpy()
        self._restore_wind(snapshot)
        self.failures = int(snapshot["failures"])
        self.rows = None
        self._unread = False
        self._params.stale[:] = True
        self.written(np.arange(self.num_envs))
        self.forward()

    def contacts(self, i: int) -> list[Any]:
        """Bullet's contact points of world i that touch or press (pybullet's tuples)."""
        points = self._p.getContactPoints(physicsClientId=self._clients[i])
        return [q for q in points if q[8] <= 0.0 or q[9] > 0.0]

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        self.read()
        data = mujoco.MjData(self.model) if data is None else data
        data.time = self.time[i]
        data.qpos[:] = self.qpos[i]
        data.qvel[:] = self.qvel[i]
        data.ctrl[:] = self.control[i]
        data.mocap_pos[:] = self.mocap[i, :, :3]
        data.mocap_quat[:] = self.mocap[i, :, 3:]
        if self.model.na:
            data.act[:] = self.actuation.act[i]
        mujoco.mj_forward(self.model, data)
        return data

    def close(self) -> None:
        self.inner_loops = ()
        self._release()
