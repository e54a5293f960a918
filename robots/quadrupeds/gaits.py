"""Classical controller of the Go2: a trot by foot placement."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rookery.assets.go2 import CALF_LENGTH, HIP, HIP_OFFSET, KP, THIGH_LENGTH
from rookery.robots.quadrupeds.go2 import STAND_HEIGHT
from rookery.robots.quadrupeds.kernels import leg_angles
from rookery.robots.quadrupeds.quadruped import Quadruped

FOLDED = (0.0, 1.36, -2.65) * 4
"""rad, legs of a Go2 that lies on its belly: where the stand-up of unitree_rl_mjlab begins."""
GRAVITY = 9.81  # m/s^2


class Trot:
    """Diagonal legs swing in turn; feet are placed where the commanded velocity, and its error, want them.

    The feet in stance carry the trunk at the commanded velocity; a foot in swing lands half a stride ahead of its hip, and
    further by `GAIN` times the velocity error (Raibert, Legged Robots That Balance, 1986). The servos are soft, so the
    weight on each stance leg is added to its target as torque over stiffness.

    Args:
        robot: a Go2, whose state it reads.
        gait_hz, swing_height: Hz, m.
    """

    GAIN = 0.12  # s, of the foot placement's velocity feedback
    STRETCH = 1.5  # of the stride: the servos give way by about half of it (measured)
    LEVEL = 0.5  # share of the measured tilt that the legs' lengths take back

    def __init__(self, robot: Quadruped, gait_hz: float = 2.0, swing_height: float = 0.06) -> None:
        self.robot = robot
        self.gait_hz = gait_hz
        self.swing_height = swing_height
        self._offset = np.array([0.0, 0.5, 0.5, 0.0])
        self._mass = float(robot.world.model.body(robot.base.names[0]).subtreemass[0])

    def act(self, phase: Tensor, command: Tensor, moving: Tensor) -> Tensor:
        """Leg targets [N, 12] rad.

        Args:
            phase: [N] of the gait; a leg swings in the first half of its own.
            command: [N, 3] m/s, m/s, rad/s.
            moving: [N] bool, False stands still.
        """
        r = self.robot
        p = (phase.numpy()[:, None] + self._offset) % 1.0
        go = moving.numpy()[:, None]
        swing = (p < 0.5) & go
        s = np.where(p < 0.5, 2.0 * p, 2.0 * p - 1.0)  # share of the swing or of the stance
        velocity = r.velocity.numpy()
        want = command.numpy()
        up = r.up.numpy()
        out = np.empty((len(p), 12), dtype=np.float32)
        stance_s = 0.5 / self.gait_hz
        for leg in range(4):
            x, y = (HIP[0] if leg < 2 else -HIP[0]), (HIP[1] + HIP_OFFSET) * (1.0 if leg % 2 == 0 else -1.0)
            vx = self.STRETCH * (want[:, 0] - want[:, 2] * y)
            vy = self.STRETCH * (want[:, 1] + want[:, 2] * x)
            ex, ey = velocity[:, 0] - want[:, 0], velocity[:, 1] - want[:, 1]
            sl, sw = s[:, leg], swing[:, leg]
            travel = np.where(sw, -np.cos(math.pi * sl), 1.0 - 2.0 * sl)  # from -1 (behind) to 1 (ahead)
            share = np.where(sw, 0.5 - 0.5 * np.cos(math.pi * sl), 1.0) * go[:, 0]
            fx = x - 0.01 + go[:, 0] * 0.5 * stance_s * vx * travel + share * self.GAIN * ex
            fy = y + go[:, 0] * 0.5 * stance_s * vy * travel + share * self.GAIN * ey
            lift = np.where(sw, self.swing_height * np.sin(math.pi * sl), 0.0)
            # the world's up leans towards the side of the trunk that is high: shorten the legs there
            fz = -STAND_HEIGHT + 0.02 + lift + self.LEVEL * (up[:, 0] * x + up[:, 1] * y)
            angles = leg_angles(np.stack((fx, fy, fz), axis=-1), leg)
            load = np.where(sw, 0.0, self._mass * GRAVITY / np.where(go[:, 0], 2.0, 4.0))
            out[:, 3 * leg : 3 * leg + 3] = angles + load[:, None] * _lever(angles, leg) / KP
        return torch.from_numpy(out)


def _lever(angles: np.ndarray, leg: int) -> np.ndarray:
    """[N, 3] m: torque at a leg's joints for one newton of load from above on its foot (minus the foot's vertical Jacobian)."""
    a, b, bc = angles[:, 0], angles[:, 1], angles[:, 1] + angles[:, 2]
    side = HIP_OFFSET * (1.0 if leg % 2 == 0 else -1.0)
    xt, zt = -THIGH_LENGTH * np.sin(b), -THIGH_LENGTH * np.cos(b)
    xc, zc = -CALF_LENGTH * np.sin(bc), -CALF_LENGTH * np.cos(bc)
    # d z / d q of the foot: see kernels.feet
    dz = np.stack((side * np.cos(a) - (zt + zc) * np.sin(a), -(xt + xc) * np.cos(a), -xc * np.cos(a)), axis=1)
    return -dz
