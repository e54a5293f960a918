"""Approximate convex decomposition: a closed mesh cut by planes until the convex hulls of the pieces fill hardly more.

Every piece is the mesh within a convex cell, so hulls of different pieces never overlap, and the sum of their volumes less
the mesh's volume is exactly what is filled too much. A cut keeps the clipped skin, which spans the hull, apart from the lids
over the cut. Lids are fans: their triangles may overlap, but with their signs they close the volume integral exactly, so
nothing is ever triangulated. Where three cuts meet inside the solid or on its skin, the hull needs that corner too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import trimesh
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from rookery.assets.errors import RookeryError
from rookery.assets.objects.cuts import clip, corners, heights, volume
from rookery.assets.objects.hulls import hulls

Floats = NDArray[np.float64]
LEVELS = 5  # evenly spaced cuts along each axis
FACE_LEVELS = 6  # and cuts along the largest flat faces across it
UNEVEN = 1e-3, 1.0
"""What an uneven cut costs, as a share of the difference of both volumes. In the first try little: it halves rings, where no
cut gains. In a second about as much as a cut can gain, so that a thin wall is not first sliced into rings."""
POOR = 0.25
"""Excess after the first try from which there is a second."""
SLIVER = 1e-3  # of the mesh's volume: no smaller piece is cut off


@dataclass(frozen=True, eq=False)
class _Piece:
    """Skin [T, 3, 3] m and lids [C, 3, 3] m, the cell's planes [P, 4] (normal, offset: inside is below), points [N, 3] m that
    span its hull, and the m^3 within."""

    skin: Floats
    lids: Floats
    planes: Floats
    points: Floats
    volume: float


def decompose(
    mesh: trimesh.Trimesh, *, max_parts: int = 32, tolerance: float = 0.03
) -> tuple[list[trimesh.Trimesh], float]:
    """Convex meshes (m) that together are nearly the closed `mesh`.

    Args:
        max_parts: no more parts than this.
        tolerance: stop once the parts fill at most this share of the volume more than the mesh.

    Returns:
        The parts, and the share that they fill more than the mesh.

    Raises:
        RookeryError: the mesh spans no solid.
    """
    skin = np.array(mesh.triangles, float)  # a copy: the cached one is read-only, which Numba takes for another type
    points = np.unique(skin.reshape(-1, 3), axis=0)
    whole = _Piece(skin, np.zeros((0, 3, 3)), np.zeros((0, 4)), points, volume(skin))
    first = hulls([whole.points])[0]
    if first is None or whole.volume <= 0.0:
        raise RookeryError("a mesh without volume has no convex parts: give one that is closed and not inside out.")
    parts, gap = _cut_up(whole, first, max_parts, tolerance * whole.volume, UNEVEN[0])
    if gap > POOR * whole.volume:
        others, other_gap = _cut_up(whole, first, max_parts, tolerance * whole.volume, UNEVEN[1])
        if other_gap < gap:
            parts = others
            gap = other_gap
    return parts, gap / whole.volume


def _cut_up(
    whole: _Piece, first: trimesh.Trimesh, max_parts: int, enough: float, uneven: float
) -> tuple[list[trimesh.Trimesh], float]:
    """Hulls of the pieces, always cutting the one whose hull fills too much most, and the m^3 that all fill too much."""
    pieces = [(whole, first)]
    gaps = [float(first.volume) - whole.volume]
    final: set[int] = set()
    while len(pieces) < max_parts and sum(gaps) > enough and len(final) < len(pieces):
        worst = max((i for i in range(len(pieces)) if i not in final), key=lambda i: gaps[i])
        halves = _best_cut(pieces[worst][0], whole, uneven) if gaps[worst] > 1e-4 * whole.volume else None
        if halves is None:
            final.add(worst)
            continue
        pieces[worst] = halves[0]
        pieces.append(halves[1])
        gaps[worst], extra = (float(h.volume) - p.volume for p, h in halves)
        gaps.append(extra)
    return [h for _, h in pieces], sum(gaps)


def _best_cut(piece: _Piece, whole: _Piece, uneven: float) -> list[tuple[_Piece, trimesh.Trimesh]] | None:
    """Both halves, with their hulls, by the plane after which the hulls fill least; None where no plane cuts it."""
    found = []
    for normal, offset in _candidates(piece):
        below, above = _halves(piece, whole.skin, normal, offset)
        if min(below.volume, above.volume) > SLIVER * whole.volume:
            cost = hull_volume(below.points) + hull_volume(above.points) + uneven * abs(below.volume - above.volume)
            found.append((cost, below, above))
    for _, below, above in sorted(found, key=lambda cut: cut[0]):
        a, b = hulls([below.points, above.points])
        if a is not None and b is not None:
            return [(_tidied(below), a), (_tidied(above), b)]
    return None


def _tidied(piece: _Piece) -> _Piece:
    """Without points that are there twice and triangles without area, which cuts along cuts leave behind."""
    a, b, c = np.moveaxis(piece.skin, 1, 0)
    flat = (a == b).all(1) | (b == c).all(1) | (c == a).all(1)
    return replace(piece, skin=piece.skin[~flat], points=np.unique(np.round(piece.points, 9), axis=0))


def hull_volume(points: Floats) -> float:
    """m^3 of the convex hull of points [N, 3] m; 0 of what is flat."""
    try:
        return float(ConvexHull(points).volume)
    except (QhullError, ValueError):
        return 0.0


def _candidates(piece: _Piece) -> list[tuple[Floats, float]]:
    """Planes (normal, offset) across the object's axes and the piece's own."""
    cross = np.cross(piece.skin[:, 1] - piece.skin[:, 0], piece.skin[:, 2] - piece.skin[:, 0])
    area = np.linalg.norm(cross, axis=1) + 1e-30
    centres = piece.skin.mean(1)
    offset = centres - np.average(centres, axis=0, weights=area)
    _, own = np.linalg.eigh((offset * area[:, None]).T @ offset)
    planes = []
    for k, axis in enumerate([*np.eye(3), *own.T.copy()]):
        if k >= 3 and np.abs(axis).max() > 0.999:
            continue
        heights = piece.points @ axis
        low = heights.min()
        high = heights.max()
        levels = [low + (high - low) * (i + 1) / (LEVELS + 1) for i in range(LEVELS)]
        flat = np.abs(cross @ axis) > 0.999 * area
        heights_of = centres @ axis
        at, where = np.unique(np.round(heights_of[flat] / (high - low), 4), return_inverse=True)
        largest = np.argsort(-np.bincount(where.ravel(), area[flat], len(at)))[:FACE_LEVELS]
        weight = np.bincount(where.ravel(), area[flat], len(at)) + 1e-30
        levels += (np.bincount(where.ravel(), area[flat] * heights_of[flat], len(at)) / weight)[largest].tolist()
        planes += [(axis, float(v)) for v in levels if low + 0.01 * (high - low) < v < high - 0.01 * (high - low)]
    return planes


def _halves(piece: _Piece, skin: Floats, normal: Floats, offset: float) -> tuple[_Piece, _Piece]:
    """The parts of a piece below and above a plane."""
    made = corners(piece.planes, normal, offset, skin)
    high, over, top = (heights(p.reshape(-1, 3), normal, offset) for p in (piece.skin, piece.lids, piece.points))
    halves = []
    for sign, own in zip((1.0, -1.0), made, strict=True):
        kept, edges = clip(piece.skin, sign * high)
        lids, more = clip(piece.lids, sign * over)
        rims = np.concatenate([edges, more])
        fan = np.stack([np.broadcast_to(rims[:1, 0], (len(rims), 3)), rims[:, 1], rims[:, 0]], 1)
        lids = np.concatenate([lids, fan])
        points = np.concatenate([piece.points[sign * top < 0.0], edges.reshape(-1, 3), own])
        planes = np.concatenate([piece.planes, [[*(sign * normal), sign * offset]]])
        halves.append(_Piece(kept, lids, planes, points, volume(kept) + volume(lids)))
    return halves[0], halves[1]
