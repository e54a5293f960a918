"""Noise of simulated sensors."""

from __future__ import annotations

import numpy as np


def turned(q: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A rotation turned further by a small rotation vector in body axes."""
    w, x, y, z = q
    a, b, c = 0.5 * by
    out = np.array(
        [w - x * a - y * b - z * c, x + w * a + y * c - z * b, y + w * b + z * a - x * c, z + w * c + x * b - y * a],
        np.float32,
    )
    return out / np.linalg.norm(out)
