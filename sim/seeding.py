"""Random generators from seeds as users give them."""

from __future__ import annotations

from typing import Any

import torch

from rookery.sim.engines import check_seed


def torch_generator(seed: Any, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator that begins at a seed; NumPy's whole numbers count.

    Raises:
        RookeryError: not a whole number of at most 64 bits.
    """
    return torch.Generator(device).manual_seed(check_seed(seed))
