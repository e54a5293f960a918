"""Gusts: Dryden turbulence as filters driven by white noise, and random numbers for them that depend on no thread.

The spectra, intensities and lengths are those of MIL-F-8785C, 3.7, at low altitude. Seen from a slow drone the turbulence
is carried past by the mean wind, so the wind's speed stands for the airspeed of the standard. With T = L / V the filters are

    along the wind    sigma sqrt(2T) / (1 + T s)                                   autocorrelation exp(-t/T)
    across, vertical  sigma sqrt(T) (1 + sqrt(3) T s) / (1 + T s)^2                autocorrelation (1 - t/2T) exp(-t/T)

discretised exactly for white noise: variance and autocorrelation are those of the standard at any step.

A world's state is a row [STATE] of unit variances: along, across (2 numbers), vertical (2).
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from rookery.sim.engines.rotor.layout import AIR, LANES, MEAN_WIND

_fast = njit(cache=True, nogil=True, error_model="numpy", inline="always")
_plain = njit(cache=True, nogil=True, error_model="numpy")

STATE = 5
NORMALS = 5
"""Standard normal numbers that a step of a world takes."""

# columns of the coefficients: horizontal and vertical filter (decay, coupling, three entries of the noise's Cholesky factor),
# noise of the filter along the wind (whose decay is the horizontal one), and the intensities in m/s
_HORIZONTAL = 0
_VERTICAL = 5
_ALONG = 10
_SIGMA_HORIZONTAL = 11
_SIGMA_VERTICAL = 12
COEFFICIENTS = 13

SPEEDS = np.arange(601) * 0.05  # m/s
"""Mean winds that can be drawn for a world; turbulence is that of the nearest one."""

FOOT = 0.3048  # m
SLOWEST = 1.0  # m/s, at which turbulence is carried past; in weaker wind its intensity is close to nothing anyway
_ROOT3 = math.sqrt(3.0)
# the two states of a transverse filter, 1 / (1 + Ts) and 1 / (1 + Ts)^2 of the same noise, in equilibrium; sqrt(3) times the
# first and 1 - sqrt(3) times the second give variance 1
_EQUILIBRIUM = np.array([[0.5, 0.25], [0.25, 0.25]])


def scales(height: ArrayLike, wind_speed: ArrayLike) -> tuple[NDArray[np.float64], ...]:
    """Lengths and intensities of turbulence below 1,000 feet (MIL-F-8785C 3.7.3.4).

    Args:
        height: m above ground, taken as at least 10 and at most 1,000 feet.
        wind_speed: m/s, mean wind at 20 feet (6 m). Shapes broadcast.

    Returns:
        (horizontal length m, vertical length m, horizontal standard deviation m/s, vertical standard deviation m/s).
    """
    feet = np.clip(np.asarray(height, float) / FOOT, 10.0, 1000.0)
    rough = 0.177 + 0.000823 * feet
    vertical = 0.1 * np.asarray(wind_speed, float)
    return feet / rough**1.2 * FOOT, feet * FOOT, vertical / rough**0.4, vertical


def coefficients(height: ArrayLike, wind_speed: ArrayLike, dt: float) -> NDArray[np.float64]:
    """Filter coefficients [..., COEFFICIENTS] for steps of dt s; arguments as in `scales`."""
    length_h, length_w, sigma_h, sigma_w = np.broadcast_arrays(*scales(height, wind_speed))
    speed = np.maximum(np.asarray(wind_speed, float), SLOWEST)
    out = np.empty((*length_h.shape, COEFFICIENTS))
    for column, length in ((_HORIZONTAL, length_h), (_VERTICAL, length_w)):
        step = dt * speed / length
        decay = np.exp(-step)
        a, c = decay * decay, decay * decay * step
        # covariance of the noise of a step: P - F P F^T with F = decay [[1, 0], [step, 1]] and P in equilibrium
        p11 = _EQUILIBRIUM[0, 0]
        p12 = _EQUILIBRIUM[0, 1]
        p22 = _EQUILIBRIUM[1, 1]
        q11 = -p11 * np.expm1(-2.0 * step)
        q12 = -p12 * np.expm1(-2.0 * step) - c * p11
        q22 = np.maximum(-p22 * np.expm1(-2.0 * step) - c * (2.0 * p12 + step * p11), 0.0)
        l11 = np.sqrt(q11)
        l21 = np.divide(q12, l11, out=np.zeros_like(l11), where=l11 > 0.0)
        l22 = np.sqrt(np.maximum(q22 - l21 * l21, 0.0))
        for i, value in enumerate((decay, decay * step, l11, l21, l22)):
            out[..., column + i] = value
        if column == _HORIZONTAL:
            out[..., _ALONG] = np.sqrt(1.0 - a)
    out[..., _SIGMA_HORIZONTAL] = sigma_h
    out[..., _SIGMA_VERTICAL] = sigma_w
    return out


def equilibrium(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """States [..., STATE] as they are after turbulence has blown for long, from standard normals [..., NORMALS]."""
    root = np.linalg.cholesky(_EQUILIBRIUM)
    pairs = normals[..., 1:].reshape(*normals.shape[:-1], 2, 2) @ root.T
    return np.concatenate((normals[..., :1], pairs.reshape(*normals.shape[:-1], 4)), axis=-1)


@_fast
def transverse_step(x1, x2, decay, coupling, l11, l21, l22, n1, n2):
    """The two states of a transverse filter after a step, from two standard normals."""
    return decay * x1 + l11 * n1, decay * x2 + coupling * x1 + l21 * n1 + l22 * n2


@_fast
def transverse_gust(x1, x2):
    """Output of a transverse filter, variance 1."""
    return _ROOT3 * x1 + (1.0 - _ROOT3) * x2


@_fast
def advance(x, c, n0, n1, n2, n3, n4):
    """One step of a world's gusts, in place, from five standard normals.

    Args:
        x: [STATE].
        c: [COEFFICIENTS].
    """
    h, v = _HORIZONTAL, _VERTICAL
    x[0] = c[h] * x[0] + c[_ALONG] * n0
    x[1], x[2] = transverse_step(x[1], x[2], c[h], c[h + 1], c[h + 2], c[h + 3], c[h + 4], n1, n2)
    x[3], x[4] = transverse_step(x[3], x[4], c[v], c[v + 1], c[v + 2], c[v + 3], c[v + 4], n3, n4)


@_fast
def gust(x, c):
    """(along, across, up) in m/s of a world's state [STATE]: along the mean wind, to its left, and world z."""
    s = c[_SIGMA_HORIZONTAL]
    return s * x[0], s * transverse_gust(x[1], x[2]), c[_SIGMA_VERTICAL] * transverse_gust(x[3], x[4])


