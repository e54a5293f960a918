"""Renderer: MjData to pictures, by OpenGL where there is any and by PyBullet's software renderer elsewhere.

The model is the scene's visual one (``scene.compile(visual=True)``); the data may belong to the physics model, whose
state has the same layout: poses are worked out here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rendering import opengl

Vector = NDArray[np.float64]
Camera = str | tuple[Sequence[float], Sequence[float]]
Marker = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """Where a picture is taken from, m and world axes; `camera_id` names a camera of the model, -1 for none."""

    eye: Vector
    target: Vector
    up: Vector
    fovy: float  # degrees
    camera_id: int = -1


@dataclass(frozen=True)
class Shape:
    """A sphere at `start`, or a capsule from `start` to `end`, m and world axes."""

    start: Vector
    radius: float
    rgba: Sequence[float]
    end: Vector | None = None


class Renderer:
    """Pictures of one scene.

    Args:
        model: the scene's visual model.
        width: pixels.
        height: pixels.
        camera: "chase" follows a body smoothly and zooms so that the nearest marker stays in sight; "fixed" stands
            still and sees all free bodies of the first frame; another string is a camera of the model, such as
            "drone/onboard"; a pair is (eye, target), each [3] m in the world.
        focus: body to chase; by default the first free body that has actuators, or the first free one.
        trails: bodies that draw their path.
        trail_s: length of the trails in s.
        backend: "opengl", "software", or "auto" for the first that there is.

    Raises:
        RookeryError: unknown camera, body or back end, a picture of no size, or no way to draw.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        width: int = 640,
        height: int = 480,
        camera: Camera = "chase",
        focus: str | None = None,
        trails: Sequence[str] = (),
        trail_s: float = 3.0,
        backend: str = "auto",
    ) -> None:
        if width < 16 or height < 16:
            raise RookeryError(f"a picture of {width} x {height} pixels is too small: use 16 x 16 or more.")
        self.model = model
        self.width = width
        self.height = height
        self._data = mujoco.MjData(model)
        self._focus = _body_id(model, focus) if focus is not None else default_focus(model)
        self._trail_ids = [_body_id(model, name) for name in trails]
        self._size = _body_radius(model, self._focus)
        self._robots = driven_bodies(model)
        self._cameraman = _cameraman(model, camera, self._focus, self._size)
        self._trails = _Trails(trail_s, 0.035 * self._size)
        self._propellers = _propellers(model)
        self._painter: Any = _painter(model, width, height, backend)

    @property
    def backend(self) -> str:
        """What draws: "egl", "osmesa", "glfw", "cgl" or "software"."""
        return str(self._painter.name)

    def render(self, data: mujoco.MjData, markers: Sequence[Marker] = ()) -> NDArray[np.uint8]:
        """A picture, uint8 [H, W, 3].

        Args:
            data: state to draw; of the visual model or of one with the same state layout.
            markers: spheres to add: "pos" [3] m, and optionally "size" (radius, m), "rgba" [4], "trail" (bool).
        """
        self._pose(data)
        spheres = [self._sphere(m) for m in markers]
        self._trails.begin(self._data.time)
        for i in self._trail_ids:
            self._trails.extend(("body", i), self._data.xpos[i], (0.98, 0.42, 0.07, 0.75))
        for i, (marker, sphere) in enumerate(zip(markers, spheres, strict=True)):
            if marker.get("trail"):
                self._trails.extend(("marker", i), sphere.start, sphere.rgba)
        view = self._cameraman.view(self._data, [s.start for s in spheres])
        reach = float(np.linalg.norm(view.eye - view.target))
        pixel = 2.0 * reach * float(np.tan(np.radians(view.fovy) / 2)) / self.height  # m, at the target
        shapes = [*spheres, *self._trails.shapes(0.7 * pixel)]
        picture: NDArray[np.uint8] = self._painter.paint(self._data, view, shapes)
        return picture

    def cut(self) -> None:
        """Start afresh: forget the trails and let the camera jump, as at the start of an episode."""
        self._trails.clear()
        self._cameraman.cut()

    def close(self) -> None:
        """Free what the back end holds."""
        self._painter.close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pose(self, data: mujoco.MjData) -> None:
        own = self._data
        if data.qpos.shape != own.qpos.shape or data.mocap_pos.shape != own.mocap_pos.shape:
            raise RookeryError(
                f"the state to draw has {data.qpos.size} positions and the visual model {own.qpos.size}: compile both "
                "from the same scene."
            )
        own.qpos[:] = data.qpos
        own.time = data.time
        own.mocap_pos[:] = data.mocap_pos
        own.mocap_quat[:] = data.mocap_quat
        mujoco.mj_kinematics(self.model, own)
        mujoco.mj_comPos(self.model, own)
        mujoco.mj_camlight(self.model, own)
        self._spin_propellers()

    def _sphere(self, marker: Marker) -> Shape:
        """A marker as a shape, paler while a robot is inside it, which it would hide."""
        pos = np.asarray(marker["pos"], float).reshape(3)
        size = float(marker.get("size", 0.02))
        r, g, b, a = (float(v) for v in marker.get("rgba", (0.2, 0.8, 0.3, 0.8)))
        gaps = [float(np.linalg.norm(self._data.xpos[i] - pos)) / (self._size + size) for i in self._robots]
        return Shape(pos, size, (r, g, b, a * (0.25 + 0.75 * min(1.0, min(gaps, default=1.0) ** 2))))

    def _spin_propellers(self) -> None:
        """Turn the propellers, for looks: slower than real ones, which at 30 frames a second would seem to stand."""
        for geom, body, sense in self._propellers:
            axis = self._data.xmat[body].reshape(3, 3)[:, 2]
            quat = np.zeros(4)
            turn = np.zeros(9)
            mujoco.mju_axisAngle2Quat(quat, axis, sense * 37.0 * self._data.time)
            mujoco.mju_quat2Mat(turn, quat)
            self._data.geom_xmat[geom] = (turn.reshape(3, 3) @ self._data.geom_xmat[geom].reshape(3, 3)).ravel()


