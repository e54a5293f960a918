"""Vectors and attitudes of one lane, as small compiled functions on tuples."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math
from typing import Any

from numba import njit

from rookery.sim.multirotor.cascade import FAST
from rookery.sim.multirotor.flight import to_body, to_world
from rookery.sim.multirotor.layout import LANES, QUAT

# called by compiled code only, which is cached as a whole: without wrappers and caches of their own they compile faster
_INSIDE: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "fastmath": FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
compiled = njit(**_INSIDE)
inlined = njit(forceinline=True, **_INSIDE)


@compiled
def three(row, f, i):
    """Fields f, f + 1, f + 2 of lane i."""
    f = f * LANES + i
    return row[f], row[f + LANES], row[f + 2 * LANES]


@compiled
def put(row, f, i, v):
    f = f * LANES + i
    row[f], row[f + LANES], row[f + 2 * LANES] = v


@compiled
def add(row, f, i, v, scale):
    f = f * LANES + i
    row[f] += scale * v[0]
    row[f + LANES] += scale * v[1]
    row[f + 2 * LANES] += scale * v[2]


@compiled
def attitude(row, i):
    f = i + LANES * QUAT
    return row[f], row[LANES + f], row[2 * LANES + f], row[3 * LANES + f]


@compiled
def put_attitude(row, i, q):
    f = i + LANES * QUAT
    row[f], row[LANES + f], row[2 * LANES + f], row[3 * LANES + f] = q


@compiled
def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def along(a, b, scale):
    """a + scale * b."""
    return a[0] + scale * b[0], a[1] + scale * b[1], a[2] + scale * b[2]


@compiled
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def between(a, b, t):
    """The point at share t of the way from a to b."""
    return a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])


@compiled
def attitude_between(a, b, t):
    """The attitude at share t between two near ones."""
    w, x, y, z = a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2]), a[3] + t * (b[3] - a[3])
    norm = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
    return w * norm, x * norm, y * norm, z * norm


@compiled
def outwards(q, v):
    """A body frame vector in world axes."""
    return to_world(q[0], q[1], q[2], q[3], v[0], v[1], v[2])


@compiled
def inwards(q, v):
    """A world vector in body axes."""
    return to_body(q[0], q[1], q[2], q[3], v[0], v[1], v[2])


@compiled
def times(m, v):
    """Symmetric matrix (xx, yy, zz, xy, xz, yz) times a vector."""
    return (
        m[0] * v[0] + m[3] * v[1] + m[4] * v[2],
        m[3] * v[0] + m[1] * v[1] + m[5] * v[2],
        m[4] * v[0] + m[5] * v[1] + m[2] * v[2],
    )
