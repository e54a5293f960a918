"""Kinematics of the Go2's legs for all worlds at once: closed forms, since asking the engine for derived positions would cost
another pass over every world at each step."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from rookery.assets.go2 import CALF_LENGTH, HIP, HIP_OFFSET, THIGH_LENGTH

FOOT_X = -0.002  # m, of the foot's centre in the calf's frame


@njit(cache=True, parallel=True, fastmath=True, error_model="numpy")
def feet(base, q, dq, rotation, pos, vel):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Feet of N robots in the world.

    Args:
        base: [N, 13] see Bodies.state; q, dq: [N, J >= 12] rad, rad/s, legs first (assets.go2.JOINTS).
        rotation: [N, 9] result, row-major, body to world.
        pos, vel: [N, 4, 3] results: m and m/s, world, of the feet's centres.
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
        wx, wy, wz = base[n, 10], base[n, 11], base[n, 12]
        for leg in range(4):
            front = 1.0 if leg < 2 else -1.0
            left = 1.0 if leg % 2 == 0 else -1.0
            a, b, c = q[n, 3 * leg], q[n, 3 * leg + 1], q[n, 3 * leg + 2]
            da, db, dc = dq[n, 3 * leg], dq[n, 3 * leg + 1], dq[n, 3 * leg + 2]
            sa, ca, sb, cb, sc, cc = (
                math.sin(a),
                math.cos(a),
                math.sin(b),
                math.cos(b),
                math.sin(b + c),
                math.cos(b + c),
            )
            xt, zt = -THIGH_LENGTH * sb, -THIGH_LENGTH * cb
            xc, zc = FOOT_X * cc - CALF_LENGTH * sc, -FOOT_X * sc - CALF_LENGTH * cc
            px, pz = xt + xc, zt + zc
            vx, vz = pz * db + zc * dc, -px * db - xc * dc
            side = left * HIP_OFFSET
            fx = front * HIP[0] + px
            fy = left * HIP[1] + side * ca - pz * sa
            fz = side * sa + pz * ca
            ux = vx + wy * fz - wz * fy
            uy = -(side * sa + pz * ca) * da - sa * vz + wz * fx - wx * fz
            uz = (side * ca - pz * sa) * da + ca * vz + wx * fy - wy * fx
            for i in range(3):
                pos[n, leg, i] = base[n, i] + r[3 * i] * fx + r[3 * i + 1] * fy + r[3 * i + 2] * fz
                vel[n, leg, i] = base[n, 7 + i] + r[3 * i] * ux + r[3 * i + 1] * uy + r[3 * i + 2] * uz


def leg_angles(foot: np.ndarray, leg: int) -> np.ndarray:
    """Inverse kinematics of one leg.

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
