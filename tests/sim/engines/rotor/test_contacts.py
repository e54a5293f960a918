"""Contacts of the `rotor` engine: bounces, rest, conservation, nothing that tunnels or overlaps, and what touches report."""

from __future__ import annotations

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from rotor_scenes import (
    ACTUATORS,
    NONE,
    RACKET,
    bare_ground,
    exact,
    exacts,
    fields,
    matrices,
    matrix,
    momenta,
    put,
    scene,
    with_boxes,
    world,
)

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aeronautics import Aeronautics

C = CRAZYFLIE_21
R = 0.04  # m, of the balls
FULL = (1.2e-3, 1.6e-3, 2.3e-3, 2e-4, -1.5e-4, 2.5e-4)  # kg m^2, with products of inertia


def weightless(w: RotorWorld) -> RotorWorld:
    w.params.set("gravity", [], torch.zeros(w.num_envs, 3))
    return w


@pytest.mark.parametrize("e", [0.6, 0.8, 0.95])
def test_bounces_keep_e_squared_of_the_height_each(e):
    w = world(drones=(), balls=((0, 0, 2),), base=bare_ground, restitution=e)
    z = []
    for _ in range(2000):
        w.step(1)
        z.append(exact(w, "ball_0/base")[2])
    z = np.array(z) - R
    tops = [z[k] for k in range(1, len(z) - 1) if z[k - 1] < z[k] >= z[k + 1]][:3]
    for k, top in enumerate(tops, start=1):
        assert top == pytest.approx((2 - R) * e ** (2 * k), rel=0.01)
    assert len(tops) == 3
    assert z.min() >= -1e-9


def test_a_ball_comes_to_rest_on_the_ground():
    w = world(drones=(), balls=((0, 0, 0.3),), base=bare_ground, restitution=0.7, friction=0.5)
    touch = w.contact_sensor("ball_0/ball", ["ground"])
    w.step(2500)
    for _ in range(20):
        w.step(5)
        x = exact(w, "ball_0/base")
        assert abs(x[2] - R) < 1e-6
        assert np.abs(x[7:]).max() < 1e-6
        assert float(touch.impulse) == pytest.approx(0.047 * 9.81 * 5 * w.dt, rel=1e-4)
        assert 0.0 <= float(touch.when) < w.dt


def test_a_sliding_ball_ends_up_rolling():
    w = world(drones=(), balls=((0, 0, R),), base=bare_ground, friction=0.3, restitution=0.5)
    put(w, "ball_0/base", pos=(0, 0, R), vel=(2, 0, 0))
    w.step(100)
    assert exact(w, "ball_0/base")[7] == pytest.approx(2 - 0.3 * 9.81 * 0.2, rel=0.02)
    w.step(500)
    x = exact(w, "ball_0/base")
    assert x[7] == pytest.approx(2 * 5 / 7, rel=1e-3)  # of a solid ball
    assert (matrix(x[3:7]) @ x[10:13])[1] == pytest.approx(x[7] / R, rel=1e-3)


def hovering(w: RotorWorld, name: str = "drone_0", extra: float = 0.0) -> None:
    u = w.actuators([f"{name}/{a}" for a in ACTUATORS])
    force = (C.mass * 9.81 + extra) / 4
    u.set_control(torch.tensor([[force, force, force, force, 0.0]], dtype=torch.float64).expand(w.num_envs, 5))


def test_a_ball_rests_on_the_racket_of_a_drone_that_carries_it():
    w = world(drone=RACKET, drones=((0, 0, 1),), balls=((0, 0, 1.05 + R),), friction=0.5, mass=0.01)
    hovering(w, extra=0.01 * 9.81)
    touch = w.contact_sensor("drone_0/racket", ["ball_0/ball"])
    w.step(10)
    for _ in range(40):
        w.step(5)
        a, b = exact(w, "drone_0/base"), exact(w, "ball_0/base")
        assert np.abs(b[:3] - a[:3] - [0, 0, 0.05 + R]).max() < 1e-4
        assert float(touch.impulse) == pytest.approx(0.01 * 9.81 * 5 * w.dt, rel=0.05)
    assert abs(a[2] - 1) < 2e-3


