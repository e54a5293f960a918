"""Noise of simulated sensors."""

from __future__ import annotations

import numpy as np

from rookery.sim2real.links.frames import multiply


def turned(q: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A rotation turned further by a small rotation vector in body axes."""
    out = multiply(q, (1.0, *(0.5 * by)))
    return out / np.linalg.norm(out)
