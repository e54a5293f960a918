"""Logs that move too slowly to tell inertia and damping from the details of dry friction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.sysid.logs import JointLog

Array = NDArray[np.float64]
SPAN_S = 0.1  # s, over which accelerations are taken: noise of encoders is small beside them
SMALL = 0.04
"""Share of dry friction that inertia takes at least. Friction of a bearing differs from Coulomb's law by several percent."""


def slow_note(log: JointLog, fitted: str, armature: Array, friction: Array) -> str | None:
    """A sentence on joints whose rotors take hardly any torque beside dry friction; None where there are none.

    Their motion shows the law of friction near standstill, which the model has in its simplest form, rather than inertia and
    damping: values come out wrong by more than their intervals say.

    Args:
        log: that was fitted.
        fitted: quantities that it was to show, of "armature" and "damping"; for the sentence.
        armature: [J] kg m^2, found.
        friction: [J] N m, found.
    """
    torque = armature * accelerations(log)
    slow = [name for name, own, dry in zip(log.joints, torque, friction, strict=True) if own < SMALL * dry]
    if not slow:
        return None
    return (
        f"{', '.join(slow)} {'moves' if len(slow) == 1 else 'move'} so slowly that {fitted} may be wrong by more than the "
        f"intervals say: rotors take less than {100 * SMALL:.0f} % of what dry friction takes; log a faster motion (--design)"
    )


def accelerations(log: JointLog) -> Array:
    """[J] rms, rad/s^2, of second differences over SPAN_S, those across a gap of the log left out."""
    period = float(np.median(np.diff(log.time)))
    lag = max(1, round(SPAN_S / period))
    span = log.time[2 * lag :] - log.time[: -2 * lag]
    whole = span < 2.5 * lag * period
    bent = log.position[2 * lag :] - 2.0 * log.position[lag:-lag] + log.position[: -2 * lag]
    if not whole.any():
        return np.full(len(log.joints), np.inf)
    return np.asarray(np.sqrt(np.mean((bent[whole] / (0.5 * span[whole, None]) ** 2) ** 2, axis=0)), np.float64)