@pytest.mark.parametrize("friction", [0.0, 0.6])
@pytest.mark.parametrize("case", range(6))
def test_a_hit_conserves_momentum_and_angular_momentum_and_not_more_than_energy(case, friction):
    g = np.random.default_rng(case)
    w = weightless(
        world(drone=replace(RACKET, racket_radius=0.2), drones=((0, 0, 0),), balls=((0, 0, 3),), inertia=FULL,
              friction=friction, restitution=0.9)
    )  # fmt: skip
    q = g.normal(size=4)
    q /= np.linalg.norm(q)
    aim = matrix(q) @ [*g.uniform(-0.15, 0.15, 2), 0.05]
    start = matrix(q) @ [*g.uniform(-0.3, 0.3, 2), 0.4]
    drift = g.normal(size=3)
    put(w, "drone_0/base", quat=q, vel=drift, rate=g.normal(size=3) if case > 2 else (0, 0, 0))
    put(w, "ball_0/base", pos=start, vel=(aim - start) / 0.05 + drift, rate=10 * g.normal(size=3))
    touch = w.contact_sensor("ball_0/ball", ["drone_0/racket", "drone_0/collision"])
    p0, spin0, e0 = momenta(w)
    v0 = exact(w, "ball_0/base")[7:10]
    hit = 0.0
    for _ in range(40):
        w.step(1)
        hit += float(touch.impulse.sum())
        p, spin, e = momenta(w)
        np.testing.assert_allclose(p, p0, atol=1e-9)
        np.testing.assert_allclose(spin, spin0, atol=5e-4 * np.linalg.norm(spin0))
        assert e < e0 * (1 + 1e-3)
    change = np.linalg.norm(exact(w, "ball_0/base")[7:10] - v0) * 0.047
    assert hit > 0.01
    assert hit == pytest.approx(change, rel=1e-5) if friction == 0 else hit < change + 1e-9


def test_a_hit_far_from_the_centre_turns_the_drone_and_obeys_the_restitution():
    w = weightless(world(drone=RACKET, drones=((0, 0, 0),), balls=((0.15, 0, 0.5),), restitution=0.7))
    put(w, "ball_0/base", pos=(0.15, 0, 0.05 + R + 0.005), vel=(0, 0, -5))
    w.step(1)
    w.step(1)
    a, b = exact(w, "drone_0/base"), exact(w, "ball_0/base")
    k = 1 / 0.047 + 1 / C.mass + 0.15**2 / C.inertia[1]
    j = 1.7 * 5 / k
    assert b[9] == pytest.approx(-5 + j / 0.047, rel=1e-9)
    assert a[9] == pytest.approx(-j / C.mass, rel=1e-9)
    assert a[11] == pytest.approx(0.15 * j / C.inertia[1], rel=1e-4)


