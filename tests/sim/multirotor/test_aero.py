"""Aerodynamic and electrical effects against closed forms, and finite wherever they may be asked."""

from __future__ import annotations

import itertools
import math
import platform

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.integrate import dblquad

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.multirotor import aero
from rookery.sim.multirotor.effects import Effects
from rookery.sim.multirotor.parameters import NO_BATTERY

UP = (0.0, 0.0, 1.0)
WIDTH = CRAZYFLIE_21.wake_width
LIMIT = float(aero.GROUND_EFFECT_LIMIT)
finite = st.floats(-1e3, 1e3)
near = st.floats(-3.0, 3.0)
axes = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda a: np.linalg.norm(a) > 0.1).map(lambda a: a / np.linalg.norm(a))


def jet(x, y, z, thrust=0.3, axis=UP, upper=WIDTH, lower=WIDTH):
    return aero.downwash_jet(float(x), float(y), float(z), *axis, float(thrust), float(upper), float(lower))


def volleybots(x, y, z, thrust=0.3, axis=UP):
    return aero.downwash_volleybots(float(x), float(y), float(z), *axis, float(thrust))


def pybullet(x, y, z, thrust=0.3, axis=UP):
    constants = 0.0231348, 2267.18, 0.16, -0.11
    return aero.downwash_pybullet_drones(float(x), float(y), float(z), *axis, float(thrust), *constants)


models = pytest.mark.parametrize("model", [jet, volleybots, pybullet])


def test_drag_per_axis():
    assert aero.drag(2.0, -3.0, 0.5, 1000.0, 0.1, 0.2, 0.3, 1e-4, 2e-4, 3e-4) == pytest.approx((-0.4, 1.2, -0.3))


@given(st.tuples(*[finite] * 3), st.floats(0, 1e4))
def test_drag_takes_energy(v, speed):
    f = aero.drag(*v, speed, 0.1, 0.2, 0.3, 1e-4, 2e-4, 3e-4)
    assert np.dot(f, v) <= 0.0


@given(finite, finite, finite)
def test_gyroscopic_torque_is_minus_w_cross_h(wx, wy, h):
    expected = -np.cross((wx, wy, 0.7), (0.0, 0.0, h))
    assert np.allclose((*aero.gyroscopic(wx, wy, h), 0.0), expected)


def ground(height, gain=11.36859, radius=0.0231348):
    return aero.ground_effect(float(height), radius, gain)


def test_ground_effect_is_cheeseman_and_bennetts_far_from_ground():
    for h in (1.2, 2.0, 5.0):  # radii: to first order, what 1 / (1 - (r / 4h)^2) is up to the fourth power
        share = (1 / (4 * h)) ** 2
        assert ground(h, 1.0, 1.0) == pytest.approx(1 + share, rel=1e-7)
        assert abs(ground(h, 1.0, 1.0) - 1 / (1 - share)) < 1.1 * share**2
    assert ground(1e4) == pytest.approx(1.0, abs=1e-9)


def test_ground_effect_beside_gym_pybullet_drones():
    """The same but for the rounded corner, at which it is lower by an eighth of the limit."""
    r, k = 0.0231348, 11.36859
    corner = 0.25 * r * math.sqrt(15 * k / 4)  # their GND_EFF_H_CLIP, MAX_THRUST being 4 kf MAX_RPM^2
    worst = 0.0
    for h in (corner, *np.linspace(0.0, 0.2, 4001)):
        theirs = 1 + k * (r / (4 * max(h, corner))) ** 2
        off = theirs - ground(h)
        worst = max(worst, off)
        assert off >= -1e-6
        if not 0.816 * corner < h < 1.415 * corner:
            assert off == pytest.approx(0.0, abs=1e-6)
    assert worst == pytest.approx(LIMIT / 8, rel=1e-3)


def test_ground_effect_is_monotone_smooth_and_constant_below_ground():
    h = np.linspace(-0.5, 3.0, 200_001)
    f = np.array([ground(x) for x in h])
    assert np.isfinite(f).all() and f.min() >= 1.0
    assert (np.diff(f) <= 1e-7).all()
    assert np.allclose(f[h <= 0], 1 + LIMIT)
    slope = np.diff(f) / np.diff(h)
    assert (
        np.abs(np.diff(slope)).max() < 0.02 * np.abs(slope).max()
    )  # a corner would make a jump of the size of the slope
    assert all(ground(x, gain=0.0) == 1.0 for x in (-1.0, 0.0, 1e-9, 0.01, 1.0))
    assert ground(math.inf) == 1.0


