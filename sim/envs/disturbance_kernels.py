"""Random moments and directions of pushes and wrenches, compiled.

In each control step of dt s an event begins with probability p = rate dt, so that the number of steps to the next one is
geometric: it is drawn when an episode begins and after each event, and counted down.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np

from rookery.sim.random_kernels import compiled, kernel, next_episode, uniform01

PUSH_RATE, PUSH_SPEED, PUSH_SPIN, WRENCH_RATE, WRENCH_FORCE, WRENCH_TORQUE, WRENCH_TIME = range(7)
"""Columns of the settings, see disturbances.SETTINGS."""
SETTINGS = 7
PUSH, WRENCH = range(2)
"""Rows of the waiting times."""
DIRECTIONS = 4
"""Words of a stream that the two directions of an event take."""
NEVER = np.int64(1 << 60)


@compiled
def _wait(rate, dt, u):
    """Control steps to the next event, 1 or more, from a uniform number in [0, 1)."""
    p = rate * dt
    if p <= 0.0:
        return NEVER
    if p >= 1.0:
        return np.int64(1)
    return np.int64(1) + np.int64(math.log1p(-u) / math.log1p(-p))


@compiled
def _direction(key, counter, size, out):
    """A vector [3] of length `size` in a direction uniform over the sphere, from the words counter + 1 and + 2."""
    z = np.float32(2.0) * uniform01(key, counter + 1) - np.float32(1.0)
    angle = np.float32(2.0 * math.pi) * uniform01(key, counter + 2)
    across = math.sqrt(max(1.0 - z * z, 0.0))
    out[0] = size * across * math.cos(angle)
    out[1] = size * across * math.sin(angle)
    out[2] = size * z


@kernel
def set_rows(table, rows, ids, settings):
    """Settings of the worlds `ids` [n] from the rows of a table [W, n]; row -1 leaves what is there."""
    for s in range(len(rows)):
        if rows[s] >= 0:
            for r in range(len(ids)):
                settings[ids[r], s] = table[rows[s], r]


@kernel
def begin(key, counter, ids, settings, dt, wait, pulling, wrench):
    """Episodes begin in the worlds `ids`, without a wrench.

    Args:
        key, counter: [N] of the random streams.
        settings: [N, SETTINGS].
        dt: s, control step.
        wait: [2, N, B] control steps to the next push, and to where a wrench begins or ends.
        pulling: [N, B] bool, whether a wrench is in force.
        wrench: [N, B, 6] N, N m.
    """
    for i in ids:
        counter[i] = next_episode(counter[i])
        for b in range(pulling.shape[1]):
            wait[PUSH, i, b] = _wait(settings[i, PUSH_RATE], dt, uniform01(key[i], counter[i] + 1))
            wait[WRENCH, i, b] = _wait(settings[i, WRENCH_RATE], dt, uniform01(key[i], counter[i] + 2))
            counter[i] += 2
            pulling[i, b] = False
            wrench[i, b] = 0.0


@kernel
def act(key, counter, settings, wrench, wait, pulling, weight, dt, pushed, change, pulled):
    """Carry out a control step of dt s.

    Args:
        key, counter, settings, wait, pulling: see `begin`.
        wrench: [N, B, 6] N, N m in force, changed where one begins or ends.
        weight: [B] N.
        pushed: [N] int64; the first ones are the worlds with a push.
        change: [N, B, 6] m/s, world, and rad/s, body frame; the first rows are those of these worlds.
        pulled: [N] int64; the first ones are the worlds in which a wrench has changed.

    Returns:
        how many worlds have a push, and in how many a wrench has changed.
    """
    pushes = pulls = 0
    bodies = len(weight)
    count = wait.size
    left = wait.reshape(count)
    due = 0
    for k in range(count):
        left[k] -= 1
        due += left[k] <= 0
    if due == 0:
        return pushes, pulls
    for i in range(len(settings)):
        hit = changed = False
        for b in range(bodies):
            if wait[PUSH, i, b] <= 0:
                if not hit:
                    change[pushes] = 0.0
                hit = True
                _push(key[i], counter[i], settings[i], change[pushes, b])
                wait[PUSH, i, b] = _wait(settings[i, PUSH_RATE], dt, uniform01(key[i], counter[i] + DIRECTIONS + 1))
                counter[i] += DIRECTIONS + 1
            if wait[WRENCH, i, b] <= 0:
                changed = True
                pulling[i, b] = not pulling[i, b]
                if pulling[i, b]:
                    _pull(key[i], counter[i], settings[i], weight[b], wrench[i, b])
                    counter[i] += DIRECTIONS
                    wait[WRENCH, i, b] = max(np.int64(np.rint(settings[i, WRENCH_TIME] / dt)), 1)
                else:
                    wrench[i, b] = 0.0
                    counter[i] += 1
                    wait[WRENCH, i, b] = _wait(settings[i, WRENCH_RATE], dt, uniform01(key[i], counter[i]))
        if hit:
            pushed[pushes] = i
            pushes += 1
        if changed:
            pulled[pulls] = i
            pulls += 1
    return pushes, pulls


@compiled
def _push(key, counter, settings, change):
    _direction(key, counter, settings[PUSH_SPEED], change[:3])
    _direction(key, counter + 2, settings[PUSH_SPIN], change[3:])


@compiled
def _pull(key, counter, settings, weight, wrench):
    _direction(key, counter, settings[WRENCH_FORCE] * weight, wrench[:3])
    _direction(key, counter + 2, settings[WRENCH_TORQUE] * weight, wrench[3:])
