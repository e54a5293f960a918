"""Check, clip and delay of actions, compiled. A group is described by a row of int64, see ActionLayout."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from enum import IntEnum

import numpy as np

from rookery.sim.pointers import copy, floats, integers
from rookery.sim.random_kernels import kernel, uniform01


class ActionLayout(IntEnum):
    """Columns of a group's description."""

    WORLDS = 0  # N
    SIZE = 1  # A D
    PHYSICS_STEPS = 2  # K
    ROWS = 3  # of the history
    MOST = 4  # physics steps, the longest delay
    # addresses
    HISTORY = 5  # [ROWS, N, A D], a ring
    LATE = 6  # [ROWS, N] int64, physics steps from an action to its effect
    DELAY = 7  # [N] int64, physics steps
    JITTER = 8  # [N] int64, physics steps
    PUSHED = 9  # [1] int64 number of pushes, from which the ring goes on
    KEYS = 10  # [N] int64 of the random streams
    COUNTERS = 11
    REST = 12  # [N] int64, physics steps of the observation's age that the action makes up for, see observation
    NOW = 13  # [N] int64, physics steps that the action of this step takes


L = ActionLayout
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
def forget(at, ids, neutral, losing, arrived):
    """The worlds `ids` have been given nothing but `neutral` [A D], and lose nothing now (see `lose`)."""
    n, size, rows = at[L.WORLDS], at[L.SIZE], at[L.ROWS]
    history = floats(at[L.HISTORY], n * rows * size)
    late = integers(at[L.LATE], n * rows)
    for i in ids:
        losing[i] = 0
        copy(arrived[i], 0, neutral, 0, size)
        for r in range(rows):
            late[r * n + i] = 0
            copy(history, (r * n + i) * size, neutral, 0, size)


@kernel
def draw(at):
    """Draw the delay of this step's action in each world: write `ActionLayout.NOW`."""
    n = at[L.WORLDS]
    delays = integers(at[L.DELAY], n)
    jitter = integers(at[L.JITTER], n)
    rest = integers(at[L.REST], n)
    keys = integers(at[L.KEYS], n)
    counters = integers(at[L.COUNTERS], n)
    out = integers(at[L.NOW], n)
    for i in range(n):
        now = delays[i]
        if jitter[i] > 0:
            counters[i] += 1
            now = min(now + np.int64(uniform01(keys[i], counters[i]) * np.float32(jitter[i] + 1)), at[L.MOST])
        out[i] = now + rest[i]


@kernel
def delay(at, source, target):
    """Take actions [N, A D] at `source`, which take as long as `draw` wrote; write those in force in each physics step,
    [N, K, A D], to `target`: of those that have arrived, the one that was given last."""
    n, size, steps, rows = at[L.WORLDS], at[L.SIZE], at[L.PHYSICS_STEPS], at[L.ROWS]
    x = floats(source, n * size)
    out = floats(target, n * steps * size)
    history = floats(at[L.HISTORY], n * rows * size)
    late = integers(at[L.LATE], n * rows)
    now = integers(at[L.NOW], n)
    pushed = integers(at[L.PUSHED], 1)
    pushed[0] += 1
    head = pushed[0] % rows
    newest = head * n
    for j in range(n * size):
        history[newest * size + j] = x[j]
    for i in range(n):
        first = i * steps * size
        late[newest + i] = now[i]
        row, before, end = newest + i, 0, steps  # each action is in force from its arrival to that of newer ones
        while end > 0:
            begin = min(max(late[row] - before, 0), end)
            for k in range(begin, end):
                copy(out, first + k * size, history, row * size, size)
            end = begin
            row = row - n if row >= n else row + (rows - 1) * n
            before += steps


@kernel
def delay_controls(pushed, late, history, now, controls, out):
    """Take the controls of a control step; give those in force in each of its physics steps: of those that have arrived, the
    ones that were meant for the latest physics step. After its last ones, an action's are held.

    Args:
        pushed: [1] int64 number of pushes, from which the rings go on.
        late: [R, N] int64, a ring: physics steps from an action to its effect.
        history: [R, N, K, U] float64, a ring.
        now: [N] int64, physics steps that this step's take.
        controls: [N, K, U] float64. out: likewise, written.
    """
    rows, n, steps, size = history.shape
    pushed[0] += 1
    head = pushed[0] % rows
    for i in range(n):
        late[head, i] = now[i]
        for k in range(steps):
            for j in range(size):
                history[head, i, k, j] = controls[i, k, j]
        row, before, end = head, 0, steps
        while end > 0:
            arrives = late[row, i] - before
            begin = min(max(arrives, 0), end)
            for k in range(begin, end):
                at = min(k - arrives, steps - 1)
                for j in range(size):
                    out[i, k, j] = history[row, i, at, j]
            end = begin
            row = row - 1 if row > 0 else rows - 1
            before += steps


@kernel
def hold_controls(late, history, ids, held):
    """The worlds `ids` [n] have been given nothing but `held` [N, U]; see `delay_controls`."""
    for i in ids:
        for r in range(len(late)):
            late[r, i] = 0
            for k in range(history.shape[2]):
                for j in range(history.shape[3]):
                    history[r, i, k, j] = held[i, j]


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
