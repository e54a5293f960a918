"""Rewards, ends of episodes and their statistics, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rookery.sim.pointers import ADDRESS, STRIDES, floats, load
from rookery.sim.random_kernels import inlined, kernel

NO_CUTS = np.zeros(0, np.bool_)


class RewardArrays(NamedTuple):
    """A group's rewards.

    Args:
        weights: [terms].
        members: [terms, M]: 1 where a term counts in an objective; M = 1 for a reward of one number.
        sums: [terms, N, A] weighted, of the running episodes.
    """

    weights: NDArray[np.float32]
    members: NDArray[np.float32]
    sums: NDArray[np.float32]


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
def add(at, rows, reward):
    """Weigh the terms (rows of a TensorTable, [N, A] each) and add them up, to the sums of the episode and to `reward`
    float32 [N, A] or, for objectives, [N, A, M]. Returns whether all of `reward` is finite."""
    terms, n, agents = at.sums.shape
    objectives = at.members.shape[1]
    size = n * agents
    out = reward.reshape(size, objectives)
    out[:] = 0.0
    scratch = np.empty(size, np.float32)
    for t in range(terms):
        x = _numbers(rows[t], n, agents, scratch)
        total = at.sums[t].reshape(size)
        weight = at.weights[t]
        for k in range(size):
            total[k] += x[k] * weight
        if objectives == 1:
            one = out.reshape(size)
            for k in range(size):
                one[k] += x[k] * weight
        else:
            for m in range(objectives):
                share = weight * at.members[t, m]
                for k in range(size):
                    out[k, m] += x[k] * share
    flat = reward.reshape(size * objectives)
    wrong = False
    for k in range(size * objectives):
        wrong |= not abs(flat[k]) < np.inf
    return not wrong


@kernel
def clear(sums, ids):
    """Zeros into sums [terms, N, A] of the worlds `ids`."""
    for t in range(sums.shape[0]):
        for i in ids:
            for a in range(sums.shape[2]):
                sums[t, i, a] = 0.0


@kernel
def summarize(at, ids, by_term, by_objective):
    """Means over agents of the sums in the worlds `ids` [m]: by_term [terms, m], by_objective [M, m]."""
    terms, _, agents = at.sums.shape
    by_objective[:] = 0.0
    for r in range(len(ids)):
        for t in range(terms):
            total = np.float32(0.0)
            for a in range(agents):
                total += at.sums[t, ids[r], a]
            by_term[t, r] = total / np.float32(agents)
            for m in range(at.members.shape[1]):
                by_objective[m, r] += by_term[t, r] * at.members[t, m]


@kernel
def pick(rows, ids, out):
    """Numbers of the worlds `ids` [m] from tensors [N], rows of a TensorTable, to out [len(rows), m]."""
    for t in range(len(rows)):
        for r in range(len(ids)):
            out[t, r] = load(rows[t, ADDRESS], ids[r] * rows[t, STRIDES])


@kernel
def judge(success, cause, causes):
    """Make `success` [m] 0 where an episode's `cause` [m] is none of the task's `causes`: it was measured after the engine put
    the world back. Returns whether all of it is finite."""
    finite = True
    for r in range(len(success)):
        if cause[r] > causes:
            success[r] = 0.0
        finite &= abs(success[r]) < np.inf
    return finite


@kernel
def ends(steps, most, cause, cut, terminated, truncated, ids):
    """Which episodes end, and how many of them.

    Args:
        steps: [N] int64 control steps into the episodes.
        most: the time limit.
        cause: [N] int64, 0 for an episode that goes on.
        cut: [N] bool, episodes that end besides; [0] where a task has none.
        terminated, truncated: [N] bool, written.
        ids: [N] int64; the first ones are the worlds whose episodes end.
    """
    count = 0
    for i in range(len(steps)):
        over = steps[i] >= most
        if len(cut) > 0:
            over |= cut[i]
        terminated[i] = cause[i] > 0
        truncated[i] = over and not terminated[i]
        if over or terminated[i]:
            ids[count] = i
            count += 1
    return count
