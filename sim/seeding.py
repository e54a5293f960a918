"""Random generators from seeds as users give them."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from rookery.sim.engines import check_seed

GPU_STATE_BYTES = 16
"""Size of the state of a generator on a GPU: its seed, and how far it has come (at::CUDAGeneratorImpl::get_state)."""


def torch_generator(seed: Any, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator that begins at a seed; NumPy's whole numbers count.

    Raises:
        RookeryError: not a whole number of at most 64 bits.
    """
    return torch.Generator(device).manual_seed(check_seed(seed))


def is_generator_state(state: Tensor) -> bool:
    """True for what `get_state` gives of a generator on the CPU or on a GPU, whose sizes differ."""
    return state.dtype is torch.uint8 and state.shape in (torch.Generator().get_state().shape, (GPU_STATE_BYTES,))


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """Go on from a generator's state. One of another kind of device, whose numbers cannot be continued, gives a seed."""
    own = generator.get_state()
    state = state.cpu()
    if state.shape == own.shape:
        generator.set_state(state)
        return
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    generator.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
