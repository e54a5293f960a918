"""Swept spheres against brute force and closed forms."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import slow_but

from rookery.sim.sweeps import BOX, CAPSULE, CYLINDER, PLANE, SPHERE, TOLERANCE, distance, sweep

SIZES = {
    PLANE: (0.0, 0.0, 0.0),
    SPHERE: (0.3, 0.0, 0.0),
    CAPSULE: (0.1, 0.4, 0.0),
    CYLINDER: (0.3, 0.2, 0.0),
    BOX: (0.1, 0.3, 0.2),
}
DISC = (0.2, 0.0005, 0.0)  # a racket, 1 mm thick
KINDS = pytest.mark.parametrize("kind", SIZES)
Point = tuple[float, float, float]


def surface_points(kind: int, rng: np.random.Generator, count: int) -> np.ndarray:
    """Points [count, 3] inside or on a primitive, most of them near its surface, made without its signed distance."""
    s = SIZES[kind]
    ball = rng.standard_normal((count, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    if kind == PLANE:
        return rng.uniform((-2, -2, -1), (2, 2, 0), (count, 3))
    if kind == SPHERE:
        return s[0] * ball
    if kind == CAPSULE:
        return s[0] * ball + np.outer(rng.uniform(-s[1], s[1], count), (0, 0, 1))
    if kind == BOX:
        return np.clip(2 * rng.uniform(-1, 1, (count, 3)), -1, 1) * s
    angle = rng.uniform(0, 2 * math.pi, count)
    r = np.minimum(2 * rng.uniform(0, 1, count), 1) * s[0]
    z = np.clip(2 * rng.uniform(-1, 1, count), -1, 1) * s[1]
    return np.stack((r * np.cos(angle), r * np.sin(angle), z), axis=1)


@KINDS
def test_distance_separates_the_point_from_the_primitive(kind: int):
    """The half-space through the nearest point with the gradient as normal holds the whole primitive: with a unit normal and
    the nearest point on the primitive, that is what a distance from a convex body is."""
    rng = np.random.default_rng(kind)
    body = surface_points(kind, rng, 20_000)
    for _ in range(200):
        p = rng.uniform(-0.8, 0.8, 3)
        d, *n = distance(kind, *SIZES[kind], *p)
        assert np.linalg.norm(n) == pytest.approx(1.0, abs=1e-12)
        on = p - d * np.array(n)
        assert (body @ n).max() <= on @ n + 1e-12
        again, *_ = distance(kind, *SIZES[kind], *on)
        assert abs(again) < 1e-12
        inside = body[np.linalg.norm(body - p, axis=1).argmin()]
        if d > 0:  # brute force: no sampled point is nearer, and some are nearly as near
            assert d - 1e-12 <= np.linalg.norm(inside - p) < d + 0.1


@KINDS
def test_distance_agrees_with_mujoco(kind: int):
    """MuJoCo's own distance between a small sphere and the geom, outside."""
    model = _pair(kind)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(7)
    checked = 0
    for _ in range(100):
        p = rng.uniform(-0.9, 0.9, 3)
        d, *n = distance(kind, *SIZES[kind], *p)
        if d < 0.02:
            continue
        checked += 1
        data.qpos[:3] = p
        mujoco.mj_kinematics(model, data)
        ends = np.zeros(6)
        gap = mujoco.mj_geomDistance(model, data, 0, 1, 5.0, ends)
        assert gap + 0.01 == pytest.approx(d, abs=1e-5)
        assert ends[:3] == pytest.approx(p - d * np.array(n), abs=2e-3)
    assert checked > 30


def _pair(kind: int) -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    size = [max(v, 0.01) for v in SIZES[kind]]
    spec.worldbody.add_geom(type=mujoco.mjtGeom(kind), size=size)
    ball = spec.worldbody.add_body()
    ball.add_freejoint()
    ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01, 0, 0])
    return spec.compile()


