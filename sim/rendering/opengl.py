"""Finds an OpenGL back end that works on this machine, and draws MuJoCo scenes with it.

A missing or broken driver can end a process, so each candidate draws a picture in a process of its own first.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mujoco

    from rookery.sim.rendering.frame import FrameShape, Vector, View

_OFF = ("disable", "disabled", "off", "false", "0")
_PROBE_TIMEOUT = 60.0  # s
SUN_RADIUS = 0.016
"""rad, half the angle at which the sun is seen: three times that of the real one, for shadows as under thin clouds."""
_SOFTWARE_DRIVERS = ("llvmpipe", "softpipe", "swrast", "software rasterizer")
"""Names of OpenGL drivers that draw on the CPU. Multisampling doubles the time of a picture there, so it is off."""
_PROBE = """
import mujoco
from mujoco.rendering.classic import gl_context
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom size='1' rgba='1 1 1 1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 32, 32)
renderer.update_scene(data)
assert renderer.render().max() > 0, "the picture is black"
from OpenGL import GL
print("device:" + GL.glGetString(GL.GL_RENDERER).decode())
"""


@dataclass(frozen=True)
class Backend:
    """A back end that drew a picture here: its MUJOCO_GL name and the device behind it."""

    name: str
    device: str

    @property
    def on_cpu(self) -> bool:
        """True where its driver draws on the CPU."""
        return any(driver in self.device.lower() for driver in _SOFTWARE_DRIVERS)


@functools.cache
def probe() -> Backend | None:
    """The first back end that works, tried once a process; None when there is none.

    MUJOCO_GL narrows the search to the one it names ("off" stands for none).
    """
    for name in _candidates():
        env = {k: v for k, v in os.environ.items() if k != "PYOPENGL_PLATFORM"} | {"MUJOCO_GL": name}
        try:
            run = subprocess.run(
                [sys.executable, "-c", _PROBE], env=env, capture_output=True, text=True, timeout=_PROBE_TIMEOUT
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        found = [line for line in run.stdout.splitlines() if line.startswith("device:")]
        if run.returncode == 0 and found:
            return Backend(name, found[0].removeprefix("device:"))
    return None


def find_backend() -> str | None:
    """Name of the OpenGL back end that works here ("egl", "osmesa", "glfw", "cgl") or None. Sets MUJOCO_GL to it."""
    backend = probe()
    if backend is None:
        return None
    os.environ["MUJOCO_GL"] = backend.name
    return backend.name


def _candidates() -> Sequence[str]:
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in _OFF:
        return ()
    if sys.platform == "darwin":
        known: tuple[str, ...] = ("cgl", "glfw")
    elif sys.platform.startswith("linux"):
        shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        known = ("egl", "osmesa", "glfw") if shown or asked == "glfw" else ("egl", "osmesa")
    else:
        known = ("glfw",)
    return (asked,) if asked in known else known


def describe() -> str:
    """One sentence for `rookery doctor`: which back end draws videos here, and what to install when there is none."""
    backend = probe()
    if backend is not None:
        return f"OpenGL: {backend.name} on {backend.device}."
    asked = os.environ.get("MUJOCO_GL", "")
    if asked.lower().strip() in _OFF and asked:
        return f"OpenGL: switched off by MUJOCO_GL={asked}; videos are drawn by PyBullet's software renderer."
    only = f" (MUJOCO_GL={asked} allows no other than that one)" if asked else ""
    return (
        f"OpenGL: none works{only}; videos are drawn by PyBullet's software renderer, plainer and slower. On Debian or "
        "Ubuntu `apt-get install libegl1 libgl1 libgl1-mesa-dri` or `apt-get install libosmesa6` puts that right."
    )


def _make_context(name: str, width: int, height: int) -> Any:
    """A GL context of that back end, current in this thread, whatever MUJOCO_GL was when mujoco was imported."""
    if name == "egl":
        from mujoco.egl import GLContext
    elif name == "osmesa":
        from mujoco.osmesa import GLContext
    elif name == "cgl":
        from mujoco.cgl import GLContext
    else:
        from mujoco.glfw import GLContext
    context = GLContext(width, height)
    context.make_current()
    return context


class OpenGLPainter:
    """Draws the scene of one model with MuJoCo's OpenGL renderer.

    Args:
        model: the scene's visual model; its multisampling is switched off where the driver draws on the CPU.
        width, height: pixels.
        backend: what draws.
        samples: pictures that are averaged, each moved by part of a pixel and lit from another point of the sun: edges
            become smooth and shadows soft. The time is in proportion.
    """

    max_shapes = 4000

    def __init__(self, model: mujoco.MjModel, width: int, height: int, backend: Backend, samples: int = 1) -> None:
        import mujoco

        self._mj = mujoco
        self.name = backend.name
        if backend.on_cpu:
            model.vis.quality.offsamples = 0
        self._context = _make_context(backend.name, width, height)
        self._draw = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_resizeOffscreen(width, height, self._draw)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._draw)
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + model.nsite + self.max_shapes)
        self._model = model
        self._option = mujoco.MjvOption()
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._samples = [(_halves(k) + 0.5 / samples, (k + 0.5) / samples) for k in range(samples)]

    def paint(self, data: mujoco.MjData, view: View, shapes: Sequence[FrameShape]) -> NDArray[np.uint8]:
        """The picture [H, W, 3] of `data` (kinematics done) from `view`, with extra shapes."""
        mj = self._mj
        scene = self._scene
        self._context.make_current()
        mj.mjv_updateScene(
            self._model, data, self._option, None, self._camera(view), mj.mjtCatBit.mjCAT_ALL.value, scene
        )
        self._tune_shadows(view)
        for shape in shapes[: self.max_shapes]:
            self._add(shape)
        pixels = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        if len(self._samples) == 1:
            mj.mjr_render(self._rect, scene, self._draw)
            mj.mjr_readPixels(pixels, None, self._rect, self._draw)
            return np.ascontiguousarray(pixels[::-1])
        total = np.zeros(pixels.shape, np.uint16)
        lens = [(c.frustum_center, c.frustum_bottom, c.frustum_top) for c in scene.camera]
        suns = self._suns()
        directions = [np.array(s.dir) for s in suns]
        for across, up in self._samples:
            for camera, (centre, bottom, top) in zip(scene.camera, lens, strict=True):
                pixel = (top - bottom) / self._rect.height
                camera.frustum_center = centre + (across - 0.5) * pixel
                camera.frustum_bottom = bottom + (up - 0.5) * pixel
                camera.frustum_top = top + (up - 0.5) * pixel
            for sun, direction in zip(suns, directions, strict=True):
                _shine(sun, direction, view.target, across, up)
            mj.mjr_render(self._rect, scene, self._draw)
            mj.mjr_readPixels(pixels, None, self._rect, self._draw)
            total += pixels
        total += len(self._samples) // 2
        total //= len(self._samples)
        return np.ascontiguousarray(total[::-1].astype(np.uint8))

    def _suns(self) -> list[mujoco.MjvLight]:
        scene = self._scene
        kind = self._mj.mjtLightType.mjLIGHT_DIRECTIONAL
        return [v for v in (scene.lights[i] for i in range(scene.nlight)) if v.type == kind and not v.headlight]

    def _camera(self, view: View) -> mujoco.MjvCamera:
        camera = self._mj.MjvCamera()
        if view.camera_id >= 0:
            camera.type = self._mj.mjtCamera.mjCAMERA_FIXED
            camera.fixedcamid = view.camera_id
            return camera
        back = view.eye - view.target
        distance = float(np.linalg.norm(back))
        camera.type = self._mj.mjtCamera.mjCAMERA_FREE
        camera.lookat = view.target
        camera.distance = distance
        camera.azimuth = float(np.degrees(np.arctan2(-back[1], -back[0])))
        camera.elevation = -float(np.degrees(np.arcsin(back[2] / distance)))
        return camera

    def _tune_shadows(self, view: View) -> None:
        """Keep the shadow map where the camera looks, or small robots cast blocks; glassy things cast no shadow.

        It reaches past the camera, since the floor outside of it is speckled.
        """
        mj = self._mj
        scene = self._scene
        self._draw.shadowClip = max(0.5, 2.5 * float(np.linalg.norm(view.eye - view.target)))
        for sun in self._suns():
            sun.pos = view.target - 6.0 * np.asarray(sun.dir)
        for i in range(scene.ngeom):
            if scene.geoms[i].rgba[3] < 0.5:
                scene.geoms[i].category = mj.mjtCatBit.mjCAT_DECOR

    def _add(self, shape: FrameShape) -> None:
        mj = self._mj
        scene = self._scene
        if scene.ngeom >= scene.maxgeom:
            return
        geom = scene.geoms[scene.ngeom]
        rgba = np.asarray(shape.rgba, np.float32)
        kind = getattr(mj.mjtGeom, f"mjGEOM_{shape.kind.upper()}")
        size = np.full(3, shape.radius) if shape.half is None else shape.half
        turn = np.eye(3) if shape.turn is None else shape.turn
        mj.mjv_initGeom(geom, kind, size, shape.start, np.ascontiguousarray(turn).ravel(), rgba)
        if shape.end is not None:
            reach = 2.0 if shape.kind == "arrow" else 1.0  # MuJoCo draws arrows half as long as the connector is
            end = shape.start + reach * (shape.end - shape.start)
            mj.mjv_connector(geom, kind, shape.radius, shape.start, end)
        geom.category = mj.mjtCatBit.mjCAT_DECOR
        geom.emission = 0.1
        scene.ngeom += 1

    def close(self) -> None:
        """Free the context. Safe to call twice."""
        if self._context is not None:
            self._context.make_current()
            self._draw.free()
            self._context.free()
            self._context = None


def _halves(k: int) -> float:
    """The k-th number of van der Corput's sequence in [0, 1): 0, 1/2, 1/4, 3/4, 1/8, ..."""
    out = 0.0
    share = 0.5
    while k:
        out += share * (k % 2)
        k //= 2
        share /= 2
    return out


def _shine(sun: mujoco.MjvLight, direction: Vector, target: Vector, across: float, up: float) -> None:
    """Let a sun shine on `target` from the point (across, up), in [0, 1]^2 along equal areas, of a disc of `SUN_RADIUS`."""
    side = np.cross(direction, (1.0, 0.0, 0.0))
    side /= np.linalg.norm(side)
    radius = SUN_RADIUS * np.sqrt(up)
    angle = 2.0 * np.pi * across
    turned = direction + radius * (np.cos(angle) * side + np.sin(angle) * np.cross(side, direction))
    sun.dir = turned / np.linalg.norm(turned)
    sun.pos = target - 6.0 * np.asarray(sun.dir)
