"""Contents of a scene in the terms of the `rotor` engine: multirotors, balls, bodies that move as they are told, and static
shapes. Anything else is refused."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from rookery.assets.scenery import restitution
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim.scene import Scene

_GEOM = mujoco.mjtGeom
_SHAPES = {
    int(g)
    for g in (_GEOM.mjGEOM_PLANE, _GEOM.mjGEOM_SPHERE, _GEOM.mjGEOM_CAPSULE, _GEOM.mjGEOM_CYLINDER, _GEOM.mjGEOM_BOX)
}
FAR = 1e9  # m, bound of shapes without end
LEVEL = 1.0 - 1e-12
"""Upward part of the axis of planes that are level."""


@dataclass(frozen=True)
class Shape:
    """One convex collider. Poses are in world axes, or in the frame of the body that it belongs to.

    Args:
        geom: id in the scene's model.
        body: index among the engine's bodies (drones first, then balls, then movers), or -1 for a static shape.
        kind: number of mjtGeom.
        size: as in MuJoCo.
        pos, mat: m and [3, 3].
        reach: m, from the body's origin to the farthest point (FAR for a plane).
    """

    geom: int
    body: int
    kind: int
    size: np.ndarray
    pos: np.ndarray
    mat: np.ndarray
    reach: float

    @property
    def level(self) -> bool:
        """True where it is level ground: what is above it is out of its reach."""
        return self.body < 0 and self.kind == _GEOM.mjGEOM_PLANE and self.mat[2, 2] > LEVEL

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corner [3] m of the axis-aligned box around it."""
        if self.kind == _GEOM.mjGEOM_PLANE:
            high = np.full(3, FAR)
            if self.level:
                high[2] = self.pos[2]
            return np.full(3, -FAR), high
        half = np.abs(self.mat) @ _half_box(self.kind, self.size)
        return self.pos - half, self.pos + half


@dataclass
class Parts:
    """The bodies and shapes of a scene.

    Attributes:
        bodies: names, drones first, then balls, then movers: those that move as they are told.
        ids: of these bodies in the model.
        drones: constants of each drone.
        mass [bodies], inertia [bodies, 3, 3] about the origin, in body axes.
        ball_radius: m, of each ball.
        movers: how many there are.
        shapes: all colliders.
        start: [bodies, 13] initial states.
        grip, bounce: [bodies] friction and restitution.
        actuators: for each actuator of the model, drone and column (0..3 rotors, 4 reaction).
    """

    bodies: list[str]
    ids: list[int]
    drones: list[DroneParameters]
    mass: np.ndarray
    inertia: np.ndarray
    ball_radius: list[float]
    movers: int
    shapes: list[Shape]
    start: np.ndarray
    grip: np.ndarray
    bounce: np.ndarray
    actuators: dict[int, tuple[int, int]]


def read(scene: Scene, model: mujoco.MjModel) -> Parts:
    """Take a scene apart.

    Raises:
        RookeryError: it has joints or other things that this engine does not simulate, or drones that begin in collision.
    """
    _refuse(model)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    drones = []
    balls = []
    movers = []
    for body in range(1, model.nbody):
        if model.body_jntnum[body] == 0:
            if model.body_weldid[body] != 0:
                raise RookeryError(
                    f"engine 'rotor' takes a multirotor or a ball as one body, and {model.body(body).name!r} is attached to "
                    "one: move its geoms and mass into that, or use engine 'mujoco'."
                )
            continue
        name = model.body(body).name
        geoms = _colliders(model, body)
        if name.rsplit("/", 1)[0] in scene.extension(Aeronautics).drones:
            drones.append(body)
        elif name.rsplit("/", 1)[0] in scene.extension(Aeronautics).moving:
            movers.append(body)
        elif len(geoms) == 1 and model.geom_type[geoms[0]] == _GEOM.mjGEOM_SPHERE:
            balls.append(body)
        else:
            raise RookeryError(
                f"engine 'rotor' simulates multirotors, balls and static shapes, and {name!r} is none of them: use engine "
                "'mujoco', or have it move as it is told (Aeronautics.moving)."
            )
    ids = drones + balls + movers
    for b in ids:
        if np.abs(model.body_ipos[b]).max() > 1e-9:
            raise RookeryError(
                f"engine 'rotor' needs the centre of mass at the origin of the body, and that of {model.body(b).name!r} is at "
                f"{model.body_ipos[b]} m: use engine 'mujoco'."
            )
    types = [scene.extension(Aeronautics).drones[model.body(b).name.rsplit("/", 1)[0]] for b in drones]
    parts = Parts(
        bodies=[model.body(b).name for b in ids],
        ids=ids,
        drones=types,
        mass=model.body_mass[ids].copy(),
        inertia=np.array([_inertia(model, b) for b in ids]).reshape(-1, 3, 3),
        ball_radius=[float(model.geom_size[_colliders(model, b)[0], 0]) for b in balls],
        movers=len(movers),
        shapes=_shapes(model, data, ids),
        start=np.array([_start(model, data, b) for b in ids]).reshape(-1, 13),
        grip=np.array([_friction(model, b) for b in ids]),
        bounce=np.array([_bounce(model, b) if b in balls else 0.0 for b in ids]),
        actuators=_actuators(model, [model.body(b).name.rsplit("/", 1)[0] for b in drones]),
    )
    _check_starts(parts)
    return parts


