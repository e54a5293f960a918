"""The algebra of Meta-World's rewards (metaworld 3.1.1, utils/reward_utils.py): tolerances, and their Hamacher product.

Compiled, as in torch each is a chain of small operations; tasks put them together in torch.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.random_kernels import inlined, kernel

_HALF_GAUSS = math.log(0.1)  # such that the value is a tenth at the margin


# In one world, for other kernels to call


@inlined
def near(x, low, high, margin, gaussian):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """`tolerance` of one number."""
    share = max(low - x, x - high, 0.0) / max(margin, 1e-6)
    return math.exp(_HALF_GAUSS * share * share) if gaussian else 1.0 / (1.0 + 9.0 * share * share)


@inlined
def apart(a, b, n):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """`distance` in world n, float32. Squares are added unrounded, as torch.linalg.vector_norm does where processors can."""
    x, y, z = a[n, 0] - b[n, 0], a[n, 1] - b[n, 1], a[n, 2] - b[n, 2]
    square = np.float32(np.float64(y) * np.float64(y) + np.float64(x * x))
    return math.sqrt(np.float32(np.float64(z) * np.float64(z) + np.float64(square)))


@inlined
def join(a, b):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """`both` of two numbers."""
    return a * b / max(a + b - a * b, 1e-9)


@inlined
def cage_of(  # type: ignore[no-untyped-def]
    tool, opening, thing, tool_0, thing_0, effort, n, radius, pad, beside, opening_0
):  # pragma: no cover - compiled
    """`cage` in world n; opening_0 below 0 stands for None."""
    across = 1.0
    for side in (1.0, -1.0):
        offset = tool[n, 1] + 0.5 * side * opening[n] - thing[n, 1]
        if opening_0 < 0.0:
            off_0 = tool[n, 1] + 0.5 * side * opening[n] - thing_0[n, 1]
            offset = abs(offset)
        else:
            off_0 = tool_0[n, 1] + 0.5 * side * opening_0 - thing[n, 1]
            offset *= side
        inside = near(offset, radius, pad, abs(abs(off_0) - pad), False)
        across = inside if side > 0.0 else join(across, inside)
    far = math.hypot(tool[n, 0] - thing[n, 0], tool[n, 2] - thing[n, 2])
    far_0 = math.hypot(tool_0[n, 0] - thing_0[n, 0], tool_0[n, 2] - thing_0[n, 2])
    caged = join(across, near(far, 0.0, beside, far_0 - beside, False))
    grip = min(max(effort[n], 0.0), 1.0) if caged > 0.97 else 0.0
    return 0.5 * (join(caged, grip) + caged)


# In all worlds


@kernel
def _tolerance(x, low, high, margin, gaussian, out):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for n in range(len(x)):
        out[n] = near(x[n], low, high, margin[n if len(margin) > 1 else 0], gaussian)


@kernel
def _distance(a, b, out):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for n in range(len(out)):
        out[n] = apart(a, b, n)


@kernel
def _nearness(place, target, place_0, full, error, out):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for n in range(len(out)):
        error[n] = apart(place, target, n)
        out[n] = near(error[n], 0.0, full, apart(place_0, target, n), False)


@kernel
def _both(a, b, out):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for n in range(len(a)):
        out[n] = join(a[n], b[n])


@kernel
def _cage(  # type: ignore[no-untyped-def]
    tool, opening, thing, tool_0, thing_0, effort, radius, pad, beside, opening_0, out
):  # pragma: no cover - compiled
    for n in range(len(out)):
        out[n] = cage_of(tool, opening, thing, tool_0, thing_0, effort, n, radius, pad, beside, opening_0)


def tolerance(x: Tensor, low: float, high: float, margin: Tensor | float, gaussian: bool = False) -> Tensor:
    """1 within [low, high], a tenth at `margin` beyond it, falling on.

    Args:
        x: any shape. low, high: bounds, in its unit. margin: number or the same shape; 0 gives 0 outside.
        gaussian: falls like a bell; otherwise as 1 / (1 + 9 d^2), which still tells far away.
    """
    out = np.empty(x.numel(), np.float32)
    edge: NDArray[np.float32] = (
        margin.flatten().numpy() if isinstance(margin, Tensor) else np.array([margin], np.float32)
    )
    _tolerance(x.flatten().numpy(), low, high, edge, gaussian, out)
    return torch.from_numpy(out).view(x.shape)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """[N] m, between places [N, 3] m."""
    out = np.empty(len(a), np.float32)
    _distance(a.numpy(), b.numpy(), out)
    return torch.from_numpy(out)


def nearness(place: Tensor, target: Tensor, place_0: Tensor, full: float) -> tuple[Tensor, Tensor]:
    """Distance [N] m of places [N, 3] m from targets, and its `tolerance`: 1 within `full` m, a tenth when it is that much
    beyond where it was at the beginning, at `place_0`."""
    error, out = np.empty((2, len(place)), np.float32)
    _nearness(place.numpy(), target.numpy(), place_0.numpy(), full, error, out)
    return torch.from_numpy(error), torch.from_numpy(out)


def both(a: Tensor, b: Tensor) -> Tensor:
    """Hamacher product of values [N] in [0, 1]: the smaller one counts most, and 0 where either is 0."""
    out = np.empty(len(a), np.float32)
    _both(a.numpy(), b.numpy(), out)
    return torch.from_numpy(out)


def cage(
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
    out = np.empty(len(tool), np.float32)
    now = tool.numpy(), opening.numpy(), thing.numpy()
    then = tool_0.numpy(), thing_0.numpy(), effort.numpy()
    _cage(*now, *then, radius, pad, beside, -1.0 if opening_0 is None else opening_0, out)
    return torch.from_numpy(out)
