"""The geometry of trajectories, in NumPy: quaternions w, x, y, z, minimum jerk, and where base commands lead."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_NEXT = [1, 2, 0]
_LAST = [2, 0, 1]


def multiply(a: ArrayLike, b: ArrayLike) -> Floats:
    """Hamilton product [..., 4]: rotate by b, then by a."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    aw, ax, ay, az = a[..., 0], a[..., 1], a[..., 2], a[..., 3]
    bw, bx, by, bz = b[..., 0], b[..., 1], b[..., 2], b[..., 3]
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    out[..., 0] = aw * bw - ax * bx - ay * by - az * bz
    out[..., 1] = aw * bx + ax * bw + ay * bz - az * by
    out[..., 2] = aw * by - ax * bz + ay * bw + az * bx
    out[..., 3] = aw * bz + ax * by - ay * bx + az * bw
    return out


def conjugate(q: ArrayLike) -> Floats:
    """The inverse rotation [..., 4] of unit quaternions."""
    return np.asarray(q, float) * np.array([1.0, -1.0, -1.0, -1.0])


def rotate(q: ArrayLike, v: ArrayLike) -> Floats:
    """Vectors v [..., 3] turned by unit quaternions q [..., 4]."""
    q, v = np.asarray(q, float), np.asarray(v, float)
    twice = 2.0 * _cross(q[..., 1:], v)
    return np.asarray(v + q[..., :1] * twice + _cross(q[..., 1:], twice))


def _cross(a: Floats, b: Floats) -> Floats:
    # numpy.cross spends its time on checks
    return np.asarray(a[..., _NEXT] * b[..., _LAST] - a[..., _LAST] * b[..., _NEXT])


def from_rotation_vector(r: ArrayLike) -> Floats:
    """Quaternions [..., 4] of rotation vectors [..., 3] (axis times angle, rad)."""
    r = np.asarray(r, float)
    half = 0.5 * np.linalg.norm(r, axis=-1, keepdims=True)
    # np.sinc(x) is sin(pi x) / (pi x), and 1 at 0
    return np.concatenate((np.cos(half), 0.5 * np.sinc(half / np.pi) * r), axis=-1)


def from_euler(roll: float, pitch: float, yaw: float) -> Floats:
    """[4]: turn by roll about x, then pitch about y, then yaw about z, all axes fixed, rad."""
    about_x, about_y, about_z = from_rotation_vector(np.diag([roll, pitch, yaw]))
    return multiply(about_z, multiply(about_y, about_x))


def angle_between(a: ArrayLike, b: ArrayLike) -> Floats:
    """Angle [...] in rad, 0 to pi, of the rotation from unit quaternions a to b [..., 4]."""
    turn = multiply(conjugate(a), b)
    return np.asarray(2.0 * np.arctan2(np.linalg.norm(turn[..., 1:], axis=-1), np.abs(turn[..., 0])))


def slerp(a: ArrayLike, b: ArrayLike, s: ArrayLike) -> Floats:
    """Unit quaternions [..., 4] at the shares s [...] of the shorter way from a to b [..., 4], at constant rate."""
    a, s = np.asarray(a, float), np.asarray(s, float)
    turn = multiply(conjugate(a), b)
    turn = np.where(turn[..., :1] < 0.0, -turn, turn)
    sine = np.linalg.norm(turn[..., 1:], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine[..., 0], turn[..., 0])
    axis = turn[..., 1:] / np.maximum(sine, 1e-300)
    out = multiply(a, from_rotation_vector(axis * (s * angle)[..., None]))
    return np.asarray(out / np.linalg.norm(out, axis=-1, keepdims=True))


def minimum_jerk(s: ArrayLike) -> Floats:
    """Share of the way [...] at the share s [...] of the time, 0 to 1: at rest, and without acceleration, at both ends.

    10 s^3 - 15 s^4 + 6 s^5 minimizes the integral of the squared jerk (Flash and Hogan, J. Neuroscience 5, 1985). Its
    greatest speed is 1.875 times the mean.
    """
    s = np.asarray(s, float)
    return np.asarray(s**3 * (10.0 + s * (6.0 * s - 15.0)))


def base_path(t: ArrayLike, command: ArrayLike) -> Floats:
    """Path of a base that follows its commands exactly.

    Args:
        t: times [T], s.
        command: vx m/s, vy m/s (body frame), yaw rate rad/s [T, 3]; row i holds from t[i] to t[i + 1], the last row
            holds for no time.

    Returns:
        x m, y m, heading rad [T, 3] in the frame of the start, where it is 0, 0, 0. Exact: pieces are circular arcs.
    """
    step = np.diff(np.asarray(t, float))[:, None] * np.asarray(command, float)[:-1]
    heading = np.concatenate(([0.0], np.cumsum(step[:, 2])))
    middle = heading[:-1] + 0.5 * step[:, 2]
    chord = step[:, :2] * np.sinc(0.5 * step[:, 2:] / np.pi)
    cos = np.cos(middle)
    sin = np.sin(middle)
    moves = np.stack((cos * chord[:, 0] - sin * chord[:, 1], sin * chord[:, 0] + cos * chord[:, 1]), axis=-1)
    place = np.concatenate((np.zeros((1, 2)), np.cumsum(moves, axis=0)))
    return np.concatenate((place, heading[:, None]), axis=1)