def _refuse(model: mujoco.MjModel) -> None:
    for j in range(model.njnt):
        if model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE:
            raise RookeryError(
                f"engine 'rotor' simulates free bodies only, and the scene has joint {model.joint(j).name!r}: use engine "
                "'mujoco'."
            )
    for count, what in (
        (model.neq, "equality constraints"),
        (model.ntendon, "tendons"),
        (model.npair, "contact pairs"),
    ):
        if count:
            raise RookeryError(f"engine 'rotor' does not simulate {what}, and the scene has some: use engine 'mujoco'.")
    for g in range(model.ngeom):
        if (model.geom_contype[g] or model.geom_conaffinity[g]) and int(model.geom_type[g]) not in _SHAPES:
            raise RookeryError(
                f"engine 'rotor' collides planes, spheres, capsules, cylinders and boxes, and geom {model.geom(g).name!r} is "
                "none of them: use engine 'mujoco'."
            )


def _colliders(model: mujoco.MjModel, body: int) -> list[int]:
    first = model.body_geomadr[body]
    count = model.body_geomnum[body]
    return [g for g in range(first, first + count) if model.geom_contype[g] or model.geom_conaffinity[g]]


def _inertia(model: mujoco.MjModel, body: int) -> np.ndarray:
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[body])
    r = turn.reshape(3, 3)
    return r @ np.diag(model.body_inertia[body]) @ r.T


def _start(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> np.ndarray:
    at = model.jnt_qposadr[model.body_jntadr[body]]
    return np.concatenate((data.qpos[at : at + 7], np.zeros(6)))


def _friction(model: mujoco.MjModel, body: int) -> float:
    return float(max((model.geom_friction[g, 0] for g in _colliders(model, body)), default=0.0))


def _bounce(model: mujoco.MjModel, ball: int) -> float:
    return restitution(model.geom_solref[_colliders(model, ball)[0]])


def _shapes(model: mujoco.MjModel, data: mujoco.MjData, ids: list[int]) -> list[Shape]:
    """Colliders of the bodies and of the world, statics with world poses."""
    out = []
    for g in range(model.ngeom):
        if not (model.geom_contype[g] or model.geom_conaffinity[g]):
            continue
        kind = int(model.geom_type[g])
        size = model.geom_size[g].copy()
        if model.geom_bodyid[g] in ids:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, model.geom_quat[g])
            body = ids.index(model.geom_bodyid[g])
            pos = model.geom_pos[g].copy()
            mat = turn.reshape(3, 3)
        else:
            body = -1
            pos = data.geom_xpos[g].copy()
            mat = data.geom_xmat[g].reshape(3, 3).copy()
        reach = (
            FAR if kind == _GEOM.mjGEOM_PLANE else float(np.linalg.norm(pos) + np.linalg.norm(_half_box(kind, size)))
        )
        out.append(Shape(g, body, kind, size, pos, mat, reach))
    return out


def _half_box(kind: int, size: np.ndarray) -> np.ndarray:
    """Half edges [3] m of the smallest box around a shape, in its own axes."""
    if kind == _GEOM.mjGEOM_SPHERE:
        return np.full(3, size[0])
    if kind == _GEOM.mjGEOM_CAPSULE:
        return np.array([size[0], size[0], size[0] + size[1]])
    if kind == _GEOM.mjGEOM_CYLINDER:
        return np.array([size[0], size[0], size[1]])
    return size.copy()


def _actuators(model: mujoco.MjModel, prefixes: list[str]) -> dict[int, tuple[int, int]]:
    columns = {f"rotor_{m + 1}": m for m in range(4)} | {"reaction": 4}
    out = {}
    for u in range(model.nu):
        prefix, _, last = model.actuator(u).name.rpartition("/")
        if prefix not in prefixes or last not in columns:
            raise RookeryError(
                f"engine 'rotor' drives the rotors of multirotors, and actuator {model.actuator(u).name!r} is none: use engine "
                "'mujoco'."
            )
        out[u] = prefixes.index(prefix), columns[last]
    return out


def _check_starts(parts: Parts) -> None:
    for i, a in enumerate(parts.drones):
        p = parts.start[i, :3]
        for j in range(i):
            gap = float(np.linalg.norm(p - parts.start[j, :3]))
            least = a.body_radius + parts.drones[j].body_radius
            if gap < least:
                raise RookeryError(
                    f"{parts.bodies[j]!r} and {parts.bodies[i]!r} begin in collision, {gap:.3g} m apart where their bodies "
                    f"need {least:.3g} m: place them farther apart."
                )
