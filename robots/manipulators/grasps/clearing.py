"""Hands that neither cut the object nor reach below the table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rookery.robots.manipulators.grasps.pose import Floats, HandShape

CLEARANCE = 0.003
"""m, between each finger and the object before the hand closes, and between the hand and the table."""
SLACK = 0.001
"""m, how deep a point of the object may lie in the open hand: meshes are coarse."""
GRIP_DEPTH = 0.012
"""m, how far before their ends the fingers are to touch."""


def clear(
    hand: HandShape, positions: Floats, axes: Floats, opening: Floats, probes: Floats, table: float, farthest: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Draw hands back along their approach until palm and table are clear.

    Args:
        positions, axes: grasp frames, [N, 3] m and [N, 3, 3].
        opening: [N] m.
        probes: [P, 3] m, points of the object's surface.
        table: m, its height.
        farthest: m, how far they may draw back.

    Returns:
        Positions [N, 3] m, and whether the hand there is clear [N].
    """
    local = np.einsum("npj,njk->npk", probes[None] - positions[:, None], axes)
    x, y, z = np.moveaxis(local, -1, 0)
    over = (x > hand.across[0]) & (x < hand.across[1]) & (y > hand.along[0]) & (y < hand.along[1])
    palm = hand.behind[1] + SLACK - np.where(over, z, np.inf).min(1)
    below = table + CLEARANCE - (positions[:, 2] - hand.lowest(axes, opening))
    down = np.maximum(-axes[:, 2, 2], 1e-3)
    back = np.maximum(palm, below / down + 1e-9).clip(0.0, farthest)
    local[..., 2] += back[:, None]
    moved = positions - back[:, None] * axes[:, :, 2]
    high = moved[:, 2] - hand.lowest(axes, opening) >= table + CLEARANCE - 1e-9
    return moved, high & ~hand.inside(local, opening, SLACK)
