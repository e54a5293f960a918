"""TensorDicts of rows, for rsl_rl and TorchRL."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

CPU = torch.device("cpu")


def tensor_dict(entries: dict[str, Tensor], size: torch.Size) -> TensorDict:
    """Tensors [*size, ...] on the CPU as a TensorDict, which keeps `entries`.

    By the constructor that tensordict and TorchRL use themselves, which checks nothing: between two steps, with the caches
    full of physics, it takes 25 us, and the public one 90, of the 700 us of a step of 1,024 worlds of drone-hover.
    """
    return TensorDict._new_unsafe(entries, batch_size=size, device=CPU)
