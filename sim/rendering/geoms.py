"""Geoms of a visual model as colors and triangle meshes, for what draws without MuJoCo's own renderer."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PLANE, BOX, CYLINDER, CAPSULE, SPHERE, ELLIPSOID, MESH = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("PLANE", "BOX", "CYLINDER", "CAPSULE", "SPHERE", "ELLIPSOID", "MESH")
)
SHOWN = 2
"""The last of the geom groups that MuJoCo draws by default."""


def geom_color(model: mujoco.MjModel, geom: int) -> Floats:
    """[4]: the geom's own color if it was given one, else its material's, as MuJoCo does it."""
    own: Floats = model.geom_rgba[geom].astype(float)
    material = int(model.geom_matid[geom])
    if material >= 0 and np.allclose(own, [0.5, 0.5, 0.5, 1.0]):
        return np.asarray(model.mat_rgba[material], float)
    return own


def geom_mesh(model: mujoco.MjModel, geom: int) -> Any:
    """A geom as a mesh in its own frame; None for planes and height fields."""
    kind = int(model.geom_type[geom])
    size = model.geom_size[geom]
    if kind == MESH:
        m = int(model.geom_dataid[geom])
        v, f = int(model.mesh_vertadr[m]), int(model.mesh_faceadr[m])
        vertices = model.mesh_vert[v : v + int(model.mesh_vertnum[m])]
        return trimesh.Trimesh(vertices, model.mesh_face[f : f + int(model.mesh_facenum[m])], process=False)
    if kind == BOX:
        return trimesh.creation.box(extents=2 * size)
    if kind == CYLINDER:
        return trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=24)
    if kind == CAPSULE:
        return trimesh.creation.capsule(radius=size[0], height=2 * size[1], count=[12, 12])
    if kind in (SPHERE, ELLIPSOID):
        return trimesh.creation.icosphere(subdivisions=2).apply_scale(np.full(3, size[0]) if kind == SPHERE else size)
    return None
