"""Readings: what a vehicle measured, with stamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

SPECIFIC_FORCE = "specific force"
"""Of accelerometers: [3] m/s^2, the body's acceleration less gravity's, body axes."""
FOOT_FORCES = "foot forces"
"""[legs] that press feet on the ground, in the order of rookery.robots.quadrupeds.LEGS; N, or a sensor's own unit."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest measurements of a vehicle.

    Args:
        received: s, the runtime's clock when they arrived.
        measured: s, the vehicle's own clock when they were taken.
        values: quantities by the names that observation terms use (see rookery.sim.quantities), SI, in the contract's frames
            and its order of joints.
        battery: share that is left, 0 to 1; None where it is not told.
        armed: whether motors may turn; None where it is not told.
        landed: whether a multirotor stands on the ground, a jointed robot lies there; None where it is not told.
        mode: the vehicle's own name of what it is doing.
        estimates: quantities that an estimator adds (see rookery.sim2real.runtime.estimation), apart from those that are
            measured: they go on changing where measurements have frozen.
        ground: s, the runtime's clock when the map of the ground arrived, or the place in it, the older of the two; minus
            infinity where there is none that can be used, None for a policy that sees no ground.
    """

    received: float
    measured: float
    values: Mapping[str, Array] = field(default_factory=dict)
    battery: float | None = None
    armed: bool | None = None
    landed: bool | None = None
    mode: str = ""
    estimates: Mapping[str, Array] = field(default_factory=dict)
    ground: float | None = None
