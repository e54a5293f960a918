"""Multirotors and balls of a scene in the memory layout of the `rotor` engine, for engines that keep MuJoCo's.

What those engines add to free bodies, the air (see aerodynamics) and the impacts of balls (see ball_impacts), is computed by
the compiled functions of `rotor`, on whole blocks of LANES worlds, so that results do not depend on the number of worlds.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of compiled functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np
from numba import njit

from rookery.assets.scenery import restitution
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.layout import LANES, POS, QUAT, VEL
from rookery.sim.multirotor.winds import Wind
from rookery.sim.scene import Scene

# columns of `places`: where a body's coordinates and velocities begin, and of a drone the controls of its rotors
Q = 0
V = 1
ROTORS = 2
ACTUATORS = ("rotor_1", "rotor_2", "rotor_3", "rotor_4", "reaction")
_SIX = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])  # xx, yy, zz, xy, xz, yz
loop = njit(cache=True, nogil=True, error_model="numpy")


class FreeBodies:
    """The multirotors and balls of a scene in N worlds.

    Args:
        scene: says what flies and which effects there are.
        model: its compiled model.
        num_envs: N.

    Attributes:
        drones: A, how many of the bodies are drones.
        ids: [B] of the bodies in the model, drones first.
        places: [B, ROTORS + 5] columns in MuJoCo's arrays.
        wind: in which the drones fly; None without any.
        state, varied, worlds, types: as the `rotor` engine has them, see rookery.sim.multirotor.layout.
    """

    def __init__(self, scene: Scene, model: mujoco.MjModel, num_envs: int) -> None:
        flying = scene.extension(Aeronautics)
        self.num_envs = num_envs
        self.effects = flying.effects
        self._model = model
        names = sorted(flying.drones, key=lambda name: int(model.body(f"{name}/base").id))
        kinds = [flying.drones[name] for name in names]
        self.drones = len(kinds)
        drones = [model.body(f"{name}/base").id for name in names]
        self.balls = [b for b in range(1, model.nbody) if b not in drones and _is_ball(model, b)]
        self.ids = np.array(drones + self.balls, dtype=int)
        self._ground = _level_ground(model)
        self._geoms = [colliders_of(model, int(b)) for b in self.ids]
        joints = model.body_jntadr[self.ids]
        self.places = np.zeros((len(self.ids), ROTORS + 5), dtype=int)
        self.places[:, Q] = model.jnt_qposadr[joints]
        self.places[:, V] = model.jnt_dofadr[joints]
        for a, name in enumerate(names):
            self.places[a, ROTORS:] = [model.actuator(f"{name}/{u}").id for u in ACTUATORS]
        blocks = -(-num_envs // LANES)
        self.state = np.zeros((blocks, len(self.ids), at.BODY * LANES))
        self.state[:, :, QUAT * LANES : (QUAT + 1) * LANES] = 1.0
        self.varied = np.zeros((blocks, len(self.ids), at.VARIED * LANES))
        self.worlds = np.zeros((blocks, at.WORLD * LANES))
        self.types = np.array([at.type_row(d) for d in kinds]).reshape(len(kinds), at.TYPE)
        fx = self.effects
        for a, d in enumerate(kinds):
            self._put(a, at.THRUST_FACTOR, 1.0)
            self._put(a, at.TORQUE_FACTOR, 1.0)
            for axis in range(3):
                self._put(a, at.BODY_DRAG + axis, d.body_drag[axis] * fx.body_drag)
                self._put(a, at.ROTOR_DRAG + axis, d.rotor_drag[axis] * fx.rotor_drag)
            self._put(a, at.FULL_SPEED, d.max_rotor_speed)
            self._put(a, at.SPIN, d.rotor_inertia * d.max_rotor_speed * fx.gyroscopic)
            self._put(a, at.GROUND_GAIN, d.ground_effect_gain * fx.ground_effect)
        lanes = self.worlds.reshape(blocks, at.WORLD, LANES)
        for first in (at.MEAN_WIND, at.AIR):
            lanes[:, first : first + 3] = np.array(fx.mean_wind)[:, None]
        self.wind: Wind | None = None
        if kinds:
            self.wind = Wind(self.worlds, fx, float(model.qpos0[self.places[:, Q] + 2].mean()), scene.dt)
            self.wind.follow()
        self.set_constants({})

    def set_constants(self, fields: Mapping[str, np.ndarray]) -> None:
        """Take over masses, inertias, gravity, friction, restitution and the height of the ground.

        Args:
            fields: [N, ...] fields of MjModel, by name, that differ between worlds; others are the model's.
        """
        m = self._model
        mass = fields.get("body_mass", m.body_mass[None])
        inertia = fields.get("body_inertia", m.body_inertia[None])
        gravity = fields.get("opt.gravity", m.opt.gravity[None])
        friction = fields.get("geom_friction", m.geom_friction[None])
        solref = fields.get("geom_solref", m.geom_solref[None])
        for axis in range(3):
            lanes = self.worlds.reshape(-1, at.WORLD, LANES)
            lanes[:, at.GRAVITY + axis] = self._filled(gravity[:, axis]).reshape(-1, LANES)
        if self._ground >= 0 and "geom_pos" in fields:
            raised = fields["geom_pos"][:, self._ground, 2] - m.geom_pos[self._ground, 2]
            self.worlds.reshape(-1, at.WORLD, LANES)[:, at.GROUND] = self._filled(raised).reshape(-1, LANES)
        for i, b in enumerate(self.ids):
            self._put(i, at.MASS, mass[:, b])
            self._put(i, at.INV_MASS, 1.0 / mass[:, b])
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, m.body_iquat[b])
            r = turn.reshape(3, 3)
            tensor = np.einsum("ij,nj,kj->nik", r, inertia[:, b], r)
            inverse = np.einsum("ij,nj,kj->nik", r, 1.0 / inertia[:, b], r)
            for f, (row, column) in enumerate(zip(*_SIX, strict=True)):
                self._put(i, at.INERTIA + f, tensor[:, row, column])
                self._put(i, at.INV_INERTIA + f, inverse[:, row, column])
            if self._geoms[i]:
                self._put(i, at.FRICTION, friction[:, self._geoms[i], 0].max(axis=1))
        for i, b in enumerate(self.balls, self.drones):
            geom = self._geoms[i][0]
            radius = float(m.geom_size[geom, 0])
            drag, lift = self.effects.ball_constants(1.0, radius)
            self._put(i, at.BALL_RADIUS, radius)
            self._put(i, at.BALL_DRAG, drag / mass[:, b])
            self._put(i, at.BALL_LIFT, lift / mass[:, b])
            self._put(i, at.RESTITUTION, np.array([restitution(s) for s in solref[:, geom]]))

    def _put(self, body: int, field: int, values: float | np.ndarray) -> None:
        """One value of a body, or [N] (or [1], for all) of them."""
        lanes = self.varied[:, body].reshape(-1, at.VARIED, LANES)
        lanes[:, field] = self._filled(np.atleast_1d(values)).reshape(-1, LANES)

    def _filled(self, values: np.ndarray) -> np.ndarray:
        """[N] or [1] values as [blocks * LANES]; the lanes that nobody reads get the last."""
        out = np.empty(len(self.varied) * LANES)
        out[:] = values[-1]
        if len(values) > 1:
            out[: self.num_envs] = values
        return out


def colliders_of(model: mujoco.MjModel, body: int) -> list[int]:
    """Geoms of a body that collide."""
    first = int(model.body_geomadr[body])
    count = int(model.body_geomnum[body])
    return [g for g in range(first, first + count) if model.geom_contype[g] or model.geom_conaffinity[g]]


def _level_ground(model: mujoco.MjModel) -> int:
    """The first level plane of the world that collides, or -1."""
    for g in colliders_of(model, 0):
        turned = np.abs(model.geom_quat[g, 1:3]).max() > 1e-9
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_PLANE and not turned:
            return g
    return -1


def _is_ball(model: mujoco.MjModel, body: int) -> bool:
    """A free body with one collider, a sphere."""
    joint = model.body_jntadr[body]
    geoms = colliders_of(model, body)
    free = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
    return bool(free and len(geoms) == 1 and model.geom_type[geoms[0]] == mujoco.mjtGeom.mjGEOM_SPHERE)


@loop
def drift(qpos, qvel, places, time):
    """Move the bodies for some time (s, negative: back) with the velocities that they have."""
    for n in range(len(qpos)):
        for b in range(len(places)):
            q, v = places[b, Q], places[b, V]
            for f in range(3):
                qpos[n, q + f] += time * qvel[n, v + f]
            x, y, z = 0.5 * time * qvel[n, v + 3], 0.5 * time * qvel[n, v + 4], 0.5 * time * qvel[n, v + 5]
            square = x * x + y * y + z * z  # the series are those of rookery.sim.multirotor.flight.turn
            c = 1.0 - square * (0.5 - square * (1.0 / 24.0 - square * (1.0 / 720.0)))
            s = 1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0 - square * (1.0 / 5040.0)))
            x, y, z = s * x, s * y, s * z
            w, i, j, k = qpos[n, q + 3], qpos[n, q + 4], qpos[n, q + 5], qpos[n, q + 6]
            qpos[n, q + 3] = c * w - x * i - y * j - z * k
            qpos[n, q + 4] = c * i + x * w + z * j - y * k
            qpos[n, q + 5] = c * j + y * w + x * k - z * i
            qpos[n, q + 6] = c * k + z * w + y * i - x * j


@loop
def load(qpos, qvel, places, state):
    """States of all worlds to the lanes of rows [blocks, B, >= STATE * LANES].

    Copies only: arrays of one world and of many have other types to the compiler, which makes code of its own for each, and
    what computes must be the same.
    """
    for n in range(len(qpos)):
        block, i = n // LANES, n % LANES
        for b in range(len(places)):
            d = state[block, b]
            q, v = places[b, Q], places[b, V]
            for f in range(7):
                d[(POS + f) * LANES + i] = qpos[n, q + f]
            for f in range(6):
                d[(VEL + f) * LANES + i] = qvel[n, v + f]


@loop
def store(state, places, changed, qpos, qvel):
    """The reverse for the worlds where `changed` [N] is not 0."""
    for n in range(len(qpos)):
        if changed[n] == 0:
            continue
        block, i = n // LANES, n % LANES
        for b in range(len(places)):
            d = state[block, b]
            q, v = places[b, Q], places[b, V]
            for f in range(7):
                qpos[n, q + f] = d[(POS + f) * LANES + i]
            for f in range(6):
                qvel[n, v + f] = d[(VEL + f) * LANES + i]
