"""Small scenes for tests of the `rotor` engine, and readings of them in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.drones import quadrotor_spec
from rookery.assets.scenery import ball, ground
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.engines.rotor import rows
from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.effects import Effects, effects
from rookery.sim.multirotor.layout import LANES
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim.scene import Scene

NONE = effects("none")
REALISTIC = effects("realistic")
ACTUATORS = ("rotor_1", "rotor_2", "rotor_3", "rotor_4", "reaction")
RACKET = replace(CRAZYFLIE_21, racket_radius=0.2, racket_height=0.05)


def scene(
    drone: DroneParameters = CRAZYFLIE_21,
    drones: Sequence[Sequence[float]] = ((0.0, 0.0, 50.0),),
    balls: Sequence[Sequence[float]] = (),
    *,
    base: Callable[[], mujoco.MjSpec] | None = None,
    fx: Effects = NONE,
    dt: float = 0.002,
    inertia: Sequence[float] | None = None,
    friction: float = 0.0,
    radius: float = 0.04,
    mass: float = 0.047,
    restitution: float = 0.8,
    integrator: str = "rk4",
) -> Scene:
    """Drones at places `drone_0`, ..., balls `ball_0`, ...; `inertia` is (xx, yy, zz, xy, xz, yz)."""

    def part() -> mujoco.MjSpec:
        spec = quadrotor_spec(
            mass=drone.mass, inertia=drone.inertia, rotor_positions=drone.rotor_positions,
            rotor_directions=drone.directions, propeller_radius=drone.propeller_radius, body_radius=drone.body_radius,
            body_height=drone.body_height, look=drone.look, visual=False, racket_radius=drone.racket_radius,
            racket_height=drone.racket_height or None,
        )  # fmt: skip
        if inertia is not None:
            body = spec.body("base")
            body.inertia = [0.0, 0.0, 0.0]
            body.fullinertia = list(inertia)
            body.iquat = [1.0, 0.0, 0.0, 0.0]
        return spec

    s = Scene(base, dt=dt, integrator=integrator)
    s.extension(Aeronautics).effects = fx
    for i, pos in enumerate(drones):
        s.add(part, f"drone_{i}", pos=pos)
        s.extension(Aeronautics).drones[f"drone_{i}"] = drone
    for i, pos in enumerate(balls):
        s.add(lambda: ball(radius, mass, restitution=restitution, friction=(friction, 0, 0)), f"ball_{i}", pos=pos)
    return s


def world(n: int = 1, threads: int = 1, **options: Any) -> RotorWorld:
    return RotorWorld(scene(**options), n, threads)


def with_boxes(*boxes: tuple[str, str, Sequence[float], Sequence[float]], floor: bool = True):
    """A base with static shapes (name, type, size, place)."""

    def make() -> mujoco.MjSpec:
        spec = ground(visual=False) if floor else mujoco.MjSpec()
        for name, kind, size, pos in boxes:
            geom = getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}")
            spec.worldbody.add_geom(name=name, type=geom, size=[*size, 0, 0][:3], pos=list(pos))
        return spec

    return make


def bare_ground() -> mujoco.MjSpec:
    return ground(visual=False)


def exact(w: RotorWorld, body: str, i: int = 0) -> np.ndarray:
    """[13] float64 state of a body in world i."""
    return fields(w, body, at.POS, at.STATE, i)


def exacts(w: RotorWorld, body: str) -> np.ndarray:
    """[N, 13] float64 states of a body."""
    out = np.zeros((w.num_envs, 1, at.STATE))
    rows.gather(w.bodies_lanes, np.array(w.members([body])), at.POS, out)
    return out[:, 0]


def matrices(q: np.ndarray) -> np.ndarray:
    """Rotation matrices [N, 3, 3] of quaternions [N, 4]."""
    return np.array([matrix(x) for x in q])


def fields(w: RotorWorld, body: str, first: int, count: int, i: int = 0) -> np.ndarray:
    row = w.bodies_lanes[i // LANES, w.members([body])[0]]
    return row[i % LANES :: LANES][first : first + count].copy()


def put(w: RotorWorld, body: str, pos=(0, 0, 0), vel=(0, 0, 0), rate=(0, 0, 0), quat=(1, 0, 0, 0)) -> None:
    """The same state in all worlds."""
    row = torch.tensor([*pos, *quat, *vel, *rate], dtype=torch.float64)
    w.bodies([body]).set_state(None, row.expand(w.num_envs, 1, 13))


def matrix(q: np.ndarray) -> np.ndarray:
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, np.asarray(q, float))
    return out.reshape(3, 3)


def momenta(w: RotorWorld, i: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """Momentum, angular momentum about the origin and kinetic energy of all bodies of world i."""
    p = np.zeros(3)
    spin = np.zeros(3)
    energy = 0.0
    for b, name in enumerate(w.parts.bodies):
        x = exact(w, name, i)
        r = x[:3]
        v = x[7:10]
        turn = matrix(x[3:7])
        m = w.parts.mass[b]
        inertia = w.parts.inertia[b]
        p += m * v
        spin += np.cross(r, m * v) + turn @ (inertia @ x[10:13])
        energy += 0.5 * m * v @ v + 0.5 * x[10:13] @ inertia @ x[10:13]
    return p, spin, energy


def angle(p: np.ndarray | Tensor, q: np.ndarray | Tensor) -> np.ndarray:
    """Degrees between unit quaternions [..., 4], good for small ones too."""
    p, q = np.asarray(p, float), np.asarray(q, float)
    sign = np.where((p * q).sum(-1, keepdims=True) < 0, -1.0, 1.0)
    return np.degrees(4 * np.arcsin(np.clip(0.5 * np.linalg.norm(p - sign * q, axis=-1), 0, 1)))
