"""The algebra of Meta-World's rewards (facts 4.2): how far a value is from where it should be, and how conditions join."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_GAUSS = -2.0 * math.log(0.1)  # such that the value is a tenth at the margin


def tolerance(x: Tensor, low: float, high: float, margin: Tensor | float, gaussian: bool = False) -> Tensor:
    """1 within [low, high], a tenth at `margin` beyond it, falling on.

    Args:
        x: any shape. low, high: bounds, in its unit. margin: number or the same shape; 0 gives 0 outside.
        gaussian: falls like a bell; otherwise as 1 / (1 + 9 d^2), which still tells far away.
    """
    outside = torch.maximum(low - x, x - high).clamp_min(0.0)
    share = (outside / torch.as_tensor(margin).clamp_min(1e-6)).square()
    return torch.exp(-0.5 * _GAUSS * share) if gaussian else 1.0 / (1.0 + 9.0 * share)


def both(a: Tensor, b: Tensor) -> Tensor:
    """Hamacher product of values in [0, 1]: the smaller one counts most, and 0 where either is 0."""
    product = a * b
    return product / (a + b - product).clamp_min(1e-9)


def cage(
    tool: Tensor, opening: Tensor, thing: Tensor, tool_0: Tensor, thing_0: Tensor, effort: Tensor, *,
    radius: float, pad: float, beside: float, opening_0: float | None = None,
) -> Tensor:  # fmt: skip
    """How well the fingers, which close along y, are around a thing; the "high density" form.

    Args:
        tool, thing: [N, 3] m, world; tool_0, thing_0: at the beginning of the episode.
        opening: [N] m, between the pads. effort: [N], of the gripper, 1 closes.
        radius: m, a pad nearer than that to the thing's middle is inside it. pad: m, one farther than that does not count as
            beside it. beside: m, how far off in x and z does not matter.
        opening_0: m, of the gripper at the beginning of the episode. With it a pad must be on its own side of the thing, and
            the margin is that of the pad then: pick-place's form. (Meta-World's memory of that pad is a live view, so that
            its margin is of the pad now; facts 4.)

    Returns:
        [N] in [0, 1].
    """
    signs = torch.tensor([1.0, -1.0])
    sides = tool[:, 1:2] + 0.5 * opening[:, None] * signs
    if opening_0 is None:
        margin = ((sides - thing_0[:, 1:2]).abs() - pad).abs()
        near = tolerance((sides - thing[:, 1:2]).abs(), radius, pad, margin)
    else:
        margin = ((tool_0[:, 1:2] + 0.5 * opening_0 * signs - thing[:, 1:2]).abs() - pad).abs()
        near = tolerance((sides - thing[:, 1:2]) * signs, radius, pad, margin)
    across = both(near[:, 0], near[:, 1])
    off, off_0 = (tool - thing)[:, ::2].norm(dim=1), (tool_0 - thing_0)[:, ::2].norm(dim=1)
    caged = both(across, tolerance(off, 0.0, beside, off_0 - beside))
    grip = torch.where(caged > 0.97, effort.clamp(0.0, 1.0), 0.0)
    return 0.5 * (both(caged, grip) + caged)