@KINDS
def test_against_fine_steps(kind: int):
    """First touch as found by walking along the segment in 20,000 steps."""
    rng = np.random.default_rng(kind + 10)
    share = np.linspace(0.0, 1.0, 20_001)
    hits = 0
    for _ in range(60):
        a, b = rng.uniform(-1.0, 1.0, 3), rng.uniform(-1.0, 1.0, 3)
        r = rng.uniform(0.0, 0.2)
        gaps = np.array([distance(kind, *SIZES[kind], *(a + t * (b - a)))[0] for t in share[::40]]) - r
        if gaps[0] <= 0.0:
            continue
        hit, t, *rest = sweep(kind, *SIZES[kind], r, *a, *b)
        if gaps.min() > 1e-3:
            assert not hit
        if gaps.min() < 0.0:
            hits += 1
            assert hit
            last_free = int(np.flatnonzero(gaps < 0.0)[0]) * 40 - 40
            assert share[last_free] - 1e-9 <= t <= share[last_free + 40] + 1e-9
            n, p = np.array(rest[:3]), np.array(rest[3:])
            centre = a + t * (b - a)
            assert centre - p == pytest.approx(r * n, abs=2e-8)
            assert n @ (b - a) < 0.0
            assert abs(distance(kind, *SIZES[kind], *p)[0]) < 1e-12
    assert hits > 5


def test_plane_and_sphere_in_closed_form():
    assert sweep(PLANE, 0.0, 0.0, 0.0, 0.1, 1.0, 2.0, 3.0, 5.0, 2.0, -1.0) == pytest.approx(
        (True, 2.9 / 4.0, 0.0, 0.0, 1.0, 3.9, 2.0, 0.0), abs=1e-8
    )
    rng = np.random.default_rng(3)
    for _ in range(200):
        a, b = rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)
        reach = 0.3 + 0.05
        v = b - a
        if a @ a <= reach**2:
            continue
        half = a @ v
        rest = a @ a - reach**2
        inside = half**2 - (v @ v) * rest
        wanted = (-half - math.sqrt(inside)) / (v @ v) if inside > 0 else math.inf
        hit, t, *_ = sweep(SPHERE, 0.3, 0.0, 0.0, 0.05, *a, *b)
        assert hit == (0.0 <= wanted <= 1.0)
        if hit:
            assert t == pytest.approx(wanted, abs=1e-4 if inside < 1e-3 else 1e-6)


def test_edges_are_rounded_by_the_sphere():
    """A sphere that flies past the rim of a disc at less than its radius touches the rim; past the corner of a box too."""
    hit, t, nx, _, nz, px, _, pz = sweep(CYLINDER, 0.3, 0.2, 0.0, 0.1, 0.35, 0.0, 1.0, 0.35, 0.0, -1.0)
    z = 0.2 + math.sqrt(0.1**2 - 0.05**2)
    assert hit and t == pytest.approx((1.0 - z) / 2.0, abs=1e-7)
    assert (nx, nz) == pytest.approx((0.5, math.sqrt(0.75)), abs=1e-6)
    assert (px, pz) == pytest.approx((0.3, 0.2), abs=1e-9)
    d = 0.1 / math.sqrt(3.0)
    for share, wanted in ((0.999, True), (1.001, False)):
        # parallel to a face of the corner's octant, past the corner along (1, -1, 0)
        offset = np.array([0.1, 0.3, 0.2]) + share * np.array([d, d, d])
        along = np.array([1.0, -1.0, 0.0])
        assert sweep(BOX, 0.1, 0.3, 0.2, 0.1, *(offset - along), *(offset + along))[0] is wanted


@pytest.mark.parametrize("speed", slow_but([1000.0], [30.0, 1000.0]))
@pytest.mark.parametrize("kind", [CYLINDER, BOX])
def test_a_thin_racket_is_never_passed(kind: int, speed: float):
    """Balls and points shot at a disc 1 mm thick from everywhere, in steps of 1/500 s: one of the steps touches it."""
    size = DISC if kind == CYLINDER else (0.2, 0.2, 0.0005)
    rng = np.random.default_rng(5)
    for _ in range(500):
        target = np.append(rng.uniform(-0.14, 0.14, 2), 0.0)
        direction = rng.standard_normal(3)
        direction /= np.linalg.norm(direction)
        radius = rng.choice([0.0, 1e-4, 0.04])
        start = target - direction * rng.uniform(0.5, 3.0)
        stride = direction * speed / 500.0
        hits = [sweep(kind, *size, radius, *(start + k * stride), *(start + (k + 1) * stride))[0] for k in range(60)]
        assert any(hits[: int(4.0 * 500.0 / speed) + 2])


