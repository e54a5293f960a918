"""Areas that flat shapes made of rectangles have in common: exact, for all worlds at once."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange


@njit(cache=True, error_model="numpy", inline="always")
def _cut(points, count, axis, sign, limit, out):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Keep what of a convex polygon has sign * coordinate <= limit (Sutherland and Hodgman, CACM 1974); its corners' number."""
    kept = 0
    for i in range(count):
        j = (i + 1) % count
        a, b = sign * points[i, axis] - limit, sign * points[j, axis] - limit
        if a <= 0.0:
            out[kept, 0] = points[i, 0]
            out[kept, 1] = points[i, 1]
            kept += 1
        if (a < 0.0 < b) or (b < 0.0 < a):
            share = a / (a - b)
            for k in range(2):
                out[kept, k] = points[i, k] + share * (points[j, k] - points[i, k])
            kept += 1
    return kept


@njit(cache=True, parallel=True, error_model="numpy")
def overlap(pose, goal, rectangles, area):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Area that a shape has in common with itself at another pose.

    Args:
        pose, goal: [N, 3] x, y (m) and yaw (rad).
        rectangles: [R, 4] middle x, y and half-widths (m) in the shape's frame; they do not overlap.
        area: [N] m^2, out.
    """
    for world in prange(pose.shape[0]):
        first = np.empty((8, 2))
        second = np.empty((8, 2))
        rotation = pose[world, 2] - goal[world, 2]
        c, s = math.cos(rotation), math.sin(rotation)
        dx, dy = pose[world, 0] - goal[world, 0], pose[world, 1] - goal[world, 1]
        cg, sg = math.cos(goal[world, 2]), math.sin(goal[world, 2])
        ox, oy = cg * dx + sg * dy, cg * dy - sg * dx  # of the shape in the goal's frame
        total = 0.0
        for m in range(rectangles.shape[0]):
            for n in range(rectangles.shape[0]):
                for k in range(4):  # corners of rectangle m about the middle of the goal's rectangle n
                    x = rectangles[m, 0] + (rectangles[m, 2] if k == 0 or k == 3 else -rectangles[m, 2])
                    y = rectangles[m, 1] + (rectangles[m, 3] if k < 2 else -rectangles[m, 3])
                    first[k, 0] = ox + c * x - s * y - rectangles[n, 0]
                    first[k, 1] = oy + s * x + c * y - rectangles[n, 1]
                count = _cut(first, 4, 0, 1.0, rectangles[n, 2], second)
                count = _cut(second, count, 0, -1.0, rectangles[n, 2], first)
                count = _cut(first, count, 1, 1.0, rectangles[n, 3], second)
                count = _cut(second, count, 1, -1.0, rectangles[n, 3], first)
                for i in range(count):
                    j = (i + 1) % count
                    total += 0.5 * (first[i, 0] * first[j, 1] - first[j, 0] * first[i, 1])
        area[world] = total
