"""Cameras' places: cameras that follow a body, stand still, or come with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rendering.frame import Vector, View


@dataclass(frozen=True)
class Follow:
    """A camera that looks as from `eye` to `target` ([3] m, in the world), and moves so that all free bodies and markers
    fill its picture."""

    eye: Sequence[float]
    target: Sequence[float]


Camera = str | Follow | tuple[Sequence[float], Sequence[float]]
CHASE: Mapping[str, tuple[float, float, float]] = {
    "chase": (-0.80, -0.52, 0.40),
    "chase-left": (-0.80, 0.60, 0.40),
    "chase-above": (-0.50, 0.0, 0.87),
}
"""Where cameras that chase are, seen from what they chase: in the world's axes, or for "chase-left" in those of its heading
when the episode began."""
BORDER = 0.08
"""Share of the picture's half width and height that is left free at its edges."""
RATIO = 3.0
"""Depth of the farthest over that of the nearest thing: nearer, one robot of several would hide the others."""
_UP = np.array([0.0, 0.0, 1.0])
_SETTLING = 50  # rounds in which a following camera finds its first place: each brings what is missing to half, about


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

    def __init__(self, model: mujoco.MjModel, place: tuple[Vector, Vector] | None, size: float, aspect: float) -> None:
        self.model = model
        self.place = place
        self.size = size
        self.aspect = aspect
        self.free = free_bodies(model)

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        fovy = float(self.model.vis.global_.fovy)
        if self.place is None:
            seen = [*(data.xpos[i].copy() for i in self.free), *points] or [self.model.stat.center.copy()]
            back = _unit((-0.75, -0.62, 0.36))
            target, distance = Lens(back, fovy, self.aspect).fit(seen, 2.0 * self.size)
            self.place = (target + distance * back, target)
        return View(self.place[0], self.place[1], _UP, fovy)

    def cut(self) -> None:
        """Nothing to forget."""


class _FollowingCamera:
    """Keeps one direction in the world and follows with a lag, so that the motion and not the camera is seen."""

    lag = 0.25  # s
    margin = 1.6  # of the size of the bodies, around each
    nearest = 4.5  # of their size, to the target

    def __init__(self, model: mujoco.MjModel, bodies: Sequence[int], size: float, back: Vector, aspect: float) -> None:
        self.model = model
        self.bodies = list(bodies)
        self.size = size
        self.back = _unit(back)
        self.aspect = aspect
        self.target: Vector | None = None
        self.distance = 0.0
        self.time = 0.0

    def seen(self, data: mujoco.MjData, points: Sequence[Vector]) -> list[Vector]:
        """The points that are to be in the picture."""
        return [*(data.xpos[b].copy() for b in self.bodies), *points]

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        fovy = float(self.model.vis.global_.fovy)
        lens = Lens(self.back, fovy, self.aspect)
        seen = self.seen(data, points)
        target, distance = lens.fit(seen, self.margin * self.size)
        distance = max(distance, self.nearest * self.size)
        if self.target is None:
            self.target, self.distance = target, distance
            for _ in range(_SETTLING):  # to where it would come to rest, or the next pictures would jump there
                self.target = target
                self._keep_up(data)
                self.distance = max(distance, lens.distance(seen, self.margin * self.size, self.target))
        else:
            share = 1.0 - float(np.exp(-max(data.time - self.time, 0.0) / self.lag))
            self.target = self.target + share * (target - self.target)
            self._keep_up(data)
            self.distance += share * (distance - self.distance)
            self.distance = max(self.distance, lens.distance(seen, self.margin * self.size, self.target))
        self.time = data.time
        assert self.target is not None
        eye = self.target + self.distance * self.back
        eye[2] = max(eye[2], 0.5 * self.size)
        return View(eye, self.target, _UP, fovy)

    def _keep_up(self, data: mujoco.MjData) -> None:
        """The bodies, or the middle of several, stay near the picture's middle, however fast they are."""
        assert self.target is not None
        behind = data.xpos[self.bodies].mean(0) - self.target
        room = 0.25 * self.distance
        self.target = self.target + behind * max(0.0, 1.0 - room / max(float(np.linalg.norm(behind)), room))

    def cut(self) -> None:
        self.target = None


class _ChaseCamera(_FollowingCamera):
    """Follows one body; the nearest marker and the jointed things beside it stay in sight. `turns`: `back` is in the axes of
    the body's heading at the first frame."""

    def __init__(
        self, model: mujoco.MjModel, body: int, size: float, back: Vector, aspect: float, turns: bool = False
    ) -> None:
        super().__init__(model, [body], size, back, aspect)
        self.given = self.back if turns else None
        robots = {int(model.body_rootid[b]) for b in (body, *driven_bodies(model))}
        held = {int(model.jnt_bodyid[j]) for j in range(model.njnt)}
        self.things = [b for b in sorted(held) if int(model.body_rootid[b]) not in robots]

    def view(self, data: mujoco.MjData, points: Sequence[Vector]) -> View:
        if self.target is None and self.given is not None:
            x, y = data.xmat[self.bodies[0]].reshape(3, 3)[:2, 0]
            cos, sin = np.array([x, y]) / max(float(np.hypot(x, y)), 1e-9)
            a, b, c = self.given
            self.back = np.array([cos * a - sin * b, sin * a + cos * b, c])
        return super().view(data, points)

    def seen(self, data: mujoco.MjData, points: Sequence[Vector]) -> list[Vector]:
        pos = data.xpos[self.bodies[0]]
        out = [pos.copy()]
        if len(points):
            away = min(points, key=lambda p: float(np.linalg.norm(p - pos))) - pos
            out.append(pos + min(1.0, 60.0 * self.size / max(float(np.linalg.norm(away)), 1e-9)) * away)
        return out + [data.xpos[b].copy() for b in self.things if np.linalg.norm(data.xpos[b] - pos) < 4.0 * self.size]


