"""Logged velocities against the change of the positions.

A joint's angle changes by the integral of its velocity. Where it does not, either the velocities are scaled or filtered, or the
sample rate is not what the log says, and then all joints differ by the same factor. Such velocities are not used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.sysid.logs import JointLog, stretches

Array = NDArray[np.float64]
SPAN_S = 0.1
"""s, over which changes are compared: long for the noise of both, short for a motion."""
AGREES = 0.03
"""Difference of the factor from 1 that calibration explains."""


def velocity_factors(log: JointLog) -> tuple[Array, Array]:
    """[J] change of the position over the integral of the velocity, by least squares, and its standard error; NaN for a joint
    that does not move."""
    assert log.velocity is not None
    period = float(np.median(np.diff(log.time)))
    span = max(2, round(SPAN_S / period))
    changes, integrals = [], []
    for first, last in stretches(log):
        t, v = log.time[first:last], log.velocity[first:last]
        total = np.vstack((np.zeros(v.shape[1]), np.cumsum(0.5 * (v[1:] + v[:-1]) * np.diff(t)[:, None], axis=0)))
        changes.append(
            log.position[first:last][span::span] - log.position[first:last][:-span:span][: len(total[span::span])]
        )
        integrals.append(total[span::span] - total[:-span:span][: len(total[span::span])])
    y, x = np.concatenate(changes), np.concatenate(integrals)
    power = (x**2).sum(axis=0)
    moving = power > len(x) * (0.01 * SPAN_S) ** 2
    factor = np.where(moving, (x * y).sum(axis=0) / np.where(moving, power, 1.0), np.nan)
    left = ((y - x * np.nan_to_num(factor)) ** 2).sum(axis=0) / max(len(x) - 1, 1)
    return factor, np.where(moving, np.sqrt(left / np.where(moving, power, 1.0)), np.nan)


def judge_velocities(log: JointLog) -> JointLog:
    """The log without velocities that disagree with its positions, and with a note on them."""
    if log.velocity is None:
        return log
    factor, error = velocity_factors(log)
    there = np.isfinite(factor)
    wrong = there & (np.abs(factor - 1.0) > AGREES + 2.0 * np.nan_to_num(error))
    if not wrong.any():
        return log
    low, high = float(np.nanmin(factor[there])), float(np.nanmax(factor[there]))
    spread = float(np.std(factor[there]))
    alike = spread < max(2.0 * float(np.nanmean(error[there])), 0.005)
    period = 1e3 * float(np.median(np.diff(log.time)))
    mean = float(np.nanmean(factor[there]))
    why = (
        "they are in degrees/s, as it seems"
        if alike and abs(mean * 180.0 / np.pi - 1.0) < 0.2
        else f"all joints by about the same factor, so the sample period may be {period * mean:.3g} ms and not "
        f"{period:.3g} ms"
        if alike
        else "by different factors for different joints, so that it is not the sample rate alone"
    )
    note = (
        f"velocities disagree with the change of the positions, which is {low:.3f} to {high:.3f} of what they say: {why}. They "
        "are not used; positions are."
    )
    return replace(log, velocity=None, notes=(*log.notes, note))
