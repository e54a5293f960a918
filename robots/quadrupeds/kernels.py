"""Kinematics of quadrupeds' legs for all worlds at once, compiled, since asking the engine for derived positions would cost
another pass over every world at each step; and the Go2's inverse kinematics."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from rookery.assets.go2 import CALF_LENGTH, HIP, HIP_OFFSET, THIGH_LENGTH

FOOT_X = -0.002  # m, of the Go2's foot's centre in the calf's frame


@njit(cache=True, parallel=True, fastmath=True, error_model="numpy")
def feet(base, q, dq, rotation, pos, vel, knees, turns, offsets, axes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Feet and knees of N robots in the world.

    Args:
        base: [N, 13] see Bodies.state; q, dq: [N, J >= 12] rad, rad/s, legs first (quadrupeds.model.LEGS).
        rotation: [N, 9] result, row-major, body to world.
        pos, vel: [N, 4, 3] results: m and m/s, world, of the feet's centres. knees: [N, 4, 3] result, m, world, of each
            leg's third joint.
        turns, offsets: [4, 4, 3, 3], [4, 4, 3] m, fixed: before each joint of a leg, and after its last one. axes: [4, 3, 3].
    """
    for n in prange(base.shape[0]):
        w, x, y, z = base[n, 3], base[n, 4], base[n, 5], base[n, 6]
        r = rotation[n]
        r[0] = 1 - 2 * (y * y + z * z)
        r[1] = 2 * (x * y - w * z)
        r[2] = 2 * (x * z + w * y)
        r[3] = 2 * (x * y + w * z)
        r[4] = 1 - 2 * (x * x + z * z)
        r[5] = 2 * (y * z - w * x)
        r[6] = 2 * (x * z - w * y)
        r[7] = 2 * (y * z + w * x)
        r[8] = 1 - 2 * (x * x + y * y)
        m = np.empty((3, 3))  # from the present link to the trunk
        t = np.empty((3, 3))
        for leg in range(4):
            m[:] = 0.0
            m[0, 0] = m[1, 1] = m[2, 2] = 1.0
            fx, fy, fz = 0.0, 0.0, 0.0  # place, velocity and angular velocity, trunk's axes, the trunk's own included
            ux, uy, uz = 0.0, 0.0, 0.0
            wx, wy, wz = float(base[n, 10]), float(base[n, 11]), float(base[n, 12])
            for j in range(4):
                o = offsets[leg, j]
                dx = m[0, 0] * o[0] + m[0, 1] * o[1] + m[0, 2] * o[2]
                dy = m[1, 0] * o[0] + m[1, 1] * o[1] + m[1, 2] * o[2]
                dz = m[2, 0] * o[0] + m[2, 1] * o[1] + m[2, 2] * o[2]
                fx, fy, fz = fx + dx, fy + dy, fz + dz
                ux, uy, uz = ux + wy * dz - wz * dy, uy + wz * dx - wx * dz, uz + wx * dy - wy * dx
                if j == 2:
                    for i in range(3):
                        knees[n, leg, i] = base[n, i] + r[3 * i] * fx + r[3 * i + 1] * fy + r[3 * i + 2] * fz
                if j == 3:
                    break
                for a in range(3):
                    for b in range(3):
                        t[a, b] = (
                            m[a, 0] * turns[leg, j, 0, b]
                            + m[a, 1] * turns[leg, j, 1, b]
                            + m[a, 2] * turns[leg, j, 2, b]
                        )
                ax, ay, az = axes[leg, j, 0], axes[leg, j, 1], axes[leg, j, 2]
                speed = dq[n, 3 * leg + j]
                wx += speed * (t[0, 0] * ax + t[0, 1] * ay + t[0, 2] * az)
                wy += speed * (t[1, 0] * ax + t[1, 1] * ay + t[1, 2] * az)
                wz += speed * (t[2, 0] * ax + t[2, 1] * ay + t[2, 2] * az)
                s, c = math.sin(q[n, 3 * leg + j]), math.cos(q[n, 3 * leg + j])
                d = 1.0 - c
                for a in range(3):
                    p0, p1, p2 = t[a, 0], t[a, 1], t[a, 2]
                    along = d * (p0 * ax + p1 * ay + p2 * az)  # Rodrigues' formula
                    m[a, 0] = c * p0 + s * (p1 * az - p2 * ay) + along * ax
                    m[a, 1] = c * p1 + s * (p2 * ax - p0 * az) + along * ay
                    m[a, 2] = c * p2 + s * (p0 * ay - p1 * ax) + along * az
            for i in range(3):
                pos[n, leg, i] = base[n, i] + r[3 * i] * fx + r[3 * i + 1] * fy + r[3 * i + 2] * fz
                vel[n, leg, i] = base[n, 7 + i] + r[3 * i] * ux + r[3 * i + 1] * uy + r[3 * i + 2] * uz


def leg_angles(foot: np.ndarray, leg: int) -> np.ndarray:
    """Inverse kinematics of one leg of the Go2.

    Args:
        foot: [..., 3] m, the foot's centre in the trunk's frame.
        leg: 0 front left, 1 front right, 2 rear left, 3 rear right.

    Returns:
        [..., 3] rad, hip, thigh and calf, the knee backwards. Points out of reach give the nearest stretched leg.
    """
    front = 1.0 if leg < 2 else -1.0
    left = 1.0 if leg % 2 == 0 else -1.0
    p = np.asarray(foot, dtype=float) - np.array([front * HIP[0], left * HIP[1], 0.0])
    side = left * HIP_OFFSET
    depth = np.sqrt(np.maximum(p[..., 1] ** 2 + p[..., 2] ** 2 - side**2, 1e-9))
    hip = np.arctan2(p[..., 2], p[..., 1]) - np.arctan2(-depth, side)
    hip = (hip + np.pi) % (2 * np.pi) - np.pi
    lower = math.hypot(FOOT_X, CALF_LENGTH)
    bend = math.atan2(FOOT_X, CALF_LENGTH)  # the foot's centre lies a little behind the calf's axis
    reach = np.hypot(p[..., 0], depth)
    cosine = (reach**2 - THIGH_LENGTH**2 - lower**2) / (2 * THIGH_LENGTH * lower)
    knee = -np.arccos(np.clip(cosine, -1.0, 1.0))
    thigh = np.arctan2(-p[..., 0], depth) - np.arctan2(lower * np.sin(knee), THIGH_LENGTH + lower * np.cos(knee))
    return np.stack((hip, thigh, knee + bend), axis=-1)
