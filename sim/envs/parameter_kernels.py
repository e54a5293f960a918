"""What is computed of drawn parameters for each world, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

from rookery.sim.random_kernels import kernel


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
