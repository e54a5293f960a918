"""Dryden gusts against the theory of the standard, and the random numbers that drive them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numba import njit
from scipy import stats
from scipy.integrate import trapezoid
from scipy.linalg import solve_continuous_lyapunov

from rookery.sim.engines.rotor import wind
from rookery.sim.random import Streams

DT = 0.1
HEIGHT = 10.0
SPEED = 8.0
SURE = 1 - (1 - 0.999) / 2  # two-sided margin of 999 in 1000


@njit
def _series(x, c, key, counter, out):
    """Gusts [T, 3] of one world, advancing its state; returns the counter."""
    for t in range(out.shape[0]):
        counter = wind.blow(x, c, key, counter)
        out[t, 0], out[t, 1], out[t, 2] = wind.gust(x, c)
    return counter


def gusts(worlds: int, steps: int, dt: float = DT, height: float = HEIGHT, speed: float = SPEED, seed: int = 0):
    """[worlds, steps, 3], each world started in equilibrium."""
    rng = np.random.default_rng(seed)
    x, c = wind.equilibrium(rng.standard_normal((worlds, wind.NORMALS))), wind.coefficients(height, speed, dt)
    keys = Streams(worlds, seed).key.numpy()
    out = np.empty((worlds, steps, 3))
    for n in range(worlds):
        _series(x[n], c, keys[n], 0, out[n])
    return out


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


def test_discrete_filters_are_exact():
    """One step of h is two steps of h/2, mean and covariance; and the equilibrium is that of the continuous filter."""
    f_cont = np.array([[-1.0, 0.0], [1.0, -1.0]])
    g = np.array([[1.0], [0.0]])
    assert np.allclose(solve_continuous_lyapunov(f_cont, -g @ g.T), wind._EQUILIBRIUM)
    for column in (wind._HORIZONTAL, wind._VERTICAL):
        pairs = []
        for dt in (DT, DT / 2):
            decay, coupling, l11, l21, l22 = wind.coefficients(HEIGHT, SPEED, dt)[column : column + 5]
            root = np.array([[l11, 0.0], [l21, l22]])
            pairs.append((np.array([[decay, 0.0], [coupling, decay]]), root @ root.T))
        (f, q), (fh, qh) = pairs
        assert np.allclose(fh @ fh, f) and np.allclose(fh @ qh @ fh.T + qh, q, rtol=1e-9, atol=1e-15)
        p = wind._EQUILIBRIUM
        assert np.allclose(f @ p @ f.T + q, p)
    w = np.array([math.sqrt(3), 1 - math.sqrt(3)])
    assert w @ wind._EQUILIBRIUM @ w == pytest.approx(1.0)


def test_spectrum_across_the_wind_is_the_standards():
    """T/pi (1 + 3 (wT)^2) / (1 + (wT)^2)^2: the transform of the autocorrelation that the discrete filter has."""
    length_h, _, _, _ = wind.scales(HEIGHT, SPEED)
    dt = 0.02 * length_h / SPEED  # T / 50
    decay, coupling = wind.coefficients(HEIGHT, SPEED, dt)[:2]
    step = np.array([[decay, 0.0], [coupling, decay]])
    out = np.array([wind.transverse_gust(1.0, 0.0), wind.transverse_gust(0.0, 1.0)])
    covariance = [wind._EQUILIBRIUM]
    for _ in range(1500):
        covariance.append(step @ covariance[-1])
    correlation = np.array([out @ p @ out for p in covariance])
    t = 0.02 * np.arange(len(correlation))
    assert np.allclose(correlation, (1 - 0.5 * t) * np.exp(-t))
    for x in (0.0, 0.3, 1.0, 3.0):
        spectrum = trapezoid(correlation * np.cos(x * t), t) / math.pi
        assert spectrum == pytest.approx(0.5 / math.pi * (1 + 3 * x * x) / (1 + x * x) ** 2, abs=1e-4)


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


def test_a_thousandth_of_the_step_gives_the_same_turbulence():
    """At 2 ms, where a step's noise is small against the state, variance still neither grows nor dies."""
    g = gusts(400, 2000, dt=0.002)
    sigma = wind.scales(HEIGHT, SPEED)[2]
    low, high = stats.chi2.ppf([1 - SURE, SURE], 399) / 399
    assert low < g[:, -1, 1].var(ddof=1) / sigma**2 < high
    assert np.abs(np.diff(g[:, :, 2], axis=1)).max() < 0.5 * sigma  # no jumps


