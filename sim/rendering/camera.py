"""Where pictures are taken from: cameras that follow a body, stand still, or come with the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mujoco
import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rendering.frame import Vector, View

Camera = str | tuple[Sequence[float], Sequence[float]]


class Cameraman(Protocol):
    """Chooses the view of one picture after the other."""

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        """The view of `data`, with markers at `points` [3] m."""

    def cut(self) -> None:
        """An episode begins: the camera may jump."""


class _ModelCamera:
    """A camera that the model brings along."""

    def __init__(self, model: mujoco.MjModel, camera_id: int) -> None:
        self.model = model
        self.id = camera_id

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        axes = data.cam_xmat[self.id].reshape(3, 3)
        eye = data.cam_xpos[self.id].copy()
        reach = max(0.3, float(np.linalg.norm(eye - data.subtree_com[0])))
        return View(eye, eye - reach * axes[:, 2], axes[:, 1].copy(), float(self.model.cam_fovy[self.id]), self.id)

    def cut(self) -> None:
        """Nothing to forget."""


class _FixedCamera:
    """Stands still: where it is told to, or where it sees all free bodies and markers of the first frame."""

    def __init__(self, model: mujoco.MjModel, place: tuple[Vector, Vector] | None, size: float) -> None:
        self.model = model
        self.place = place
        self.size = size
        self.free = free_bodies(model)

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        fovy = float(self.model.vis.global_.fovy)
        if self.place is None:
            seen = np.array([*(data.xpos[i].copy() for i in self.free), *points, self.model.stat.center])
            if len(seen) > 1:
                seen = seen[:-1]
            low = seen.min(0)
            high = seen.max(0)
            target = 0.5 * (low + high)
            reach = 0.5 * float(np.linalg.norm(high - low)) + 3.5 * self.size
            self.place = (target + 0.85 * reach / np.tan(np.radians(fovy / 2)) * _unit((-0.75, -0.62, 0.36)), target)
        return View(self.place[0], self.place[1], np.array([0.0, 0.0, 1.0]), fovy)

    def cut(self) -> None:
        """Nothing to forget."""


class _ChaseCamera:
    """Keeps one direction in the world and follows a body with a lag, so that the flight and not the camera is seen."""

    lag = 0.25  # s

    def __init__(self, model: mujoco.MjModel, body: int, size: float) -> None:
        self.model = model
        self.body = body
        self.size = size
        self.target: Vector | None = None
        self.distance = 0.0
        self.time = 0.0

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        pos = data.xpos[self.body]
        near = min(points, key=lambda p: float(np.linalg.norm(p - pos)), default=pos)
        apart = min(float(np.linalg.norm(near - pos)), 60.0 * self.size)
        target = pos + 0.5 * apart * _unit(near - pos)
        distance = 7.0 * self.size + 1.5 * apart
        if self.target is None:
            self.target = target
            self.distance = distance
        else:
            share = 1.0 - float(np.exp(-max(data.time - self.time, 0.0) / self.lag))
            self.target = self.target + share * (target - self.target)
            self.distance += share * (distance - self.distance)
            behind = pos - self.target
            room = 0.25 * self.distance  # the body must not leave the picture, however fast it is
            self.target = self.target + behind * max(0.0, 1.0 - room / max(float(np.linalg.norm(behind)), room))
        self.time = data.time
        eye = self.target + self.distance * _unit((-0.80, -0.52, 0.40))
        eye[2] = max(eye[2], 0.5 * self.size)
        return View(eye, self.target, np.array([0.0, 0.0, 1.0]), float(self.model.vis.global_.fovy))

    def cut(self) -> None:
        self.target = None


def cameraman(model: mujoco.MjModel, camera: Camera, body: int, size: float) -> Cameraman:
    """The camera of that name or place, see `Renderer`; `body` of radius `size` m is chased."""
    if isinstance(camera, str):
        if camera == "chase":
            return _ChaseCamera(model, body, size)
        if camera == "fixed":
            return _FixedCamera(model, None, size)
        names = [model.camera(i).name for i in range(model.ncam)]
        if camera not in names:
            raise unknown("camera", camera, ["chase", "fixed", *names])
        return _ModelCamera(model, names.index(camera))
    eye, target = (np.asarray(v, float) for v in camera)
    if eye.shape != (3,) or target.shape != (3,) or np.linalg.norm(eye - target) < 1e-6:
        raise RookeryError(f"a fixed camera needs two different points (eye, target) of 3 numbers each, got {camera}.")
    return _FixedCamera(model, (eye, target), size)


def driven_bodies(model: mujoco.MjModel) -> list[int]:
    """Free bodies with actuators on themselves or on what hangs on them: the robots that move about."""
    site = mujoco.mjtTrn.mjTRN_SITE
    joints = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    driven = set()
    for i in range(model.nu):
        kind = mujoco.mjtTrn(int(model.actuator_trntype[i]))
        target = int(model.actuator_trnid[i, 0])
        if kind == site:
            driven.add(int(model.body_rootid[model.site_bodyid[target]]))
        elif kind in joints:
            driven.add(int(model.body_rootid[model.jnt_bodyid[target]]))
    return [b for b in free_bodies(model) if int(model.body_rootid[b]) in driven]


def free_bodies(model: mujoco.MjModel) -> list[int]:
    """Bodies with a free joint."""
    return [int(model.jnt_bodyid[j]) for j in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)]


def default_focus(model: mujoco.MjModel) -> int:
    """The body that a chase camera follows: the first free body with actuators, or the first free one."""
    return next(iter([*driven_bodies(model), *free_bodies(model), min(1, model.nbody - 1)]))


def body_id(model: mujoco.MjModel, name: str) -> int:
    """The id of a body. Raises RookeryError for an unknown name."""
    names = [model.body(i).name for i in range(model.nbody)]
    if name not in names:
        raise unknown("body", name, names)
    return names.index(name)


def body_radius(model: mujoco.MjModel, body: int) -> float:
    """How far the geoms of a body reach from its origin, m."""
    geoms = np.flatnonzero(model.geom_bodyid == body)
    bounded = [g for g in geoms if model.geom_type[g] != mujoco.mjtGeom.mjGEOM_PLANE]
    reach = [float(np.linalg.norm(model.geom_pos[g]) + model.geom_rbound[g]) for g in bounded]
    return max(reach, default=0.3)


def _unit(v: Sequence[float] | Vector) -> Vector:
    array = np.asarray(v, float)
    norm = float(np.linalg.norm(array))
    return array / norm if norm > 1e-9 else np.zeros(3)
