"""The two sides of a court as one: what the far side sees is what the near side would see, were the world turned.

Turning by half a circle about z negates x and y of positions, velocities and angular velocities in the world, and multiplies
quaternions (w, x, y, z) by (0, 0, 0, 1) from the left; heading and up follow; w is made non-negative, since q and -q are one
attitude (VolleyBots' `symmetric_obs`). Rotor speeds, distances and body-frame vectors stay. Courts are alike on both sides, and
place i of the far side is place i of the near side turned, so one policy can play on either.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Place = tuple[float, float, float]


def far_places(near: Sequence[Place]) -> tuple[Place, ...]:
    """The places (m, world) of the far side for those of the near side."""
    return tuple((-x, -y, z) for x, y, z in near)


def half_turn(state: Tensor) -> Tensor:
    """States [..., 13] (see Bodies.state) of bodies in the world turned by half a circle about z.

    Angular velocities in the body frame do not change.
    """
    w, x, y, z = state[..., 3:7].unbind(-1)
    out = state.clone()
    out[..., 0:2].neg_()
    out[..., 7:9].neg_()
    out[..., 3:7] = torch.stack((-z, -y, x, w), dim=-1)
    return out
