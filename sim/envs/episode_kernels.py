"""Rewards, ends of episodes and their statistics, compiled. A group's rewards are described by a row of int64, see Layout."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from enum import IntEnum

import numpy as np

from rookery.sim.pointers import ADDRESS, STRIDES, flags, floats, integers, load
from rookery.sim.random_kernels import inlined, kernel


class Layout(IntEnum):
    """Columns of a description of a group's rewards."""

    WORLDS = 0  # N
    AGENTS = 1  # A
    OBJECTIVES = 2  # M, 1 for a reward of one number
    # addresses
    WEIGHTS = 3  # [terms]
    MEMBERS = 4  # [terms, M]: 1 where a term counts in an objective
    SUMS = 5  # [terms, N, A] weighted, of the running episodes


L = Layout


@inlined
def _numbers(row, n, agents, scratch):
    """The tensor [N, A] of a row as array [N A]; one that does not lie side by side is copied to `scratch`."""
    address, s0, s1 = row[ADDRESS], row[STRIDES], row[STRIDES + 1]
    if s0 == agents and (s1 == 1 or agents == 1):
        return floats(address, n * agents)
    for i in range(n):
        for a in range(agents):
            scratch[i * agents + a] = load(address, i * s0 + a * s1)
    return scratch


@kernel
def add(at, rows, address):
    """Weigh the terms (rows of a TensorTable, [N, A] each) and add them up, to the sums of the episode and to the reward
    float32 [N, A, M] at `address`."""
    n, agents, objectives, terms = at[L.WORLDS], at[L.AGENTS], at[L.OBJECTIVES], len(rows)
    size = n * agents
    weights = floats(at[L.WEIGHTS], terms)
    members = floats(at[L.MEMBERS], terms * objectives)
    sums = floats(at[L.SUMS], terms * size)
    out = floats(address, size * objectives)
    out[:] = 0.0
    scratch = np.empty(size, np.float32)
    for t in range(terms):
        x = _numbers(rows[t], n, agents, scratch)
        total = sums[t * size : (t + 1) * size]
        weight = weights[t]
        for k in range(size):
            total[k] += x[k] * weight
        if objectives == 1:
            for k in range(size):
                out[k] += x[k] * weight
        else:
            for m in range(objectives):
                share = weight * members[t * objectives + m]
                for k in range(size):
                    out[k * objectives + m] += x[k] * share


@kernel
def clear(sums, ids):
    """Zeros into sums [terms, N, A] of the worlds `ids`."""
    for t in range(sums.shape[0]):
        for i in ids:
            for a in range(sums.shape[2]):
                sums[t, i, a] = 0.0


@kernel
def summarize(at, terms, ids, by_term, by_objective):
    """Means over agents of the sums in the worlds `ids` [m]: by_term [terms, m], by_objective [M, m]."""
    agents, objectives = at[L.AGENTS], at[L.OBJECTIVES]
    members = floats(at[L.MEMBERS], terms * objectives)
    sums = floats(at[L.SUMS], terms * at[L.WORLDS] * agents)
    by_objective[:] = 0.0
    for r in range(len(ids)):
        for t in range(terms):
            total = np.float32(0.0)
            for a in range(agents):
                total += sums[(t * at[L.WORLDS] + ids[r]) * agents + a]
            by_term[t, r] = total / np.float32(agents)
            for m in range(objectives):
                by_objective[m, r] += by_term[t, r] * members[t * objectives + m]


@kernel
def pick(rows, ids, out):
    """Numbers of the worlds `ids` [m] from tensors [N], rows of a TensorTable, to out [len(rows), m]."""
    for t in range(len(rows)):
        for r in range(len(ids)):
            out[t, r] = load(rows[t, ADDRESS], ids[r] * rows[t, STRIDES])


@kernel
def ends(steps, most, cause, cut, terminated, truncated, ids):
    """Which episodes end, and how many of them.

    Args:
        steps: [N] int64 control steps into the episodes.
        most: the time limit.
        cause: address of int64 [N], 0 for an episode that goes on.
        cut: address of bool [N], episodes that end besides, or 0.
        terminated, truncated: addresses of bool [N], written.
        ids: [N] int64; the first ones are the worlds whose episodes end.
    """
    n = len(steps)
    causes = integers(cause, n)
    cuts = flags(cut, n)
    terminal = flags(terminated, n)
    timed_out = flags(truncated, n)
    count = 0
    for i in range(n):
        over = steps[i] >= most
        if cut != 0:
            over |= cuts[i]
        terminal[i] = causes[i] > 0
        timed_out[i] = over and not terminal[i]
        if over or terminal[i]:
            ids[count] = i
            count += 1
    return count
