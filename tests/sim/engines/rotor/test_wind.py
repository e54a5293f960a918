"""Dryden gusts against the theory of the standard, and the random numbers that drive them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from rotor_scenes import REALISTIC
from scipy import stats
from scipy.integrate import trapezoid
from scipy.linalg import expm, solve_continuous_lyapunov

from rookery.sim.multirotor import wind
from rookery.sim.multirotor.layout import AIR, LANES, MEAN_WIND, WORLD
from rookery.sim.multirotor.winds import Wind
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch

DT = 0.1
HEIGHT = 10.0
SPEED = 8.0
TOWARDS = 0.7  # rad, of the mean wind
SURE = 1 - (1 - 0.999) / 2  # two-sided margin of 999 in 1000
OUT = np.array([math.sqrt(3), 1 - math.sqrt(3)])  # from the two states of a transverse filter to its output


def windy(worlds: int, dt: float = DT, height: float = HEIGHT, speed: float = SPEED, seed: int = 0) -> Wind:
    """Worlds whose gusts have just begun, with steps of dt s."""
    blocks = -(-worlds // LANES)
    w = Wind(np.zeros((blocks, WORLD * LANES)), replace(REALISTIC, wind_speed=1.0), height, dt)
    w.streams.seed(seed)
    every = np.arange(blocks * LANES)
    w.begin(every)
    set_mean(w, every, speed, TOWARDS)
    return w


def set_mean(w: Wind, ids: np.ndarray, speed: float, direction: float) -> None:
    values = {"speed": np.full(len(ids), speed, np.float32), "direction": np.full(len(ids), direction, np.float32)}
    w.write_batch(ids, Batch.of(values))


@njit
def _blow(gust, filters, keys, counters, lanes):
    normals = np.empty(wind.NORMALS * LANES)
    for block in range(len(gust)):
        wind.blow(gust[block], filters[block], keys[block], counters[block], lanes[block], normals)


def blow(w: Wind) -> np.ndarray:
    """[worlds, 3] m/s of the gusts after a step: along the mean wind, to its left, up."""
    keys, counters = w.streams.keys.reshape(-1, LANES), w.streams.counters.reshape(-1, LANES)
    _blow(w.gust, w.filters, keys, counters, w._lanes)
    lanes = w._lanes.reshape(-1, WORLD, LANES)
    air = (lanes[:, AIR : AIR + 3] - lanes[:, MEAN_WIND : MEAN_WIND + 3]).transpose(0, 2, 1).reshape(-1, 3)
    c, s = math.cos(TOWARDS), math.sin(TOWARDS)
    return air @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def gusts(worlds: int, steps: int, dt: float = DT) -> np.ndarray:
    """[worlds, steps, 3]."""
    w = windy(worlds, dt)
    return np.stack([blow(w) for _ in range(steps)], axis=1)[:worlds]


def exact(dt: float, length: float, speed: float = SPEED) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transition, covariance of the noise and equilibrium of a transverse filter, by the matrix exponential."""
    f = np.array([[-1.0, 0.0], [1.0, -1.0]])
    g = np.array([[1.0], [0.0]])
    p = solve_continuous_lyapunov(f, -g @ g.T)
    step = expm(f * dt * speed / length)
    return step, p - step @ p @ step.T, p


def filters(w: Wind) -> np.ndarray:
    """[worlds, COEFFICIENTS]."""
    return w.filters.reshape(-1, wind.COEFFICIENTS, LANES).transpose(0, 2, 1).reshape(-1, wind.COEFFICIENTS)


def test_scales_of_the_standard():
    """MIL-F-8785C at 20 feet in a light breeze, in its own units."""
    length_h, length_w, sigma_h, sigma_w = wind.scales(20 * 0.3048, 10.0)
    assert length_w == pytest.approx(20 * 0.3048)
    assert length_h / 0.3048 == pytest.approx(20 / (0.177 + 0.000823 * 20) ** 1.2)
    assert sigma_w == pytest.approx(1.0)
    assert sigma_h == pytest.approx(1 / (0.177 + 0.000823 * 20) ** 0.4)


def test_turbulence_is_isotropic_at_a_thousand_feet_and_constant_beyond():
    top = wind.scales(304.8, 5.0)
    assert top[0] == pytest.approx(top[1], rel=1e-3) and top[2] == pytest.approx(top[3], rel=1e-3)
    assert wind.scales(1e4, 5.0) == pytest.approx(top)
    assert wind.scales(-1.0, 5.0) == pytest.approx(wind.scales(3.048, 5.0))


