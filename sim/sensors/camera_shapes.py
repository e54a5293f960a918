"""Geoms and cameras of a model as the ray caster takes them: in the frames of the bodies that carry them."""

from __future__ import annotations

import mujoco
import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim.sensors.shading import BOX, CAPSULE, CYLINDER, ELLIPSOID, HULL, PLANE, SPHERE

Hulls = tuple[np.ndarray, np.ndarray]
"""(start [G + 1], planes [P, 4]), see `raycast.render`."""


class CameraFrames:
    """Poses of geoms and cameras in the frames of the bodies that carry them: the topmost of what is rigidly joined.

    Args:
        roots: ids of those bodies, in the order of the state that the kernel gets.
    """

    def __init__(self, model: mujoco.MjModel, roots: list[int]) -> None:
        self.model = model
        self.data = mujoco.MjData(model)
        self.roots = roots
        mujoco.mj_kinematics(model, self.data)
        mujoco.mj_comPos(model, self.data)
        mujoco.mj_camlight(model, self.data)

    def _in_root(self, body: int, pos: np.ndarray, mat: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        """Index of the carrier (-1: the world) and the pose in its frame."""
        root = int(self.model.body_weldid[body])
        turn = self.data.xmat[root].reshape(3, 3).T
        at = self.roots.index(root) if root else -1
        return at, turn @ (pos - self.data.xpos[root]), turn @ mat.reshape(3, 3)

    def cameras(self, ids: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(body [C], pos [C, 3], mat [C, 9])."""
        m, d = self.model, self.data
        return _stack([self._in_root(m.cam_bodyid[i], d.cam_xpos[i], d.cam_xmat[i]) for i in ids])

    def shapes(self, geoms: list[int], classes: np.ndarray) -> tuple[tuple[np.ndarray, ...], Hulls]:
        """`shapes` and `hulls` of `raycast.render`.

        Raises:
            RookeryError: one of them is a height field.
        """
        m, d = self.model, self.data
        kinds = []
        sizes = []
        halves = []
        poses = []
        faces = []
        for g in geoms:
            kind = int(m.geom_type[g])
            size = m.geom_size[g]
            pos = d.geom_xpos[g]
            mat = d.geom_xmat[g].reshape(3, 3)
            if kind == mujoco.mjtGeom.mjGEOM_HFIELD:
                raise RookeryError(f"cameras do not draw height fields, and geom {m.geom(g).name!r} is one: use boxes.")
            hull = np.zeros((0, 4))
            if kind not in (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX):
                middle = m.geom_aabb[g, :3]
                size = m.geom_aabb[g, 3:]
                hull = _hull(m, int(m.geom_dataid[g]), middle)
                pos = pos + mat @ middle
                kind = HULL if len(hull) else BOX
            kinds.append(kind)
            sizes.append(size)
            halves.append(_half_edges(kind, size))
            poses.append(self._in_root(m.geom_bodyid[g], pos, mat))
            faces.append(hull)
        flat = [np.array(a, np.float32).reshape(-1, 3) for a in (sizes, halves)]
        starts = np.cumsum([0, *(len(f) for f in faces)])
        planes = np.concatenate([np.zeros((0, 4)), *faces]).astype(np.float32)
        return (np.array(kinds, np.int64), *_stack(poses), *flat, classes.astype(np.int32)), (starts, planes)


def _hull(model: mujoco.MjModel, mesh: int, middle: np.ndarray) -> np.ndarray:
    """[F, 4]: outward unit normals of the faces of a mesh's convex hull, which MuJoCo has found for collisions, and their
    distances in m from `middle` (in the geom's frame). Empty where there is none."""
    if mesh < 0 or not model.mesh_polynum[mesh]:
        return np.zeros((0, 4))
    first = int(model.mesh_polyadr[mesh])
    count = int(model.mesh_polynum[mesh])
    normals = model.mesh_polynormal[first : first + count].astype(float)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    corners = model.mesh_vert[int(model.mesh_vertadr[mesh]) :][: int(model.mesh_vertnum[mesh])].astype(float) - middle
    return np.hstack((normals, (normals @ corners.T).max(axis=1, keepdims=True)))


def _stack(poses: list[tuple[int, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pos = np.array([p for _, p, _ in poses], np.float32).reshape(-1, 3)
    mat = np.array([m for _, _, m in poses], np.float32).reshape(-1, 9)
    return np.array([b for b, _, _ in poses], np.int64), pos, mat


def _half_edges(kind: int, size: np.ndarray) -> np.ndarray:
    """[3] m, of the box around a shape in its own axes; nothing for a plane."""
    r, h = size[0], size[1]
    table = {PLANE: (0.0, 0.0, 0.0), SPHERE: (r, r, r), CAPSULE: (r, r, r + h), CYLINDER: (r, r, h)}
    return np.array(table.get(kind, size))
