"""Renderer: MjData to pictures, by OpenGL where there is any and by PyBullet's software renderer elsewhere.

The model is the scene's visual one (``scene.compile(visual=True)``); the data may belong to the physics model, whose
state has the same layout: poses are worked out here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.rendering.camera import Camera, body_id, body_radius, cameraman, default_focus, driven_bodies
from rookery.sim.rendering.frame import Frame, FrameShape, FrameStage, Vector
from rookery.sim.rendering.markers import Marker, marker_shape
from rookery.sim.rendering.painters import choose_backend, make_painter


class Composer:
    """Makes frames of one scene, one after the other: trails and cameras remember those before.

    Args:
        model: the scene's visual model.
        height: pixels of the pictures.
        camera, focus, trails, trail_s: see `Renderer`.
        aspect: width of the pictures over their height.

    Raises:
        RookeryError: unknown camera or body.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        height: int,
        *,
        camera: Camera = "chase",
        focus: str | None = None,
        trails: Sequence[str] = (),
        trail_s: float = 3.0,
        aspect: float = 16 / 9,
    ) -> None:
        self.model = model
        self.height = height
        self._stage = FrameStage(model)
        self._data = self._stage.data
        self._focus = body_id(model, focus) if focus is not None else default_focus(model)
        self._trail_ids = [body_id(model, name) for name in trails]
        self._size = body_radius(model, self._focus)
        self._robots = driven_bodies(model)
        self._cameraman = cameraman(model, camera, self._focus, self._size, aspect)
        self._trails = _Trails(trail_s, 0.035 * self._size)

    def compose(self, data: mujoco.MjData, markers: Sequence[Marker] = ()) -> Frame:
        """The next frame, see `Renderer.render`."""
        own = self._data
        if data.qpos.shape != own.qpos.shape or data.mocap_pos.shape != own.mocap_pos.shape:
            raise RookeryError(
                f"the state to draw has {data.qpos.size} positions and the visual model {own.qpos.size}: compile both "
                "from the same scene."
            )
        state = (data.qpos.copy(), float(data.time), data.mocap_pos.copy(), data.mocap_quat.copy())
        self._stage.set_state(*state)
        shapes = [self._shape(m) for m in markers]
        self._trails.begin(own.time)
        for i in self._trail_ids:
            self._trails.extend(("body", i), own.xpos[i], (0.98, 0.42, 0.07, 0.75))
        for i, (marker, shape) in enumerate(zip(markers, shapes, strict=True)):
            if marker.get("trail"):
                self._trails.extend(("marker", i), shape.start, shape.rgba)
        view = self._cameraman.view(own, [s.start for s in shapes])
        reach = float(np.linalg.norm(view.eye - view.target))
        pixel = 2.0 * reach * float(np.tan(np.radians(view.fovy) / 2)) / self.height  # m, at the target
        return Frame(*state, view, [*shapes, *self._trails.shapes(0.7 * pixel)])

    def tops(self, bodies: Sequence[int]) -> Vector:
        """[n, 3] m, right above bodies in the latest frame; a label's place."""
        return self._data.xpos[list(bodies)] + (0.0, 0.0, self._size)

    def cut(self) -> None:
        """Start afresh: forget the trails and let the camera jump, as at the start of an episode."""
        self._trails.clear()
        self._cameraman.cut()

    def _shape(self, marker: Marker) -> FrameShape:
        """A marker as a shape, paler while a robot is inside it, which it would hide."""
        shape = marker_shape(marker)
        size = shape.radius if shape.half is None else float(np.linalg.norm(shape.half))
        gaps = [float(np.linalg.norm(self._data.xpos[i] - shape.start)) / (self._size + size) for i in self._robots]
        r, g, b, a = shape.rgba
        return replace(shape, rgba=(r, g, b, a * (0.25 + 0.75 * min(1.0, min(gaps, default=1.0) ** 2))))


class Renderer(Composer):
    """Pictures of one scene.

    Args:
        model: the scene's visual model.
        width: pixels.
        height: pixels.
        camera: "chase" follows a body smoothly and zooms so that the nearest marker stays in sight, "chase-left" from
            behind on its left, "chase-above" steeply from above; "group" does so with all robots and markers; a `Follow` with
            all free bodies too, from its own direction; "fixed" stands still and sees all free bodies of the first frame;
            another string is a camera of the model, such as "drone/onboard"; a pair is (eye, target), each [3] m in the world.
        focus: body to chase; by default the first free body that has actuators, or the first free one.
        trails: bodies that draw their path.
        trail_s: length of the trails in s.
        backend: "opengl", "software", or "auto" for the first that there is.
        samples: averaged for smooth edges and soft shadows, see `opengl.OpenGLPainter`.

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
        samples: int = 1,
    ) -> None:
        aspect = width / max(height, 1)
        super().__init__(model, height, camera=camera, focus=focus, trails=trails, trail_s=trail_s, aspect=aspect)
        self.width = width
        self._painter = make_painter(model, width, height, choose_backend(backend), samples)

    @property
    def backend(self) -> str:
        """Name of what draws: "egl", "osmesa", "glfw", "cgl" or "software"."""
        return self._painter.name

    def render(self, data: mujoco.MjData, markers: Sequence[Marker] = ()) -> NDArray[np.uint8]:
        """A picture, uint8 [H, W, 3].

        Args:
            data: state to draw; of the visual model or of one with the same state layout.
            markers: what to add to the scene, see `marker_shape`; "trail" (bool) draws the path of its "pos".
        """
        frame = self.compose(data, markers)
        return self._painter.paint(self._data, frame.view, frame.shapes)

    def close(self) -> None:
        """Free what the back end holds."""
        self._painter.close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Trails:
    """Paths of the last few seconds, as capsules that fade towards their tail."""

    jump = 0.5  # m, between two frames: a reset and not a flight

    def __init__(self, seconds: float, radius: float) -> None:
        self.seconds = seconds
        self.radius = radius
        self.now = 0.0
        self.paths: dict[Any, deque[tuple[float, Vector]]] = {}
        self.colors: dict[Any, Sequence[float]] = {}

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
        self.colors[key] = rgba

    def clear(self) -> None:
        self.paths.clear()

    def shapes(self, thinnest: float) -> list[FrameShape]:
        """The trails as capsules with radii of at least `thinnest` m, so that they can be seen from afar."""
        out = []
        for key, path in self.paths.items():
            r, g, b, a = self.colors[key]
            points = list(path)
            for (t, start), (_, end) in zip(points, points[1:], strict=False):
                if np.linalg.norm(end - start) > 1e-6:
                    fresh = 1.0 - (self.now - t) / self.seconds
                    rgba = (r, g, b, a * (0.15 + 0.85 * fresh))
                    out.append(
                        FrameShape(start, max(self.radius * (0.35 + 0.65 * fresh), thinnest), rgba, end, "capsule")
                    )
        return out
