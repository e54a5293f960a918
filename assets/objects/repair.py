"""Mends triangle meshes: fills small holes, turns windings round, thins out too many faces. All lengths in m."""

from __future__ import annotations

import numpy as np
import trimesh
from numpy.typing import NDArray

Ints = NDArray[np.int64]
SMALL_HOLE = 0.3  # of the bounding box's diagonal: the longest rim that is filled


def open_edges(mesh: trimesh.Trimesh) -> Ints:
    """Directed edges [E, 2] of faces without a face that runs them the other way: none in a closed mesh."""
    faces = np.asarray(mesh.faces, np.int64)
    n = len(mesh.vertices)
    edges = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    there = edges[:, 0] * n + edges[:, 1]
    back = edges[:, 1] * n + edges[:, 0]
    keys, where = np.unique(np.concatenate([there, back]), return_inverse=True)
    net = np.bincount(where[: len(there)], minlength=len(keys)) - np.bincount(where[len(there) :], minlength=len(keys))
    lone = np.repeat(keys, np.maximum(net, 0))
    return np.column_stack([lone // n, lone % n])


def fill_small_holes(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, int]:
    """The mesh with a fan over each rim that is shorter than 30 % of its diagonal, and how many there were."""
    following: dict[int, list[int]] = {}
    for a, b in open_edges(mesh).tolist():
        following.setdefault(a, []).append(b)  # where two holes meet in a vertex, two rims start there
    vertices = list(mesh.vertices)
    faces = [np.asarray(mesh.faces)]
    filled = 0
    longest = SMALL_HOLE * float(np.linalg.norm(mesh.extents))
    while following:
        start = next(iter(following))
        rim = [start]
        then = _step(following, start)
        while then != start and then in following:
            rim.append(then)
            then = _step(following, then)
        points = np.asarray(mesh.vertices)[rim]
        if then != start or np.linalg.norm(points - np.roll(points, 1, 0), axis=1).sum() > longest:
            continue
        vertices.append(points.mean(0))
        middle = np.full(len(rim), len(vertices) - 1)
        faces.append(np.column_stack([np.roll(rim, -1), rim, middle]))
        filled += 1
    return trimesh.Trimesh(np.array(vertices), np.concatenate(faces), process=False), filled


def _step(following: dict[int, list[int]], at: int) -> int:
    """Take an edge that starts at a vertex; returns where it ends."""
    ends = following[at]
    then = ends.pop()
    if not ends:
        del following[at]
    return then


def turn_outwards(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, bool]:
    """The mesh with all faces anticlockwise as seen from outside, and whether any had to be turned."""
    if mesh.is_winding_consistent and mesh.volume > 0.0:
        return mesh, False
    mended = mesh.copy()
    trimesh.repair.fix_normals(mended, multibody=True)
    return mended, True


def thin_out(mesh: trimesh.Trimesh, max_faces: int) -> trimesh.Trimesh:
    """At most `max_faces` faces: vertices within one cell of a grid become one, their mean. What was closed stays closed."""
    cell = float(np.sqrt(2.0 * mesh.area / max_faces))
    while True:
        thin = _clustered(mesh, cell)
        if len(thin.faces) <= max_faces:
            return thin
        cell *= 1.02 * float(np.sqrt(len(thin.faces) / max_faces))


def _clustered(mesh: trimesh.Trimesh, cell: float) -> trimesh.Trimesh:
    grid = np.floor((mesh.vertices - mesh.bounds[0]) / cell).astype(np.int64)
    side = grid.max() + 1
    _, where = np.unique((grid[:, 0] * side + grid[:, 1]) * side + grid[:, 2], return_inverse=True)
    count = np.bincount(where)
    vertices = np.column_stack([np.bincount(where, mesh.vertices[:, k]) / count for k in range(3)])
    faces = where[np.asarray(mesh.faces)]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    # faces that fell onto one another with opposite windings cancel out
    first = faces.argmin(1)
    faces = faces[np.arange(len(faces))[:, None], (first[:, None] + np.arange(3)) % 3]
    sign = np.where(faces[:, 1] < faces[:, 2], 1, -1)
    keys, group = np.unique(np.sort(faces, 1), axis=0, return_inverse=True)
    net = np.bincount(group.ravel(), sign, len(keys)).astype(int)
    faces = np.concatenate([keys[net > 0], keys[net < 0][:, [0, 2, 1]]])
    return trimesh.Trimesh(vertices, faces, process=False)
