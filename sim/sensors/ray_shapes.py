"""One shape drawn into a picture's depths, compiled: each ray of a row of pixels is intersected with it exactly.

The shape is described by its view (see shading) and, for a hull, its faces (see raycast). Before a shape is intersected, the
ray's origin moves to the point nearest to the shape's centre: in float32 the roots of a quadratic seen from 50 m away would be
off by millimeters.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

from rookery.sim.sensors.shading import (
    AXES,
    BOX,
    CAPSULE,
    CENTRE,
    CYLINDER,
    HALF,
    HULL,
    OWN_CENTRE,
    PLANE,
    SIZE,
    SPHERE,
    pitch,
)

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

# float32, since a bare 0.5 would make all that it touches float64, half as many at a time
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_TINY = np.float32(1e-12)
_WIDE = np.float32(1e30)
_NEAR = np.float32(1e-3)
"""m: a shape that reaches closer to the camera's plane than this may be anywhere in the picture."""
_BEFORE = np.float32(0.99)
_PAST = np.float32(1.01)
"""Pixels: they round to the first inside a span and to the first beyond it, with a hundredth in reserve."""


@_kernel
def draw(kind, view, faces, spans, u, v, reciprocal, near, hit, index, max_range):
    """Write depth and index of one shape wherever it is nearest."""
    x0, x1, y0, y1 = 0, len(u), 0, len(v)
    if kind != PLANE:
        x0, x1, y0, y1 = _rectangle(view, u, v, max_range)
    number = np.int16(index)
    for y in range(y0, y1):
        vy = v[y]
        # along a row, the ray in the shape's own axes is first + u * rise
        first = (
            view[1] * vy - view[2],
            view[4] * vy - view[5],
            view[7] * vy - view[8],
            view[CENTRE + 1] * vy - view[CENTRE + 2],
        )
        if kind == PLANE:
            _plane_row(view, first, u, near[y], hit[y], number)
        elif kind == SPHERE:
            _sphere_row(view, vy, first[3], u, reciprocal[y], x0, x1, near[y], hit[y], number)
        elif kind == BOX:
            _box_row(view, first, u, reciprocal[y], x0, x1, near[y], hit[y], number)
        elif kind == CYLINDER:
            _cylinder_row(view, first, u, reciprocal[y], x0, x1, near[y], hit[y], number)
        elif kind == HULL:
            _hull_row(faces, vy, u, x0, x1, spans, near[y], hit[y], number)
        elif kind == CAPSULE:
            _capsule_row(view, first, u, reciprocal[y], x0, x1, near[y], hit[y], number)
        else:
            _ellipsoid_row(view, first, u, reciprocal[y], x0, x1, near[y], hit[y], number)


@_kernel
def _rectangle(view, u, v, max_range):
    """Columns and rows (x0, x1, y0, y1) that the projected box of a shape covers; empty where it cannot be seen."""
    width = len(u)
    height = len(v)
    ahead = -view[CENTRE + 2]
    reach = _ZERO
    for i in range(3):
        reach += view[HALF + i] * abs(view[AXES + 3 * i + 2])
    if ahead + reach <= _ZERO or ahead - reach >= max_range:
        return 0, 0, 0, 0
    if ahead - reach < _NEAR:
        return 0, width, 0, height
    left = np.float32(1e9)
    right = np.float32(-1e9)
    low = np.float32(1e9)
    high = np.float32(-1e9)
    for corner in range(8):
        x, y, z = view[CENTRE], view[CENTRE + 1], ahead
        for i in range(3):
            side = view[HALF + i] if (corner >> i) & 1 else -view[HALF + i]
            x += side * view[AXES + 3 * i]
            y += side * view[AXES + 3 * i + 1]
            z -= side * view[AXES + 3 * i + 2]
        left = min(left, x / z)
        right = max(right, x / z)
        low = min(low, y / z)
        high = max(high, y / z)
    # u and v are evenly spaced; u[0] is the leftmost, v[0] the uppermost
    across = pitch(u)
    down = pitch(v)
    return (
        _clamp((left - u[0]) / across + _BEFORE, width),
        _clamp((right - u[0]) / across + _PAST, width),
        _clamp((v[0] - high) / down + _BEFORE, height),
        _clamp((v[0] - low) / down + _PAST, height),
    )


