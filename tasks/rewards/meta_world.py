"""The algebra of Meta-World's rewards (metaworld 3.1.1, utils/reward_utils.py): tolerances, and their Hamacher product."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_TENTH = math.log(0.1)
"""Exponent of a bell that has fallen to a tenth at its margin."""
CAGED = 0.97
"""Value of being around the thing above which closing the gripper pays."""


def tolerance(x: Tensor, low: float, high: float, margin: Tensor | float, gaussian: bool = False) -> Tensor:
    """1 within [low, high], a tenth at `margin` beyond it, falling on.

    Args:
        x: [...]. low, high: bounds, in its unit. margin: number or [...]; 0 gives 0 outside.
        gaussian: falls like a bell; otherwise as 1 / (1 + 9 d^2), which still tells far away.
    """
    outside = torch.maximum(low - x, x - high).clamp_min(0.0)
    share = (outside / (margin.clamp_min(1e-6) if isinstance(margin, Tensor) else max(margin, 1e-6))).square()
    return torch.exp(_TENTH * share) if gaussian else 1.0 / (1.0 + 9.0 * share)


def hamacher_product(a: Tensor, b: Tensor) -> Tensor:
    """[...] of values a, b [...] in [0, 1]: the smaller one counts most, and 0 where either is 0 (Hamacher's t-norm)."""
    product = a * b
    return product / (a + b - product).clamp_min(1e-9)


def gripper_caging(
    tool: Tensor, opening: Tensor, thing: Tensor, tool_0: Tensor, thing_0: Tensor, effort: Tensor, *,
    radius: float, pad: float, beside: float, opening_0: float | None = None,
) -> Tensor:  # fmt: skip
    """Measure of how well the fingers, which close along y, are around a thing; the "high density" form.

    Args:
        tool, thing: [N, 3] m, world; tool_0, thing_0: at the beginning of the episode.
        opening: [N] m, between the pads. effort: [N], of the gripper, 1 closes.
        radius: m, a pad nearer than that to the thing's middle is inside it. pad: m, one farther than that does not count as
            beside it. beside: m, how far off in x and z does not matter.
        opening_0: m, of the gripper at the beginning of the episode. With it a pad must be on its own side of the thing, and
            the margin is that of the pad then: pick-place's form. (Meta-World's memory of that pad is a live view, so that
            its margin is of the pad now.)

    Returns:
        [N] in [0, 1].
    """
    pads = []
    for side in (1.0, -1.0):
        place = tool[:, 1] + 0.5 * side * opening
        if opening_0 is None:
            offset, offset_0 = (place - thing[:, 1]).abs(), place - thing_0[:, 1]
        else:
            offset, offset_0 = side * (place - thing[:, 1]), tool_0[:, 1] + 0.5 * side * opening_0 - thing[:, 1]
        pads.append(tolerance(offset, radius, pad, (offset_0.abs() - pad).abs()))
    far = (tool - thing)[:, ::2].norm(dim=1)
    far_0 = (tool_0 - thing_0)[:, ::2].norm(dim=1)
    caged = hamacher_product(hamacher_product(*pads), tolerance(far, 0.0, beside, far_0 - beside))
    grip = torch.where(caged > CAGED, effort.clamp(0.0, 1.0), 0.0)
    return 0.5 * (hamacher_product(caged, grip) + caged)