def test_jet_force_is_the_dynamic_pressure_over_the_lower_drone():
    """Integrated numerically from the speed that momentum theory and the conservation of momentum give."""
    rho = 1.225
    thrust = 0.3
    radius = 0.0231348
    z = 0.35
    off = 0.06
    induced = math.sqrt(thrust / (2 * rho * 4 * math.pi * radius**2))
    s = WIDTH + float(aero.JET_SPREAD) * z
    u0 = 2 * induced * WIDTH / s

    def pressure(y, x):
        u = u0 * math.exp(-((x + off) ** 2 + y * y) / (2 * s * s))
        return 0.5 * rho * u * u * math.exp(-(x * x + y * y) / (2 * WIDTH * WIDTH))

    force, _ = dblquad(pressure, -0.5, 0.5, -0.5, 0.5)
    assert jet(off, 0.0, -z, thrust) == pytest.approx(float(aero.JET_DRAG) * force, rel=1e-4)
    flux, _ = dblquad(lambda y, x: rho * (u0 * math.exp(-(x * x + y * y) / (2 * s * s))) ** 2, -0.8, 0.8, -0.8, 0.8)
    assert flux == pytest.approx(thrust, rel=1e-6)


def test_jet_meets_the_neural_swarm_points():
    gram = 9.81e-3
    for z, grams in ((0.2, 10), (0.3, 8), (0.4, 6), (0.5, 4)):
        assert jet(0, 0, -z, 34 * gram) / gram == pytest.approx(grams, abs=0.6)


