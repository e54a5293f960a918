"""The two sides of a court as one: what the far side sees is what the near side would see, were the world turned.

Turning by half a circle about z negates x and y of positions, velocities and angular velocities in the world, and multiplies
quaternions (w, x, y, z) by (0, 0, 0, 1) from the left; heading and up follow; w is made non-negative, since q and -q are one
attitude (VolleyBots' `symmetric_obs`). Rotor speeds, distances and body-frame vectors stay. Courts are alike on both sides, and
place i of the far side is place i of the near side turned, so one policy can play on either.
"""

from __future__ import annotations

from collections.abc import Sequence

Place = tuple[float, float, float]


def far_places(near: Sequence[Place]) -> tuple[Place, ...]:
    """The places (m, world) of the far side for those of the near side."""
    return tuple((-x, -y, z) for x, y, z in near)
