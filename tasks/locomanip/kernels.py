"""Goals of a tool on a walking robot, for all worlds at once, compiled: where the trunk sees them, and how far the tool is from
them. Frames: goals.MovingGoals."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit, prange

from rookery.robots.arms.kernels import times, turned

_loop = njit(cache=True, parallel=True, error_model="numpy")


@_loop
def to_trunk_frame(base, height, goal, goal_quat, pos, quat):  # pragma: no cover
    """Goals in the trunk's frame.

    Args:
        base: [N, 13], see Bodies.state. height: [N] m, of the trunk above the ground.
        goal, goal_quat: [N, 3] m, [N, 4] wxyz, in the stance frame.
        pos, quat: [N, 3] m, [N, 4] wxyz: results.
    """
    for n in prange(base.shape[0]):
        w, x, y, z = base[n, 3], base[n, 4], base[n, 5], base[n, 6]
        half = 0.5 * math.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))
        w, x, y, z = times(w, -x, -y, -z, math.cos(half), 0.0, 0.0, math.sin(half))  # stance frame to trunk
        pos[n, 0], pos[n, 1], pos[n, 2] = turned(w, x, y, z, goal[n, 0], goal[n, 1], goal[n, 2] - height[n])
        quat[n, 0], quat[n, 1], quat[n, 2], quat[n, 3] = times(
            w, x, y, z, goal_quat[n, 0], goal_quat[n, 1], goal_quat[n, 2], goal_quat[n, 3]
        )


@_loop
def pose_errors(goal, goal_quat, pos, quat, off, turn):  # pragma: no cover
    """Differences from poses to goals, all in one frame.

    Args:
        goal, goal_quat, pos, quat: [N, 3] m, [N, 4] wxyz.
        off, turn: [N, 3] m, [N, 3] rad, rotation vectors: results.
    """
    for n in prange(goal.shape[0]):
        w, x, y, z = times(
            goal_quat[n, 0], goal_quat[n, 1], goal_quat[n, 2], goal_quat[n, 3],
            quat[n, 0], -quat[n, 1], -quat[n, 2], -quat[n, 3],
        )  # fmt: skip
        side = 1.0 if w >= 0.0 else -1.0  # the short way round
        sine = math.sqrt(x * x + y * y + z * z)
        gain = side * (2.0 * math.atan2(sine, side * w) / sine if sine > 1e-6 else 2.0)
        turn[n, 0] = gain * x
        turn[n, 1] = gain * y
        turn[n, 2] = gain * z
        for i in range(3):
            off[n, i] = goal[n, i] - pos[n, i]
