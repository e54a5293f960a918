"""Aerodynamics on engines that have none inside (mujoco, pybullet): wrenches of the air on multirotors and balls.

At the beginning of each `World.step(k)`, drag, ground effect, gyroscopic torque, wakes and the lift and drag of balls follow
from the states and from the thrusts of the first physics step, by the functions of the `rotor` engine; they are then held for
the k steps. (`rotor` has them anew in every physics step. In 10 ms that changes a flight by fractions of a millimetre.)

Gusts and the battery's sag are inside the `rotor` engine only: the wind here is its mean, and rotors reach full speed always.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of compiled functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import mujoco
import numpy as np
from numba import njit

from rookery.sim.engines.rotor import aero, flight
from rookery.sim.engines.rotor import layout as at
from rookery.sim.engines.rotor.cascade import speed_for_thrust
from rookery.sim.engines.rotor.extension import Aeronautics
from rookery.sim.engines.rotor.layout import LANES
from rookery.sim.engines.rotor.step import NO_WAKE, WAKES
from rookery.sim.engines.rotor.step import _wakes as wakes
from rookery.sim.scene import Scene

# columns of `places`: where a body's coordinates and velocities begin, and of a drone the controls of its rotors
_Q = 0
_V = 1
_ROTORS = 2
_loop = njit(cache=True, nogil=True, error_model="numpy")


class ExternalAerodynamics:
    """Wrenches of the air on the multirotors and balls of a scene, in N worlds.

    Args:
        scene: says what flies and which effects there are.
        model: its compiled model.
        num_envs: N.

    Attributes:
        bodies: [B] ids of the bodies in the model, drones first.
        wrench: [N, B, 6] N, N m, world frame, at the centres of mass; see `update`.
    """

    def __init__(self, scene: Scene, model: mujoco.MjModel, num_envs: int) -> None:
        flying = scene.extension(Aeronautics)
        fx = flying.effects
        types = list(flying.drones.values())
        drones = [model.body(f"{name}/base").id for name in flying.drones]
        balls = [b for b in range(1, model.nbody) if b not in drones and _is_ball(model, b)]
        self.bodies = np.array(drones + balls, dtype=int)
        self.wrench = np.zeros((num_envs, len(self.bodies), 6))
        joints = model.body_jntadr[self.bodies]
        places = np.zeros((len(self.bodies), _ROTORS + 4), dtype=int)
        places[:, _Q] = model.jnt_qposadr[joints]
        places[:, _V] = model.jnt_dofadr[joints]
        for a, name in enumerate(flying.drones):
            places[a, _ROTORS:] = [model.actuator(f"{name}/rotor_{m}").id for m in (1, 2, 3, 4)]
        varied = np.zeros((len(self.bodies), at.VARIED))
        for a, d in enumerate(types):
            varied[a, at.BODY_DRAG : at.BODY_DRAG + 3] = np.array(d.body_drag) * fx.body_drag
            varied[a, at.ROTOR_DRAG : at.ROTOR_DRAG + 3] = np.array(d.rotor_drag) * fx.rotor_drag
            varied[a, at.FULL_SPEED] = d.max_rotor_speed
            varied[a, at.SPIN] = d.rotor_inertia * d.max_rotor_speed * fx.gyroscopic
            varied[a, at.GROUND_GAIN] = d.ground_effect_gain * fx.ground_effect
        for i, b in enumerate(balls, len(drones)):
            mass = float(model.body_mass[b])
            radius = float(model.geom_size[_colliders(model, b)[0], 0])
            drag, lift = fx.ball_constants(mass, radius)
            # the force, which does not change where a world's ball is made heavier
            varied[i, at.BALL_DRAG] = mass * drag
            varied[i, at.BALL_LIFT] = mass * lift
        rows = np.array([at.type_row(d) for d in types]).reshape(len(types), at.TYPE)
        wake = WAKES[fx.downwash] if len(types) > 1 else NO_WAKE
        wind = np.array(fx.mean_wind)
        self._fixed = places, varied, rows, wake, wind, np.zeros((len(types), at.BODY * LANES))

    def update(self, qpos: np.ndarray, qvel: np.ndarray, control: np.ndarray) -> None:
        """Bring `wrench` up to date.

        Args:
            qpos, qvel: [N, nq], [N, nv] states in MuJoCo's layout.
            control: [N, nu], of which the rotors' are thrusts in N.
        """
        _blow(qpos, qvel, control, *self._fixed, self.wrench)


def external_aerodynamics(scene: Scene, model: mujoco.MjModel, num_envs: int) -> ExternalAerodynamics | None:
    """The aerodynamics of a scene, or None where its effects leave nothing to do."""
    flying = scene.extension(Aeronautics)
    fx = flying.effects
    drones = fx.body_drag or fx.rotor_drag or fx.gyroscopic or fx.ground_effect or fx.downwash != "none"
    if not ((drones and flying.drones) or fx.ball_drag or fx.ball_lift):
        return None
    wrenches = ExternalAerodynamics(scene, model, num_envs)
    return wrenches if len(wrenches.bodies) else None


def _colliders(model: mujoco.MjModel, body: int) -> list[int]:
    first = int(model.body_geomadr[body])
    count = int(model.body_geomnum[body])
    return [g for g in range(first, first + count) if model.geom_contype[g] or model.geom_conaffinity[g]]


def _is_ball(model: mujoco.MjModel, body: int) -> bool:
    """A free body with one collider, a sphere."""
    joint = model.body_jntadr[body]
    geoms = _colliders(model, body)
    free = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
    return bool(free and len(geoms) == 1 and model.geom_type[geoms[0]] == mujoco.mjtGeom.mjGEOM_SPHERE)


@_loop
def _blow(qpos, qvel, control, places, varied, types, wake, wind, scratch, out):
    """All worlds, in blocks of LANES as the wakes of the `rotor` engine take them."""
    drones = len(types)
    bodies = len(places)
    for first in range(0, len(qpos), LANES):
        here = min(LANES, len(qpos) - first)
        if wake != NO_WAKE:
            for a in range(drones):
                d = scratch[a]
                for i in range(here):
                    for f in range(7):
                        d[(at.POS + f) * LANES + i] = qpos[first + i, places[a, _Q] + f]
                    for m in range(4):
                        d[(at.THRUST + m) * LANES + i] = control[first + i, places[a, _ROTORS + m]]
            wakes(wake, scratch, types, drones)
        for i in range(here):
            n = first + i
            for a in range(drones):
                _drone(qpos[n], qvel[n], control[n], places[a], varied[a], types[a], wind, out[n, a])
                for f in range(3):
                    out[n, a, f] += scratch[a, (at.WAKE + f) * LANES + i]
            for b in range(drones, bodies):
                _ball(qpos[n], qvel[n], places[b], varied[b], wind, out[n, b])


@_loop
def _drone(qpos, qvel, control, place, p, k, wind, out):
    """Drag, gyroscopic torque and ground effect of one drone, as rookery.sim.engines.rotor.flight.rigid has them."""
    q, v = place[_Q], place[_V]
    w, x, y, z = qpos[q + 3], qpos[q + 4], qpos[q + 5], qpos[q + 6]
    up_x, up_y, up_z = flight.to_body(w, x, y, z, 0.0, 0.0, 1.0)
    gain = p[at.GROUND_GAIN] * max(up_z, 0.0)
    fz = 0.0
    tx = 0.0
    ty = 0.0
    speed = 0.0
    spin = 0.0
    for m in range(4):
        thrust = control[place[_ROTORS + m]]
        px, py, pz = k[at.PLACES + 3 * m], k[at.PLACES + 3 * m + 1], k[at.PLACES + 3 * m + 2]
        height = qpos[q + 2] + up_x * px + up_y * py + up_z * pz
        more = thrust * (aero.ground_effect(height, k[at.PROPELLER_RADIUS], gain) - 1.0)
        fz += more
        tx += py * more
        ty -= px * more
        u = speed_for_thrust(thrust, k[at.THRUST_CURVE], k[at.THRUST_CURVE + 1], k[at.THRUST_CURVE + 2])
        speed += u
        spin -= k[at.DIRECTIONS + m] * u
    vx, vy, vz = flight.to_body(w, x, y, z, qvel[v] - wind[0], qvel[v + 1] - wind[1], qvel[v + 2] - wind[2])
    b, r = at.BODY_DRAG, at.ROTOR_DRAG
    fx, fy, drag_z = aero.drag(vx, vy, vz, speed * p[at.FULL_SPEED], p[b], p[b + 1], p[b + 2], p[r], p[r + 1], p[r + 2])
    gx, gy = aero.gyroscopic(qvel[v + 3], qvel[v + 4], spin * p[at.SPIN])
    out[0], out[1], out[2] = flight.to_world(w, x, y, z, fx, fy, fz + drag_z)
    out[3], out[4], out[5] = flight.to_world(w, x, y, z, tx + gx, ty + gy, 0.0)


@_loop
def _ball(qpos, qvel, place, p, wind, out):
    """Drag and lift of one ball."""
    q, v = place[_Q], place[_V]
    wx, wy, wz = flight.to_world(
        qpos[q + 3], qpos[q + 4], qpos[q + 5], qpos[q + 6], qvel[v + 3], qvel[v + 4], qvel[v + 5]
    )
    out[0], out[1], out[2] = aero.ball_acceleration(
        qvel[v] - wind[0], qvel[v + 1] - wind[1], qvel[v + 2] - wind[2], wx, wy, wz, p[at.BALL_DRAG], p[at.BALL_LIFT]
    )
