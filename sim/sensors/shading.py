"""Contents of a pixel, compiled: the class or the color of the shape that its ray hit first (see raycast)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import mujoco
import numpy as np
from numba import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

_GEOM = mujoco.mjtGeom
PLANE = int(_GEOM.mjGEOM_PLANE)
SPHERE = int(_GEOM.mjGEOM_SPHERE)
CAPSULE = int(_GEOM.mjGEOM_CAPSULE)
ELLIPSOID = int(_GEOM.mjGEOM_ELLIPSOID)
CYLINDER = int(_GEOM.mjGEOM_CYLINDER)
BOX = int(_GEOM.mjGEOM_BOX)
HULL = int(_GEOM.mjGEOM_MESH)
"""A mesh is drawn as its convex hull: what lies behind all of its faces."""
NOTHING = -1
"""In place of a shape's index: the ray hit none."""

# A shape as one camera sees it: rows of the matrix from camera axes to its own, its centre in both, sizes, half edges
AXES = 0
CENTRE = 9
OWN_CENTRE = 12
SIZE = 15
HALF = 18
VIEW = 21

# A world's light as a row: direction towards the sun, brightness of everything, share of the light that comes from
# everywhere, color, colors of the sky above and at the horizon
SUN = 0
BRIGHTNESS = 3
AMBIENT = 4
TINT = 5
ZENITH = 8
HORIZON = 11
LIGHT = 14
DAYLIGHT = np.array([-0.228, -0.346, 0.910, 1.0, 0.5, 1.0, 1.0, 1.0, 0.32, 0.52, 0.78, 0.88, 0.93, 0.97], np.float32)
"""[LIGHT] with the sun of `assets.scenery.ground`."""

# A shape's pattern as a row: which, m from one repetition to the next, how much of the second color it mixes in, that
# color, and where in the shape's own axes a chequer or noise begins (m) or the direction across stripes
PATTERN = 0
PERIOD = 1
CONTRAST = 2
SECOND = 3
PHASE = 6
TEXTURE = 9
PLAIN = 0
CHEQUER = 1
STRIPES = 2
NOISE = 3
TILE = 0.5
DARK = 0.38
"""m, edge of the tiles of a plane, and by how much every second one is darker than the plane's color."""

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_THREE = np.float32(3.0)
_BYTE = np.float32(255.0)
_SMALL = np.float32(1e-3)
_WIDE = np.float32(1e9)


@_kernel
def pitch(tangents):
    """Distance at depth 1 between neighboring pixels; a lone pixel's shapes are all within its pitch."""
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
def shade(turn, kinds, views, hulls, look, mark_paints, u, v, near, hit, out):
    """Colors [H, W, 3]: the sky's gradient, patterns, and each surface as bright as it faces the sun.

    Args:
        turn: [9] camera axes to world.
        kinds, views: of all shapes, those of the scene before the marks.
        hulls: (start [G + 1], planes [P, 4]), see `raycast.render`.
        look: (paint [G, 3], texture [G, TEXTURE], light [LIGHT]) of this world.
        near, hit: [H, W] depth m and index of the shape, NOTHING for the sky.
    """
    paints, textures, light = look
    count = len(paints)
    blur = pitch(v)
    sun = np.empty(3, np.float32)
    for k in range(3):
        sun[k] = turn[k] * light[SUN] + turn[3 + k] * light[SUN + 1] + turn[6 + k] * light[SUN + 2]
    for y in range(hit.shape[0]):
        for x in range(hit.shape[1]):
            i = hit[y, x]
            if i == NOTHING:
                _sky(turn, light, u[x], v[y], out[y, x])
                continue
            depth = near[y, x]
            view = views[i]
            px = depth * (view[0] * u[x] + view[1] * v[y] - view[2]) - view[OWN_CENTRE]
            py = depth * (view[3] * u[x] + view[4] * v[y] - view[5]) - view[OWN_CENTRE + 1]
            pz = depth * (view[6] * u[x] + view[7] * v[y] - view[8]) - view[OWN_CENTRE + 2]
            if kinds[i] == HULL:
                nx, ny, nz = _face(hulls[1], hulls[0][i], hulls[0][i + 1], px, py, pz)
            else:
                nx, ny, nz = _normal(kinds[i], view, px, py, pz)
            cx = nx * view[0] + ny * view[3] + nz * view[6]  # the normal in camera axes
            cy = nx * view[1] + ny * view[4] + nz * view[7]
            cz = nx * view[2] + ny * view[5] + nz * view[8]
            facing = max(cx * sun[0] + cy * sun[1] + cz * sun[2], _ZERO)
            bright = light[BRIGHTNESS] * (light[AMBIENT] + (_ONE - light[AMBIENT]) * facing)
            if i >= count:
                _paint(mark_paints[i - count], mark_paints[i - count], _ZERO, bright, light, out[y, x])
                continue
            texture = textures[i]
            share = _ZERO
            if texture[PATTERN] != PLAIN:
                footprint = blur * depth / max(abs(cz - cx * u[x] - cy * v[y]), _SMALL)
                share = texture[CONTRAST] * _share(texture, px, py, pz, footprint)
            _paint(paints[i], texture[SECOND:PHASE], share, bright, light, out[y, x])


