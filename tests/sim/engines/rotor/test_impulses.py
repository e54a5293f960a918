"""Impacts: restitution, friction, conservation, energy, for bodies of any inertia."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from rookery.sim.engines.rotor.impulses import impulse, kick, turned, uniform

STILL = (0.0, 0.0, 0.0)
NOTHING = (0.0,) * 6
GROUND = (0.0, NOTHING, STILL, STILL, STILL)
BALL_MASS = 0.047
BALL_RADIUS = 0.04
BALL = (1 / BALL_MASS, uniform(1 / (0.4 * BALL_MASS * BALL_RADIUS**2)), (0.0, 0.0, -BALL_RADIUS))
UP = (0.0, 0.0, 1.0)


def full(six: tuple[float, ...]) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = six
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def six(m: np.ndarray) -> tuple[float, ...]:
    return float(m[0, 0]), float(m[1, 1]), float(m[2, 2]), float(m[0, 1]), float(m[0, 2]), float(m[1, 2])


def test_a_ball_bounces_off_the_ground():
    j = impulse(*BALL, (0.0, 0.0, -3.0), STILL, *GROUND, UP, 0.8, 0.5, 0.01)
    assert j == pytest.approx((0.0, 0.0, BALL_MASS * 3.0 * 1.8))
    assert impulse(*BALL, (0.0, 0.0, -0.009), STILL, *GROUND, UP, 0.8, 0.5, 0.01)[2] == pytest.approx(BALL_MASS * 0.009)
    assert impulse(*BALL, (1.0, 0.0, 0.5), STILL, *GROUND, UP, 0.8, 0.5, 0.0) == STILL
    assert impulse(*GROUND, *GROUND, UP, 0.8, 0.5, 0.0) == STILL


@pytest.mark.parametrize(("vx", "rolls"), [(1.0, True), (20.0, False)])
def test_a_ball_grips_or_slides(vx: float, rolls: bool):
    """Sticking: the sliding speed is stopped by 2/7 of m v; sliding: the impulse is mu times the normal one."""
    mu, vz, e = 0.4, 3.0, 0.7
    jx, jy, jz = impulse(*BALL, (vx, 0.0, -vz), STILL, *GROUND, UP, e, mu, 0.0)
    assert jz == pytest.approx(BALL_MASS * vz * (1 + e))
    assert jx == pytest.approx(-2 / 7 * BALL_MASS * vx if rolls else -mu * jz)
    assert jy == 0.0
    w = kick(BALL[1], BALL[2], (jx, jy, jz))
    assert (vx + jx / BALL_MASS - w[1] * BALL_RADIUS == pytest.approx(0.0, abs=1e-12)) is rolls
    assert impulse(*BALL, (vx, 0.0, -vz), STILL, *GROUND, UP, e, 0.0, 0.0) == pytest.approx((0.0, 0.0, jz))


def test_a_heavy_racket_hits_like_a_wall():
    racket = (1e-9, uniform(1e-9), (0.1, 0.0, 0.0), (0.0, 0.0, 4.0), STILL)
    j = impulse(*BALL, (0.0, 0.0, -2.0), STILL, *racket, UP, 0.9, 0.3, 0.0)
    assert -2.0 + j[2] / BALL_MASS == pytest.approx(4.0 + 0.9 * 6.0)


def test_equal_spheres_swap_their_speeds():
    a = (2.0, uniform(100.0), (-0.1, 0.0, 0.0), (-1.0, 0.0, 0.0), STILL)
    b = (2.0, uniform(100.0), (0.1, 0.0, 0.0), (3.0, 0.0, 0.0), STILL)
    assert impulse(*a, *b, (1.0, 0.0, 0.0), 1.0, 0.5, 0.0) == pytest.approx((2.0, 0.0, 0.0))


def test_turned_and_kick():
    rng = np.random.default_rng(0)
    for _ in range(20):
        m = rng.standard_normal((3, 3))
        m = m @ m.T
        turn = Rotation.random(random_state=rng)
        w, x, y, z = turn.as_quat(scalar_first=True)
        world = turn.as_matrix() @ m @ turn.as_matrix().T
        assert full(turned(six(m), w, x, y, z)) == pytest.approx(world)
        r, j = rng.standard_normal(3), rng.standard_normal(3)
        assert kick(six(m), tuple(r), tuple(j)) == pytest.approx(m @ np.cross(r, j))


def bodies(seed: int) -> tuple[list[tuple], np.ndarray]:
    """Two bodies of random mass, inertia (physical: from points of mass), place and motion; and a normal."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(2):
        mass = 10.0 ** rng.uniform(-2, 1)
        points = rng.standard_normal((6, 3)) * rng.uniform(0.02, 0.3, 3)
        inertia = mass / 6 * sum(np.eye(3) * (p @ p) - np.outer(p, p) for p in points)
        inverse = six(np.linalg.inv(inertia))
        r, v, w = rng.standard_normal(3) * 0.2, rng.standard_normal(3) * 5.0, rng.standard_normal(3) * 10.0
        out.append((1.0 / mass, inverse, tuple(r), tuple(v), tuple(w)))
    if seed % 3 == 0:
        out[1] = GROUND
    n = rng.standard_normal(3)
    return out, n / np.linalg.norm(n)


