"""Check, clip and delay of actions, compiled. A group is described by a row of int64, see Layout."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from enum import IntEnum

import numpy as np

from rookery.sim.pointers import floats, integers
from rookery.sim.random_kernels import kernel, uniform01


class Layout(IntEnum):
    """Columns of a group's description."""

    WORLDS = 0  # N
    SIZE = 1  # A D
    PHYSICS_STEPS = 2  # K
    ROWS = 3  # of the history
    # addresses
    HISTORY = 4  # [N, ROWS, A D], a ring
    DELAY = 5  # [N] int64, physics steps
    PUSHED = 6  # [1] int64 number of pushes, from which the ring goes on


L = Layout
_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)


@kernel
def clip(at, source, target):
    """float32 [N, A D] at `source`, limited to [-1, 1], to `target`; the first world with NaN or infinity, or -1."""
    n, size = at[L.WORLDS], at[L.SIZE]
    x = floats(source, n * size)
    y = floats(target, n * size)
    wrong = 0
    for j in range(n * size):
        v = x[j]
        wrong += v - v != _ZERO
        v = _ONE if v > _ONE else v
        y[j] = -_ONE if v < -_ONE else v
    if wrong:
        for j in range(n * size):
            if x[j] - x[j] != _ZERO:
                return j // size
    return -1


@kernel
def forget(at, ids, neutral):
    """The worlds `ids` have been given nothing but `neutral` [A D]."""
    size, rows = at[L.SIZE], at[L.ROWS]
    history = floats(at[L.HISTORY], at[L.WORLDS] * rows * size)
    delays = integers(at[L.DELAY], at[L.WORLDS])
    for i in ids:
        if delays[i] > 0:
            for r in range(rows):
                for j in range(size):
                    history[(i * rows + r) * size + j] = neutral[j]


@kernel
def delay(at, source, target):
    """Take actions [N, A D] at `source`; write those in force in each physics step, [N, K, A D], to `target`."""
    n, size, steps, rows = at[L.WORLDS], at[L.SIZE], at[L.PHYSICS_STEPS], at[L.ROWS]
    x = floats(source, n * size)
    out = floats(target, n * steps * size)
    history = floats(at[L.HISTORY], n * rows * size)
    delays = integers(at[L.DELAY], n)
    pushed = integers(at[L.PUSHED], 1)
    pushed[0] += 1
    head = pushed[0] % rows
    for i in range(n):
        if delays[i] > 0:
            for j in range(size):
                history[(i * rows + head) * size + j] = x[i * size + j]
        whole = np.int64(np.uint32(delays[i]) // np.uint32(steps))  # 64 bits take three times as long to divide
        late = delays[i] - whole * steps  # physics steps in which the action before that is still in force
        row = head - whole if head >= whole else head - whole + rows
        newer = (i * rows + row) * size
        older = newer - size if row > 0 else newer + (rows - 1) * size
        first = i * steps * size
        for k in range(late):
            for j in range(size):
                out[first + k * size + j] = history[older + j]
        for k in range(late, steps):
            for j in range(size):
                out[first + k * size + j] = history[newer + j] if delays[i] > 0 else x[i * size + j]


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