@_kernel
def _paint(first, second, share, bright, light, out):
    """Write a color between two, lit."""
    for k in range(3):
        color = first[k] + share * (second[k] - first[k])
        out[k] = np.uint8(_BYTE * min(bright * light[TINT + k] * color, _ONE))


@_kernel
def _sky(turn, light, ux, vy, out):
    up = (turn[6] * ux + turn[7] * vy - turn[8]) / math.sqrt(ux * ux + vy * vy + _ONE)
    share = math.sqrt(max(up, _ZERO))
    for k in range(3):
        low = light[HORIZON + k]
        out[k] = np.uint8(_BYTE * min(light[BRIGHTNESS] * (low + share * (light[ZENITH + k] - low)), _ONE))


@_kernel
def _share(texture, px, py, pz, footprint):
    """Share of the second color that a pattern has at a point, 0 to 1; it melts into the even mixture where a pixel covers more
    than one repetition."""
    scale = _ONE / texture[PERIOD]
    x, y, z = px * scale, py * scale, pz * scale
    if texture[PATTERN] == STRIPES:
        odd = np.float32(math.floor(x * texture[PHASE] + y * texture[PHASE + 1] + z * texture[PHASE + 2]) & 1)
    else:
        x, y, z = x + texture[PHASE] * scale, y + texture[PHASE + 1] * scale, z + texture[PHASE + 2] * scale
        if texture[PATTERN] == CHEQUER:
            odd = np.float32((math.floor(x) + math.floor(y) + math.floor(z)) & 1)
        else:
            odd = _noise(x, y, z)
    clear = min(max(_TWO - _TWO * footprint * scale, _ZERO), _ONE)
    return _HALF + clear * (odd - _HALF)


@_kernel
def _noise(x, y, z):
    """Value noise, 0 to 1: numbers of chance at the corners of a grid of unit cells, smoothly blended in between."""
    fx, fy, fz = math.floor(x), math.floor(y), math.floor(z)
    tx, ty, tz = np.float32(x - fx), np.float32(y - fy), np.float32(z - fz)
    sx, sy, sz = tx * tx * (_THREE - _TWO * tx), ty * ty * (_THREE - _TWO * ty), tz * tz * (_THREE - _TWO * tz)
    out = _ZERO
    for corner in range(8):
        i, j, k = corner & 1, (corner >> 1) & 1, corner >> 2
        # a hash of the corner's place: SplitMix64's mixing of one word, see rookery.sim.random
        h = np.uint64((np.int64(fx) + i) * 73856093 ^ (np.int64(fy) + j) * 19349663 ^ (np.int64(fz) + k) * 83492791)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = np.float32(h >> np.uint64(40)) * np.float32(2.0**-24)
        wx, wy, wz = sx if i else _ONE - sx, sy if j else _ONE - sy, sz if k else _ONE - sz
        out += wx * wy * wz * value
    return out


@_kernel
def _face(planes, start, stop, px, py, pz):
    """Normal of the face of a hull that a point is farthest out of."""
    best = -_WIDE
    face = start
    for e in range(start, stop):
        out = planes[e, 0] * px + planes[e, 1] * py + planes[e, 2] * pz - planes[e, 3]
        if out > best:
            best = out
            face = e
    return planes[face, 0], planes[face, 1], planes[face, 2]


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
