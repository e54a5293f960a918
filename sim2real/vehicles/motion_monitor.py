"""The watch of an arm's own controller over what it is told: joint positions whose differences leave its limits stop it.

Names of faults are those of Franka's error flags (libfranka, include/franka/errors.h); its controller names the limit of the
derivative by the signal that jumps: a velocity discontinuity is too large an acceleration.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
POSITION = "joint_motion_generator_position_limits_violation"
VELOCITY = "joint_motion_generator_velocity_limits_violation"
ACCELERATION = "joint_motion_generator_velocity_discontinuity"
JERK = "joint_motion_generator_acceleration_discontinuity"
START = "joint_position_motion_generator_start_pose_invalid"
SILENCE = "communication_constraints_violation"
PUSHED = "joint_reflex"
START_RAD = 0.01  # rad, of the first position from where the arm is held
ROUNDING = 1e-3
"""Share of a limit that is let pass: differences of 64-bit angles at 1 kHz are exact to 1e-6 of them, sums of many are not."""


class MotionMonitor:
    """Follows a commanded signal at a fixed rate.

    Args:
        period: s.
        lower, upper: [J] rad. speed, acceleration, jerk: [J] rad/s, rad/s^2, rad/s^3.

    Attributes:
        position, velocity, acceleration: [J], of the signal now.
    """

    def __init__(
        self, period: float, lower: ArrayLike, upper: ArrayLike, speed: ArrayLike, acceleration: ArrayLike, jerk: ArrayLike
    ) -> None:  # fmt: skip
        self._dt = period
        self._lower, self._upper, self._speed, self._most, self._jerk = (
            np.asarray(x, float) for x in (lower, upper, speed, acceleration, jerk)
        )
        self.begin(np.zeros(len(self._lower)))

    def begin(self, position: ArrayLike) -> None:
        """At rest at [J] rad; the next one must be there too."""
        self.position = np.array(position, float)
        self.velocity = np.zeros_like(self.position)
        self.acceleration = np.zeros_like(self.position)
        self._first = True
        self._known, self._gap, self._unsure = self.position, 0, 0

    def take(self, position: ArrayLike) -> str:
        """The signal's next value [J] rad; the fault that it is, or ""."""
        new = np.array(position, float)
        if new.shape != self.position.shape or not np.isfinite(new).all():
            return POSITION
        if self._first:
            if np.abs(new - self.position).max() > START_RAD:
                return START
            self._first = False
        velocity = (new - self._known) / (self._dt * (1 + self._gap))
        acceleration = (velocity - self.velocity) / self._dt
        jerk = (acceleration - self.acceleration) / self._dt
        if self._unsure:  # one of the last three did not come: differences across it say nothing
            acceleration = self.acceleration if self._unsure > 1 else acceleration
            jerk = np.zeros_like(new)
            self._unsure -= 1
        fault = self._judge(new, velocity, acceleration, jerk)
        if not fault:
            self.position, self.velocity, self.acceleration = new, velocity, acceleration
            self._known, self._gap = new, 0
        return fault

    def _judge(self, position: Vector, velocity: Vector, acceleration: Vector, jerk: Vector) -> str:
        if ((position < self._lower) | (position > self._upper)).any():
            return POSITION
        for name, value, limit in (
            (VELOCITY, velocity, self._speed), (ACCELERATION, acceleration, self._most), (JERK, jerk, self._jerk)
        ):  # fmt: skip
            if (np.abs(value) > (1.0 + ROUNDING) * limit).any():
                return name
        return ""

    def extrapolate(self) -> None:
        """Go on with the acceleration that it has, as for a packet that did not come."""
        self.velocity = self.velocity + self._dt * self.acceleration
        self.position = self.position + self._dt * self.velocity
        self._gap += 1
        self._unsure = 3

    def brake(self) -> None:
        """Go on along its way with the greatest deceleration."""
        change = self._dt * self._most
        slower = np.sign(self.velocity) * np.maximum(np.abs(self.velocity) - change, 0.0)
        self.acceleration = (slower - self.velocity) / self._dt
        self.velocity = slower
        self.position = self.position + self._dt * self.velocity
