"""Volumes of convex hulls, compiled, where no mesh is wanted: 0.03 ms for 100 points on a sphere, 0.4 ms for 1000."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rookery.assets.objects.cuts import Floats, compiled, triple

Ints = NDArray[np.int64]
_GRID = 1e-6
_SHAKE = 1e-5
"""Of its extent: a hull's points are first put on a grid, so that nearly equal points become equal, and then moved, so that no
four lie in a plane and no three in a line. The moves follow from the coordinates, so equal points stay equal."""
_OUTSIDE = 1e-8
"""Of its extent: from here a point counts as outside a face."""


@compiled
def hull_volume(points: Floats) -> float:
    """m^3 of the convex hull of points [N, 3] m (Quickhull, Barber et al. 1996).

    Only to some 1e-5 of the extent, of which it takes no account of anything smaller: 0 where the hull is flat, and nan where
    rounding has torn it, as in 11 of 2392 hulls of a finely meshed mug.
    """
    if len(points) < 4:
        return 0.0
    at = np.empty_like(points)
    extent = _shake(points, at)
    a, b, c, d = _first_four(at)
    if a < 0:
        return 0.0
    # of each face: corners, neighbours across the edges 0-1, 1-2 and 2-0, plane, and the first of a chain of points outside
    room = 4 * len(at) + 16
    corner = np.empty((room, 3), np.int64)
    beside = np.empty((room, 3), np.int64)
    plane = np.empty((room, 4))
    chain = np.full(room, -1)
    alive = np.zeros(room, np.bool_)
    then = np.full(len(at), -1)
    begins = np.full(len(at), -1)
    seen = np.full(room, -1)
    sees = np.empty(room, np.int64)
    rim = np.empty((room, 3), np.int64)
    free, todo = np.arange(room), np.empty(8 * room, np.int64)  # two stacks
    for f, (i, j, k) in enumerate(((a, b, c), (a, d, b), (b, d, c), (c, d, a))):
        corner[f, 0] = i
        corner[f, 1] = j
        corner[f, 2] = k
        todo[f] = f
        alive[f] = True
        _span(at, i, j, k, plane[f])
    for f, (i, j, k) in enumerate(((1, 2, 3), (3, 2, 0), (1, 3, 0), (2, 1, 0))):
        beside[f, 0] = i
        beside[f, 1] = j
        beside[f, 2] = k
    for p in range(len(at)):
        _hang(at, p, plane, chain, then, todo[:4])
    used = waiting = 4  # of the stack of free faces the first `used` are taken
    while waiting:
        waiting -= 1
        f = todo[waiting]
        if not alive[f] or chain[f] < 0:
            continue
        top = _farthest(at, plane[f], chain[f], then)
        number, edges = _look(at[top], f, top, corner, beside, plane, seen, sees, rim)
        if used + edges > room or waiting + edges > len(todo):
            return np.nan
        fresh = free[used : used + edges].copy()
        for i in range(edges):
            f, a, b, g = fresh[i], rim[i, 0], rim[i, 1], rim[i, 2]
            corner[f, 0] = a
            corner[f, 1] = b
            corner[f, 2] = top
            beside[f, 0] = g
            beside[f, 2] = -1
            chain[f] = -1
            alive[f] = True
            seen[f] = -1
            beside[g, 0 if corner[g, 0] == b else 1 if corner[g, 1] == b else 2] = f
            _span(at, a, b, top, plane[f])
            begins[a] = f
            todo[waiting + i] = f
        for f in fresh:
            g = begins[corner[f, 1]]
            if g < 0 or corner[g, 2] != top or beside[g, 2] >= 0:
                return np.nan  # the rim is no loop
            beside[f, 1] = g
            beside[g, 2] = f
        used = used + edges - number
        waiting = waiting + edges
        for i in range(number):
            g = sees[i]
            p = chain[g]
            alive[g] = False
            free[used + i] = g
            while p >= 0:
                following = then[p]
                if p != top:
                    _hang(at, p, plane, chain, then, fresh)
                p = following
    return _volume(at, corner, alive) * extent**3


@compiled
def _volume(at: Floats, corner: Ints, alive: NDArray[np.bool_]) -> float:
    total = 0.0
    for f in range(len(alive)):
        if alive[f]:
            total += triple(at[corner[f, 0]], at[corner[f, 1]], at[corner[f, 2]])
    return total / 6.0


@compiled
def _shake(points: Floats, at: Floats) -> float:
    """Set `at` to the points, moved a little, in a frame in which they reach from 0 to 1; returns their extent."""
    extent = 0.0
    for k in range(3):
        low = high = points[0, k]
        for i in range(len(points)):
            low = min(low, points[i, k])
            high = max(high, points[i, k])
        extent = max(extent, high - low)
        for i in range(len(points)):
            at[i, k] = points[i, k] - low
    for i in range(len(at)):
        for k in range(3):
            at[i, k] = np.round(at[i, k] / (extent * _GRID + 1e-300)) * _GRID
        x, y, z = at[i, 0], at[i, 1], at[i, 2]
        for k in range(3):
            wave = np.sin(x * (12.9898 + k) + y * 78.233 + z * 37.719) * 43758.5453
            at[i, k] += _SHAKE * (wave - np.floor(wave))
    return extent


@compiled
def _first_four(at: Floats) -> tuple[int, int, int, int]:
    """Points of a large tetrahedron, the first three anticlockwise from outside; -1 where all are nearly in a plane."""
    a = b = c = d = 0
    for p in range(len(at)):
        if at[p, 0] < at[a, 0]:
            a = p
    plane = np.empty(4)
    longest = 0.0
    widest = 0.0
    highest = 0.0
    for p in range(len(at)):
        far = (at[p, 0] - at[a, 0]) ** 2 + (at[p, 1] - at[a, 1]) ** 2 + (at[p, 2] - at[a, 2]) ** 2
        if far > longest:
            b = p
            longest = far
    for p in range(len(at)):
        wide = _span(at, a, b, p, plane)
        if wide > widest:
            c = p
            widest = wide
    _span(at, a, b, c, plane)
    for p in range(len(at)):
        high = _over(plane, at[p])
        if abs(high) > abs(highest):
            d = p
            highest = high
    if abs(highest) <= 3.0 * _SHAKE:
        return -1, -1, -1, -1
    return (a, b, c, d) if highest < 0.0 else (a, c, b, d)


@compiled
def _span(at: Floats, i: int, j: int, k: int, plane: Floats) -> float:
    """Set the plane through three points; returns twice the area between them."""
    a, b, c = at[i], at[j], at[k]
    x = (b[1] - a[1]) * (c[2] - a[2]) - (b[2] - a[2]) * (c[1] - a[1])
    y = (b[2] - a[2]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[2] - a[2])
    z = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    size = np.sqrt(x * x + y * y + z * z) + 1e-300
    plane[0] = x / size
    plane[1] = y / size
    plane[2] = z / size
    plane[3] = (x * a[0] + y * a[1] + z * a[2]) / size
    return size


@compiled
def _over(plane: Floats, point: Floats) -> float:
    return plane[0] * point[0] + plane[1] * point[1] + plane[2] * point[2] - plane[3]


@compiled
def _hang(at: Floats, p: int, plane: Floats, chain: Ints, then: Ints, faces: Ints) -> None:
    """Put a point on the chain of the first of `faces` that it is outside of."""
    for f in faces:
        if _over(plane[f], at[p]) > _OUTSIDE:
            then[p] = chain[f]
            chain[f] = p
            return


@compiled
def _farthest(at: Floats, plane: Floats, p: int, then: Ints) -> int:
    top = p
    highest = 0.0
    while p >= 0:
        over = _over(plane, at[p])
        if over > highest:
            top = p
            highest = over
        p = then[p]
    return top


@compiled
def _look(
    point: Floats, f: int, turn: int, corner: Ints, beside: Ints, plane: Floats, seen: Ints, sees: Ints, rim: Ints
) -> tuple[int, int]:
    """Find the faces `sees` that a point outside face `f` sees, and the `rim` around them: edges and the faces beyond."""
    i = edges = 0
    sees[0] = f
    seen[f] = turn
    number = 1
    while i < number:
        for k in range(3):
            g = beside[sees[i], k]
            if seen[g] == turn:
                continue
            if _over(plane[g], point) > _OUTSIDE:
                sees[number] = g
                seen[g] = turn
                number += 1
            elif edges < len(rim):
                rim[edges, 0] = corner[sees[i], k]
                rim[edges, 1] = corner[sees[i], (k + 1) % 3]
                rim[edges, 2] = g
                edges += 1
        i += 1
    return number, edges
