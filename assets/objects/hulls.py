"""Convex hulls by MuJoCo's own Qhull, so that what is shown and measured here is what MuJoCo will collide with."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.assets.errors import RookeryError

Floats = NDArray[np.float64]
THINNEST = 1e-5
"""Points closer to a plane than this share of their extent span no solid."""


def hull(points: Floats) -> trimesh.Trimesh:
    """The convex hull of points [V, 3] m as a closed mesh.

    Raises:
        RookeryError: the points are fewer than four or lie in a plane.
    """
    found = hulls([points])[0]
    if found is None:
        raise RookeryError(f"{len(points)} points in a plane have no convex hull: give four or more that span a solid.")
    return found


def hulls(clouds: Sequence[Floats]) -> list[trimesh.Trimesh | None]:
    """The convex hulls of many clouds of points [V, 3] m at once; None for a cloud that spans no solid.

    One compilation for all, on all cores: about 1 ms a hull of some hundred points.
    """
    spec = mujoco.MjSpec()
    placed: list[tuple[int, Floats]] = []
    for i, cloud in enumerate(clouds):
        points = np.unique(np.round(cloud, 9), axis=0)
        if len(points) < 4 or _is_flat(points):
            continue
        centre = points.mean(0)
        extent = float(np.ptp(points, axis=0).max())
        asset = spec.add_mesh(name=str(i))
        asset.uservert = ((points - centre) / extent).ravel()  # of size one: MuJoCo refuses tiny volumes
        asset.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=str(i), contype=0, conaffinity=0)
        placed.append((i, points))
    found: list[trimesh.Trimesh | None] = [None] * len(clouds)
    if not placed:
        return found
    model = spec.compile()
    for k, (i, points) in enumerate(placed):
        first = model.mesh_faceadr[k]
        count = model.mesh_facenum[k]
        faces = model.mesh_face[first : first + count]  # of a mesh without faces MuJoCo makes those of its hull
        used, faces = np.unique(faces, return_inverse=True)
        found[i] = trimesh.Trimesh(points[used], faces.reshape(-1, 3), process=False)
    return found


def _is_flat(points: Floats) -> bool:
    centred = points - points.mean(0)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(centred.T @ centred / len(points)), 0.0))
    return bool(spread[0] < THINNEST * spread[2])
