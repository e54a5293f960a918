"""Pictures of many worlds by casting rays, compiled: planes, spheres, capsules, cylinders, boxes, ellipsoids, convex hulls.

Each camera draws one shape after the other into a buffer of depths, but only the pixels inside the rectangle that the
shape's box covers in the picture; along a row of pixels every ray is intersected with that shape exactly. Worlds do not touch
each other's memory, so ranges of them run on threads side by side and the pictures do not depend on how many.

A ray is t * (u, v, -1) in camera axes (x right, y up, -z ahead), so that t is the depth along the optical axis. Its
intersections with the shapes are in ray_shapes, colors in shading.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import numpy as np
from numba import njit

from rookery.sim.sensors.ray_shapes import draw
from rookery.sim.sensors.shading import (
    AXES,
    CENTRE,
    HALF,
    HULL,
    NOTHING,
    OWN_CENTRE,
    SIZE,
    SPHERE,
    VIEW,
    label,
    shade,
)

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

DEPTH = 0
SEGMENTATION = 1
RGB = 2

# float32, since a bare 0.5 would make all that it touches float64, half as many at a time
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_TINY = np.float32(1e-12)


@_kernel
def render(
    start, stop, what, state, shapes, hulls, marks, look, cameras, rays, max_range, seen, depths, classes, colors
):
    """Draw the worlds start ... stop - 1; those where nothing has moved since `seen` keep their pictures.

    Args:
        what: DEPTH, SEGMENTATION or RGB: which of the last three arrays is written.
        state: [N, B, 13] float32, of the bodies that move (see Bodies.state).
        shapes: (kind [G], body [G] (index in `state`, -1 for the world), pos [G, 3], mat [G, 9], size [G, 3], half [G, 3],
            class [G]): poses in the frame of the body.
        hulls: (start [G + 1], planes [P, 4]): the faces of shape g are start[g] ... start[g + 1] - 1, outward normal in the
            shape's axes and distance from its centre in m; none for other shapes.
        marks: (sphere [N, M, 4]: centre in the world and radius, class [M], rgb [M, 3], camera [M] that alone shows it or -1).
        look: (paint [N, G, 3], texture [N, G, TEXTURE], light [N, LIGHT]), see shading.
        cameras: (body [C], pos [N, C, 3], mat [N, C, 9], zoom [N, C]), poses in the frame of the body, factor on the tangents.
        rays: (u [C, W], v [C, H], reciprocal [C, H, W] of u u + v v + 1).
        max_range: m, depth of a ray that hits nothing closer.
        seen: [N, 1 + 7 B + 4 M]: 1 where there is a picture, and its poses and marks; updated.
        depths: [N, C, H, W] float32 m, classes: int32, colors: [N, C, H, W, 3] uint8.
    """
    kinds, owners, _, _, sizes, halves, labels = shapes
    spheres, mark_labels, mark_paints, only = marks
    us, vs, reciprocals = rays
    count = len(kinds)
    more = len(mark_labels)
    number = len(cameras[0])
    near = np.empty(reciprocals.shape[1:], np.float32)
    hit = np.empty(reciprocals.shape[1:], np.int16)
    wide = np.empty_like(us[0])
    high = np.empty_like(vs[0])
    square = np.empty_like(reciprocals[0])
    centres = np.empty((count, 3), np.float32)
    turns = np.empty((count, 9), np.float32)
    views = np.zeros((count + more, VIEW), np.float32)
    edges = np.empty((len(hulls[1]), 4), np.float32)
    spans = np.empty((2, us.shape[1]), np.float32)
    eye = np.empty(3, np.float32)
    turn = np.empty(9, np.float32)
    all_kinds = np.full(count + more, SPHERE)
    all_kinds[:count] = kinds
    for w in range(start, stop):
        if _unchanged(state[w], spheres[w], seen[w]):
            continue
        for g in range(count):
            _place(state[w], owners[g], shapes[2][g], shapes[3][g], centres[g], turns[g])
        for c in range(number):
            _place(state[w], cameras[0][c], cameras[1][w, c], cameras[2][w, c], eye, turn)
            u = us[c]
            v = vs[c]
            reciprocal = reciprocals[c]
            if cameras[3][w, c] != _ONE:
                _zoom(cameras[3][w, c], u, v, wide, high, square)
                u = wide
                v = high
                reciprocal = square
            near[:] = max_range
            hit[:] = NOTHING
            for g in range(count):
                if owners[g] >= 0 and owners[g] == cameras[0][c]:
                    continue  # the camera's own body
                _fill_view(eye, turn, centres[g], turns[g], sizes[g], halves[g], views[g])
                faces = edges[hulls[0][g] : hulls[0][g + 1]]
                if kinds[g] == HULL:
                    _fill_faces(views[g], hulls[1][hulls[0][g] : hulls[0][g + 1]], faces)
                draw(kinds[g], views[g], faces, spans, u, v, reciprocal, near, hit, g, max_range)
            for m in range(more):
                if only[m] < 0 or only[m] == c:
                    _fill_sphere_view(eye, turn, spheres[w, m], views[count + m])
                    draw(SPHERE, views[count + m], edges[:0], spans, u, v, reciprocal, near, hit, count + m, max_range)
            if what == DEPTH:
                depths[w, c] = near
            elif what == SEGMENTATION:
                label(hit, labels, mark_labels, classes[w, c])
            else:
                paint = (look[0][w], look[1][w], look[2][w])
                shade(turn, all_kinds, views, hulls, paint, mark_paints, u, v, near, hit, colors[w, c])


@_kernel
def _zoom(factor, u, v, wide, high, square):
    """Rays of another angle of view: all tangents times a factor."""
    for x in range(len(u)):
        wide[x] = factor * u[x]
    for y in range(len(v)):
        high[y] = factor * v[y]
        for x in range(len(u)):
            square[y, x] = _ONE / (wide[x] * wide[x] + high[y] * high[y] + _ONE)


@_kernel
def _unchanged(state, spheres, seen):
    """True where a world's poses and marks are those of its last picture; they are kept as such."""
    same = seen[0] == _ONE
    i = 1
    seen[0] = _ONE
    for b in range(len(state)):
        for k in range(7):
            same &= seen[i] == state[b, k]
            seen[i] = state[b, k]
            i += 1
    for m in range(len(spheres)):
        for k in range(4):
            same &= seen[i] == spheres[m, k]
            seen[i] = spheres[m, k]
            i += 1
    return same