@dataclass(frozen=True)
class Lens:
    """A camera's picture, seen from a direction that does not change.

    A point at (x, y) across the picture and z along `back` is in it if |x| and |y| are at most `slopes` times its depth e - z
    in front of the eye, which is at (0, 0, e).

    Args:
        back: unit vector from the target to the eye.
        fovy: degrees.
        aspect: of the picture, width over height.
    """

    back: Vector
    fovy: float
    aspect: float

    @property
    def slopes(self) -> Vector:
        """[2] half of the picture's width and height at a depth of 1, without its `BORDER`."""
        return (1.0 - BORDER) * float(np.tan(np.radians(self.fovy) / 2)) * np.array([self.aspect, 1.0])

    @property
    def axes(self) -> Vector:
        """[3, 3] unit vectors to the right, up and back, in the world."""
        right = _unit(np.cross(_UP, self.back))
        return np.stack([right, np.cross(self.back, right), self.back])

    def fit(self, points: Sequence[Vector], margin: float) -> tuple[Vector, float]:
        """The nearest place from which all of `points` [3] m are in the picture with `margin` m around each.

        Returns:
            The target [3] m, in the middle of the points along `back`, and the eye's distance from it, m.
        """
        seen = np.asarray(points) @ self.axes.T
        depth = seen[:, 2]
        above = (depth[:, None] + (seen[:, :2] + margin) / self.slopes).max(0)
        below = (depth[:, None] - (seen[:, :2] - margin) / self.slopes).max(0)
        middle = 0.5 * float(depth.min() + depth.max())
        target: Vector = np.append(0.5 * self.slopes * (above - below), middle) @ self.axes
        return target, self.distance(points, margin, target)

    def distance(self, points: Sequence[Vector], margin: float, target: Vector) -> float:
        """The eye's least distance (m) from `target` [3] m with all of `points` [3] m in the picture, none of them more than
        `RATIO` times as near as another."""
        seen = (np.asarray(points) - target) @ self.axes.T
        depth = seen[:, 2]
        needed = depth[:, None] + (np.abs(seen[:, :2]) + margin) / self.slopes
        flat = depth.max() + np.ptp(depth) / (RATIO - 1.0)
        return float(max(needed.max(), flat))


def cameraman(model: mujoco.MjModel, camera: Camera, body: int, size: float, aspect: float) -> Cameraman:
    """The camera of that name or place, see `Renderer`; `body` of radius `size` m is chased, and pictures are `aspect` times
    as wide as high."""
    if isinstance(camera, Follow):
        back = np.asarray(camera.eye, float) - np.asarray(camera.target, float)
        return _FollowingCamera(model, free_bodies(model) or [body], size, back, aspect)
    if isinstance(camera, str):
        if camera in CHASE:
            return _ChaseCamera(model, body, size, np.array(CHASE[camera]), aspect, camera == "chase-left")
        if camera == "group":
            return _FollowingCamera(model, driven_bodies(model) or [body], size, np.array(CHASE["chase"]), aspect)
        if camera == "fixed":
            return _FixedCamera(model, None, size, aspect)
        names = [model.camera(i).name for i in range(model.ncam)]
        if camera not in names:
            raise unknown("camera", camera, [*CHASE, "group", "fixed", *names])
        return _ModelCamera(model, names.index(camera))
    eye, target = (np.asarray(v, float) for v in camera)
    if eye.shape != (3,) or target.shape != (3,) or np.linalg.norm(eye - target) < 1e-6:
        raise RookeryError(f"a fixed camera needs two different points (eye, target) of 3 numbers each, got {camera}.")
    return _FixedCamera(model, (eye, target), size, aspect)


def driven_bodies(model: mujoco.MjModel) -> list[int]:
    """Free bodies with actuators on themselves or on what hangs on them: the robots that move about."""
    driven = driven_roots(model)
    return [b for b in free_bodies(model) if int(model.body_rootid[b]) in driven]


def driven_roots(model: mujoco.MjModel) -> set[int]:
    """The bodies in the world on which actuators hang: all robots."""
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
    return driven


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
    """Reach of a body's geoms from its origin, m."""
    geoms = np.flatnonzero(model.geom_bodyid == body)
    bounded = [g for g in geoms if model.geom_type[g] != mujoco.mjtGeom.mjGEOM_PLANE]
    reach = [float(np.linalg.norm(model.geom_pos[g]) + model.geom_rbound[g]) for g in bounded]
    return max(reach, default=0.3)


def _unit(v: Sequence[float] | Vector) -> Vector:
    array = np.asarray(v, float)
    norm = float(np.linalg.norm(array))
    return array / norm if norm > 1e-9 else np.zeros(3)
