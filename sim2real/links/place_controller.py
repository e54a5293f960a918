"""Flies to places on the ground's side: body rates and thrust for vehicles whose own software has no position controller."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.links.frames import euler, matrix
from rookery.sim2real.runtime.reading import Array

PLACE = 1.2  # 1/s, from an error of place to a velocity
FASTEST = 1.0  # m/s
SPEED = 2.5  # 1/s, from an error of velocity to an acceleration
SUM = 0.8  # 1/s^2, from its integral
SUM_LIMIT = 2.5  # m/s^2, of the integral's part: a battery that sags, a throttle that is not what was told
LEAN = 0.35  # rad
UPRIGHT = 8.0  # 1/s, from an error of the body's up axis to rates
YAW = 2.0  # 1/s
QUICKEST = 3.5  # rad/s
LEAST_LIFT = 0.3  # share of the weight: attitude needs thrust to act on
STALE_S = 0.2  # s between two calls after which it begins anew


class PlaceController:
    """Proportional on place, PI on velocity, proportional on the direction of thrust and on heading.

    Args:
        mass: kg.
        most: N, highest collective thrust.
    """

    def __init__(self, mass: float, most: float) -> None:
        self._mass, self._most = mass, most
        self._sum = np.zeros(3)
        self._last = -math.inf

    def step(self, values: Mapping[str, Array], place: ArrayLike, yaw: float, now: float) -> list[float]:
        """Body rates (rad/s) and collective thrust (N) towards a place (m, world) and a heading (rad).

        Args:
            values: position, velocity and rotation as measured, finite.
            place, yaw: the goal.
            now: s.
        """
        dt = now - self._last
        self._last = now
        if not 0.0 <= dt < STALE_S:
            self._sum[:] = 0.0
            dt = 0.0
        wanted = PLACE * (np.asarray(place, float) - values["position"])
        wanted *= min(1.0, FASTEST / max(float(np.linalg.norm(wanted)), 1e-9))
        slip = wanted - values["velocity"]
        self._sum = np.clip(self._sum + SUM * dt * slip, -SUM_LIMIT, SUM_LIMIT)
        push = SPEED * slip + self._sum
        push[2] = max(push[2] + GRAVITY, LEAST_LIFT * GRAVITY)
        side = math.hypot(push[0], push[1])
        push[:2] *= min(1.0, math.tan(LEAN) * push[2] / max(side, 1e-9))
        turn = matrix(values["rotation"])
        up = turn.T @ (push / np.linalg.norm(push))  # in body axes
        heading = euler(values["rotation"])[2]
        around = YAW * math.remainder(yaw - heading, 2.0 * math.pi)
        rates = np.array((-UPRIGHT * up[1], UPRIGHT * up[0], 0.0)) + turn.T @ (0.0, 0.0, around)
        thrust = self._mass * push[2] / max(turn[2, 2], 0.5)
        return [*np.clip(rates, -QUICKEST, QUICKEST).tolist(), min(max(thrust, 0.0), self._most)]
