"""A simulated arm whose joints and gripper each have a servo drive of their own (`axis`), as arms on a field bus have."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.quantities import OPENING
from rookery.sim2real.links import cia402
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.arm import PERIOD_S, STILL_RAD_S, ArmVehicle
from rookery.sim2real.vehicles.axis import Axis, AxisLimits

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv

WINDOW_RAD, PATIENCE_S = 0.1, 0.01  # of following errors; our choice
GRIP_SPEED, GRIP_FORCE, GRIP_DECELERATION = 0.2, 20.0, 2.0  # m/s, N, m/s^2


class DriveArm(ArmVehicle):
    """See the module. It has no controller above its drives: what pushes it meets their limits of torque.

    Args:
        env: one world of a table-top task with one arm whose drives take positions.
        noise: factor on the noise of measurements.
        seed: of the noise.

    Attributes:
        axes: drives of the joints in the arm's order, then the gripper's where it has one.
    """

    def __init__(self, env: VecEnv, noise: float = 1.0, seed: int = 0) -> None:
        super().__init__(env, noise, seed)
        k = self.kind
        limits = [
            AxisLimits(low, high, speed, torque, deceleration, WINDOW_RAD, PATIENCE_S)
            for low, high, speed, torque, deceleration in zip(
                k.lower, k.upper, k.speed, k.torque, k.acceleration, strict=True
            )
        ]
        starts = self._data.qpos[self._q[self._arm]].tolist()
        if self._gripper is not None:
            limits.append(AxisLimits(0.0, 2.0 * k.stroke, GRIP_SPEED, GRIP_FORCE, GRIP_DECELERATION, math.inf, 1.0))
            starts.append(self.opening_goal)
        self.axes = [Axis(limit, start, PERIOD_S) for limit, start in zip(limits, starts, strict=True)]
        m = self._model
        found = [m.joint(name).id for name in self._robot.joint_names]
        self._joints = np.array(found)
        self._ranges = m.jnt_actfrcrange[self._joints].copy()
        self._shares = np.ones(len(self.axes))
        self.quantities = tuple(name for name in self.quantities if name != "external torques")
        self._sensed_at = -1
        self._sensed: Reading
        self._encoded_at = -1
        self._encoded: list[tuple[float, float, float]] = []

    # -- what links ask ----------------------------------------------------------------------------------------

    @property
    def armed(self) -> bool:
        """True while any drive follows targets."""
        return any(axis.enabled for axis in self.axes)

    @property
    def still(self) -> bool:
        """True where neither the arm nor what its drives are told moves."""
        moving = np.abs(self._data.qvel[self._v[self._arm]]).max()
        return bool(moving < STILL_RAD_S and not any(axis.velocity for axis in self.axes))

    def arm(self) -> None:
        """Its drives are enabled over their bus."""

    def disarm(self) -> None:
        """No voltage for any drive."""
        for axis in self.axes:
            axis.control(cia402.TO_DISABLE)

    def setpoint(self, angles: ArrayLike) -> None:
        """Its drives take targets over their bus."""

    # -- physics -----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """The drives' own loops of PERIOD_S."""
        d, axes = self._data, self.axes
        count = self._arm.stop
        actual = [*d.qpos[self._q[:count]].tolist(), float(d.qpos[self._q[count:]].sum())]
        for axis, at in zip(axes, actual, strict=False):
            axis.tick(at)
        self._limit_torque()
        demand, velocity = np.array([(a.demand, a.velocity) for a in axes[:count]]).T
        d.ctrl[self._drives] = demand + self._lead * velocity
        if self._gripper is not None:
            d.ctrl[self._gripper] = self.opening_goal = axes[-1].demand
        self.mode = next((a.state for a in axes if not a.enabled), cia402.ENABLED)

    def _limit_torque(self) -> None:
        """Shares of the torque limits, where a parameter has changed them."""
        shares = np.array([axis.share for axis in self.axes])
        if (shares == self._shares).all():
            return
        self._shares, count = shares, self._arm.stop
        self._model.jnt_actfrcrange[self._joints] = shares[:count, None] * self._ranges
        if self._gripper is not None:
            force = shares[-1] * GRIP_FORCE
            self._model.actuator_forcerange[self._gripper] = -force, force

    def _guard(self) -> None:
        """Nothing above the drives stops it."""

    def sense(self) -> Reading:
        """Measurements now, the same for all who ask within a step; `received` is left to the link."""
        if self._sensed_at != self._steps:
            reading = super().sense()
            values = {name: value for name, value in reading.values.items() if name in self.quantities}
            self._sensed, self._sensed_at = dataclasses.replace(reading, values=values), self._steps
        return self._sensed

    def encoder(self, i: int) -> tuple[float, float, float]:
        """Measurements of drive i: rad, rad/s and N m, or m, m/s and N of the gripper."""
        if self._encoded_at != self._steps:
            self._encoded, self._encoded_at = self._encoders(), self._steps
        return self._encoded[i]

    def _encoders(self) -> list[tuple[float, float, float]]:
        seen, d, count = self.sense().values, self._data, self._arm.stop
        angles, speeds, torques = (seen[n].tolist() for n in ("joint angles", "joint velocities", "joint torques"))
        out = list(zip(angles, speeds, torques, strict=True))
        if self._gripper is not None:
            speed = float(d.qvel[self._v[count:]].sum())
            out.append((float(seen[OPENING.name][0]), speed, float(d.actuator_force[self._gripper])))
        return out
