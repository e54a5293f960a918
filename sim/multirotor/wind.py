"""Gusts: Dryden turbulence as filters driven by white noise, compiled, for blocks of worlds (see layout).

The spectra, intensities and lengths are those of MIL-F-8785C, 3.7, at low altitude. Seen from a slow drone the turbulence
is carried past by the mean wind, so the wind's speed stands for the airspeed of the standard. With T = L / V the filters are

    along the wind    sigma sqrt(2T) / (1 + T s)                                   autocorrelation exp(-t/T)
    across, vertical  sigma sqrt(T) (1 + sqrt(3) T s) / (1 + T s)^2                autocorrelation (1 - t/2T) exp(-t/T)

discretized exactly for white noise: variance and autocorrelation are those of the standard at any step. A step is a call of
`World.step`, in which the air keeps its velocity: T is 0.2 s or more, 20 control steps of 10 ms. Who wants another sigma or T
(Effects.gust_speed, gust_time) gives those of the horizontal turbulence; the vertical ones keep the standard's ratios to them.
In calm air "along" is the world's x axis.

A block's state is a row [STATE * LANES] of unit variances: along, across (2 numbers), vertical (2).
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rookery.sim.multirotor.layout import AIR, LANES, MEAN_WIND
from rookery.sim.random_kernels import compiled, inlined, kernel, normal_pair, word

STATE = 5
NORMALS = 5
WORDS = 3
"""Standard normal numbers that a step of a world takes, and the words of its stream that hold them."""

# columns of the coefficients: horizontal and vertical filter (decay, coupling, three entries of the noise's Cholesky factor),
# noise of the filter along the wind (whose decay is the horizontal one), and the intensities in m/s
HORIZONTAL = 0
VERTICAL = 5
_ALONG = 10
_SIGMA_HORIZONTAL = 11
_SIGMA_VERTICAL = 12
COEFFICIENTS = 13

FOOT = 0.3048  # m
SLOWEST = 1.0  # m/s, at which turbulence is carried past; in weaker wind its intensity is close to nothing anyway
_ROOT3 = math.sqrt(3.0)
# covariance of the two states of a transverse filter, 1 / (1 + Ts) and 1 / (1 + Ts)^2 of the same noise, in equilibrium, and
# its Cholesky factor; sqrt(3) times the first and 1 - sqrt(3) times the second give variance 1
P11, P12, P22 = 0.5, 0.25, 0.25
_ROOT11, _ROOT21, _ROOT22 = math.sqrt(0.5), math.sqrt(0.125), math.sqrt(0.125)


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


@compiled
def _set_filter(c, i, column, step):
    """Coefficients of one filter in lane i for steps of `step` T."""
    decay = math.exp(-step)
    coupling = decay * step
    # covariance of the noise of a step: P - F P F^T with F = [[decay, 0], [coupling, decay]] and P in equilibrium
    fresh = -math.expm1(-2.0 * step)
    q11 = P11 * fresh
    q12 = P12 * fresh - decay * coupling * P11
    q22 = max(P22 * fresh - decay * coupling * (2.0 * P12 + step * P11), 0.0)
    l11 = math.sqrt(q11)
    l21 = q12 / l11 if l11 > 0.0 else 0.0
    c[column * LANES + i] = decay
    c[(column + 1) * LANES + i] = coupling
    c[(column + 2) * LANES + i] = l11
    c[(column + 3) * LANES + i] = l21
    c[(column + 4) * LANES + i] = math.sqrt(max(q22 - l21 * l21, 0.0))
    if column == HORIZONTAL:
        c[_ALONG * LANES + i] = math.sqrt(fresh)


@inlined
def _speed(w, i):
    """m/s, mean wind of lane i."""
    x, y = w[MEAN_WIND * LANES + i], w[(MEAN_WIND + 1) * LANES + i]
    return math.sqrt(x * x + y * y)


@compiled
def _set_filters(c, w, i, scale, dt):
    """Coefficients [COEFFICIENTS * LANES] of lane i for the mean wind that it has.

    Args:
        w: [WORLD * LANES] of the block, see layout.
        scale: [6] `scales` in a wind of 1 m/s; sigma (m/s) and T (s) of the horizontal turbulence, 0 where they follow from
            the wind.
        dt: s, of a step.
    """
    speed = _speed(w, i)
    carried = max(speed, SLOWEST) if scale[5] == 0.0 else scale[0] / scale[5]
    _set_filter(c, i, HORIZONTAL, dt * carried / scale[0])
    _set_filter(c, i, VERTICAL, dt * carried / scale[1])
    strength = speed if scale[4] == 0.0 else scale[4] / scale[2]
    c[_SIGMA_HORIZONTAL * LANES + i] = strength * scale[2]
    c[_SIGMA_VERTICAL * LANES + i] = strength * scale[3]


@kernel
def set_mean(worlds, ids, table, rows, mean, filters, scale, dt):
    """Give the worlds `ids` [n] a mean wind, and their filters what follows from it.

    Args:
        worlds: see layout.
        table: [W, n] float32.
        rows: [2] where speed, m/s, and direction, rad from world x towards y, stand in the table; -1 leaves what is in `mean`.
        mean: [blocks * LANES, 2] speed and direction, updated.
        filters: [blocks, COEFFICIENTS * LANES].
        scale, dt: see `_set_filters`.

    Returns:
        whether there is wind in any of these worlds.
    """
    windy = False
    for r in range(len(ids)):
        w = worlds[ids[r] // LANES]
        i = ids[r] % LANES
        for f in range(2):
            if rows[f] >= 0:
                mean[ids[r], f] = table[rows[f], r]
        speed, direction = mean[ids[r], 0], mean[ids[r], 1]
        windy |= speed > 0.0
        w[MEAN_WIND * LANES + i] = speed * math.cos(direction)
        w[(MEAN_WIND + 1) * LANES + i] = speed * math.sin(direction)
        for f in range(3):
            w[(AIR + f) * LANES + i] = w[(MEAN_WIND + f) * LANES + i]
        _set_filters(filters[ids[r] // LANES], w, i, scale, dt)
    return windy


@kernel
def set_step(worlds, filters, scale, dt):
    """Filters of all worlds for steps of dt s."""
    for block in range(len(worlds)):
        for i in range(LANES):
            _set_filters(filters[block], worlds[block], i, scale, dt)


@kernel
def stir(keys, counters, ids, gust):
    """Turbulence that has blown for long, in the worlds `ids`.

    Args:
        keys, counters: [blocks * LANES] of random streams.
        gust: [blocks, STATE * LANES].
    """
    for n in ids:
        x, i, at = gust[n // LANES], n % LANES, counters[n]
        n0, n1 = normal_pair(word(keys[n], at + 1))
        n2, n3 = normal_pair(word(keys[n], at + 2))
        n4, _ = normal_pair(word(keys[n], at + 3))
        counters[n] += WORDS
        x[i] = n0
        x[LANES + i] = _ROOT11 * n1
        x[2 * LANES + i] = _ROOT21 * n1 + _ROOT22 * n2
        x[3 * LANES + i] = _ROOT11 * n3
        x[4 * LANES + i] = _ROOT21 * n3 + _ROOT22 * n4


@inlined
def _transverse(x, c, i, first, column, normals):
    """A transverse filter of lane i a step on; its output, of variance 1.

    Args:
        first: of its two states, and of its two normals.
        column: of its coefficients.
    """
    n1, n2 = normals[first * LANES + i], normals[(first + 1) * LANES + i]
    a, b = x[first * LANES + i], x[(first + 1) * LANES + i]
    decay, coupling = c[column * LANES + i], c[(column + 1) * LANES + i]
    b = decay * b + coupling * a + c[(column + 3) * LANES + i] * n1 + c[(column + 4) * LANES + i] * n2
    a = decay * a + c[(column + 2) * LANES + i] * n1
    x[first * LANES + i] = a
    x[(first + 1) * LANES + i] = b
    return _ROOT3 * a + (1.0 - _ROOT3) * b


@compiled
def blow(x, c, keys, counters, w, normals):
    """One step of the turbulence around the mean wind in a block of worlds, in place. Exact arithmetic, vector code.

    Args:
        x: [STATE * LANES] of the gusts.
        c: [COEFFICIENTS * LANES].
        keys, counters: [LANES] of random streams.
        w: [WORLD * LANES], see layout; its air is written.
        normals: [NORMALS * LANES], overwritten.
    """
    for i in range(LANES):
        normals[i], normals[LANES + i] = normal_pair(word(keys[i], counters[i] + 1))
        normals[2 * LANES + i], normals[3 * LANES + i] = normal_pair(word(keys[i], counters[i] + 2))
        normals[4 * LANES + i], _ = normal_pair(word(keys[i], counters[i] + 3))
        counters[i] += WORDS
    for i in range(LANES):
        x[i] = c[HORIZONTAL * LANES + i] * x[i] + c[_ALONG * LANES + i] * normals[i]
        sigma = c[_SIGMA_HORIZONTAL * LANES + i]
        along = sigma * x[i]
        across = sigma * _transverse(x, c, i, 1, HORIZONTAL, normals)
        up = c[_SIGMA_VERTICAL * LANES + i] * _transverse(x, c, i, 3, VERTICAL, normals)
        mx, my = w[MEAN_WIND * LANES + i], w[(MEAN_WIND + 1) * LANES + i]
        speed = _speed(w, i)
        calm = speed == 0.0
        length = 1.0 if calm else speed
        ux = 1.0 if calm else mx
        w[AIR * LANES + i] = mx + (along * ux - across * my) / length
        w[(AIR + 1) * LANES + i] = my + (along * my + across * ux) / length
        w[(AIR + 2) * LANES + i] = w[(MEAN_WIND + 2) * LANES + i] + up


@kernel
def blow_everywhere(x, c, keys, counters, worlds):
    """`blow` in all blocks, for engines whose own steps do not call it."""
    normals = np.empty(NORMALS * LANES)
    for block in range(len(worlds)):
        blow(x[block], c[block], keys[block], counters[block], worlds[block], normals)