def test_volleybots_form():
    for x, y, z in ((0.0, 0.0, -1.0), (0.2, -0.1, -0.5), (0.5, 0.5, -2.0)):
        r2 = x * x + y * y
        expected = 7.0 * math.exp(-0.5 * 4.0 * r2 / z**2) / (1 - 0.3 * z) ** 2
        assert volleybots(x, y, z, 7.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("z", [0.2, 0.3, 0.45, 0.6, 0.66, 0.72, 0.8, 0.9, 1.0, 2.0])
@pytest.mark.parametrize("off", [0.0, 0.01, 0.03, 0.06, 0.1, 0.3])
def test_pybullet_drones_form_up_to_the_thrust(z, off):
    """Their `_downwash`, near by and off the axis too, wherever it is no more than the upper drone's thrust."""
    theirs = 2267.18 * (0.0231348 / (4 * z)) ** 2 * math.exp(-0.5 * (off / (0.16 * z - 0.11)) ** 2)
    assert pybullet(off, 0.0, -z, 10.0) == pytest.approx(theirs, rel=1e-5, abs=1e-30)
    assert pybullet(off, 0.0, -z, 0.265) == pytest.approx(min(theirs, 0.265), rel=1e-5, abs=1e-30)


def test_pybullet_drones_wake_keeps_a_width_where_theirs_has_none():
    axis = pybullet(0.0, 0.0, -0.6875, 10.0)
    assert pybullet(1e-3, 0.0, -0.6875, 10.0) / axis == pytest.approx(math.exp(-0.5), rel=1e-5)


@models
@given(d=st.tuples(near, near, near), axis=axes, thrust=st.floats(0, 50))
def test_downwash_acts_downstream_only_and_is_bounded_by_the_thrust(model, d, axis, thrust):
    f = model(*d, thrust, tuple(axis))
    assert 0.0 <= f <= thrust * (1 + 1e-6)
    if np.dot(d, axis) >= 0.0:
        assert f == 0.0


@models
@given(d=st.tuples(near, near, near), axis=axes, thrust=st.floats(0.1, 50))
def test_downwash_turns_with_the_wake(model, d, axis, thrust):
    """Only the distance along the axis and off it count."""
    along = -np.dot(d, axis)
    off = math.sqrt(max(np.dot(d, d) - along**2, 0.0))
    assert model(*d, thrust, tuple(axis)) == pytest.approx(model(off, 0.0, -along, thrust), rel=1e-5, abs=1e-9)


@models
def test_downwash_has_no_singularity(model):
    heights = [0.0, 1e-300, 1e-30, 1e-12, 1e-6, 1e-3, 0.01, 0.0231, 0.3, 0.6875, 0.68750001, 1.0, 30.0, 1e3]
    offsets = [0.0, 1e-300, 1e-12, 1e-6, 0.01, 0.1, 1.0, 100.0]
    for z, off in itertools.product(heights, offsets):
        assert 0.0 <= model(off, 0.0, -z, 1.0) <= 1.0 + 1e-6
        assert model(off, 0.0, z, 1.0) == 0.0
    off = np.linspace(0.0, 1.0, 200)
    for z in (0.02, 0.3, 0.6875, 1.5):
        assert (np.diff([model(x, 0.0, -z, 1.0) for x in off]) <= 1e-9).all()


@pytest.mark.parametrize("model", [jet, volleybots])
def test_downwash_is_smooth_across_the_wake(model):
    """No step of 1 mm changes the force by much, at gym-pybullet-drones' singularity either."""
    f = np.array([model(x, 0.0, -0.6875, 0.3) for x in np.arange(0.0, 0.3, 0.001)])
    assert np.abs(np.diff(f)).max() < 0.05 * f.max()


def test_jet_sets_in_without_a_step_and_fades():
    z = np.linspace(-0.1, 3.0, 31_001)
    f = np.array([jet(0.0, 0.0, -x) for x in z])
    assert np.abs(np.diff(f)).max() < 0.01 * f.max()
    assert f[z > 0.2].max() == f[z > 0.2][0] and f[-1] < 0.03 * f.max()
    big = jet(0, 0, -0.5, 1.0, lower=10.0)
    assert big == pytest.approx(float(aero.JET_DRAG) / 2, rel=1e-3)  # a wall: all the wake's momentum, and no more


def test_open_circuit_voltage():
    """Chen and Rincon-Mora's figures at the ends and in the middle."""
    v = [aero.open_circuit_voltage(s) for s in np.linspace(0.0, 1.0, 101)]
    assert (np.diff(v) > 0).all()
    assert v[-1] == pytest.approx(3.685 + 0.2156 - 0.1178 + 0.3201, abs=1e-6)
    assert v[0] == pytest.approx(2.654) and v[50] == pytest.approx(3.80336, abs=1e-4)
    assert aero.open_circuit_voltage(1.5) == v[-1] and aero.open_circuit_voltage(-1.0) == v[0]


@given(st.floats(0, 1), st.floats(0, 1e4), st.integers(1, 6), st.floats(0, 1))
def test_terminal_voltage_obeys_ohms_law(charge, power, cells, resistance):
    v = aero.terminal_voltage(charge, power, float(cells), resistance)
    open_circuit = cells * aero.open_circuit_voltage(charge)
    assert 0.5 * open_circuit - 1e-9 <= v <= open_circuit + 1e-9
    if 4 * resistance * power < 0.999 * open_circuit**2:
        assert v + resistance * power / v == pytest.approx(open_circuit, rel=1e-6)


def hover_on(drone) -> tuple[float, list[float]]:
    """Seconds until the pack is empty and the factors on the way, in hover."""
    b = drone.battery
    charge = 1.0
    factors = []
    while charge > 0.0:
        charge, f = aero.battery(charge, drone.hover_power, 1.0, b.capacity, float(b.cells), b.resistance, b.reference)
        factors.append(f)
    return float(len(factors)), factors


def test_battery_of_a_crazyflie_lasts_seven_minutes_and_sags():
    seconds, factors = hover_on(CRAZYFLIE_21)
    assert 360 < seconds < 450
    assert factors[0] == 1.0 and (np.diff(factors) <= 0).all()
    assert 0.85 < factors[int(0.9 * seconds)] < 0.95


def test_battery_counts_charge():
    charge, factor = aero.battery(0.9, 8.0, 0.5, 900.0, 1.0, 0.0, 3.0)
    assert charge == pytest.approx(0.9 - 0.5 * 8.0 / aero.open_circuit_voltage(0.9) / 900, rel=1e-9)
    assert factor == 1.0
    charge, factor = aero.battery(0.0, 8.0, 10.0, 900.0, 1.0, 0.1, 3.7)
    assert charge == 0.0 and 0.0 < factor < 0.75


def test_no_battery_never_sags():
    b = NO_BATTERY
    charge, factor = aero.battery(1.0, 1e3, 1.0, b.capacity, float(b.cells), b.resistance, b.reference)
    assert factor == 1.0 and charge == 1.0


def test_terminal_speed_of_a_ball():
    """The fall at which drag carries the weight: 17.9 m/s for JuggleRL's ball, 2.33 m/s for VolleyBots'."""
    for mass, radius, speed in ((0.0472, 0.04, 17.9), (0.005, 0.1, 2.33)):
        k, _ = Effects().ball_constants(mass, radius)
        v = math.sqrt(2 * mass * 9.81 / (1.225 * 0.47 * math.pi * radius**2))
        assert v == pytest.approx(speed, abs=0.06)
        assert aero.ball_acceleration(0.0, 0.0, -v, 0.0, 0.0, 0.0, k, 0.0)[2] == pytest.approx(9.81)


@given(st.tuples(*[finite] * 3), st.tuples(*[finite] * 3))
def test_ball_forces(v, w):
    drag = aero.ball_acceleration(*v, 0.0, 0.0, 0.0, 0.3, 0.1)
    assert np.allclose(drag, -0.3 * np.linalg.norm(v) * np.array(v))
    lift = np.array(aero.ball_acceleration(*v, *w, 0.0, 0.1))
    assert np.allclose(lift, 0.1 * np.cross(w, v), atol=1e-9 * (1 + np.abs(lift).max()))


def test_backspin_lifts():
    """Flying to x, the top coming back: w along -y."""
    assert aero.ball_acceleration(10.0, 0.0, 0.0, 0.0, -50.0, 0.0, 0.0, 0.01)[2] > 0


@njit
def _lanes(x, out):
    for i in range(x.shape[0]):
        a, b, c = aero.drag(x[i], x[i], x[i], x[i], x[0], x[0], x[0], x[0], x[0], x[0])
        tx, ty = aero.gyroscopic(x[i], x[i], x[i])
        out[i] = a + b + c + tx + ty + aero.ground_effect(x[i], x[0], x[0])


def test_float32_stays_float32_and_loops_become_vector_code():
    x = np.linspace(0.1, 1.0, 64).astype(np.float32)
    _lanes(x, np.empty_like(x))
    (code,) = _lanes.inspect_asm().values()
    assert "cvtss2sd" not in code and "cvtps2pd" not in code
    if platform.machine() == "x86_64":
        assert "divps" in code  # four divisions or more at once
