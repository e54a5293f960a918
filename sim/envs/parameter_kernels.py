"""What is computed of drawn parameters for each world, compiled."""

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
def configure(ids, noise, bias, delay, control_dt, to_noise, to_bias, to_delay):
    """How agents of the worlds `ids` [n] observe.

    Args:
        noise, bias: [n] factors, or [0] for those that stay.
        delay: [n] s, or [0].
        control_dt: s.
        to_noise, to_bias: [N], written.
        to_delay: [N] int64 control steps, written.
    """
    for r in range(len(noise)):
        to_noise[ids[r]] = noise[r]
    for r in range(len(bias)):
        to_bias[ids[r]] = bias[r]
    for r in range(len(delay)):
        to_delay[ids[r]] = _steps(delay[r], control_dt)


@kernel
def delay_actions(ids, seconds, dt, delay):
    """Delays [n] s of the worlds `ids` into delay [N] int64 physics steps of dt s; whether there is any in all worlds."""
    for r in range(len(ids)):
        delay[ids[r]] = _steps(seconds[r], dt)
    most = 0
    for i in range(len(delay)):
        most = max(most, delay[i])
    return most > 0
