"""Per-world parameters of the `rotor` engine."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from rotor_scenes import NONE, REALISTIC, bare_ground, exact, exacts, matrix, momenta, put, world

from rookery.robots.drones.crazyflie import CRAZYFLIE_21 as C
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor import layout as at
from rookery.sim.randomization.batch import Batch

FULL = (2.4e-5, 3.1e-5, 4.3e-5, 4e-6, -3e-6, 5e-6)
BASE = ["drone_0/base"]


def test_nominal_values_are_those_of_the_scene():
    w = world(3, balls=((0, 0, 1),), friction=0.4)
    bodies = ["drone_0/base", "ball_0/base"]
    torch.testing.assert_close(w.params.nominal("mass", bodies), torch.tensor([C.mass, 0.047]))
    torch.testing.assert_close(w.params.nominal("inertia", BASE)[0], torch.tensor(C.inertia))
    torch.testing.assert_close(w.params.nominal("gravity"), torch.tensor([0.0, 0.0, -9.81]))
    assert float(w.params.nominal("friction", ["ball_0/ball"])[0, 0]) == pytest.approx(0.4)
    for field, names in (("mass", bodies), ("inertia", bodies), ("friction", ["ball_0/ball"]), ("gravity", [])):
        nominal = w.params.nominal(field, names)
        now = w.params.get(field, names)
        assert now.dtype == torch.float32
        torch.testing.assert_close(now, nominal.expand(3, *nominal.shape))


@pytest.mark.parametrize("inertia", [None, FULL])
def test_what_is_set_is_read_back_in_those_worlds_only(inertia):
    w = world(20, balls=((0, 0, 1),), inertia=inertia)
    ids = torch.tensor([2, 17])
    g = torch.Generator().manual_seed(0)
    for field, names, shape in (
        ("mass", ["ball_0/base", "drone_0/base"], (2, 2)), ("inertia", BASE, (2, 1, 3)), ("gravity", [], (2, 3)),
    ):  # fmt: skip
        nominal = w.params.nominal(field, names)
        values = nominal * (0.5 + torch.rand(shape, generator=g))
        w.params.set(field, names, values, ids)
        got = w.params.get(field, names)
        torch.testing.assert_close(got[ids], values)
        rest = np.setdiff1d(np.arange(20), ids)
        torch.testing.assert_close(got[rest], nominal.expand(18, *nominal.shape))


def test_one_value_is_spread_over_bodies_and_worlds():
    w = world(3, drones=((0, 0, 1), (1, 0, 1)))
    w.params.set("mass", ["drone_0/base", "drone_1/base"], torch.full((3, 1), 0.1))
    torch.testing.assert_close(w.params.get("mass", ["drone_0/base", "drone_1/base"]), torch.full((3, 2), 0.1))


def test_a_full_inertia_keeps_its_axes_when_its_moments_change():
    w = world(1, inertia=FULL)
    w.params.set("inertia", BASE, w.params.nominal("inertia", BASE)[None] * 2.0)
    six = w.varied[0, 0, at.INERTIA * at.LANES :: at.LANES][:6]
    np.testing.assert_allclose(six, 2 * np.array(FULL), rtol=1e-5)
    xx, yy, zz, xy, xz, yz = six
    full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    a, b, c, d, e, f = w.varied[0, 0, at.INV_INERTIA * at.LANES :: at.LANES][:6]
    np.testing.assert_allclose(full @ [[a, d, e], [d, b, f], [e, f, c]], np.eye(3), atol=1e-6)


def test_gravity_tilts_what_falls():
    w = world(2, balls=((0, 0, 1),))
    g = torch.tensor([[0.0, 0.0, -9.81], [3.0, -2.0, -1.0]])
    w.params.set("gravity", [], g)
    w.step(10)
    for i in range(2):
        for body in ("drone_0/base", "ball_0/base"):
            np.testing.assert_allclose(exact(w, body, i)[7:10], g[i].numpy() * 0.02, rtol=1e-6, atol=1e-9)


def test_a_heavier_ball_is_slowed_less_by_the_air():
    w = world(2, balls=((0, 0, 1),), fx=replace(NONE, ball_drag=True, ball_lift=True))
    w.params.set("mass", ["ball_0/base"], torch.tensor([[0.047], [0.094]], dtype=torch.float64))
    w.params.set("gravity", [], torch.zeros(2, 3))
    put(w, "ball_0/base", vel=(10, 0, 0), rate=(0, 0, 30))
    w.step(1)
    lost = exacts(w, "ball_0/base")[:, 7:9] - [10, 0]
    np.testing.assert_allclose(lost[0], 2 * lost[1], rtol=1e-3)
    assert lost[0, 0] < 0 < lost[0, 1]


def test_friction_of_a_ball_slows_its_sliding():
    w = world(2, drones=(), balls=((0, 0, 0.04),), base=bare_ground, friction=0.2)
    w.params.set("friction", ["ball_0/ball"], torch.tensor([[[0.4, 0.005, 0.0001]]]), torch.tensor([1]))
    put(w, "ball_0/base", pos=(0, 0, 0.04), vel=(5, 0, 0))
    w.step(50)
    slowed = 5 - exacts(w, "ball_0/base")[:, 7]
    np.testing.assert_allclose(slowed, [0.2 * 9.81 * 0.1, 0.4 * 9.81 * 0.1], rtol=0.05)


@pytest.mark.parametrize("name", ["thrust", "torque", "lag", "drag"])
def test_factors_on_the_rotors_act_in_their_worlds(name):
    n = 3
    factor = torch.tensor([1.0, 1.0, 1.5])
    w = world(n, fx=replace(NONE, body_drag=True, rotor_drag=True))
    m = w.multirotors(["drone_0"])
    m.start(None, torch.full((n, 1, 4), 0.5))
    m.vary(torch.tensor([1, 2]), **{name: factor[1:]})
    t0, t1, t2 = C.thrust_curve
    command = t0 + 0.8 * (t1 + 0.8 * t2) if name == "lag" else t0 + 0.5 * (t1 + 0.5 * t2)
    row = torch.full((n, 1, 4), command, dtype=torch.float64)
    if name == "torque":
        row = row * torch.tensor([1.0, 0.5, 1.0, 0.5])
        m.start(None, torch.tensor([0.5, 0.4, 0.5, 0.4]).expand(n, 1, 4))
    m.command(0, row)
    put(w, "drone_0/base", vel=(5, 0, 0))
    w.step(1)
    force = w.actuators([f"drone_0/{a}" for a in ("rotor_1", "reaction")]).force
    state = exacts(w, "drone_0/base")
    np.testing.assert_array_equal(state[0], state[1])
    if name == "thrust":
        assert float(force[2, 0] / force[0, 0]) == pytest.approx(1.5)
    elif name == "torque":
        assert float(force[2, 1] / force[0, 1]) == pytest.approx(1.5)
        assert state[2, 12] == pytest.approx(1.5 * state[0, 12], rel=1e-6)
    elif name == "drag":
        lost = 5 - state[:, 7]
        # of a linear drag k by the midpoint rule: k / (1 + k dt / 2)
        np.testing.assert_allclose(lost[2] / (5 - 0.5 * lost[2]), 1.5 * lost[0] / (5 - 0.5 * lost[0]), rtol=1e-9)
    else:
        u = m.rotor_speed[:, 0, 0].double().numpy()
        np.testing.assert_allclose((0.8 - u) / 0.3, np.exp(-w.dt / (C.tau_up * np.array([1, 1, 1.5]))), rtol=1e-4)


def test_factors_hold_through_a_reset_and_effects_that_are_off_stay_off():
    w = world(2, fx=replace(NONE, rotor_lag=False))
    m = w.multirotors(["drone_0"])
    m.vary(None, drag=torch.full((2,), 5.0), lag=torch.full((2,), 5.0), thrust=torch.full((2,), 2.0))
    w.reset()
    m.command(0, torch.full((2, 1, 4), 0.05, dtype=torch.float64))
    put(w, "drone_0/base", vel=(5, 0, 0))
    w.step(1)
    assert exact(w, "drone_0/base")[7] == 5.0
    force = w.actuators(["drone_0/rotor_1"]).force
    np.testing.assert_allclose(force, 0.1, rtol=1e-6)  # at once, and twice


@pytest.mark.parametrize("inertia", [None, FULL])
def test_all_factors_at_once_are_those_written_one_by_one(inertia):
    """Mass and inertia as `params.set` writes them; lags and drag by their formulas."""
    n, ids = 20, torch.tensor([2, 3, 17])
    w, other = (world(n, drones=((0, 0, 1), (1, 0, 1)), inertia=inertia, fx=REALISTIC) for _ in range(2))
    bases = ["drone_0/base", "drone_1/base"]
    draw = 0.5 + torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    before = w.varied.copy()
    w.multirotors(["drone_0", "drone_1"]).write_batch(
        ids.numpy(),
        Batch.of(dict(zip(("mass", "inertia", "thrust", "torque", "lag", "drag"), draw.numpy(), strict=True))),
    )
    other.params.set("mass", bases, draw[0][:, None] * other.params.nominal("mass", bases), ids)
    other.params.set("inertia", bases, draw[1][:, None, None] * other.params.nominal("inertia", bases), ids)
    fields = slice(at.MASS, at.INV_INERTIA + 6)
    got, want = (x.varied.reshape(2, 2, at.VARIED, at.LANES)[:, :, fields] for x in (w, other))
    np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-6 if inertia else 0)
    wide = draw.double().numpy()[:, :, None]
    lag = np.exp(-0.5 * w.dt / (np.array([C.tau_up, C.tau_down]) * wide[4]))  # of half a step
    drag = np.array([*C.body_drag, *C.rotor_drag]) * wide[5]
    rest = np.concatenate((np.repeat(np.concatenate((wide[2], wide[3], lag), axis=1), 4, axis=1), drag), axis=1)
    got = w.read_varied([0, 1], at.THRUST_FACTOR, 22).numpy()
    np.testing.assert_allclose(got[ids], np.repeat(rest[:, None], 2, axis=1), rtol=1e-14)
    changed = (w.varied != before).reshape(2, 2, at.VARIED, at.LANES).any(axis=(1, 2)).ravel()
    assert np.flatnonzero(changed).tolist() == ids.tolist()


def test_changed_inertia_keeps_conserving():
    w = world(1, fx=NONE)
    w.params.set("inertia", BASE, torch.tensor([[[3e-5, 2e-5, 4e-5]]], dtype=torch.float64))
    w.params.set("gravity", [], torch.zeros(1, 3))
    put(w, "drone_0/base", rate=(3, 2, -1))
    w.parts.inertia[0] = np.diag([3e-5, 2e-5, 4e-5])
    _, spin, energy = momenta(w)
    w.step(200)
    _, later, e = momenta(w)
    assert e == pytest.approx(energy, rel=1e-4)
    np.testing.assert_allclose(later, spin, atol=1e-3 * np.linalg.norm(spin))
    x = exact(w, "drone_0/base")
    assert np.linalg.norm(matrix(x[3:7]) - np.eye(3)) > 0.3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.params.set("mass", BASE, torch.tensor([[-1.0], [1.0]])), "a mass must be positive, got -1 kg"),
        (lambda w: w.params.set("mass", BASE, torch.tensor([[math.nan], [1.0]])), "a mass must be positive"),
        (lambda w: w.params.set("inertia", BASE, torch.zeros(2, 1, 3)), "moments of inertia must be positive"),
        (lambda w: w.params.get("masss", BASE), "did you mean 'mass'"),
        (lambda w: w.params.get("damping", BASE), "engine 'rotor' has no parameter 'damping': use engine 'mujoco'"),
        (lambda w: w.params.get("mass", ["drone_0/bas"]), "did you mean 'drone_0/base'"),
        (lambda w: w.params.get("friction", ["drone_0/colision"]), "did you mean 'drone_0/collision'"),
        (lambda w: w.multirotors(["drone_0"]).vary(None, thrst=torch.ones(2)), "did you mean 'thrust'"),
        (lambda w: w.multirotors(["drone_0"]).vary(None, thrust=torch.ones(3)), r"must be \[2\] or \[4, 2\], got \[3\]"),
    ],
)  # fmt: skip
def test_bad_values_and_names_are_refused(call, message):
    w = world(2, fx=REALISTIC)
    with pytest.raises(RookeryError, match=message):
        call(w)
