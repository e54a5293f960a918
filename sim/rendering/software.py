"""Draws MuJoCo scenes with PyBullet's TinyRenderer: no OpenGL, no display, one core.

Geoms become visual bodies of a PyBullet client that simulates nothing. What TinyRenderer lacks or does badly is put in
with its depth buffer: sky, a floor without end, shadows on it, and the translucent markers and trails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.rendering.geoms import CAPSULE, ELLIPSOID, PLANE, SHOWN, SPHERE, geom_color, geom_mesh
from rookery.sim.rendering.solids import blend_solid

if TYPE_CHECKING:
    from rookery.sim.rendering.frame import FrameShape, View

Floats = NDArray[np.float64]
_SKY_TOP = np.array([105.0, 150.0, 200.0])
_SKY_BOTTOM = np.array([214.0, 228.0, 238.0])
_TILES = np.array([[146.0, 158.0, 168.0], [163.0, 176.0, 186.0]])
_TILE_M = 0.5
_LIGHT = (-0.35, -0.55, 1.0)


class SoftwarePainter:
    """The software counterpart of `opengl.OpenGLPainter`."""

    name = "software"

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        try:
            import pybullet
        except ImportError as e:
            raise RookeryError(
                "there is nothing to draw with: OpenGL does not work here and PyBullet is not installed; "
                "`pip install pybullet`, or install OpenGL as `rookery doctor` says."
            ) from e
        self._bullet = pybullet
        self._model = model
        self._width = width
        self._height = height
        self._client: int | None = pybullet.connect(pybullet.DIRECT)
        self._geoms: list[tuple[int, int]] = []
        self._floor: float | None = None
        for g in range(model.ngeom):
            self._add_geom(g)

    def paint(self, data: mujoco.MjData, view: View, shapes: Sequence[FrameShape]) -> NDArray[np.uint8]:
        """The picture [H, W, 3] of `data` (kinematics done) from `view`, with extra shapes."""
        quat = np.zeros(4)
        for geom, body in self._geoms:
            mujoco.mju_mat2Quat(quat, data.geom_xmat[geom])
            self._bullet.resetBasePositionAndOrientation(
                body, data.geom_xpos[geom].tolist(), np.roll(quat, -1).tolist(), physicsClientId=self._client
            )
        reach = float(np.linalg.norm(view.eye - view.target))
        near = 0.05 * reach
        far = max(60.0, 20.0 * reach)
        lens = _Lens(view, self._width, self._height)
        color, depth, drawn = self._take(view, near, far)
        depth = np.where(drawn, depth, np.inf)
        picture = np.where(drawn[..., None], color, _sky(lens, self._height)[:, None])
        if self._floor is not None:
            depth = self._lay_floor(picture, depth, lens, data)
        for shape in sorted(shapes, key=lambda s: -float(np.linalg.norm(s.start - view.eye))):
            if shape.kind in ("sphere", "capsule"):
                _blend(picture, depth, lens, shape)
            else:
                blend_solid(picture, depth, lens.pixel, shape)
        return picture.clip(0, 255).astype(np.uint8)

    def _take(self, view: View, near: float, far: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Colors [H, W, 3], distances along the view axis [H, W] m, and where anything was drawn [H, W]."""
        p = self._bullet
        look = p.computeViewMatrix(view.eye.tolist(), view.target.tolist(), view.up.tolist())
        frustum = p.computeProjectionMatrixFOV(view.fovy, self._width / self._height, near, far)
        _, _, rgba, z, seen = p.getCameraImage(
            self._width,
            self._height,
            look,
            frustum,
            lightDirection=_LIGHT,
            lightAmbientCoeff=0.55,
            lightDiffuseCoeff=0.55,
            lightSpecularCoeff=0.05,
            shadow=0,
            renderer=p.ER_TINY_RENDERER,
            physicsClientId=self._client,
        )
        shape = (self._height, self._width)
        depth = near * far / (far - (far - near) * np.reshape(z, shape).astype(float))
        color = np.reshape(rgba, (*shape, 4))[..., :3].astype(float)
        return color, depth, np.reshape(seen, shape) >= 0

    def _add_geom(self, geom: int) -> None:
        """Make the visual body of a geom that MuJoCo would draw by default and that is not see-through."""
        model = self._model
        rgba = geom_color(model, geom)
        if model.geom_group[geom] > SHOWN or rgba[3] < 0.5:
            return
        kind = int(model.geom_type[geom])
        if kind == PLANE:
            self._floor = float(model.geom_pos[geom, 2])
            return
        mesh = geom_mesh(model, geom)
        if mesh is not None:
            self._geoms.append((geom, self._body(mesh, rgba, smooth=kind in (SPHERE, ELLIPSOID, CAPSULE))))

    def _body(self, mesh: trimesh.Trimesh, rgba: Floats, smooth: bool) -> int:
        vertices = mesh.triangles.reshape(-1, 3)
        normals = np.repeat(mesh.face_normals, 3, axis=0)
        faces = np.arange(len(vertices)).reshape(-1, 3)
        if smooth:  # by hand: trimesh's own way asks for SciPy
            vertices = mesh.vertices
            normals = np.zeros_like(mesh.vertices)
            faces = np.asarray(mesh.faces)
            np.add.at(normals, faces.ravel(), np.repeat(mesh.face_normals, 3, axis=0))
            normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        shape = self._bullet.createVisualShape(
            self._bullet.GEOM_MESH,
            vertices=vertices.tolist(),
            indices=faces.ravel().tolist(),
            normals=normals.tolist(),
            rgbaColor=list(rgba),
            physicsClientId=self._client,
        )
        return int(self._bullet.createMultiBody(0, -1, shape, physicsClientId=self._client))

    def _lay_floor(self, picture: Floats, depth: Floats, lens: _Lens, data: mujoco.MjData) -> Floats:
        """Put a chequered floor with soft shadows behind what was drawn; returns the depths with the floor's."""
        height = float(self._floor or 0.0)
        rays = lens.rays()
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (height - lens.eye[2]) / rays[..., 2]
        seen = (distance > 0) & (distance < depth)
        at = lens.eye[:2] + distance[seen][:, None] * rays[seen][:, :2]
        odd = (np.floor(at / _TILE_M).sum(1) % 2).astype(int)
        # Tiles smaller than a few pixels melt into their mean, and that into the horizon, or they would flicker.
        sharp = np.clip(lens.focal * _TILE_M * np.abs(rays[seen][:, 2]) / (4.0 * distance[seen]), 0.0, 1.0)[:, None]
        haze = np.exp(-distance[seen] / 60.0)[:, None]
        color = _TILES.mean(0) + sharp * (_TILES[odd] - _TILES.mean(0))
        color = _SKY_BOTTOM + haze * (color - _SKY_BOTTOM)
        for spot, radius, strength in self._shadows(data, height):
            away = np.linalg.norm(at - spot, axis=1) / radius
            color *= 1.0 - strength * np.clip(1.6 - 1.2 * away, 0.0, 1.0)[:, None]
        picture[seen] = color
        return np.where(seen, distance, depth)

    def _shadows(self, data: mujoco.MjData, floor: float) -> list[tuple[Floats, float, float]]:
        """Soft blots under free bodies, so that heights can be told: place [2] m, radius m, strength in [0, 1]."""
        model = self._model
        out = []
        for body in model.jnt_bodyid[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]:
            up = max(float(data.xpos[body, 2]) - floor, 0.0)
            geoms = np.flatnonzero((model.geom_bodyid == body) & (model.geom_group <= 2))
            reach = max((float(np.linalg.norm(model.geom_pos[g]) + model.geom_rbound[g]) for g in geoms), default=0.1)
            spot = data.xpos[body, :2] - up * np.array(_LIGHT[:2])
            out.append((spot, 0.8 * reach, 0.45 / (1.0 + 0.3 * up)))
        return out

    def close(self) -> None:
        """Disconnect the PyBullet client. Safe to call twice."""
        if self._client is not None:
            self._bullet.disconnect(self._client)
            self._client = None