@pytest.mark.parametrize("dt", [DT, 0.01, 5.0])
def test_discrete_filters_are_exact(dt):
    """Transition and noise are those of the continuous filter, which has variance 1 in equilibrium."""
    c = filters(windy(1, dt))[0]
    lengths = wind.scales(HEIGHT, SPEED)[:2]
    for column, length in zip((wind.HORIZONTAL, wind.VERTICAL), lengths, strict=True):
        decay, coupling, l11, l21, l22 = c[column : column + 5]
        root = np.array([[l11, 0.0], [l21, l22]])
        step, noise, p = exact(dt, length)
        np.testing.assert_allclose([[decay, 0.0], [coupling, decay]], step, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(root @ root.T, noise, rtol=1e-5, atol=1e-14)
        assert OUT @ p @ OUT == pytest.approx(1.0)
    assert c[wind.HORIZONTAL] ** 2 + c[10] ** 2 == pytest.approx(1.0)  # along: decay and noise keep the variance of 1


def test_spectrum_across_the_wind_is_the_standards():
    """T/pi (1 + 3 (wT)^2) / (1 + (wT)^2)^2: the transform of the autocorrelation that the discrete filter has."""
    dt = 0.02 * wind.scales(HEIGHT, SPEED)[0] / SPEED  # T / 50
    decay, coupling = filters(windy(1, dt))[0, :2]
    step = np.array([[decay, 0.0], [coupling, decay]])
    covariance = [exact(dt, 1.0)[2]]
    for _ in range(1500):
        covariance.append(step @ covariance[-1])
    correlation = np.array([OUT @ p @ OUT for p in covariance])
    t = 0.02 * np.arange(len(correlation))
    assert np.allclose(correlation, (1 - 0.5 * t) * np.exp(-t))
    for x in (0.0, 0.3, 1.0, 3.0):
        spectrum = trapezoid(correlation * np.cos(x * t), t) / math.pi
        assert spectrum == pytest.approx(0.5 / math.pi * (1 + 3 * x * x) / (1 + x * x) ** 2, abs=1e-4)


def test_a_step_follows_from_the_worlds_numbers():
    """Each state after a step, in each world, from the normals that its stream holds."""
    worlds = 20
    w = windy(worlds, seed=42)
    streams = Streams(len(w.streams.keys), 42, "wind")
    streams.counters[:] = w.streams.counters
    drawn = streams(None).normal((6,)).double().numpy()  # three words: cosines, then sines
    n0, n2, n4, n1, n3, _ = drawn.T
    before = w.gust.reshape(-1, wind.STATE, LANES).transpose(0, 2, 1).reshape(-1, wind.STATE).copy()
    gust = blow(w)
    lengths, sigmas = np.split(np.array(wind.scales(HEIGHT, SPEED)), 2)
    decay = math.exp(-DT * SPEED / lengths[0])
    along = decay * before[:, 0] + math.sqrt(1 - decay * decay) * n0
    outputs = [along]
    for first, length, normals in ((1, lengths[0], (n1, n2)), (3, lengths[1], (n3, n4))):
        step, noise, _ = exact(DT, length)
        after = before[:, first : first + 2] @ step.T + np.stack(normals, 1) @ np.linalg.cholesky(noise).T
        outputs.append(after @ OUT)
    np.testing.assert_allclose(gust, np.stack(outputs, 1) * sigmas[[0, 0, 1]], rtol=1e-5, atol=1e-5)
    assert np.array_equal(w.streams.counters, streams.counters)


def test_variance_and_autocorrelation():
    """Over many worlds, which are independent: chi-squared and Fisher margins of 999 in 1000."""
    worlds = 3000
    steps = 61
    g = gusts(worlds, steps)
    length_h, length_w, sigma_h, sigma_w = wind.scales(HEIGHT, SPEED)
    for axis, (sigma, length) in enumerate(((sigma_h, length_h), (sigma_h, length_h), (sigma_w, length_w))):
        # 3 axes, 2 times: each margin is drawn tighter so that all hold together
        sure = 1 - (1 - SURE) / 12
        for t in (0, steps - 1):
            low, high = stats.chi2.ppf([1 - sure, sure], worlds - 1) / (worlds - 1)
            assert low < g[:, t, axis].var(ddof=1) / sigma**2 < high
            assert abs(g[:, t, axis].mean()) < stats.norm.ppf(sure) * sigma / math.sqrt(worlds)
        for lag in (5, 20, 60):
            t = lag * DT * SPEED / length
            expected = math.exp(-t) * (1 if axis == 0 else 1 - 0.5 * t)
            found = np.corrcoef(g[:, 0, axis], g[:, lag, axis])[0, 1]
            margin = stats.norm.ppf(sure) / math.sqrt(worlds - 3)
            assert abs(math.atanh(found) - math.atanh(expected)) < margin
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(g[:, -1, a], g[:, -1, b])[0, 1]) < stats.norm.ppf(SURE) / math.sqrt(worlds)


