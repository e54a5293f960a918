"""Approximate convex decomposition: a closed mesh cut by planes until the convex hulls of the pieces fill hardly more.

Every piece is the mesh within a convex cell, so hulls of different pieces never overlap, and the sum of their volumes less
the mesh's volume is exactly what is filled too much. A cut keeps the clipped skin, which spans the hull, apart from the lids
over the cut. Lids are fans: their triangles may overlap, but with their signs they close the volume integral exactly, so
nothing is ever triangulated. Where three cuts meet inside the solid, the hull needs that corner too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.assets.objects.hulls import hulls

Floats = NDArray[np.float64]
LEVELS = 5  # evenly spaced cuts along each axis
FACE_LEVELS = 6  # and cuts along the largest flat faces across it
UNEVEN = 1e-3  # what an uneven cut costs: share of the difference of both volumes; it halves rings, where no cut gains
SLIVER = 1e-3  # of the mesh's volume: no smaller piece is cut off


@dataclass(frozen=True, eq=False)
class _Piece:
    """Skin [T, 3, 3] m and lids [C, 3, 3] m, the cell's planes [P, 4] (normal, offset: inside is below), corners [K, 3] m."""

    skin: Floats
    lids: Floats
    planes: Floats
    corners: Floats

    @property
    def volume(self) -> float:
        return _volume(self.skin) + _volume(self.lids)

    @property
    def points(self) -> Floats:
        return np.concatenate([self.skin.reshape(-1, 3), self.corners])


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
        ValueError: the mesh spans no solid.
    """
    skin = np.asarray(mesh.triangles, float)
    whole = _Piece(skin, np.zeros((0, 3, 3)), np.zeros((0, 4)), np.zeros((0, 3)))
    first, volume = hulls([whole.points])[0], whole.volume
    if first is None or volume <= 0.0:
        raise ValueError("a mesh without volume has no convex parts: give one that is closed and not inside out.")
    pieces, gaps = [(whole, first)], [float(first.volume) - volume]
    final: set[int] = set()
    while len(pieces) < max_parts and sum(gaps) > tolerance * volume and len(final) < len(pieces):
        worst = max((i for i in range(len(pieces)) if i not in final), key=lambda i: gaps[i])
        halves = _best_cut(pieces[worst][0], skin, SLIVER * volume) if gaps[worst] > 1e-4 * volume else None
        if halves is None:
            final.add(worst)
            continue
        pieces[worst] = halves[0]
        pieces.append(halves[1])
        gaps[worst], extra = (float(h.volume) - p.volume for p, h in halves)
        gaps.append(extra)
    return [h for _, h in pieces], sum(gaps) / volume


def _best_cut(piece: _Piece, skin: Floats, sliver: float) -> list[tuple[_Piece, trimesh.Trimesh]] | None:
    """Both halves, with their hulls, by the plane after which the hulls fill least; None where no plane cuts it."""
    pairs = []
    for normal, offset in _candidates(piece):
        halves = [_half(piece, skin, sign * normal, sign * offset) for sign in (1.0, -1.0)]
        if min(h.volume for h in halves) > sliver:
            pairs.append(halves)
    found = hulls([half.points for halves in pairs for half in halves])
    best, least = None, np.inf
    for i, halves in enumerate(pairs):
        a, b = found[2 * i], found[2 * i + 1]
        if a is None or b is None:
            continue
        cost = a.volume + b.volume + UNEVEN * abs(halves[0].volume - halves[1].volume)
        if cost < least:
            best, least = [(halves[0], a), (halves[1], b)], cost
    return best


def _candidates(piece: _Piece) -> list[tuple[Floats, float]]:
    """Planes (normal, offset) across the object's axes and the piece's own."""
    cross = np.cross(piece.skin[:, 1] - piece.skin[:, 0], piece.skin[:, 2] - piece.skin[:, 0])
    area = np.linalg.norm(cross, axis=1) + 1e-30
    centres = piece.skin.mean(1)
    offset = centres - np.average(centres, axis=0, weights=area)
    _, own = np.linalg.eigh((offset * area[:, None]).T @ offset)
    planes = []
    for k, axis in enumerate([*np.eye(3), *own.T]):
        if k >= 3 and np.abs(axis).max() > 0.999:
            continue
        heights = piece.points @ axis
        low, high = heights.min(), heights.max()
        levels = [low + (high - low) * (i + 1) / (LEVELS + 1) for i in range(LEVELS)]
        flat = np.abs(cross @ axis) > 0.999 * area
        heights_of = centres @ axis
        at, where = np.unique(np.round(heights_of[flat] / (high - low), 4), return_inverse=True)
        largest = np.argsort(-np.bincount(where.ravel(), area[flat], len(at)))[:FACE_LEVELS]
        weight = np.bincount(where.ravel(), area[flat], len(at)) + 1e-30
        levels += (np.bincount(where.ravel(), area[flat] * heights_of[flat], len(at)) / weight)[largest].tolist()
        planes += [(axis, float(v)) for v in levels if low + 0.01 * (high - low) < v < high - 0.01 * (high - low)]
    return planes


def _half(piece: _Piece, skin: Floats, normal: Floats, offset: float) -> _Piece:
    """What of a piece lies below a plane."""
    kept, edges = _clip(piece.skin, normal, offset)
    lids, more = _clip(piece.lids, normal, offset)
    edges = np.concatenate([edges, more])
    apex = edges[:1, 0] if len(edges) else np.zeros((0, 3))
    fan = (
        np.stack([np.repeat(apex, len(edges), 0), edges[:, 1], edges[:, 0]], 1)
        if len(edges)
        else edges.reshape(0, 3, 3)
    )
    planes = np.concatenate([piece.planes, [[*normal, offset]]])
    corners = piece.corners[piece.corners @ normal < offset]
    new = _corners(piece.planes, planes[-1])
    return _Piece(kept, np.concatenate([lids, fan]), planes, np.concatenate([corners, new[_inside(skin, new)]]))


def _clip(triangles: Floats, normal: Floats, offset: float) -> tuple[Floats, Floats]:
    """The parts of triangles [T, 3, 3] below a plane, and the directed edges [E, 2, 3] that they got along it."""
    height = triangles @ normal - offset
    below = height < 0.0
    count = below.sum(1)
    cut = (count == 1) | (count == 2)
    # the corner that is alone on its side comes first
    alone = np.where(count[cut] == 1, below[cut].argmax(1), (~below[cut]).argmax(1))
    turn = (alone[:, None] + np.arange(3)) % 3
    rows = np.arange(len(alone))[:, None]
    a, b, c = np.moveaxis(triangles[cut][rows, turn], 1, 0)
    ha, hb, hc = height[cut][rows, turn].T
    ab = a + (ha / (ha - hb))[:, None] * (b - a)
    ac = a + (ha / (ha - hc))[:, None] * (c - a)
    one = count[cut] == 1
    two = ~one
    kept = [
        triangles[count == 3],
        np.stack([a, ab, ac], 1)[one],
        np.stack([b, c, ac], 1)[two],
        np.stack([b, ac, ab], 1)[two],
    ]
    edges = np.concatenate([np.stack([ab, ac], 1)[one], np.stack([ac, ab], 1)[two]])
    return np.concatenate(kept), edges


def _corners(planes: Floats, new: Floats) -> Floats:
    """Points [K, 3] where the plane `new` meets two of `planes` [P, 4] within the cell."""
    i, j = np.triu_indices(len(planes), 1)
    systems = np.stack([planes[i], planes[j], np.broadcast_to(new, (len(i), 4))], 1)
    solvable = np.abs(np.linalg.det(systems[:, :, :3])) > 1e-6
    points = np.linalg.solve(systems[solvable][:, :, :3], systems[solvable][:, :, 3:])[:, :, 0]
    slack = 1e-9 + 1e-9 * np.abs(planes[:, 3])
    return points[(points @ planes[:, :3].T <= planes[:, 3] + slack).all(1)]


def _inside(skin: Floats, points: Floats) -> NDArray[np.bool_]:
    """Which of points [K, 3] a closed skin [T, 3, 3] surrounds: its solid angle there is 4 pi and not 0."""
    turns = np.empty(len(points))
    for k, point in enumerate(points):
        a, b, c = np.moveaxis(skin - point, 1, 0)
        la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
        top = (a * np.cross(b, c)).sum(1)
        low = la * lb * lc + (a * b).sum(1) * lc + (b * c).sum(1) * la + (c * a).sum(1) * lb
        turns[k] = np.arctan2(top, low).sum() / (2.0 * np.pi)
    return turns > 0.5


def _volume(triangles: Floats) -> float:
    """m^3 that closed triangles [T, 3, 3] surround, seen from the frame's origin."""
    return float((triangles[:, 0] * np.cross(triangles[:, 1], triangles[:, 2])).sum() / 6.0)