@_kernel
def _place(state, body, pos, mat, out_pos, out_mat):
    """World pose of what is fixed to a body."""
    if body < 0:
        out_pos[:] = pos
        out_mat[:] = mat
        return
    w, x, y, z = state[body, 3], state[body, 4], state[body, 5], state[body, 6]
    r = (
        (_ONE - _TWO * (y * y + z * z), _TWO * (x * y - w * z), _TWO * (x * z + w * y)),
        (_TWO * (x * y + w * z), _ONE - _TWO * (x * x + z * z), _TWO * (y * z - w * x)),
        (_TWO * (x * z - w * y), _TWO * (y * z + w * x), _ONE - _TWO * (x * x + y * y)),
    )
    for i in range(3):
        out_pos[i] = state[body, i] + r[i][0] * pos[0] + r[i][1] * pos[1] + r[i][2] * pos[2]
        for j in range(3):
            out_mat[3 * i + j] = r[i][0] * mat[j] + r[i][1] * mat[3 + j] + r[i][2] * mat[6 + j]


@_kernel
def _fill_view(eye, turn, centre, mat, size, half, view):
    """Fill a shape's view: its pose relative to the camera at `eye` with axes `turn` (columns, world)."""
    dx, dy, dz = centre[0] - eye[0], centre[1] - eye[1], centre[2] - eye[2]
    for i in range(3):
        view[CENTRE + i] = turn[i] * dx + turn[3 + i] * dy + turn[6 + i] * dz
        view[OWN_CENTRE + i] = mat[i] * dx + mat[3 + i] * dy + mat[6 + i] * dz
        view[SIZE + i] = size[i]
        view[HALF + i] = half[i]
        for j in range(3):
            view[AXES + 3 * i + j] = mat[i] * turn[j] + mat[3 + i] * turn[3 + j] + mat[6 + i] * turn[6 + j]


@_kernel
def _fill_sphere_view(eye, turn, sphere, view):
    """As `_fill_view` for a sphere, whose own axes are those of the camera, in which its box is smallest in the picture."""
    dx, dy, dz = sphere[0] - eye[0], sphere[1] - eye[1], sphere[2] - eye[2]
    for i in range(3):
        view[CENTRE + i] = view[OWN_CENTRE + i] = turn[i] * dx + turn[3 + i] * dy + turn[6 + i] * dz
        view[SIZE + i] = view[HALF + i] = sphere[3]
        for j in range(3):
            view[AXES + 3 * i + j] = _ONE if i == j else _ZERO


@_kernel
def _fill_faces(view, planes, faces):
    """Fill a hull's faces [F, 4]: the coefficients a, b, c with which 1 / depth, where the ray (u, v, -1) crosses the plane, is
    a u + b v - c, and whether the camera is behind the plane (1) or in front of it (0).

    A ray is behind a plane n p = d, the camera's distance from it being r > 0 inwards, where t (n ray) <= r: in 1 / t this is a
    lower limit that is linear in u and v, and an upper one where r < 0. So a hull is the largest of the lower limits against
    the smallest of the upper ones, without a division for every face.
    """
    for e in range(len(planes)):
        p, q, r = planes[e, 0], planes[e, 1], planes[e, 2]
        inward = planes[e, 3] + p * view[OWN_CENTRE] + q * view[OWN_CENTRE + 1] + r * view[OWN_CENTRE + 2]
        behind = inward >= _ZERO
        scale = _ONE / (max(inward, _TINY) if behind else min(inward, -_TINY))
        for k in range(3):
            faces[e, k] = scale * (p * view[AXES + k] + q * view[AXES + 3 + k] + r * view[AXES + 6 + k])
        faces[e, 3] = _ONE if behind else _ZERO
