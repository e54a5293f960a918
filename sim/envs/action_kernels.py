"""Check, clip and delay of actions, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rookery.sim.pointers import copy
from rookery.sim.random_kernels import kernel, uniform01

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)


class ActionArrays(NamedTuple):
    """Actions of a group that are on their way, [N] or as said.

    Args:
        history: [R, N, A D], a ring of the newest R actions.
        late: [R, N] int64 physics steps from an action to its effect.
        delay, jitter: int64 physics steps, see `rookery.sim.envs.delays.ActionDelay`.
        pushed: [1] int64 number of pushes, from which the ring goes on.
        keys, counters: int64, of the random streams.
        most: physics steps, the longest delay.
    """

    history: NDArray[np.float32]
    late: NDArray[np.int64]
    delay: NDArray[np.int64]
    jitter: NDArray[np.int64]
    pushed: NDArray[np.int64]
    keys: NDArray[np.int64]
    counters: NDArray[np.int64]
    most: int


@kernel
def clip(source, target):
    """float32 `source` [N, A, D], limited to [-1, 1], to `target`; the first world with NaN or infinity, or -1."""
    x = source.reshape(source.size)
    y = target.reshape(target.size)
    wrong = 0
    for j in range(len(x)):
        v = x[j]
        wrong += v - v != _ZERO
        v = _ONE if v > _ONE else v
        y[j] = -_ONE if v < -_ONE else v
    if wrong:
        for j in range(len(x)):
            if x[j] - x[j] != _ZERO:
                return j // (len(x) // len(source))
    return -1


@kernel
def forget(at, ids, neutral, losing, arrived):
    """The worlds `ids` have been given nothing but `neutral` [A D], and lose nothing now (see `lose`)."""
    rows, _, size = at.history.shape
    for i in ids:
        losing[i] = 0
        copy(arrived[i], 0, neutral, 0, size)
        if at.delay[i] > 0 or at.jitter[i] > 0:
            for r in range(rows):
                at.late[r, i] = 0
                copy(at.history[r, i], 0, neutral, 0, size)


@kernel
def delay(at, action, out):
    """Take `action` [N, A, D]; write those in force in each physics step to `out` [N, K, A, D]: of those that have arrived, the
    one that was given last."""
    rows, n, size = at.history.shape
    steps = out.shape[1]
    x = action.reshape(n, size)
    given = out.reshape(n, steps, size)
    at.pushed[0] += 1
    head = at.pushed[0] % rows
    for i in range(n):
        for j in range(size):
            at.history[head, i, j] = x[i, j]
    for i in range(n):
        now = at.delay[i]
        if at.jitter[i] > 0:
            at.counters[i] += 1
            extra = uniform01(at.keys[i], at.counters[i]) * np.float32(at.jitter[i] + 1)
            now = min(now + np.int64(extra), at.most)
        at.late[head, i] = now
        row, before, end = head, 0, steps  # each action is in force from its arrival to that of newer ones
        while end > 0:
            begin = min(max(at.late[row, i] - before, 0), end)
            for k in range(begin, end):
                copy(given[i, k], 0, at.history[row, i], 0, size)
            end = begin
            row = row - 1 if row > 0 else rows - 1
            before += steps


@kernel
def lose(key, counter, loss, hold, losing, arrived, actions):
    """Put the last action that arrived in the place of those that get lost.

    Args:
        key, counter: [N] of the random streams.
        loss: [N] how likely it is that actions begin to get lost.
        hold: [N] int64 control steps for which they are lost then, at least 1.
        losing: [N] int64 control steps for which they still are.
        arrived: [N, A D], the last action that arrived.
        actions: [N, A D] as given; changed where they are lost.
    """
    for i in range(len(loss)):
        if losing[i] > 0:
            losing[i] -= 1
            gone = True
        elif loss[i] > _ZERO:
            counter[i] += 1
            gone = uniform01(key[i], counter[i]) < loss[i]
            if gone:
                losing[i] = max(hold[i], 1) - 1
        else:
            continue
        for j in range(actions.shape[1]):
            if gone:
                actions[i, j] = arrived[i, j]
            else:
                arrived[i, j] = actions[i, j]
