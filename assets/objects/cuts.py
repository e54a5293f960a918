"""Compiled geometry of the convex decomposition: triangles cut by a plane, corners of a cell, what a skin surrounds.

Triangles are [T, 3, 3] m, planes [4] a unit normal and an offset: below is where normal @ point < offset.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
compiled = njit(cache=True, nogil=True, error_model="numpy")
ON_PLANE = 1e-9
"""m, distance up to which a point counts as on a plane."""
NEXT_TO = 1e-7
"""m, from a corner into its cell, where the solid must be for the corner to be one of the piece."""


@compiled
def heights(points: Floats, normal: Floats, offset: float) -> Floats:
    """[N] m, of points [N, 3] over a plane; exactly 0 on it."""
    out = np.empty(len(points))
    for i in range(len(points)):
        high = points[i, 0] * normal[0] + points[i, 1] * normal[1] + points[i, 2] * normal[2] - offset
        out[i] = 0.0 if abs(high) < ON_PLANE else high
    return out


@compiled
def clip(triangles: Floats, height: Floats) -> tuple[Floats, Floats]:
    """The parts of triangles below a plane, over which their corners are at `height` [3 T].

    Returns:
        Triangles, and the directed edges [E, 2, 3] m that they got along the plane.
    """
    kept = np.empty((2 * len(triangles), 3, 3))
    edges = np.empty((len(triangles), 2, 3))
    n = m = 0
    ab, ac = np.empty(3), np.empty(3)
    for t in range(len(triangles)):
        below = 0
        for i in range(3):
            below += height[3 * t + i] < 0.0
        if below == 3:
            _put(kept[n], triangles[t, 0], triangles[t, 1], triangles[t, 2])
            n += 1
        if below == 0 or below == 3:
            continue
        i = 0  # the corner that is alone on its side
        while (height[3 * t + i] < 0.0) != (below == 1):
            i += 1
        j, k = (i + 1) % 3, (i + 2) % 3
        a, b, c = triangles[t, i], triangles[t, j], triangles[t, k]
        _meet(a, b, height[3 * t + i], height[3 * t + j], ab)
        _meet(a, c, height[3 * t + i], height[3 * t + k], ac)
        if below == 1:
            _put(kept[n], a, ab, ac)
        else:
            _put(kept[n], b, c, ac)
            _put(kept[n + 1], b, ac, ab)
        n += below
        for k in range(3):
            edges[m, 0, k], edges[m, 1, k] = (ab[k], ac[k]) if below == 1 else (ac[k], ab[k])
        m += 1
    return kept[:n].copy(), edges[:m].copy()


@compiled
def _put(out: Floats, a: Floats, b: Floats, c: Floats) -> None:
    for k in range(3):
        out[0, k] = a[k]
        out[1, k] = b[k]
        out[2, k] = c[k]


@compiled
def _meet(p: Floats, q: Floats, hp: float, hq: float, out: Floats) -> None:
    """Set `out` to where an edge meets the plane: the same to the last bit for both triangles of the edge."""
    if hp > hq:
        p, q, hp, hq = q, p, hq, hp
    for k in range(3):
        out[k] = q[k] if hq == 0.0 else p[k] + hp / (hp - hq) * (q[k] - p[k])


@compiled
def volume(triangles: Floats) -> float:
    """m^3 that closed triangles surround."""
    total = 0.0
    for t in range(len(triangles)):
        total += triple(triangles[t, 0], triangles[t, 1], triangles[t, 2])
    return total / 6.0


@compiled
def triple(a: Floats, b: Floats, c: Floats) -> float:
    return a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])


@compiled
def corners(planes: Floats, normal: Floats, offset: float, skin: Floats) -> tuple[Floats, Floats]:
    """Corners of a cell below `planes` [P, 4] that a further plane makes within the solid or on its skin.

    Returns:
        [K, 3] and [L, 3] m: those of the solid below the further plane, and of the solid above it. A corner on the skin may
        be one of them alone.
    """
    count = len(planes) * len(planes)
    below, above = np.empty((count, 3)), np.empty((count, 3))
    n = m = 0
    corner, into = np.empty(3), np.empty(3)
    for i in range(len(planes)):
        for j in range(i):
            a, b = planes[i], planes[j]
            scale = triple(a, b, normal)
            if abs(scale) < 1e-6:
                continue
            _where(a, b, normal, a[3], b[3], offset, scale, corner)
            within = True
            for plane in planes:
                within &= plane[0] * corner[0] + plane[1] * corner[1] + plane[2] * corner[2] - plane[3] <= ON_PLANE
            if not within:
                continue
            for side in (1.0, -1.0):
                _where(
                    a, b, normal, -1.0, -1.0, -side, scale, into
                )  # below both planes and on this side of the further one
                share = NEXT_TO / np.sqrt(into[0] ** 2 + into[1] ** 2 + into[2] ** 2)
                for k in range(3):
                    into[k] = corner[k] + share * into[k]
                if surrounds(skin, into):
                    if side > 0.0:
                        below[n] = corner
                        n += 1
                    else:
                        above[m] = corner
                        m += 1
    return below[:n].copy(), above[:m].copy()


@compiled
def _where(a: Floats, b: Floats, c: Floats, at_a: float, at_b: float, at_c: float, scale: float, out: Floats) -> None:
    """Set `out` to where three planes with these normals and offsets meet; `scale` is the normals' triple product."""
    for k in range(3):
        x, y = (k + 1) % 3, (k + 2) % 3
        out[k] = (
            at_c * (a[x] * b[y] - a[y] * b[x]) + at_a * (b[x] * c[y] - b[y] * c[x]) + at_b * (c[x] * a[y] - c[y] * a[x])
        ) / scale


@compiled
def surrounds(skin: Floats, point: Floats) -> bool:
    """True where a closed skin is around a point [3]: its solid angle there is 4 pi and not 0 (Van Oosterom, Strackee 1983)."""
    half = 0.0
    at = np.empty((3, 3))
    length = np.empty(3)
    for t in range(len(skin)):
        for i in range(3):
            for k in range(3):
                at[i, k] = skin[t, i, k] - point[k]
            length[i] = np.sqrt(at[i, 0] ** 2 + at[i, 1] ** 2 + at[i, 2] ** 2)
        low = length[0] * length[1] * length[2]
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            low += (at[i, 0] * at[j, 0] + at[i, 1] * at[j, 1] + at[i, 2] * at[j, 2]) * length[k]
        half += np.arctan2(triple(at[0], at[1], at[2]), low)
    return half > np.pi
