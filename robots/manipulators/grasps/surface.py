"""Points on a mesh and lines through it, in numpy."""

from __future__ import annotations

import numpy as np
import trimesh
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CHUNK = 2_000_000  # pairs of line and triangle at a time: about 200 MB


def sample_surface(mesh: trimesh.Trimesh, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points [count, 3] m, even over the surface, and its outward normals there [count, 3]."""
    areas = np.asarray(mesh.area_faces)
    faces = np.searchsorted(np.cumsum(areas), rng.uniform(0.0, areas.sum(), count)).clip(max=len(areas) - 1)
    u, v = rng.uniform(size=(2, count, 1))
    over = u + v > 1.0
    u, v = np.where(over, 1.0 - u, u), np.where(over, 1.0 - v, v)
    a, b, c = np.moveaxis(np.asarray(mesh.triangles)[faces], 1, 0)
    return a + u * (b - a) + v * (c - a), np.asarray(mesh.face_normals)[faces]


def through(
    mesh: trimesh.Trimesh, points: Floats, directions: Floats
) -> tuple[Floats, NDArray[np.int64], Floats, Floats]:
    """Solid pieces that lines begin at points of the surface.

    Overlapping shells count as one solid: a piece ends where the line leaves the last of them.

    Args:
        points: [N, 3] m, on the surface. directions: [N, 3], unit vectors, into the solid.

    Returns:
        Length [N] m of the piece, nan where the point is no outer surface; the face [N] where it ends; and the free ways [N] m
        before its beginning and behind its end, inf where nothing more comes.
    """
    out = [
        _pieces(mesh, points[i], directions[i])
        for i in np.array_split(np.arange(len(points)), max(1, len(points) * len(mesh.faces) // _CHUNK))
    ]
    length, face, before, behind = (np.concatenate(part) for part in zip(*out, strict=True))
    return length, face, before, behind


def _pieces(
    mesh: trimesh.Trimesh, points: Floats, directions: Floats
) -> tuple[Floats, NDArray[np.int64], Floats, Floats]:
    ways, enters, faces = _hits(mesh, points, directions)
    depth = np.cumsum(enters, axis=1)
    rows = np.arange(len(points))
    place = np.abs(ways).argmin(1)
    begins = (np.abs(ways[rows, place]) < 1e-6) & (enters[rows, place] > 0) & (depth[rows, place] == 1)
    ends = (depth == 0) & (np.arange(ways.shape[1]) > place[:, None]) & np.isfinite(ways)
    end = ends.argmax(1)
    length = np.where(begins & ends.any(1), ways[rows, end], np.nan)
    before = np.where(place > 0, -ways[rows, place - 1], np.inf)
    with np.errstate(invalid="ignore"):  # of lines that miss the surface altogether
        behind = ways[rows, end + 1] - ways[rows, end]
    return length, faces[rows, end], before, behind


def _hits(
    mesh: trimesh.Trimesh, points: Floats, directions: Floats
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Places where lines cross the surface, in order (Moeller and Trumbore 1997).

    Returns:
        Of each of N lines and the at most H crossings: the way to it in m; 1 where the line enters the solid, -1 where it
        leaves it; the face. Rows are filled up with inf, 0 and 0, one at least.
    """
    a, b, c = np.moveaxis(np.asarray(mesh.triangles), 1, 0)
    first = b - a
    second = c - a
    normal = np.cross(first, second)
    slope = directions @ normal.T  # [N, F]
    flat = np.abs(slope) < 1e-15
    inverse = 1.0 / np.where(flat, 1.0, slope)
    # the barycentric coordinates are triple products; those with the point's moment p x d and those with the corner a are
    # taken apart, so that all of it is a few matrix products
    moment = np.cross(points, directions)
    u = (directions @ np.cross(second, a).T - moment @ second.T) * inverse
    v = (moment @ first.T - directions @ np.cross(first, a).T) * inverse
    line, face = np.nonzero(~flat & (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0))
    way = ((a[face] - points[line]) * normal[face]).sum(1) * inverse[line, face]
    order = np.lexsort((way, line))
    line = line[order]
    face = face[order]
    way = way[order]
    each = np.bincount(line, minlength=len(points))
    column = np.arange(len(line)) - np.repeat(np.cumsum(each) - each, each)
    shape = (len(points), int(each.max(initial=0)) + 1)
    ways = np.full(shape, np.inf)
    enters = np.zeros(shape, np.int64)
    faces = np.zeros(shape, np.int64)
    ways[line, column] = way
    faces[line, column] = face
    enters[line, column] = np.where(slope[line, face] < 0.0, 1, -1)
    return ways, enters, faces