@_plain
def set_mean(worlds, ids, speed, direction, filters, all_filters):
    """Give the worlds `ids` [n] a mean wind, and their filters [worlds, COEFFICIENTS] those of its strength.

    Args:
        worlds: see layout.
        speed, direction: [n] m/s, and rad from world x towards y.
        all_filters: [SPEEDS, COEFFICIENTS].
    """
    for r in range(len(ids)):
        row = worlds[ids[r] // LANES]
        i = ids[r] % LANES
        for f in range(3):
            v = speed[r] * (math.cos(direction[r]) if f == 0 else math.sin(direction[r])) if f < 2 else 0.0
            row[(MEAN_WIND + f) * LANES + i] = v
            row[(AIR + f) * LANES + i] = v
        filters[ids[r]] = all_filters[min(np.int64(np.rint(speed[r] / 0.05)), len(all_filters) - 1)]


@_plain
def find_filters(worlds, own, filters, all_filters):
    """The filters [worlds, COEFFICIENTS] of the mean winds that the worlds have, unless that is the scene's `own`, m/s."""
    for n in range(len(filters)):
        row = worlds[n // LANES]
        x = row[MEAN_WIND * LANES + n % LANES]
        y = row[(MEAN_WIND + 1) * LANES + n % LANES]
        speed = math.sqrt(x * x + y * y)
        if abs(speed - own) > 1e-6:
            filters[n] = all_filters[min(np.int64(np.rint(speed / 0.05)), len(all_filters) - 1)]


@_plain
def blow(x, c, key, counter):
    """One step of a world's gusts from its own random numbers, in place; returns the counter to go on with."""
    n0, n1 = normal_pair(key, counter + 1)
    n2, n3 = normal_pair(key, counter + 2)
    n4, _ = normal_pair(key, counter + 3)
    advance(x, c, n0, n1, n2, n3, n4)
    return counter + 3


# SplitMix64's constants, as in rookery.sim.random
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@_fast
def random_bits(key, counter):
    """uint64: output `counter` (1, 2, ...) of the SplitMix64 stream of a key (int64 or uint64).

    The same numbers as rookery.sim.random.Streams: its k-th word is output k.
    """
    z = np.uint64(key) + np.uint64(counter) * _GAMMA
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@_fast
def normal_pair(key, counter):
    """Two independent standard normals from one word of a stream, as rookery.sim.random draws them."""
    bits = random_bits(key, counter)
    radius = math.sqrt(-2.0 * math.log((np.float64(bits >> _S32) + 1.0) * 2.0**-32))
    angle = np.float64(bits & _LOW) * (2.0 * math.pi * 2.0**-32)
    return radius * math.cos(angle), radius * math.sin(angle)
