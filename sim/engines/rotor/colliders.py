"""The shapes of a scene that collide, as arrays for compiled code, and what moving spheres meet of them."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

import mujoco
import numpy as np

from rookery.sim.engines.rotor.build import LEVEL, Parts, Shape
from rookery.sim.engines.rotor.vectors import compiled
from rookery.sim.sweeps import PLANE, distance, sweep

# A collider's row: geom, body (-1: static), kind, size (3), place (3), axes (9), corners of its bounds (6)
GEOM = 0
BODY = 1
KIND = 2
SIZE = 3
PLACE = 6
AXES = 9
LOW = 18
HIGH = 21
COLLIDER = 24


def colliders(parts: Parts, model: mujoco.MjModel) -> tuple[np.ndarray, ...]:
    """The scene's shapes as arrays.

    Returns:
        fixed [S, COLLIDER] static shapes; carried [C, COLLIDER] shapes of drones, in order of their drones; first [A + 1],
        where those of each drone begin; reach [A] m, of the shapes from each drone's centre; own [A + B], the geom by which a
        body's contacts go (a ball's sphere, a drone's first collider); allowed [geoms, geoms], which collide at all.
    """
    drones = len(parts.drones)
    fixed = [s for s in parts.shapes if s.body < 0]
    carried = sorted((s for s in parts.shapes if 0 <= s.body < drones), key=lambda s: s.body)
    first = np.searchsorted([s.body for s in carried], np.arange(drones + 1))
    reach = np.array([max((s.reach for s in carried if s.body == a), default=0.0) for a in range(drones)])
    own = np.array([next((s.geom for s in parts.shapes if s.body == b), -1) for b in range(len(parts.bodies))])
    return (
        np.array([_row(s) for s in fixed]).reshape(-1, COLLIDER),
        np.array([_row(s) for s in carried]).reshape(-1, COLLIDER),
        first.astype(np.int64), reach.reshape(-1), own.astype(np.int64).reshape(-1), _allowed(model),
    )  # fmt: skip


def movers(parts: Parts) -> tuple[np.ndarray, ...]:
    """Shapes of the bodies that move as they are told: rows [C, COLLIDER] in order of these M bodies, first [M + 1], where
    those of each begin, and reach [M] m, of the shapes from each body's origin."""
    start = len(parts.bodies) - parts.movers
    carried = sorted((s for s in parts.shapes if s.body >= start), key=lambda s: s.body)
    first = np.searchsorted([s.body - start for s in carried], np.arange(parts.movers + 1))
    reach = [max((s.reach for s in carried if s.body == start + m), default=0.0) for m in range(parts.movers)]
    rows = np.array([_row(s) for s in carried]).reshape(-1, COLLIDER)
    return rows, first.astype(np.int64), np.array(reach).reshape(-1)


def _row(s: Shape) -> list[float]:
    low, high = s.bounds
    return [s.geom, s.body, s.kind, *s.size, *s.pos, *s.mat.ravel(), *low, *high]


def _allowed(model: mujoco.MjModel) -> np.ndarray:
    """[geoms, geoms] bool: MuJoCo's bit masks, without what the scene excludes."""
    kind = model.geom_contype
    affinity = model.geom_conaffinity
    body = model.geom_bodyid
    allowed = ((kind[:, None] & affinity[None]) | (kind[None] & affinity[:, None])) != 0
    for signature in model.exclude_signature:
        a, b = body == signature >> 16, body == signature & 0xFFFF
        allowed[np.ix_(a, b)] = allowed[np.ix_(b, a)] = False
    return allowed


@compiled
def level(f):
    """True where a collider's row is of level ground, whose height may differ between worlds."""
    return int(f[KIND]) == PLANE and f[AXES + 8] > LEVEL


@compiled
def note(n, time, g, h, size, touching):
    """Write a contact of two geoms down, if anybody watches them. N s; s since the call's beginning."""
    column = touching[6][g, h]
    if column >= 0:
        touching[7][n, column] += size
        touching[8][n, column] = min(touching[8][n, column], time)


@compiled
def local(f, x):
    """A point in the axes of a collider's row, from those in which the row gives its place."""
    d = x[0] - f[PLACE], x[1] - f[PLACE + 1], x[2] - f[PLACE + 2]
    m = AXES
    return (
        f[m] * d[0] + f[m + 3] * d[1] + f[m + 6] * d[2],
        f[m + 1] * d[0] + f[m + 4] * d[1] + f[m + 7] * d[2],
        f[m + 2] * d[0] + f[m + 5] * d[1] + f[m + 8] * d[2],
    )


@compiled
def outward(f, v):
    """A direction out of a collider's axes."""
    m = AXES
    return (
        f[m] * v[0] + f[m + 1] * v[1] + f[m + 2] * v[2],
        f[m + 3] * v[0] + f[m + 4] * v[1] + f[m + 5] * v[2],
        f[m + 6] * v[0] + f[m + 7] * v[1] + f[m + 8] * v[2],
    )


@compiled
def meets(f, radius, x0, x1):
    """Sphere along a path against a collider's row: (hit, t, normal, touched point) in the axes of the row's place."""
    a, b = local(f, x0), local(f, x1)
    hit, t, nx, ny, nz, px, py, pz = sweep(
        int(f[KIND]), f[SIZE], f[SIZE + 1], f[SIZE + 2], radius, a[0], a[1], a[2], b[0], b[1], b[2]
    )
    if not hit:
        return False, 2.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    c = outward(f, (px, py, pz))
    return True, t, outward(f, (nx, ny, nz)), (c[0] + f[PLACE], c[1] + f[PLACE + 1], c[2] + f[PLACE + 2])


@compiled
def gap(f, x):
    """Signed distance (m) of a point from a collider's row, and the direction that leads out."""
    a = local(f, x)
    d, nx, ny, nz = distance(int(f[KIND]), f[SIZE], f[SIZE + 1], f[SIZE + 2], a[0], a[1], a[2])
    return d, outward(f, (nx, ny, nz))


@compiled
def crosses(f, r, a, b):
    """True where the path of a sphere may touch the bounds of a static shape."""
    near = True
    for x in range(3):
        near &= min(a[x], b[x]) <= f[HIGH + x] + r and max(a[x], b[x]) >= f[LOW + x] - r
    return near
