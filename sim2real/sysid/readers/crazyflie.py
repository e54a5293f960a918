"""Names and units of the Crazyflie's log variables (Bitcraze's firmware documentation, "Logging groups and variables")."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PWM = 65535.0
_DEGREES = math.pi / 180.0
VARIABLES: dict[str, tuple[str, float]] = {
    **{f"stateEstimate.{a}": (f"position.{a}", 1.0) for a in "xyz"},
    **{f"stateEstimate.v{a}": (f"velocity.{a}", 1.0) for a in "xyz"},
    **{f"stateEstimate.q{a}": (f"quaternion.{a}", 1.0) for a in "wxyz"},
    **{f"gyro.{a}": (f"angular_velocity.{a}", _DEGREES) for a in "xyz"},
    **{f"motor.m{i}": (f"motors.{i}", 1.0 / PWM) for i in range(1, 5)},
    **{f"motor.m{i}req": (f"motors.{i}", 1.0 / PWM) for i in range(1, 5)},
}
"""Our name and the factor to our unit, by the firmware's variable."""
TIMES = ("Timestamp", "timestamp", "time_ms")  # ms, of the client and of cflib's examples
ANGLES = ("roll", "pitch", "yaw")


def crazyflie_columns(columns: Mapping[str, Array]) -> dict[str, Array] | None:
    """A Crazyflie's columns by our names; None where they are not a Crazyflie's."""
    known = {name: VARIABLES[name] for name in columns if name in VARIABLES}
    if not known:
        return None
    out = {ours: factor * columns[name] for name, (ours, factor) in known.items()}
    time = next((name for name in TIMES if name in columns), None)
    if time is not None:
        out["time"] = 1e-3 * columns[time]
    for group in ("stateEstimate", "stabilizer"):
        angles = [f"{group}.{a}" for a in ANGLES]
        if "quaternion.w" not in out and all(a in columns for a in angles):
            out |= _quaternion(*(_DEGREES * columns[a] for a in angles))
    return out


def _quaternion(roll: Array, pitch: Array, yaw: Array) -> dict[str, Array]:
    """Quaternion of the firmware's angles, whose pitch counts nose up as positive."""
    half = (0.5 * roll, -0.5 * pitch, 0.5 * yaw)
    (cr, cp, cy), (sr, sp, sy) = ([f(a) for a in half] for f in (np.cos, np.sin))
    return {
        "quaternion.w": cr * cp * cy + sr * sp * sy, "quaternion.x": sr * cp * cy - cr * sp * sy,
        "quaternion.y": cr * sp * cy + sr * cp * sy, "quaternion.z": cr * cp * sy - sr * sp * cy,
    }  # fmt: skip
