"""Boxes, cylinders and arrows for the software renderer: triangles, laid translucent over a picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.sim.rendering.frame import FrameShape

Floats = NDArray[np.float64]
Project = Callable[[Floats], tuple[float, float, float]]
_HEAD = 1.75  # of the shaft's radius: half the width of MuJoCo's arrow heads
_SUN = np.array([-0.30, -0.47, 0.83])


def triangles(shape: FrameShape) -> Floats:
    """[T, 3, 3] m: the corners of a shape's triangles in the world, anticlockwise as seen from outside."""
    if shape.kind == "box":
        assert shape.half is not None and shape.turn is not None
        mesh = trimesh.creation.box(extents=2.0 * shape.half)
        return np.asarray(mesh.triangles) @ shape.turn.T + shape.start
    assert shape.end is not None
    along = shape.end - shape.start
    length = float(np.linalg.norm(along))
    frame = trimesh.geometry.align_vectors([0.0, 0.0, 1.0], along / length)
    frame[:3, 3] = shape.start
    if shape.kind == "cylinder":
        parts = [_upright(shape.radius, 0.0, length)]
    else:
        neck = max(length - 4.0 * shape.radius, 0.5 * length)
        cone = trimesh.creation.cone(radius=_HEAD * shape.radius, height=length - neck, sections=16)
        parts = [_upright(shape.radius, 0.0, neck), cone.apply_translation((0.0, 0.0, neck))]
    return np.concatenate([np.asarray(part.apply_transform(frame).triangles) for part in parts])


def _upright(radius: float, bottom: float, top: float) -> trimesh.Trimesh:
    mesh = trimesh.creation.cylinder(radius=radius, height=top - bottom, sections=16)
    return mesh.apply_translation((0.0, 0.0, 0.5 * (bottom + top)))


def blend_solid(picture: Floats, depth: Floats, project: Project, shape: FrameShape) -> None:
    """Lay a box, cylinder or arrow over the picture [H, W, 3] where nothing nearer stands in `depth` [H, W] m; `project` gives
    x and y in pixels and the depth of a point."""
    height, width = depth.shape
    corners = triangles(shape)
    pixels = np.array([[project(corner) for corner in triangle] for triangle in corners])
    if pixels[..., 2].min() < 1e-3:
        return
    low = np.maximum(np.floor(pixels[..., :2].min((0, 1))).astype(int), 0)
    high = np.minimum(np.ceil(pixels[..., :2].max((0, 1))).astype(int) + 1, (width, height))
    if (low >= high).any():
        return
    y, x = np.mgrid[low[1] : high[1], low[0] : high[0]] + 0.5
    nearest = depth[low[1] : high[1], low[0] : high[0]].copy()
    light = np.zeros_like(nearest)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    for (a, b, c), normal in zip(pixels, normals, strict=True):
        area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        if area > -1e-9:  # from behind, since y goes down in a picture
            continue
        u = ((c[0] - b[0]) * (y - b[1]) - (c[1] - b[1]) * (x - b[0])) / area
        v = ((a[0] - c[0]) * (y - c[1]) - (a[1] - c[1]) * (x - c[0])) / area
        z = u * a[2] + v * b[2] + (1.0 - u - v) * c[2]
        front = (u >= 0) & (v >= 0) & (u + v <= 1) & (z < nearest)
        nearest[front] = z[front]
        light[front] = 255.0 * (0.8 + 0.2 * float(normal @ _SUN))
    part = picture[low[1] : high[1], low[0] : high[0]]
    alpha = np.where(light > 0, float(shape.rgba[3]), 0.0)[..., None]
    part += alpha * (light[..., None] * np.asarray(shape.rgba[:3], float) - part)
