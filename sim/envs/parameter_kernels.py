"""Values that follow from drawn parameters in each world, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np

from rookery.sim.random_kernels import inlined, kernel


@kernel
def tilt(ids, angle, cosine, sine, strength, out):
    """Gravity of the worlds `ids` [n] into out [n, 3], m/s^2, world.

    Args:
        angle: [n] rad from -z.
        cosine, sine: [N] of the heading in which it is tilted in each world.
        strength: m/s^2.
    """
    for r in range(len(ids)):
        aside = math.sin(angle[r]) * strength
        out[r, 0] = aside * cosine[ids[r]]
        out[r, 1] = aside * sine[ids[r]]
        out[r, 2] = -math.cos(angle[r]) * strength


@inlined
def _steps(seconds, dt):
    """The nearest number of steps of dt s."""
    return np.int64(np.rint(seconds / np.float32(dt)))


@kernel
def observing(table, rows, ids, dt, most, noise, bias, drift, dropout, delay, jitter):
    """Set how agents of the worlds `ids` [n] observe, from rows of a table [W, n]; row -1 leaves what is there.

    Args:
        rows: [6] of the parameters, in the order of the arrays.
        dt: s, physics step.
        most: physics steps, the most that delay and jitter are together.
        noise, bias, drift, dropout: [N] float32, written.
        delay, jitter: [N] int64 physics steps, written.
    """
    for r in range(len(ids)):
        i = ids[r]
        if rows[0] >= 0:
            noise[i] = table[rows[0], r]
        if rows[1] >= 0:
            bias[i] = table[rows[1], r]
        if rows[2] >= 0:
            drift[i] = table[rows[2], r]
        if rows[3] >= 0:
            dropout[i] = table[rows[3], r]
        if rows[4] >= 0:
            delay[i] = min(_steps(table[rows[4], r], dt), most)
        if rows[5] >= 0:
            jitter[i] = _steps(table[rows[5], r], dt)
        jitter[i] = min(jitter[i], most - delay[i])


@kernel
def acting(table, rows, ids, dt, control_dt, delay, jitter, loss, hold, age, age_jitter, steps):
    """Set the delays and losses of actions in the worlds `ids` [n], as in `observing`.

    Args:
        rows: [4] of the parameters, in the order of the arrays.
        dt, control_dt: s, physics step and control step.
        delay, jitter: [N] int64 physics steps, written.
        loss: [N] float32, written.
        hold: [N] int64 control steps, written.
        age, age_jitter: [N] int64 physics steps, how old the observations are that are acted upon, and what they are older
            besides at most; [0] for none.
        steps: K, physics steps in a control step.

    Returns:
        whether any world has delays, and whether any loses actions.
    """
    for r in range(len(ids)):
        i = ids[r]
        if rows[0] >= 0:
            delay[i] = _steps(table[rows[0], r], dt)
        if rows[1] >= 0:
            jitter[i] = _steps(table[rows[1], r], dt)
        if rows[2] >= 0:
            loss[i] = table[rows[2], r]
        if rows[3] >= 0:
            hold[i] = _steps(table[rows[3], r], control_dt)
    late = 0
    lossy = 0
    for i in range(len(delay)):
        late += delay[i] + jitter[i] > 0
        if len(age) > 0:
            late += age[i] % steps + age_jitter[i] > 0
        lossy += loss[i] > np.float32(0.0)
    return late > 0, lossy > 0