def paths(n: int, seed: int, far: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Random directions [n, 3], and offsets [n, 3] of where their lines pass."""
    g = np.random.default_rng(seed)
    d = g.normal(size=(n, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True), g.uniform(-far, far, (n, 3))


OBSTACLES = with_boxes(
    ("net", "box", (0.01, 2.0, 1.0), (0, 0, 3.0)),
    ("post", "cylinder", (0.04, 1.0), (0, 2.04, 3.0)),
    ("rail", "capsule", (0.03, 1.0), (0, -2.5, 3.0)),
    ("stone", "sphere", (0.3,), (3.0, 0, 3.0)),
    floor=False,
)


@pytest.mark.parametrize(
    ("geom", "centre"), [("net", (0, 0, 3)), ("post", (0, 2.04, 3)), ("rail", (0, -2.5, 3)), ("stone", (3, 0, 3))]
)
@pytest.mark.parametrize("speed", [30, 250])
def test_no_ball_tunnels_through_static_shapes(geom, centre, speed):
    n = 256
    w = weightless(world(n, drones=(), balls=((9, 0, 0),), base=OBSTACLES, restitution=0.9))
    d, o = paths(n, 3, 0.05)
    aim = np.array(centre) + o * ([0, 1, 1] if geom == "net" else [1, 1, 1])
    state = torch.zeros(n, 1, 13, dtype=torch.float64)
    state[:, 0, :3] = torch.from_numpy(aim - 1.6 * d)
    state[:, 0, 3] = 1.0
    state[:, 0, 7:10] = torch.from_numpy(speed * d)
    clear = np.min([gap(g, aim - 1.6 * d) for g in PLACES], axis=0) > R
    state[~clear, 0, 0] = 9.0  # begins inside another
    w.bodies(["ball_0/base"]).set_state(None, state)
    touch = w.contact_sensor("ball_0/ball", list(PLACES))
    hits = np.zeros(n)
    line = (aim - 1.6 * d)[:, None] + np.linspace(0, 3.6, 721)[:, None] * d[:, None]
    nearest = np.min([gap(g, line) for g in PLACES], axis=(0, 2))
    for _ in range(1800 // speed):
        w.step(1)
        hits += touch.impulse.numpy().sum(axis=1)
        assert min(gap(g, exacts(w, "ball_0/base")[:, :3]).min() for g in PLACES) > R - 1e-7
    assert (hits[clear & (nearest < R - 0.002)] > 0).all()
    assert (hits[clear & (nearest > R + 0.002)] == 0).all()
    assert (hits > 0).sum() > 20


PLACES = {"net": [0, 0, 3], "post": [0, 2.04, 3], "rail": [0, -2.5, 3], "stone": [3, 0, 3]}


def gap(geom: str, x: np.ndarray) -> np.ndarray:
    """Distance of points [..., 3] from a shape of OBSTACLES, by plain formulas; 0 or less inside."""
    x = np.abs(x - PLACES[geom])
    if geom == "net":
        return np.linalg.norm(np.maximum(x - [0.01, 2, 1], 0), axis=-1)
    if geom == "stone":
        return np.linalg.norm(x, axis=-1) - 0.3
    across = np.hypot(x[..., 0], x[..., 1])
    up = np.maximum(x[..., 2] - 1, 0)
    if geom == "rail":
        return np.hypot(across, up) - 0.03
    return np.hypot(np.maximum(across - 0.04, 0), up)


def in_racket(w: RotorWorld, ball: str = "ball_0") -> np.ndarray:
    """[N, 3] centres of a ball in the frame of drone_0's racket."""
    a, b = exacts(w, "drone_0/base"), exacts(w, f"{ball}/base")
    return np.einsum("nji,nj->ni", matrices(a[:, 3:7]), b[:, :3] - a[:, :3]) - [0, 0, 0.047]


def test_no_ball_tunnels_through_a_racket_that_moves_and_turns():
    n = 512
    w = weightless(world(n, drone=RACKET, drones=((0, 0, 0),), balls=((9, 0, 0),), restitution=0.8))
    w.params.set("mass", ["drone_0/base"], torch.full((n, 1), 1e6))
    w.params.set("inertia", ["drone_0/base"], torch.full((n, 1, 3), 1e6))
    g = np.random.default_rng(0)
    d, _ = paths(n, 5)
    drift = 10 * g.normal(size=(n, 3))
    rate = 8 * g.normal(size=(n, 3))
    quat = g.normal(size=(n, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    # where the ball would meet the disc's middle plane at 30 ms, in the frame of the disc then
    spot = np.concatenate((g.uniform(-0.16, 0.16, (n, 2)), np.full((n, 1), 0.047)), axis=1)
    drone = torch.zeros(n, 1, 13, dtype=torch.float64)
    ball = torch.zeros(n, 1, 13, dtype=torch.float64)
    drone[:, 0, 3:7], drone[:, 0, 7:10], drone[:, 0, 10:13] = (torch.from_numpy(v) for v in (quat, drift, rate))
    aim = np.empty((n, 3))
    for i in range(n):
        speed = np.linalg.norm(rate[i])
        half = 0.5 * 0.03 * speed
        turn = matrix([math.cos(half), *(math.sin(half) * rate[i] / speed)])
        aim[i] = drift[i] * 0.03 + matrix(quat[i]) @ turn @ spot[i]
    v = 30 * d
    ball[:, 0, :3] = torch.from_numpy(aim - 0.03 * v)
    ball[:, 0, 3] = 1.0
    ball[:, 0, 7:10] = torch.from_numpy(v)
    w.bodies(["drone_0/base"]).set_state(None, drone)
    w.bodies(["ball_0/base"]).set_state(None, ball)
    touch = w.contact_sensor("drone_0/racket", ["ball_0/ball"])
    other = w.contact_sensor("drone_0/collision", ["ball_0/ball"])
    hits = np.zeros(n)
    for _ in range(40):
        w.step(1)
        hits += (touch.impulse + other.impulse)[:, 0].numpy()
        y = in_racket(w)
        assert not ((np.hypot(y[:, 0], y[:, 1]) < 0.2) & (np.abs(y[:, 2]) < R - 2e-3)).any()
    start = [math.hypot(*(matrix(quat[i]).T @ (aim[i] - 0.03 * v[i]))) for i in range(n)]
    assert (hits[np.array(start) > 0.3] > 0).all()


def test_neither_balls_nor_drones_pass_the_ground():
    n = 3
    w = world(n, drones=((0, 0, 1),), balls=((2, 0, 1),), base=bare_ground, restitution=0.5)
    for name in ("drone_0/base", "ball_0/base"):
        put(w, name, pos=(0 if "drone" in name else 2, 0, 0.5), vel=(20, 3, -30), rate=(5, 1, 2))
    for _ in range(300):
        w.step(1)
        assert exacts(w, "drone_0/base")[:, 2].min() > 0
        assert exacts(w, "ball_0/base")[:, 2].min() >= R - 1e-9


def test_drones_that_meet_at_30_m_s_stop_each_other():
    n = 128
    drone = replace(C, body_radius=0.06)
    w = weightless(world(n, drone=drone, drones=((0, 0, 0), (9, 0, 0))))
    w.params.set("mass", ["drone_1/base"], torch.full((n, 1), 0.1, dtype=torch.float64))
    d, o = paths(n, 7, 0.1)
    state = torch.zeros(n, 2, 13, dtype=torch.float64)
    state[..., 3] = 1.0
    state[:, 0, 7:10] = torch.tensor([3.0, -4.0, 2.0])
    state[:, 1, :3] = torch.from_numpy(o - 0.5 * d)
    state[:, 1, 7:10] = torch.from_numpy(30 * d) + state[:, 0, 7:10]
    w.bodies(["drone_0/base", "drone_1/base"]).set_state(None, state)
    touch = w.contact_sensor("drone_1/collision", ["drone_0/collision"])
    mass = np.array([C.mass, 0.1])
    total = np.einsum("b,nbi->ni", mass, state[:, :, 7:10].numpy())
    hit = np.zeros(n)
    for _ in range(30):
        w.step(1)
        hit += touch.impulse[:, 0].numpy()
        x = np.stack([exacts(w, f"drone_{b}/base") for b in (0, 1)], axis=1)
        np.testing.assert_allclose(np.einsum("b,nbi->ni", mass, x[:, :, 7:10]), total, atol=1e-9)
        assert np.linalg.norm(x[:, 0, :3] - x[:, 1, :3], axis=1).min() > 0.12 - 1e-9
    passing = np.linalg.norm(np.cross(o, d), axis=1)
    np.testing.assert_array_equal(hit > 0, passing < 0.12)
    np.testing.assert_allclose(hit, np.linalg.norm(x[:, 1, 7:10] - state[:, 1, 7:10].numpy(), axis=1) * 0.1, atol=1e-6)
    apart = x[:, 1, :3] - x[:, 0, :3]
    assert ((apart * (x[:, 1, 7:10] - x[:, 0, 7:10])).sum(axis=1) > -1e-9)[hit > 0].all()
    center = np.einsum("b,nbi->ni", mass, x[:, :, :3]) / mass.sum()
    start = np.einsum("b,nbi->ni", mass, state[:, :, :3].numpy()) / mass.sum()
    np.testing.assert_allclose(center, start + total / mass.sum() * 0.06, atol=1e-9)


def test_drones_that_meet_head_on_fly_on_together_from_where_they_met():
    w = weightless(world(drones=((0, 0, 0), (1, 0, 0))))
    w.params.set("mass", ["drone_1/base"], torch.full((1, 1), 0.1, dtype=torch.float64))
    put(w, "drone_0/base", vel=(4, 0, 0))
    put(w, "drone_1/base", pos=(0.5, 0, 0), vel=(-3, 0, 0))
    touch = w.contact_sensor("drone_0/collision", ["drone_1/collision"])
    when = (0.5 - 2 * C.body_radius) / 7
    common = (4 * C.mass - 3 * 0.1) / (C.mass + 0.1)
    w.step(60)
    assert float(touch.when) == pytest.approx(when, abs=1e-6)
    assert float(touch.impulse) == pytest.approx(C.mass * (4 - common), rel=1e-5)
    a, b = exact(w, "drone_0/base"), exact(w, "drone_1/base")
    np.testing.assert_allclose([a[7], b[7]], common, atol=1e-9)
    np.testing.assert_allclose(a[0], 4 * when + common * (0.12 - when), atol=1e-7)
    np.testing.assert_allclose(b[0] - a[0], 2 * C.body_radius, atol=1e-7)


@pytest.mark.parametrize("geom", ["net", "post", "rail", "stone"])
def test_no_drone_tunnels_through_static_shapes(geom):
    n = 128
    w = weightless(world(n, drones=((9, 9, 9),), base=OBSTACLES))
    d, o = paths(n, 11, 0.05)
    centre = {"net": [0, 0, 3], "post": [0, 2.04, 3], "rail": [0, -2.5, 3], "stone": [3, 0, 3]}[geom]
    state = torch.zeros(n, 1, 13, dtype=torch.float64)
    state[:, 0, :3] = torch.from_numpy(np.array(centre) + o * ([0, 1, 1] if geom == "net" else 1) - 1.6 * d)
    state[:, 0, 3] = 1.0
    state[:, 0, 7:10] = torch.from_numpy(30 * d)
    clear = np.min([gap(g, state[:, 0, :3].numpy()) for g in PLACES], axis=0) > C.body_radius
    state[~clear, 0, 0] = 9.0
    w.bodies(["drone_0/base"]).set_state(None, state)
    touch = w.contact_sensor("drone_0/collision", list(PLACES))
    hit = np.zeros(n)
    times = np.zeros(n)
    for _ in range(60):
        w.step(1)
        hit += touch.impulse.numpy().sum(axis=1)
        times += (touch.impulse.numpy() > 0).sum(axis=1)
        x = exacts(w, "drone_0/base")
        assert min(gap(g, x[:, :3]).min() for g in PLACES) > C.body_radius - 1e-7
    assert (hit > 0).mean() > 0.5
    change = np.linalg.norm(x[:, 7:10] - 30 * d, axis=1) * C.mass
    once = times == 1  # others slid on
    assert once.sum() > 10
    np.testing.assert_allclose(hit[once], change[once], rtol=1e-3, atol=1e-6)


def test_a_drone_lies_still_on_the_ground():
    w = world(drones=((0, 0, 0.3),), base=bare_ground)
    touch = w.contact_sensor("drone_0/collision", ["ground"])
    w.step(500)
    rest = exact(w, "drone_0/base")
    assert rest[2] == pytest.approx(0.5 * C.body_height, abs=1e-4)
    for _ in range(100):
        w.step(5)
        x = exact(w, "drone_0/base")
        assert np.abs(x[:3] - rest[:3]).max() < 1e-4
        assert np.abs(x[4:7]).max() < 1e-3
        assert np.abs(x[7:13]).max() < 0.02
        assert float(touch.impulse) == pytest.approx(C.mass * 9.81 * 5 * w.dt, rel=0.02)
    np.testing.assert_allclose(w.sensors("drone_0/imu_acc").data[0], [0, 0, 9.81], atol=0.3)


def test_a_drone_that_lands_on_its_edge_tilts_over_and_comes_to_rest():
    w = world(drones=((0, 0, 0.3),), base=bare_ground)
    put(w, "drone_0/base", pos=(0, 0, 0.2), quat=(math.cos(0.3), math.sin(0.3), 0, 0))
    turned = 0.0
    for _ in range(1500):
        w.step(1)
        turned = max(turned, abs(exact(w, "drone_0/base")[10]))
    assert turned > 1.0
    x = exact(w, "drone_0/base")
    assert x[2] == pytest.approx(0.5 * C.body_height, abs=1e-3)
    assert matrix(x[3:7])[2, 2] > 0.999
    before = x
    w.step(500)
    assert np.abs(exact(w, "drone_0/base") - before)[:7].max() < 1e-3


def test_a_drone_lies_on_its_back_too():
    w = world(drones=((0, 0, 0.3),), base=bare_ground)
    put(w, "drone_0/base", pos=(0, 0, 0.1), quat=(0, 1, 0, 0))
    w.step(500)
    x = exact(w, "drone_0/base")
    assert x[2] == pytest.approx(0.5 * C.body_height, abs=1e-4)
    assert matrix(x[3:7])[2, 2] < -0.999


def test_drones_that_are_put_into_each_other_part_by_their_masses():
    w = weightless(world(drones=((0, 0, 0), (1, 0, 0))))
    w.params.set("mass", ["drone_1/base"], torch.full((1, 1), 3 * C.mass, dtype=torch.float64))
    put(w, "drone_1/base", pos=(0.02, 0, 0))
    w.step(1)
    a, b = exact(w, "drone_0/base"), exact(w, "drone_1/base")
    overlap = 2 * C.body_radius - 0.02
    np.testing.assert_allclose([a[0], b[0]], [-0.75 * overlap, 0.02 + 0.25 * overlap], atol=1e-9)
    assert np.abs([a[7:], b[7:]]).max() == 0.0


def test_a_drone_stands_on_a_box():
    w = world(drones=((0, 0, 1),), base=with_boxes(("table", "box", (0.5, 0.5, 0.2), (0, 0, 0.2))))
    w.step(1000)
    x = exact(w, "drone_0/base")
    assert x[2] == pytest.approx(0.4 + C.body_radius, abs=1e-4)
    assert np.abs(x[7:10]).max() < 0.02


def test_a_ball_between_racket_and_net_stays_finite_and_outside():
    n = 64
    net = with_boxes(("net", "box", (0.01, 2.0, 1.0), (0, 0, 1.0)))
    w = world(n, drone=RACKET, drones=((1, 0, 1),), balls=((2, 0, 1),), base=net, restitution=0.9)
    g = np.random.default_rng(2)
    drone = torch.zeros(n, 1, 13, dtype=torch.float64)
    ball = torch.zeros(n, 1, 13, dtype=torch.float64)
    drone[:, 0, 3:7] = torch.tensor([math.cos(math.pi / 4), 0, -math.sin(math.pi / 4), 0])  # racket towards -x
    drone[:, 0, :3] = torch.tensor([0.3, 0.0, 1.0]) + 0.02 * torch.from_numpy(g.normal(size=(n, 3)))
    drone[:, 0, 7:10] = torch.from_numpy(np.stack([-g.uniform(1, 30, n), g.normal(size=n), g.normal(size=n)], axis=1))
    ball[:, 0, :3] = torch.tensor([0.01 + R + 0.001, 0.0, 1.0])
    ball[:, 0, 3] = 1.0
    w.params.set("mass", ["drone_0/base"], torch.full((n, 1), 1.0))
    w.params.set("inertia", ["drone_0/base"], torch.full((n, 1, 3), 0.01))
    w.bodies(["drone_0/base"]).set_state(None, drone)
    w.bodies(["ball_0/base"]).set_state(None, ball)
    for _ in range(100):
        w.step(1)
        b, y = exacts(w, "ball_0/base"), in_racket(w)
        assert np.abs(b[:, 7:10]).max() < 150.0
        assert ((b[:, 0] > 0.01 + R - 1e-3) | (b[:, 2] > 2) | (np.abs(b[:, 1]) > 2)).all()
        assert not ((np.hypot(y[:, 0], y[:, 1]) < 0.18) & (np.abs(y[:, 2]) < R - 2e-3)).any()


def test_balls_hit_each_other():
    w = weightless(world(drones=(), balls=((0, 0, 0), (1, 0, 0)), restitution=0.8))
    w.params.set("mass", ["ball_1/base"], torch.full((1, 1), 0.1, dtype=torch.float64))
    put(w, "ball_0/base", vel=(30, 0, 0))
    put(w, "ball_1/base", pos=(0.5, 0.04, 0), vel=(-20, 0, 0))
    touch = w.contact_sensor("ball_0/ball", ["ball_1/ball"])
    p = 0.047 * 30 - 0.1 * 20
    when = math.inf
    hit = 0.0
    for k in range(10):
        w.step(1)
        hit += float(touch.impulse)
        if math.isfinite(float(touch.when)):
            when = k * w.dt + float(touch.when)
    a, b = exact(w, "ball_0/base"), exact(w, "ball_1/base")
    np.testing.assert_allclose(0.047 * a[7:10] + 0.1 * b[7:10], [p, 0, 0], atol=1e-12)
    apart = math.sqrt(0.08**2 - 0.04**2)
    assert when == pytest.approx((0.5 - apart) / 50, abs=1e-6)
    normal = np.array([-apart, -0.04, 0]) / 0.08
    assert (a - b)[7:10] @ normal == pytest.approx(0.8 * 50 * apart / 0.08, rel=1e-6)
    assert hit == pytest.approx(1.8 * 50 * apart / 0.08 / (1 / 0.047 + 1 / 0.1), rel=1e-5)


def test_slow_balls_touch_too():
    w = weightless(world(drones=(), balls=((0, 0, 0), (1, 0, 0)), restitution=0.8))
    put(w, "ball_0/base", vel=(0.3, 0.3, 0.3))
    put(w, "ball_1/base", pos=(0.1, 0.1, 0.1))
    touch = w.contact_sensor("ball_1/ball", ["ball_0/ball"])
    w.step(200)
    when = (0.1 * math.sqrt(3) - 2 * R) / (0.3 * math.sqrt(3))
    assert float(touch.when) == pytest.approx(when, abs=1e-6)
    np.testing.assert_allclose(exact(w, "ball_1/base")[7:10], 0.9 * 0.3, rtol=1e-6)


def test_two_balls_at_once_do_not_tunnel_through_one_racket():
    n = 64
    w = weightless(world(n, drone=RACKET, drones=((0, 0, 0),), balls=((1, 0, 0), (2, 0, 0)), restitution=0.9))
    g = np.random.default_rng(4)
    w.params.set("mass", ["drone_0/base"], torch.full((n, 1), 1.0))
    w.params.set("inertia", ["drone_0/base"], torch.full((n, 1, 3), 0.01))
    put(w, "drone_0/base", vel=(0, 0, 20))
    state = torch.zeros(n, 2, 13, dtype=torch.float64)
    state[..., 3] = 1.0
    state[:, 0, :3] = torch.from_numpy(
        np.stack([g.uniform(-0.1, 0, n), g.uniform(-0.1, 0, n), g.uniform(0.1, 0.3, n)], 1)
    )
    state[:, 1, :3] = torch.from_numpy(
        np.stack([g.uniform(0.08, 0.12, n), g.uniform(0.05, 0.1, n), g.uniform(0.1, 0.3, n)], 1)
    )
    state[:, :, 9] = -30.0
    w.bodies(["ball_0/base", "ball_1/base"]).set_state(None, state)
    for _ in range(15):
        w.step(1)
        for ball in ("ball_0", "ball_1"):
            y = in_racket(w, ball)
            assert ((y[:, 2] > R - 2e-3) | (np.hypot(y[:, 0], y[:, 1]) > 0.2)).all()


def test_touches_give_the_impulse_and_the_time_from_either_side():
    w = world(drones=(), balls=((0, 0, 1),), base=bare_ground)
    put(w, "ball_0/base", pos=(0, 0, 0.5), vel=(0, 0, -7))
    one = w.contact_sensor("ball_0/ball", ["ground"])
    other = w.contact_sensor("ground", ["ball_0/ball"])
    fall = (-7 + math.sqrt(49 + 2 * 9.81 * (0.5 - R))) / 9.81
    w.step(50)
    assert float(one.when) == float(other.when) == pytest.approx(fall, abs=1e-5)
    speed = 7 + 9.81 * fall
    e = w.parts.bounce[0]
    assert float(one.impulse) == float(other.impulse) == pytest.approx(0.047 * speed * (1 + e), rel=1e-4)
    w.step(1)
    assert float(one.impulse) == 0.0
    assert math.isinf(float(one.when))


def test_masks_and_exclusions_of_the_scene_hold():
    def base():
        spec = with_boxes(("net", "box", (0.01, 2.0, 1.0), (0, 0, 1.0)))()
        spec.geom("net").contype = 2
        spec.geom("net").conaffinity = 2
        return spec

    w = weightless(world(drones=(), balls=((1, 0, 1),), base=base))
    put(w, "ball_0/base", pos=(0.3, 0, 1), vel=(-10, 0, 0))
    w.step(50)
    assert exact(w, "ball_0/base")[0] == pytest.approx(-0.7)

    s = scene(drones=((0, 0, 0), (1, 0, 0)))
    plain = s.spec

    def spec():
        out = plain()
        out.add_exclude(bodyname1="drone_0/base", bodyname2="drone_1/base")
        return out

    s.spec = spec
    w = weightless(RotorWorld(s, 1, 1))
    put(w, "drone_0/base", vel=(10, 0, 0))
    w.step(100)
    assert exact(w, "drone_0/base")[0] == pytest.approx(2.0)


def test_only_what_flies_near_is_hit_in_its_own_world():
    """Worlds in one block of lanes do not see each other's contacts."""
    w = world(20, drones=((0, 0, 5),), balls=((0, 0, 3),), base=bare_ground)
    free = world(1, drones=((0, 0, 5),), balls=((0, 0, 3),), base=bare_ground)
    put(free, "ball_0/base", pos=(0, 0, 3), vel=(1, 0, 2))
    state = exact(free, "ball_0/base")
    put(w, "ball_0/base", pos=(0, 0, 0.1), vel=(0, 0, -9))
    w.bodies(["ball_0/base"]).set_state(torch.tensor([7]), torch.from_numpy(state)[None, None])
    for x in (w, free):
        x.step(100)
    np.testing.assert_array_equal(exact(w, "ball_0/base", 7), exact(free, "ball_0/base"))
    assert exact(w, "ball_0/base", 6)[9] > 0
    assert fields(w, "drone_0/base", at.POS, 3, 7)[2] < 5
    assert NONE.downwash == "none"


@pytest.mark.parametrize("speed", [5.0, 15.0, 24.0])
def test_no_drone_tunnels_through_a_thin_plate_that_moves_towards_it(speed):
    """The rims' first point that touches stops a drone, whichever it is, before its centre is through."""
    n = 16

    def plate() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        body = spec.worldbody.add_body(name="base")
        body.add_freejoint()
        body.add_geom(name="plate", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.001, 0.5, 0.5], mass=1.0)
        return spec

    s = scene(drones=((0, 0, 50),)).add(plate, "wall", pos=(0.3, 0, 50))
    s.extension(Aeronautics).moving.append("wall")
    w = weightless(RotorWorld(s, n, 1))
    turned = torch.rand(n, generator=torch.Generator().manual_seed(0)) * math.pi
    state = torch.zeros(n, 1, 13, dtype=torch.float64)
    state[:, 0, 0] = torch.linspace(0.0, 0.05, n)
    state[:, 0, 2] = 50.0
    state[:, 0, 3], state[:, 0, 6] = (0.5 * turned).cos(), (0.5 * turned).sin()
    state[:, 0, 7] = 0.75 * speed
    w.bodies(["drone_0/base"]).set_state(None, state)
    put(w, "wall/base", (0.3, 0, 50), (-0.25 * speed, 0, 0))
    for _ in range(60):
        w.step(1)
        assert (exacts(w, "drone_0/base")[:, 0] < exacts(w, "wall/base")[:, 0]).all()
    assert (exacts(w, "drone_0/base")[:, 7] < -0.2 * speed).all()
