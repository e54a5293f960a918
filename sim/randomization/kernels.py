"""Draws of all randomized parameters of the worlds that begin an episode, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from enum import IntEnum

import numpy as np

from rookery.sim.random_kernels import at_place, compiled, kernel, next_episode
from rookery.sim.randomization.distributions import CHOICE, LOG_UNIFORM, NORMAL


class ValueColumn(IntEnum):
    """Constants of a drawn number, a row of float32."""

    FIRST = 0  # a and b of the quantile function
    SECOND = 1
    BELOW = 2  # of a normal: probability up to its least value, and of all its values
    INSIDE = 3
    LOW = 4
    HIGH = 5
    NOMINAL = 6  # where the curriculum begins


WIDTH = len(ValueColumn)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)


@compiled
def normal_quantile(p):
    """The value that a standard normal stays below with probability p, 0 < p < 1; float32.

    Algorithm AS 241, PPND7, of Wichura (Applied Statistics 37, 1988): about 7 digits.
    """
    f = np.float32
    q = p - _HALF
    if abs(q) <= f(0.425):
        r = f(0.180625) - q * q
        above = ((f(59.109374720) * r + f(159.29113202)) * r + f(50.434271938)) * r + f(3.3871327179)
        below = ((f(67.187563600) * r + f(78.757757664)) * r + f(17.895169469)) * r + _ONE
        return q * above / below
    tail = p if q < 0 else _ONE - p
    r = np.sqrt(-np.log(max(tail, f(1e-30))))
    if r <= f(5.0):
        r -= f(1.6)
        above = ((f(0.17023821103) * r + f(1.3067284816)) * r + f(2.7568153900)) * r + f(1.4234372777)
        below = (f(0.12021132975) * r + f(0.73700164250)) * r + _ONE
    else:
        r -= f(5.0)
        above = ((f(0.017337203997) * r + f(0.42868294337)) * r + f(3.0812263860)) * r + f(6.6579051150)
        below = (f(0.012258202635) * r + f(0.24197894225)) * r + _ONE
    return -above / below if q < 0 else above / below


@compiled
def quantile(kind, c, table, u):
    """The value of a distribution at a uniform number u in [0, 1).

    Args:
        kind: a number of `distributions`.
        c: [WIDTH], see ValueColumn.
        table: [values, 2] of a choice: value, and probability of it or an earlier one.
    """
    if kind == CHOICE:
        k = 0
        while k < len(table) - 1 and u >= table[k, 1]:
            k += 1
        return table[k, 0]
    if kind == LOG_UNIFORM:
        value = np.exp(c[ValueColumn.FIRST] + c[ValueColumn.SECOND] * u)
    elif kind == NORMAL:
        value = c[ValueColumn.FIRST] + c[ValueColumn.SECOND] * normal_quantile(
            c[ValueColumn.BELOW] + c[ValueColumn.INSIDE] * u
        )
    else:
        return c[ValueColumn.FIRST] + c[ValueColumn.SECOND] * u
    return min(max(value, c[ValueColumn.LOW]), c[ValueColumn.HIGH])


@compiled
def _scaled(kind, c, table, u, share):
    """The value at u of a distribution that is drawn together to its nominal value: a `share` of the way to it, or of a choice
    with that probability."""
    if kind == CHOICE:
        return quantile(kind, c, table, u / share) if u < share else c[ValueColumn.NOMINAL]
    nominal = c[ValueColumn.NOMINAL]
    return nominal + share * (quantile(kind, c, table, u) - nominal)


@kernel
def draw(
    key, counter, ids, places, kinds, constants, tables, firsts, startup, share, replayed, lengths, drawn, values, new
):
    """The worlds `ids` [n] begin an episode and get new values.

    Args:
        key, counter: [N] of the random streams.
        ids: worlds.
        places: [P] number of each draw within an episode.
        kinds: [P] of distributions.
        constants: [P, WIDTH] float32, see ValueColumn.
        tables, firsts: values of the choices, and [P + 1] where those of each draw begin.
        startup: [P] whether it is drawn at the first episode only.
        share: of the distributions' width; 1 for all of it. Startup draws are never narrowed.
        replayed: [N, K, P] values to be taken instead, episode by episode, over and over; K is 0 for none.
        lengths: [N] how many of the K episodes a world has.
        drawn: [N] whether a world has had its first episode; set.
        values: [N, P] float32, written where drawn.
        new: [n] int64, the new worlds.

    Returns:
        how many worlds are new.
    """
    count = 0
    for r in range(len(ids)):
        i = ids[r]
        counter[i] = next_episode(counter[i])
        for p in range(len(places)):
            if startup[p] and drawn[i]:
                continue
            if replayed.shape[1] > 0:
                episode = (counter[i] >> 32) - 1
                values[i, p] = replayed[i, episode % lengths[i], p]
                continue
            u = at_place(key[i], counter[i], places[p])
            table = tables[firsts[p] : firsts[p + 1]]
            if share < _ONE and not startup[p]:
                values[i, p] = _scaled(kinds[p], constants[p], table, u, share)
            else:
                values[i, p] = quantile(kinds[p], constants[p], table, u)
        if not drawn[i]:
            new[count] = i
            count += 1
            drawn[i] = True
    return count


@kernel
def collect(values, ids, sources, nominal, rows):
    """Values that are written into the worlds `ids` [n], to rows [W, n].

    Args:
        values: [N, P] drawn.
        sources: [W] the draw of each component of each parameter, -1 for one that keeps its nominal value.
        nominal: [W].
    """
    for w in range(len(sources)):
        s = sources[w]
        for r in range(len(ids)):
            rows[w, r] = values[ids[r], s] if s >= 0 else nominal[w]
