"""Markers on the page: spheres, boxes, cylinders and arrows that come, go and move with every picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.sim.rendering.frame import FrameShape
from rookery.sim.rendering.solids import triangles

if TYPE_CHECKING:
    from viser import ViserServer

Floats = NDArray[np.float64]
_THIN = 0.1  # m, radius of the cylinder and the arrow of 1 m that are stretched to the others


class MarkerBatches:
    """All markers of a page, one batch a kind of shape.

    Args:
        server: of the page.
        path: scene node under which they are.
    """

    def __init__(self, server: ViserServer, path: str) -> None:
        self._server = server
        self._path = path
        self._drawn: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def draw(self, shapes: Sequence[tuple[Floats, FrameShape]]) -> None:
        """Draw these shapes, each moved by its offset [3] m, in place of those before."""
        kinds: dict[str, list[tuple[Floats, FrameShape]]] = {}
        for offset, shape in shapes:
            kinds.setdefault(shape.kind, []).append((offset, shape))
        for kind in {*kinds, *self._drawn}:
            self._draw_kind(kind, kinds.get(kind, []))

    def _draw_kind(self, kind: str, shapes: list[tuple[Floats, FrameShape]]) -> None:
        look = tuple(tuple(shape.rgba) for _, shape in shapes)
        old, handle = self._drawn.get(kind, ((), None))
        if look != old and handle is not None:
            handle.remove()
            handle = None
        if not shapes:
            self._drawn.pop(kind, None)
            return
        pos = np.array([offset + shape.start for offset, shape in shapes], np.float32)
        quat, scale = (np.array(x, np.float32) for x in zip(*(_turn_and_scale(s) for _, s in shapes), strict=True))
        if handle is None:
            mesh = _unit(kind)
            handle = self._server.scene.add_batched_meshes_simple(
                f"{self._path}/{kind}", mesh.vertices, mesh.faces, quat, pos, batched_scales=scale,
                batched_colors=as_bytes([rgba[:3] for rgba in look]), flat_shading=kind != "sphere",
                batched_opacities=np.array([rgba[3] for rgba in look], np.float32), lod="off", cast_shadow=False,
            )  # fmt: skip
            self._drawn[kind] = look, handle
        else:
            handle.batched_positions, handle.batched_wxyzs, handle.batched_scales = pos, quat, scale


def _unit(kind: str) -> trimesh.Trimesh:
    """The mesh that is stretched to shapes of a kind."""
    if kind == "sphere":
        return trimesh.creation.icosphere(subdivisions=2)
    up = np.array([0.0, 0.0, 1.0])
    shape = FrameShape(np.zeros(3), _THIN, (0, 0, 0, 1), up, kind, half=np.ones(3), turn=np.eye(3))
    corners = triangles(shape).reshape(-1, 3)
    if kind != "box":
        corners = corners / (_THIN, _THIN, 1.0)
    return trimesh.Trimesh(corners, np.arange(len(corners)).reshape(-1, 3), process=False)


def _turn_and_scale(shape: FrameShape) -> tuple[Floats, Floats]:
    """Quaternion [4] wxyz and factors [3] that make the unit mesh this shape."""
    quat = np.array([1.0, 0.0, 0.0, 0.0])
    if shape.kind == "box":
        assert shape.half is not None and shape.turn is not None
        mujoco.mju_mat2Quat(quat, shape.turn.ravel())
        return quat, shape.half
    if shape.end is None:
        return quat, np.full(3, shape.radius)
    along = shape.end - shape.start
    mujoco.mju_quatZ2Vec(quat, along)
    return quat, np.array([shape.radius, shape.radius, float(np.linalg.norm(along))])


def as_bytes(colors: Any) -> NDArray[np.uint8]:
    """[n, 3] from 0 to 1 as bytes."""
    return np.round(np.clip(np.asarray(colors, float), 0.0, 1.0) * 255).astype(np.uint8)