def test_calm_air_has_no_gusts_and_odd_input_stays_finite():
    c = wind.coefficients(np.array([0.0, -5.0, 1e6]), np.array([0.0, 0.0, 60.0]), 0.002)
    assert c.shape == (3, wind.COEFFICIENTS) and np.isfinite(c).all()
    x = np.ones(wind.STATE)
    assert wind.gust(x, c[0]) == (0.0, 0.0, 0.0)
    assert (
        np.isfinite(wind.coefficients(10.0, 5.0, 1e-9)).all() and np.isfinite(wind.coefficients(10.0, 5.0, 1e6)).all()
    )


def test_coefficients_per_world():
    both = wind.coefficients(np.array([5.0, 50.0]), np.array([3.0, 9.0]), DT)
    assert np.allclose(both[0], wind.coefficients(5.0, 3.0, DT), rtol=1e-12)
    assert np.allclose(both[1], wind.coefficients(50.0, 9.0, DT), rtol=1e-12)


def test_equilibrium_has_its_covariance():
    x = wind.equilibrium(np.random.default_rng(1).standard_normal((20_000, wind.NORMALS)))
    covariance = np.cov(x.T)
    expected = np.zeros((5, 5))
    expected[0, 0] = 1.0
    expected[1:3, 1:3] = wind._EQUILIBRIUM
    expected[3:, 3:] = wind._EQUILIBRIUM
    assert np.abs(covariance - expected).max() < 0.05


def test_random_words_are_those_of_the_worlds_streams():
    streams = Streams(3, seed=42)
    words = streams.bits(None, 4).numpy()
    for n, key in enumerate(streams.key.numpy()):
        for i in range(4):
            word = int(wind.random_bits(key, i + 1))
            assert word == int(words[n, i]) % (1 << 64)
            assert word == int(wind.random_bits(np.uint64(int(key) % (1 << 64)), i + 1))


def test_normals_are_those_of_the_worlds_streams():
    streams = Streams(5, seed=7)
    drawn = streams(None).normal((6,)).numpy()  # three words: cosines, then sines
    for n, key in enumerate(streams.key.numpy()):
        pairs = [wind.normal_pair(key, i) for i in (1, 2, 3)]
        ours = [p[0] for p in pairs] + [p[1] for p in pairs]
        assert np.allclose(drawn[n], ours, atol=2e-5)


def test_normals_are_standard_and_finite_at_the_ends():
    key = Streams(1, seed=3).key.numpy()[0]
    draws = np.array([wind.normal_pair(key, i) for i in range(1, 20_001)])
    zero = np.uint64((1 << 64) - 0x9E3779B97F4A7C15)  # the key whose first word is 0, the least there is
    assert int(wind.random_bits(zero, 1)) == 0
    assert wind.normal_pair(zero, 1) == pytest.approx((math.sqrt(64 * math.log(2)), 0.0))
    assert np.isfinite(draws).all()
    for column in draws.T:
        assert stats.kstest(column, "norm").pvalue > 0.001
    assert abs(np.corrcoef(draws.T)[0, 1]) < stats.norm.ppf(SURE) / math.sqrt(len(draws))


def test_streams_go_on_where_they_stopped():
    """A counter is all the memory there is: 10 steps are 4 and then 6."""
    c = wind.coefficients(HEIGHT, SPEED, DT)
    key = torch.tensor(12345).numpy()[()]
    whole = np.empty((10, 3))
    parts = np.empty((10, 3))
    x = np.zeros(wind.STATE)
    end = _series(x, c, key, 0, whole)
    y = np.zeros(wind.STATE)
    middle = _series(y, c, key, 0, parts[:4])
    assert _series(y, c, key, middle, parts[4:]) == end
    assert np.array_equal(whole, parts) and np.array_equal(x, y)
