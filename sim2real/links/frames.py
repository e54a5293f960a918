"""Between the axes of this package (world x east, y north, z up; body x forward, y left, z up) and those of aviation (world
north, east, down; body forward, right, down)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rookery.sim2real.runtime.reading import Array

_HALF = float(np.sqrt(0.5))


def to_ned(v: ArrayLike) -> tuple[float, float, float]:
    """A world vector in north, east, down; its own inverse."""
    x, y, z = np.asarray(v, float).tolist()
    return y, x, -z


from_ned = to_ned


def to_frd(v: ArrayLike) -> tuple[float, float, float]:
    """A body vector in forward, right, down; its own inverse."""
    x, y, z = np.asarray(v, float).tolist()
    return x, -y, -z


from_frd = to_frd


def multiply(a: Any, b: Any) -> Array:
    """The rotation (w, x, y, z) by `b` and then by `a`."""
    w, x, y, z = a
    s, i, j, k = b
    return np.array(
        [
            w * s - x * i - y * j - z * k,
            w * i + x * s + y * k - z * j,
            w * j - x * k + y * s + z * i,
            w * k + x * j - y * i + z * s,
        ],
        np.float32,
    )


_ENU_TO_NED = (0.0, _HALF, _HALF, 0.0)  # half a turn about x + y
_FLU_TO_FRD = (0.0, 1.0, 0.0, 0.0)  # half a turn about x


def rotation_to_ned(q: ArrayLike) -> Array:
    """The rotation from body forward, right, down to north, east, down, for one (w, x, y, z) of this package; its own
    inverse."""
    out = multiply(multiply(_ENU_TO_NED, q), _FLU_TO_FRD)
    return out if out[0] >= 0.0 else -out


rotation_from_ned = rotation_to_ned


def matrix(q: ArrayLike) -> NDArray[np.float64]:
    """[3, 3], the rotation (w, x, y, z) as a matrix."""
    w, x, y, z = np.asarray(q, float).tolist()
    return np.array([
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ])  # fmt: skip


def euler(q: ArrayLike) -> tuple[float, float, float]:
    """rad, roll, pitch and yaw: turns about x, y and z of a rotation (w, x, y, z) about z, then y, then x."""
    w, x, y, z = np.asarray(q, float).tolist()
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )


def rotation_of_euler(roll: float, pitch: float, yaw: float) -> Array:
    """The rotation (w, x, y, z) about z by `yaw`, then y, then x, rad; the inverse of `euler`."""
    (cr, sr), (cp, sp), (cy, sy) = ((math.cos(a / 2), math.sin(a / 2)) for a in (roll, pitch, yaw))
    return np.array(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ],
        np.float32,
    )


def yaw_to_ned(yaw: float) -> float:
    """A heading from east against the clock as one from north with the clock, in [-pi, pi]; its own inverse."""
    return float((np.pi / 2 - yaw + np.pi) % (2 * np.pi) - np.pi)


yaw_from_ned = yaw_to_ned
