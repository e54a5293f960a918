"""Rotors that follow their commands more slowly than nominal ones, or faster: by how much is seen, and made up for.

A rotor that takes L times as long to come to a speed is there a control step later when it is commanded farther than wanted,
as far as its thrust goes: the lead compensation of a first-order lag (Franklin, Powell and Emami-Naeini, Feedback Control of
Dynamic Systems).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from numba import njit
from torch import Tensor

SHARE = 0.25  # of a step's finding that is taken over
FARTHEST = 0.4  # from the factor so far: the most that a step can tell
LEAST, MOST = 0.4, 2.5  # factors that are believed
NOTICEABLE = 1e-5  # square of a change of normalized speeds by another factor, from which on a step tells something


@njit(cache=True, nogil=True, error_model="numpy")
def see_lag(before, now, given, late, steps, dt, full, lag, fresh, factor):
    """Correct the factors on the rotors' time constant by what a control step did: one step of Gauss and Newton.

    Args:
        before, now: [N, A, 4] normalized rotor speeds when it began and ended.
        given: [3, N, A, 4] N, commands of that control step and of the two before.
        late: [N] physics steps from a command to its effect.
        steps: physics steps of a control step; dt: s, of one.
        full: N, thrust at full speed; lag: s, nominal time constant.
        fresh: [N] bool, worlds whose last step tells nothing.
        factor: [N, A], in place.
    """
    for n in range(factor.shape[0]):
        if fresh[n]:
            continue
        for a in range(factor.shape[1]):
            so_far = factor[n, a]
            left = math.exp(-dt / (lag * so_far))
            change = left * dt / (lag * so_far * so_far)
            missed = 0.0
            weight = NOTICEABLE
            for m in range(4):
                u = before[n, a, m]
                slope = 0.0  # of u over the factor
                for k in range(steps):
                    age = 0 if k >= late[n] else 1 if k >= late[n] - steps else 2
                    wanted = math.sqrt(min(max(given[age, n, a, m] / full, 0.0), 1.0))
                    slope = slope * left + (u - wanted) * change
                    u = wanted + (u - wanted) * left
                missed += slope * (now[n, a, m] - u)
                weight += slope * slope
            step = min(max(missed / weight, -FARTHEST), FARTHEST)
            factor[n, a] = min(max(so_far + SHARE * step, LEAST), MOST)


def lead(thrust: Tensor, speed: Tensor, factor: Tensor, full: float, lag: float, dt: float) -> Tensor:
    """Commands after which rotors come, within a control step, to the speeds that nominal ones would come to.

    Args:
        thrust: [N, A, 4] N, commands to nominal rotors.
        speed: [N, A, 4] normalized, of the rotors when the command takes effect.
        factor: [N, A] on their time constant.
        full: N, thrust at full speed; lag: s, nominal time constant; dt: s, of a control step.

    Returns:
        [N, A, 4] N, within what rotors can give.
    """
    farther = -math.expm1(-dt / lag) / -(-dt / (lag * factor)).expm1()
    wanted = (thrust / full).clamp(0.0, 1.0).sqrt()
    return full * (speed + farther[..., None] * (wanted - speed)).clamp(0.0, 1.0).square()