@_kernel
def _clamp(x, count):
    return int(min(max(x, _ZERO), np.float32(count)))


@_kernel
def _plane_row(view, first, u, near, hit, number):
    """A plane is seen from its front only, and as far as its half sizes reach, where these are positive."""
    above = view[OWN_CENTRE + 2]
    if above >= _ZERO:
        return
    sx, sy = view[SIZE], view[SIZE + 1]
    for x in range(len(u)):
        dx, dy, dz = first[0] + view[0] * u[x], first[1] + view[3] * u[x], first[2] + view[6] * u[x]
        t = above / dz
        inside = (sx <= _ZERO) | (abs(t * dx - view[OWN_CENTRE]) <= sx)
        inside &= (sy <= _ZERO) | (abs(t * dy - view[OWN_CENTRE + 1]) <= sy)
        if inside & (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number


@_kernel
def _sphere_row(view, vy, c0, u, reciprocal, x0, x1, near, hit, number):
    cx = view[CENTRE]
    cy = view[CENTRE + 1]
    cz = view[CENTRE + 2]
    square = view[SIZE] * view[SIZE]
    for x in range(x0, x1):
        middle = (c0 + cx * u[x]) * reciprocal[x]
        ox, oy, oz = middle * u[x] - cx, middle * vy - cy, -middle - cz
        root = math.sqrt((square - ox * ox - oy * oy - oz * oz) * reciprocal[x])  # NaN where the ray misses
        t = middle - root
        t = t if t > _ZERO else middle + root
        if (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number


@_kernel
def _box_row(view, first, u, reciprocal, x0, x1, near, hit, number):
    hx, hy, hz = view[SIZE], view[SIZE + 1], view[SIZE + 2]
    px, py, pz = view[OWN_CENTRE], view[OWN_CENTRE + 1], view[OWN_CENTRE + 2]
    for x in range(x0, x1):
        dx, dy, dz = first[0] + view[0] * u[x], first[1] + view[3] * u[x], first[2] + view[6] * u[x]
        middle = (first[3] + view[CENTRE] * u[x]) * reciprocal[x]
        ix, iy, iz = _ONE / dx, _ONE / dy, _ONE / dz
        mx, my, mz = (px - middle * dx) * ix, (py - middle * dy) * iy, (pz - middle * dz) * iz
        rx, ry, rz = hx * abs(ix), hy * abs(iy), hz * abs(iz)
        enter = max(mx - rx, my - ry, mz - rz)
        leave = min(mx + rx, my + ry, mz + rz)
        t = middle + (enter if middle + enter > _ZERO else leave)
        if (enter <= leave) & (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number


@_kernel
def _hull_row(faces, vy, u, x0, x1, spans, near, hit, number):
    """The nearest of the far faces' limits and the farthest of the near ones', in 1 / depth (see raycast)."""
    low = spans[0]
    high = spans[1]
    outside = False
    low[x0:x1] = _ZERO
    high[x0:x1] = _WIDE
    for e in range(len(faces)):
        a, b = faces[e, 0], faces[e, 1] * vy - faces[e, 2]
        if faces[e, 3] > _ZERO:
            for x in range(x0, x1):
                s = a * u[x] + b
                low[x] = s if s > low[x] else low[x]
        else:
            outside = True
            for x in range(x0, x1):
                s = a * u[x] + b
                high[x] = s if s < high[x] else high[x]
    for x in range(x0, x1):
        t = _ONE / (high[x] if outside else low[x])
        if (low[x] <= high[x]) & (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number


@_kernel
def _cylinder_row(view, first, u, reciprocal, x0, x1, near, hit, number):
    radius = view[SIZE]
    half = view[SIZE + 1]
    px, py, pz = view[OWN_CENTRE], view[OWN_CENTRE + 1], view[OWN_CENTRE + 2]
    for x in range(x0, x1):
        dx, dy, dz = first[0] + view[0] * u[x], first[1] + view[3] * u[x], first[2] + view[6] * u[x]
        middle = (first[3] + view[CENTRE] * u[x]) * reciprocal[x]
        ox, oy, oz = middle * dx - px, middle * dy - py, middle * dz - pz
        a, b = max(dx * dx + dy * dy, _TINY), ox * dx + oy * dy
        root = math.sqrt(b * b - a * (ox * ox + oy * oy - radius * radius))
        inverse = _ONE / a
        iz = _ONE / dz
        m, r = -oz * iz, half * abs(iz)
        enter = max((-b - root) * inverse, m - r)
        leave = min((-b + root) * inverse, m + r)
        t = middle + (enter if middle + enter > _ZERO else leave)
        if (root >= _ZERO) & (enter <= leave) & (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number


@_kernel
def _capsule_row(view, first, u, reciprocal, x0, x1, near, hit, number):
    """The sooner of the side and the two round ends; where a ray meets the side's cylinder is clamped to the ends."""
    square = view[SIZE] * view[SIZE]
    half = view[SIZE + 1]
    px, py, pz = view[OWN_CENTRE], view[OWN_CENTRE + 1], view[OWN_CENTRE + 2]
    for x in range(x0, x1):
        dx, dy, dz = first[0] + view[0] * u[x], first[1] + view[3] * u[x], first[2] + view[6] * u[x]
        middle = (first[3] + view[CENTRE] * u[x]) * reciprocal[x]
        ox, oy, oz = middle * dx - px, middle * dy - py, middle * dz - pz
        a, b, c = max(dx * dx + dy * dy, _TINY), ox * dx + oy * dy, ox * ox + oy * oy - square
        root = math.sqrt(b * b - a * c)
        enter = (-b - root) / a
        leave = (-b + root) / a
        # the ball of the capsule's core that the ray meets first, and last: its centre is at height `ze`, `zl`
        ze, zl = min(max(oz + enter * dz, -half), half), min(max(oz + leave * dz, -half), half)
        be, bl = b + (oz - ze) * dz, b + (oz - zl) * dz
        re = math.sqrt(be * be - (a + dz * dz) * (c + (oz - ze) * (oz - ze)))
        rl = math.sqrt(bl * bl - (a + dz * dz) * (c + (oz - zl) * (oz - zl)))
        inverse = _ONE / (a + dz * dz)
        enter = enter if abs(oz + enter * dz) <= half else (-be - re) * inverse
        leave = leave if abs(oz + leave * dz) <= half else (-bl + rl) * inverse
        t = middle + (enter if middle + enter > _ZERO else leave)
        if (enter <= leave) & (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number


@_kernel
def _ellipsoid_row(view, first, u, reciprocal, x0, x1, near, hit, number):
    ix, iy, iz = _ONE / view[SIZE], _ONE / view[SIZE + 1], _ONE / view[SIZE + 2]
    px, py, pz = view[OWN_CENTRE], view[OWN_CENTRE + 1], view[OWN_CENTRE + 2]
    for x in range(x0, x1):
        dx, dy, dz = first[0] + view[0] * u[x], first[1] + view[3] * u[x], first[2] + view[6] * u[x]
        middle = (first[3] + view[CENTRE] * u[x]) * reciprocal[x]
        ox, oy, oz = (middle * dx - px) * ix, (middle * dy - py) * iy, (middle * dz - pz) * iz
        dx, dy, dz = dx * ix, dy * iy, dz * iz
        a, b = dx * dx + dy * dy + dz * dz, ox * dx + oy * dy + oz * dz
        root = math.sqrt(b * b - a * (ox * ox + oy * oy + oz * oz - _ONE))
        t = middle + (-b - root) / a
        t = t if t > _ZERO else middle + (-b + root) / a
        if (t > _ZERO) & (t < near[x]):
            near[x] = t
            hit[x] = number