class _Lens:
    """A pinhole: world points to pixels and back. Depths are m along the view axis."""

    def __init__(self, view: View, width: int, height: int) -> None:
        self.eye = view.eye
        self.size = (width, height)
        self.right, self.down, self.forward = view.axes
        self.focal = 0.5 * height / np.tan(np.radians(view.fovy) / 2)  # pixels

    def pixel(self, point: Floats) -> tuple[float, float, float]:
        """x, y in pixels, and depth."""
        away = point - self.eye
        depth = float(away @ self.forward)
        scale = self.focal / max(depth, 1e-6)
        return (
            0.5 * self.size[0] + scale * float(away @ self.right),
            0.5 * self.size[1] + scale * float(away @ self.down),
            depth,
        )

    def rays(self) -> Floats:
        """[H, W, 3]: from the eye through each pixel, 1 m deep."""
        x = (np.arange(self.size[0]) + 0.5 - 0.5 * self.size[0]) / self.focal
        y = (np.arange(self.size[1]) + 0.5 - 0.5 * self.size[1]) / self.focal
        out: Floats = self.forward + x[None, :, None] * self.right + y[:, None, None] * self.down
        return out


def _blend(picture: Floats, depth: Floats, lens: _Lens, shape: FrameShape) -> None:
    """Lay a translucent sphere or capsule over the picture where nothing stands in front of it."""
    x0, y0, z0 = lens.pixel(shape.start)
    x1, y1, z1 = lens.pixel(shape.end) if shape.end is not None else (x0, y0, z0)
    if min(z0, z1) < 1e-3:
        return
    radius = max(lens.focal * shape.radius / min(z0, z1), 0.7)
    left = int(min(x0, x1) - radius)
    right = int(max(x0, x1) + radius) + 2
    top = int(min(y0, y1) - radius)
    bottom = int(max(y0, y1) + radius) + 2
    left = max(left, 0)
    top = max(top, 0)
    right = min(right, lens.size[0])
    bottom = min(bottom, lens.size[1])
    if left >= right or top >= bottom:
        return
    y, x = np.mgrid[top:bottom, left:right] + 0.5
    along = np.array([x1 - x0, y1 - y0])
    t = np.clip(((x - x0) * along[0] + (y - y0) * along[1]) / max(float(along @ along), 1e-9), 0.0, 1.0)
    away = np.hypot(x - x0 - t * along[0], y - y0 - t * along[1]) / radius
    z = z0 + t * (z1 - z0) - (shape.radius * np.sqrt(np.clip(1 - away**2, 0, 1)))
    inside = (away < 1.0) & (z < depth[top:bottom, left:right])
    alpha = np.where(inside, float(shape.rgba[3]), 0.0)[..., None]
    light = 255.0 * (0.75 + 0.25 * np.sqrt(np.clip(1 - away**2, 0, 1)))[..., None] * np.asarray(shape.rgba[:3], float)
    picture[top:bottom, left:right] += alpha * (light - picture[top:bottom, left:right])


def _sky(lens: _Lens, height: int) -> Floats:
    """[H, 3]: pale at the horizon, blue above."""
    y = (np.arange(height) + 0.5 - 0.5 * height) / lens.focal
    rise = np.clip(lens.forward[2] + y * lens.down[2], 0.0, 1.0)[:, None]
    out: Floats = _SKY_BOTTOM + np.sqrt(rise) * (_SKY_TOP - _SKY_BOTTOM)
    return out
