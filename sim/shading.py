"""What a pixel shows, compiled: the class or the colour of the shape that its ray hit first (see raycast)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import mujoco
import numpy as np
from numba import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

_GEOM = mujoco.mjtGeom
PLANE, SPHERE, CAPSULE = int(_GEOM.mjGEOM_PLANE), int(_GEOM.mjGEOM_SPHERE), int(_GEOM.mjGEOM_CAPSULE)
ELLIPSOID, CYLINDER, BOX = int(_GEOM.mjGEOM_ELLIPSOID), int(_GEOM.mjGEOM_CYLINDER), int(_GEOM.mjGEOM_BOX)
NOTHING = -1
"""In place of a shape's index: the ray hit none."""

# A shape as one camera sees it: rows of the matrix from camera axes to its own, its centre in both, sizes, half edges
AXES, CENTRE, OWN_CENTRE, SIZE, HALF, VIEW = 0, 9, 12, 15, 18, 21

SUN = np.array([-0.228, -0.346, 0.910], np.float32)
"""World direction towards the light, that of `assets.scenery.ground`."""
AMBIENT, DIFFUSE = np.float32(0.5), np.float32(0.5)
ZENITH, HORIZON = np.array([0.32, 0.52, 0.78], np.float32), np.array([0.88, 0.93, 0.97], np.float32)
TILE = np.float32(0.5)
"""m, edge of the tiles of a plane; every second one is darker by DARK."""
DARK = np.float32(0.38)

_ZERO, _ONE, _HALF, _TWO, _BYTE = np.float32(0.0), np.float32(1.0), np.float32(0.5), np.float32(2.0), np.float32(255.0)
_SMALL = np.float32(1e-3)
_WIDE = np.float32(1e9)


@_kernel
def pitch(tangents):
    """Distance at depth 1 between neighbouring pixels; a lone pixel's shapes are all within its pitch."""
    return abs(tangents[1] - tangents[0]) if len(tangents) > 1 else _WIDE


@_kernel
def label(hit, labels, mark_labels, out):
    """Classes [H, W] of the shapes in the picture, 0 for nothing. See `raycast.render` for the arguments."""
    count = len(labels)
    for y in range(hit.shape[0]):
        for x in range(hit.shape[1]):
            i = hit[y, x]
            if i < 0:
                out[y, x] = 0
            elif i < count:
                out[y, x] = labels[i]
            else:
                out[y, x] = mark_labels[i - count]


@_kernel
def shade(turn, kinds, views, paints, mark_paints, u, v, near, hit, out):
    """Colours [H, W, 3]: the sky's gradient, tiles on planes, and each surface as bright as it faces the sun.

    Args:
        turn: [9] camera axes to world.
        kinds, views: of all shapes, those of the scene before the marks.
        near, hit: [H, W] depth m and index of the shape, NOTHING for the sky.
    """
    count, blur = len(paints), pitch(v)
    sun = np.empty(3, np.float32)
    for k in range(3):
        sun[k] = turn[k] * SUN[0] + turn[3 + k] * SUN[1] + turn[6 + k] * SUN[2]
    for y in range(hit.shape[0]):
        for x in range(hit.shape[1]):
            i = hit[y, x]
            if i == NOTHING:
                _sky(turn, u[x], v[y], out[y, x])
                continue
            light = _light(kinds[i], views[i], sun, u[x], v[y], near[y, x], blur)
            paint = paints[i] if i < count else mark_paints[i - count]
            for k in range(3):
                out[y, x, k] = np.uint8(_BYTE * min(light * paint[k], _ONE))


@_kernel
def _sky(turn, ux, vy, out):
    up = (turn[6] * ux + turn[7] * vy - turn[8]) / math.sqrt(ux * ux + vy * vy + _ONE)
    share = math.sqrt(max(up, _ZERO))
    for k in range(3):
        out[k] = np.uint8(_BYTE * (HORIZON[k] + share * (ZENITH[k] - HORIZON[k])))


@_kernel
def _light(kind, view, sun, ux, vy, depth, blur):
    """How bright a point of a shape is: 1 where the sun shines on it from above."""
    px = depth * (view[0] * ux + view[1] * vy - view[2]) - view[OWN_CENTRE]
    py = depth * (view[3] * ux + view[4] * vy - view[5]) - view[OWN_CENTRE + 1]
    pz = depth * (view[6] * ux + view[7] * vy - view[8]) - view[OWN_CENTRE + 2]
    nx, ny, nz = _normal(kind, view, px, py, pz)
    x = nx * view[0] + ny * view[3] + nz * view[6]  # the normal in camera axes
    y = nx * view[1] + ny * view[4] + nz * view[7]
    z = nx * view[2] + ny * view[5] + nz * view[8]
    light = AMBIENT + DIFFUSE * max(x * sun[0] + y * sun[1] + z * sun[2], _ZERO)
    if kind == PLANE:
        light *= _tile(px, py, blur * depth / max(z - x * ux - y * vy, _SMALL))
    return light


@_kernel
def _normal(kind, view, px, py, pz):
    """Outward unit normal of a shape at a point of its surface, both in its own axes."""
    sx, sy, sz = view[SIZE], view[SIZE + 1], view[SIZE + 2]
    nx, ny, nz = px, py, pz
    if kind == PLANE:
        nx, ny, nz = _ZERO, _ZERO, _ONE
    elif kind == BOX:
        ax, ay, az = abs(px) - sx, abs(py) - sy, abs(pz) - sz  # the face is the one that the point is farthest out of
        nx = px if (ax >= ay) & (ax >= az) else _ZERO
        ny = py if (ay > ax) & (ay >= az) else _ZERO
        nz = pz if (az > ax) & (az > ay) else _ZERO
    elif kind == CYLINDER:
        cap = abs(pz) - sy > math.sqrt(px * px + py * py) - sx
        nx, ny, nz = (_ZERO, _ZERO, pz) if cap else (px, py, _ZERO)
    elif kind == CAPSULE:
        nz = pz - min(max(pz, -sy), sy)
    elif kind == ELLIPSOID:
        nx, ny, nz = px / (sx * sx), py / (sy * sy), pz / (sz * sz)
    length = _ONE / math.sqrt(max(nx * nx + ny * ny + nz * nz, _SMALL * _SMALL * _SMALL * _SMALL))
    return nx * length, ny * length, nz * length


@_kernel
def _tile(x, y, footprint):
    """Brightness of a plane's chequer at a point; the tiles melt into one grey where a pixel covers more than one."""
    odd = (math.floor(x / TILE) + math.floor(y / TILE)) & 1
    clear = min(max(_TWO - _TWO * footprint / TILE, _ZERO), _ONE)
    return _ONE - DARK * (_HALF + clear * (np.float32(odd) - _HALF))
