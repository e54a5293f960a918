"""Random moments and directions of pushes and wrenches, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np

from rookery.sim.random_kernels import compiled, kernel, uniform01

PUSH_RATE, PUSH_SPEED, PUSH_SPIN, WRENCH_RATE, WRENCH_FORCE, WRENCH_TORQUE, WRENCH_TIME = range(7)
"""Columns of the settings, see disturbances.SETTINGS."""
EVENT = 5
"""Words of a stream that a possible event takes: whether it happens, and two for each of its two directions."""


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
def act(key, counter, settings, wrench, left, weight, dt, free, pushed, change):
    """What happens in a control step of dt s.

    Args:
        key, counter: [N] of the random streams.
        settings: [N, 7].
        wrench: [N, B, 6] N, N m in force, changed where one begins or ends.
        left: [N, B] int64 control steps for which it stays.
        weight: [B] N.
        free: whether bodies can be pushed.
        pushed: [N] int64; the first ones are the worlds with a push.
        change: [N, B, 6] m/s, world, and rad/s, body frame; the first rows are those of these worlds.

    Returns:
        how many worlds have a push, and whether any wrench has changed.
    """
    pushes = 0
    changed = False
    bodies = len(weight)
    for i in range(len(settings)):
        s = settings[i]
        if s[PUSH_RATE] == 0.0 and s[WRENCH_RATE] == 0.0 and (left[i] == 0).all():
            continue
        hit = False
        for b in range(bodies):
            at = counter[i]
            counter[i] += 2 * EVENT
            if free and uniform01(key[i], at + 1) < s[PUSH_RATE] * dt:
                if not hit:
                    change[pushes] = 0.0
                hit = True
                _direction(key[i], at + 1, s[PUSH_SPEED], change[pushes, b, :3])
                _direction(key[i], at + 3, s[PUSH_SPIN], change[pushes, b, 3:])
            at += EVENT
            if left[i, b] > 0:
                left[i, b] -= 1
                if left[i, b] == 0:
                    wrench[i, b] = 0.0
                    changed = True
            elif uniform01(key[i], at + 1) < s[WRENCH_RATE] * dt:
                left[i, b] = max(np.int64(np.rint(s[WRENCH_TIME] / dt)), 1)
                _direction(key[i], at + 1, s[WRENCH_FORCE] * weight[b], wrench[i, b, :3])
                _direction(key[i], at + 3, s[WRENCH_TORQUE] * weight[b], wrench[i, b, 3:])
                changed = True
        if hit:
            pushed[pushes] = i
            pushes += 1
    return pushes, changed