def test_a_fiftieth_of_the_step_gives_the_same_turbulence():
    """At 2 ms, where a step's noise is small against the state, variance still neither grows nor dies."""
    g = gusts(400, 2000, dt=0.002)
    sigma = wind.scales(HEIGHT, SPEED)[2]
    low, high = stats.chi2.ppf([1 - SURE, SURE], 399) / 399
    assert low < g[:, -1, 1].var(ddof=1) / sigma**2 < high
    assert np.abs(np.diff(g[:, :, 2], axis=1)).max() < 0.5 * sigma  # no jumps


def test_steps_of_another_length_have_their_own_filters():
    w, other = windy(3, dt=0.002), windy(3, dt=0.01)
    assert not np.array_equal(filters(w), filters(other))
    w.set_step(5)
    np.testing.assert_allclose(filters(w), filters(other), rtol=1e-9)
    for some in (w, other):  # a mean wind that is set later, too
        set_mean(some, np.array([1]), 3.0, 0.0)
    np.testing.assert_allclose(filters(w), filters(other), rtol=1e-9)


@pytest.mark.parametrize(("height", "speed", "dt"), [(0.0, 0.0, 0.01), (-5.0, 0.0, 1e-9), (1e6, 60.0, 1e6)])
def test_odd_input_stays_finite_and_calm_air_has_no_gusts(height, speed, dt):
    w = windy(2, dt, height, speed)
    assert np.isfinite(filters(w)).all()
    g = blow(w)
    assert np.isfinite(g).all()
    assert (g == 0.0).all() == (speed == 0.0)


def test_a_world_has_the_filters_of_its_own_wind():
    w = windy(2, speed=3.0)
    set_mean(w, np.array([1]), 9.0, 1.0)
    np.testing.assert_array_equal(filters(w)[0], filters(windy(1, speed=3.0))[0])
    np.testing.assert_allclose(filters(w)[1], filters(windy(1, speed=9.0))[0], rtol=1e-12)


def test_episodes_begin_in_equilibrium():
    x = windy(20_000, seed=1).gust.reshape(-1, wind.STATE, LANES).transpose(1, 0, 2).reshape(wind.STATE, -1)
    expected = np.zeros((5, 5))
    expected[0, 0] = 1.0
    expected[1:3, 1:3] = expected[3:, 3:] = exact(DT, 1.0)[2]
    assert np.abs(np.cov(x) - expected).max() < 0.03


def test_streams_go_on_where_they_stopped():
    """A counter is all the memory there is besides the state: 10 steps are 4 and then 6."""
    whole, parts = windy(5), windy(5)
    series = [blow(whole) for _ in range(10)]
    for _ in range(4):
        blow(parts)
    again = windy(5, seed=9)
    again.gust[:] = parts.gust
    again.streams.load_state_dict(parts.streams.state_dict())
    for expected in series[4:]:
        assert np.array_equal(blow(again), expected)


def test_gusts_begin_with_the_first_wind_and_go_on_through_another():
    every = np.arange(LANES)
    calm = Wind(np.zeros((1, WORLD * LANES)), replace(REALISTIC, wind_speed=0.0, gusts=False), HEIGHT, DT)
    calm.begin(every)
    set_mean(calm, every, 5.0, TOWARDS)
    assert not calm.gusty and not calm.gust.any()  # of a scene without gusts
    w = Wind(np.zeros((1, WORLD * LANES)), replace(REALISTIC, wind_speed=0.0), HEIGHT, DT)
    w.begin(every)
    set_mean(w, every, 0.0, TOWARDS)
    assert not w.gusty and not w.gust.any()
    set_mean(w, every, 5.0, TOWARDS)
    assert w.gusty and w.gust.all()
    state, counters = w.gust.copy(), w.streams.counters.copy()
    set_mean(w, every[:1], 7.0, TOWARDS)
    assert np.array_equal(w.gust, state) and np.array_equal(w.streams.counters, counters)


def test_gusts_of_one_world_go_on_after_a_snapshot():
    """The others are calm, and have none."""
    every = np.arange(LANES)
    w = Wind(np.zeros((1, WORLD * LANES)), replace(REALISTIC, wind_speed=0.0), HEIGHT, DT)
    w.begin(every)
    set_mean(w, every[:1], 5.0, TOWARDS)
    assert w.gusty and not w.gust.reshape(-1, LANES)[:, 1:].any()
    again = Wind(np.zeros((1, WORLD * LANES)), replace(REALISTIC, wind_speed=0.0), HEIGHT, DT)
    again.follow()
    assert not again.gusty
    again.gust[:] = w.gust
    again.follow()
    assert again.gusty
    still = Wind(np.zeros((1, WORLD * LANES)), replace(REALISTIC, wind_speed=0.0, gusts=False), HEIGHT, DT)
    still.gust[:] = w.gust
    still.follow()
    assert not still.gusty