def energy(body: tuple, j: np.ndarray) -> float:
    """Change of the kinetic energy (J) of a body by an impulse."""
    inv_mass, inverse, r, v, w = body
    if inv_mass == 0.0:
        return 0.0
    torque = np.cross(r, j)
    return float(j @ v + 0.5 * inv_mass * j @ j + torque @ w + 0.5 * torque @ full(inverse) @ torque)


def after(body: tuple, j: np.ndarray) -> np.ndarray:
    """Velocity of the point of contact after an impulse."""
    inv_mass, inverse, r, v, w = body
    return np.array(v) + inv_mass * j + np.cross(w + full(inverse) @ np.cross(r, j), r)


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.sampled_from((0.0, 0.3, 0.9, 1.0)), st.sampled_from((0.0, 0.1, 0.5, 2.0)))
def test_laws_hold_for_any_inertia(seed: int, e: float, mu: float):
    (a, b), n = bodies(seed)
    before = after(a, np.zeros(3)) - after(b, np.zeros(3))
    j = np.array(impulse(*a, *b, tuple(n), e, mu, 0.0))
    if before @ n >= 0.0:
        assert not j.any()
        return
    slide = after(a, j) - after(b, -j)
    assert slide @ n == pytest.approx(-e * (before @ n), abs=1e-9)
    sideways = j - (j @ n) * n
    assert j @ n > 0.0
    assert np.linalg.norm(sideways) <= mu * (j @ n) + 1e-9
    gained = energy(a, j) + energy(b, -j)
    assert gained <= 1e-9
    slide -= (slide @ n) * n
    # either nothing slides any more (but by what restitution adds), or friction does all that it may
    assert e > 0.0 or np.linalg.norm(slide) < 1e-8 or np.linalg.norm(sideways) == pytest.approx(mu * (j @ n), abs=1e-8)
    if e == 1.0 and mu == 0.0:
        assert gained == pytest.approx(0.0, abs=1e-9)
    # the two bodies may be named in either order
    assert np.array(impulse(*b, *a, tuple(-n), e, mu, 0.0)) == pytest.approx(-j, abs=1e-9)


def test_momentum_of_a_ball_on_a_tilted_drone():
    """Off-centre hit on the racket of a turning drone: linear and angular momentum about the origin stay."""
    turn = Rotation.from_euler("xyz", (0.3, -0.4, 1.0))
    w, x, y, z = turn.as_quat(scalar_first=True)
    drone_mass = 0.6
    moments = np.array([2.2e-3, 1.9e-3, 3.4e-3])
    inverse = turned((*(1 / moments), 0.0, 0.0, 0.0), w, x, y, z)
    n = turn.apply((0.0, 0.0, 1.0))
    contact = np.array([0.3, -0.2, 2.0])
    ball_at = contact + BALL_RADIUS * n
    drone_at = contact - turn.apply((0.12, -0.05, 0.02))
    drone_v = np.array([0.1, 0.4, 1.0])
    drone_w = np.array([0.5, -2.0, 1.0])
    ball_v = np.array([1.0, 0.3, -5.0])
    ball_w = np.array([20.0, -5.0, 3.0])
    ball = (BALL[0], BALL[1], tuple(contact - ball_at), tuple(ball_v), tuple(ball_w))
    drone = (1 / drone_mass, inverse, tuple(contact - drone_at), tuple(drone_v), tuple(drone_w))
    j = np.array(impulse(*ball, *drone, tuple(n), 0.8, 0.3, 0.0))
    assert np.linalg.norm(j) > 0.05

    def momenta(sign: float) -> tuple[np.ndarray, np.ndarray]:
        dv, dw = sign * j / BALL_MASS, sign * np.array(kick(ball[1], ball[2], tuple(j)))
        ev, ew = -sign * j / drone_mass, sign * np.array(kick(drone[1], drone[2], tuple(-j)))
        p, q = BALL_MASS * (ball_v + dv), drone_mass * (drone_v + ev)
        spin = 0.4 * BALL_MASS * BALL_RADIUS**2 * (ball_w + dw) + np.linalg.inv(full(inverse)) @ (drone_w + ew)
        return p + q, np.cross(ball_at, p) + np.cross(drone_at, q) + spin

    for old, new in zip(momenta(0.0), momenta(1.0), strict=True):
        assert new == pytest.approx(old, abs=1e-12)
    assert math.isfinite(float(j.sum()))