coordinate = st.floats(-3.0, 3.0)
point = st.tuples(coordinate, coordinate, coordinate)


@settings(max_examples=300)
@given(st.sampled_from(list(SIZES)), point, point, st.floats(0.0, 0.5), st.floats(1e-6, 1e3))
def test_what_ends_inside_was_hit(kind: int, a: Point, b: Point, r: float, stretch: float):
    """No start outside and end inside without a touch, however far the start; what is returned is consistent."""
    size = SIZES[kind]
    a = (a[0] * stretch, a[1] * stretch, a[2] * stretch)
    hit, t, *rest = sweep(kind, *size, r, *a, *b)
    first = distance(kind, *size, *a)[0] - r
    last = distance(kind, *size, *b)[0] - r
    if first > 0.0 and last < -1e-6:
        assert hit
    assert 0.0 <= t <= 1.0
    if hit:
        assert math.hypot(*rest[:3]) == pytest.approx(1.0, abs=1e-12)
        at = [p + t * (q - p) for p, q in zip(a, b, strict=True)]
        gap = distance(kind, *size, *at)[0] - r
        assert gap <= TOLERANCE + 1e-12
        assert t == 0.0 or gap >= -1e-10
    elif first > 0.0:
        for k in range(21):
            at = [p + k / 20.0 * (q - p) for p, q in zip(a, b, strict=True)]
            assert distance(kind, *size, *at)[0] - r > 0.0


@KINDS
def test_grazing(kind: int):
    """Along the side of each primitive at a distance a little more and a little less than the radius."""
    side = {PLANE: 0.0, SPHERE: 0.3, CAPSULE: 0.5, CYLINDER: 0.2, BOX: 0.2}[kind]  # m, the top above the origin
    for above, wanted in ((1e-6, False), (-1e-6, True), (1e-3, False), (-1e-3, True)):
        z = side + 0.1 + above
        # downhill by less than the margin, so that a plane is grazed as well
        hit, t, _, _, nz, *_ = sweep(kind, *SIZES[kind], 0.1, -50.0, 0.0, z + 4e-7, 50.0, 0.0, z - 4e-7)
        assert hit is wanted
        if hit:
            assert (0.4 < t <= 0.5 or kind == PLANE) and nz > 0.9


@KINDS
def test_starting_in_touch(kind: int):
    size = SIZES[kind]
    for start in ((0.0, 0.0, 0.0), (0.0, 0.0, -0.05), (0.05, 0.02, -0.01), (0.0, 0.09, -0.1)):
        d, *n = distance(kind, *size, *start)
        assert d <= 0.0 and math.hypot(*n) == pytest.approx(1.0)
        out = [p + 0.01 * c for p, c in zip(start, n, strict=True)]
        into = [p - 0.01 * c for p, c in zip(start, n, strict=True)]
        hit, t, *rest = sweep(kind, *size, 0.1, *start, *into)
        assert hit and t == 0.0 and rest[:3] == n
        assert not sweep(kind, *size, 0.1, *start, *out)[0]
        assert not sweep(kind, *size, 0.1, *start, *start)[0]
    # resting on top, moving along the surface
    assert not sweep(PLANE, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.1, 1.0, 0.0, 0.1)[0]


@KINDS
def test_what_is_not_finite_hits_nothing(kind: int):
    for bad in (math.nan, math.inf, -math.inf):
        assert not sweep(kind, *SIZES[kind], 0.1, 0.0, 0.0, bad, 0.0, 0.0, -1.0)[0]
        assert not sweep(kind, *SIZES[kind], 0.1, 0.0, 0.0, 1.0, bad, 0.0, -1.0)[0]
    assert not sweep(kind, *SIZES[kind], 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0)[0]