def _painter(model: mujoco.MjModel, width: int, height: int, backend: str) -> Any:
    if backend not in ("auto", "opengl", "software"):
        raise unknown("rendering back end", backend, ("auto", "opengl", "software"))
    if backend == "opengl" or (backend == "auto" and opengl.find_backend() is not None):
        return opengl.OpenGLPainter(model, width, height)
    from rookery.sim.rendering.software import SoftwarePainter

    return SoftwarePainter(model, width, height)


class _Trails:
    """Paths of the last few seconds, as capsules that fade towards their tail."""

    jump = 0.5  # m, between two frames: a reset and not a flight

    def __init__(self, seconds: float, radius: float) -> None:
        self.seconds = seconds
        self.radius = radius
        self.now = 0.0
        self.paths: dict[Any, deque[tuple[float, Vector]]] = {}
        self.colours: dict[Any, Sequence[float]] = {}

    def begin(self, now: float) -> None:
        if now < self.now:
            self.clear()
        self.now = now

    def extend(self, key: Any, pos: Vector, rgba: Sequence[float]) -> None:
        path = self.paths.setdefault(key, deque())
        if path and np.linalg.norm(path[-1][1] - pos) > self.jump:
            path.clear()
        path.append((self.now, np.array(pos)))
        while self.now - path[0][0] > self.seconds:
            path.popleft()
        self.colours[key] = rgba

    def clear(self) -> None:
        self.paths.clear()

    def shapes(self, thinnest: float) -> list[Shape]:
        """The trails as capsules with radii of at least `thinnest` m, so that they can be seen from afar."""
        out = []
        for key, path in self.paths.items():
            r, g, b, a = self.colours[key]
            points = list(path)
            for (t, start), (_, end) in zip(points, points[1:], strict=False):
                if np.linalg.norm(end - start) > 1e-6:
                    fresh = 1.0 - (self.now - t) / self.seconds
                    rgba = (r, g, b, a * (0.15 + 0.85 * fresh))
                    out.append(Shape(start, max(self.radius * (0.35 + 0.65 * fresh), thinnest), rgba, end))
        return out


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


def _cameraman(model: mujoco.MjModel, camera: Camera, body: int, size: float) -> Any:
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


def _body_id(model: mujoco.MjModel, name: str) -> int:
    names = [model.body(i).name for i in range(model.nbody)]
    if name not in names:
        raise unknown("body", name, names)
    return names.index(name)


def _body_radius(model: mujoco.MjModel, body: int) -> float:
    """How far the geoms of a body reach from its origin, m."""
    geoms = np.flatnonzero(model.geom_bodyid == body)
    bounded = [g for g in geoms if model.geom_type[g] != mujoco.mjtGeom.mjGEOM_PLANE]
    reach = [float(np.linalg.norm(model.geom_pos[g]) + model.geom_rbound[g]) for g in bounded]
    return max(reach, default=0.3)


def _propellers(model: mujoco.MjModel) -> list[tuple[int, int, int]]:
    """(geom, body, sense of rotation about the body's z) of the geoms called ``propeller_<i>_ccw`` or ``..._cw``."""
    out = []
    for g in range(model.ngeom):
        name = model.geom(g).name.rsplit("/", 1)[-1]
        if name.startswith("propeller_"):
            out.append((g, int(model.geom_bodyid[g]), -1 if name.endswith("_cw") else 1))
    return out


def _unit(v: Sequence[float] | Vector) -> Vector:
    array = np.asarray(v, float)
    norm = float(np.linalg.norm(array))
    return array / norm if norm > 1e-9 else np.zeros(3)
