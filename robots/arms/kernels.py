"""Place of an arm's tool, for all worlds at once, compiled: all that a step of a task with an arm asks for, which in torch is a
chain of a hundred small operations."""

from __future__ import annotations

import math

from numba import njit, prange


@njit(cache=True, inline="always")
def times(aw, ax, ay, az, bw, bx, by, bz):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Hamilton product of quaternions a and b, (w, x, y, z)."""
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


@njit(cache=True, inline="always")
def turned(w, x, y, z, a, b, c):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Vector (a, b, c) turned by the unit quaternion (w, x, y, z)."""
    u, v, s = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return a + w * u + y * s - z * v, b + w * v + z * u - x * s, c + w * s + x * v - y * u


@njit(cache=True, parallel=True, error_model="numpy")
def tool(q, turns, offsets, axes, pos, quat):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Pose of the tool in the frame of the arm's base.

    Args:
        q: [N, J] rad.
        turns, offsets: [J + 1, 4] wxyz, [J + 1, 3] m, fixed: before each joint, and after the last one.
        axes: [J, 3] of the joints.
        pos, quat: [N, 3] m, [N, 4] wxyz with w >= 0: results.
    """
    joints = axes.shape[0]
    for n in prange(q.shape[0]):
        px, py, pz = 0.0, 0.0, 0.0
        w, x, y, z = 1.0, 0.0, 0.0, 0.0
        for j in range(joints + 1):
            dx, dy, dz = turned(w, x, y, z, offsets[j, 0], offsets[j, 1], offsets[j, 2])
            px, py, pz = px + dx, py + dy, pz + dz
            w, x, y, z = times(w, x, y, z, turns[j, 0], turns[j, 1], turns[j, 2], turns[j, 3])
            if j < joints:
                half = 0.5 * q[n, j]
                c, s = math.cos(half), math.sin(half)
                w, x, y, z = times(w, x, y, z, c, s * axes[j, 0], s * axes[j, 1], s * axes[j, 2])
        short = (1.0 if w >= 0.0 else -1.0) / math.sqrt(w * w + x * x + y * y + z * z)
        pos[n, 0] = px
        pos[n, 1] = py
        pos[n, 2] = pz
        quat[n, 0] = short * w
        quat[n, 1] = short * x
        quat[n, 2] = short * y
        quat[n, 3] = short * z
