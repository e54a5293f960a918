"""Which networks learn in compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rookery.policies.nn.build import perceptron_of
from rookery.policies.stages.chain import Link

MAX_LAYERS = 3
MAX_WIDTH = 128
MAX_WIDTH_SAC = 256
"""Most hidden layers, and most units in one, of networks whose updates are compiled: at 256 units PPO gains a fifth, and SAC
almost half of the time (benchmarks/updates.py, updates_vs_sb3.py). Kernels have one thread, torch may have more."""


def serves(links: Sequence[Link], device: torch.device, width: int = MAX_WIDTH) -> bool:
    """True where kernels serve a chain: one perceptron, with hidden layers that fit. All others learn in torch."""
    only = perceptron_of(links)
    return only is not None and fits(only.hidden, device, width)


def fits(hidden: tuple[int, ...], device: torch.device, width: int = MAX_WIDTH) -> bool:
    """True where kernels serve networks with these hidden layers, of at most so many units, on that device."""
    if device.type != "cpu" or len(hidden) > MAX_LAYERS or max(hidden, default=1) > width:
        return False
    import numba  # only here: it takes a second to import

    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
