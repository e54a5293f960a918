"""First touch of a moving sphere with a fixed convex primitive, as compiled scalar functions: nothing tunnels.

The signed distance f(t) between a sphere on a straight segment and a convex body is a convex function of t. Newton's method
from the left therefore never passes the first touch: each tangent lies below f, so its root comes before that of f, and where
the tangent does not fall, or its root lies beyond the end of the segment, there is no touch at all. This is conservative
advancement with the exact gradient, so it needs few iterations: one for a plane or a face, about five for round shapes.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit

_fast = njit(cache=True, nogil=True, error_model="numpy")

# mjtGeom of MuJoCo
PLANE = 0
SPHERE = 2
CAPSULE = 3
CYLINDER = 5
BOX = 6

TOLERANCE = 1e-8
"""m, the gap that counts as touching."""
_ITERATIONS = 64
"""Never used up. On a convex f, the product of f and its slope shrinks at least 4 times in each iteration of Newton's method,
and the search ends once the slope times the length left is below TOLERANCE: within 40 iterations for a segment of 1 km."""


@_fast
def distance(kind, size0, size1, size2, x, y, z):
    """Exact signed distance d (m, negative inside) of a point from a primitive, and its gradient (nx, ny, nz), a unit vector.

    Args:
        kind: PLANE (solid for z < 0), SPHERE (radius), CAPSULE or CYLINDER (radius, half length along z; a capsule's without
            its caps) or BOX (half edges), centred at the origin. The caller makes sure that it is one of these.
        size0, size1, size2: m, MuJoCo's sizes; those that the kind does not have are ignored.
        x, y, z: m, in the frame of the primitive.

    Where the gradient is not unique (at a centre, on an axis), it is one of those that lead out by the shortest way.
    """
    if kind == PLANE:
        return z, 0.0, 0.0, 1.0
    if kind == SPHERE:
        return _from_point(x, y, z, size0)
    if kind == CAPSULE:
        return _from_point(x, y, z - min(max(z, -size1), size1), size0)
    if kind == CYLINDER:
        return _from_cylinder(x, y, z, size0, size1)
    return _from_box(x, y, z, size0, size1, size2)


@_fast
def _from_point(x, y, z, radius):
    length = math.sqrt(x * x + y * y + z * z)
    if length == 0.0:
        return -radius, 1.0, 0.0, 0.0
    return length - radius, x / length, y / length, z / length


@_fast
def _from_cylinder(x, y, z, radius, half):
    rho = math.sqrt(x * x + y * y)
    ux, uy = (x / rho, y / rho) if rho > 0.0 else (1.0, 0.0)
    side = rho - radius
    end = abs(z) - half
    up = math.copysign(1.0, z)
    if end <= 0.0 and side >= end:
        return side, ux, uy, 0.0
    if side <= 0.0:
        return end, 0.0, 0.0, up
    gap = math.sqrt(side * side + end * end)
    return gap, ux * side / gap, uy * side / gap, up * end / gap


@_fast
def _from_box(x, y, z, hx, hy, hz):
    dx, dy, dz = abs(x) - hx, abs(y) - hy, abs(z) - hz
    sx, sy, sz = math.copysign(1.0, x), math.copysign(1.0, y), math.copysign(1.0, z)
    if dx <= 0.0 and dy <= 0.0 and dz <= 0.0:
        if dz >= dx and dz >= dy:
            return dz, 0.0, 0.0, sz
        if dx >= dy:
            return dx, sx, 0.0, 0.0
        return dy, 0.0, sy, 0.0
    ox, oy, oz = max(dx, 0.0), max(dy, 0.0), max(dz, 0.0)
    gap = math.sqrt(ox * ox + oy * oy + oz * oz)
    return gap, sx * ox / gap, sy * oy / gap, sz * oz / gap


@_fast
def sweep(kind, size0, size1, size2, radius, x0, y0, z0, x1, y1, z1):
    """First touch of a sphere whose centre moves from (x0, y0, z0) to (x1, y1, z1) with a primitive (see `distance`).

    Args:
        radius: m, of the sphere; 0 is a point.
        x0 ... z1: m, in the frame of the primitive.

    Returns:
        hit: whether they touch. A sphere that touches or penetrates at the start is hit at t = 0 if it moves farther in, and
            not at all if it moves out, slides along or stands still.
        t: share of the segment at the touch, in [0, 1].
        nx, ny, nz: outward unit normal of the primitive there.
        px, py, pz: m, the point touched: on the surface of the primitive.
        All but `hit` are 0 where there is no hit; a path with NaN hits nothing.
    """
    vx, vy, vz = x1 - x0, y1 - y0, z1 - z0
    t = 0.0
    for _ in range(_ITERATIONS):
        x, y, z = x0 + t * vx, y0 + t * vy, z0 + t * vz
        d, nx, ny, nz = distance(kind, size0, size1, size2, x, y, z)
        slope = nx * vx + ny * vy + nz * vz
        gap = d - radius
        if not slope < 0.0:  # true of NaN as well
            break
        if gap <= TOLERANCE:
            return True, t, nx, ny, nz, x - d * nx, y - d * ny, z - d * nz
        t -= gap / slope
        if not t <= 1.0:
            break
    return False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
