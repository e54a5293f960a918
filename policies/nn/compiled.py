"""Which networks learn in compiled kernels."""

from __future__ import annotations

import torch

MAX_LAYERS = 3
MAX_WIDTH = 128
"""Most hidden layers, and most units in one, of networks whose updates are compiled; torch is as fast on wider ones
(benchmarks/updates.py)."""


def fits(hidden: tuple[int, ...], device: torch.device) -> bool:
    """Whether kernels serve networks with these hidden layers on that device."""
    if device.type != "cpu" or len(hidden) > MAX_LAYERS or max(hidden, default=1) > MAX_WIDTH:
        return False
    import numba  # only here: it takes a second to import

    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
