"""Which units dropout keeps: a function of a seed and of the unit's place, in 32-bit integers.

A pass draws one number, its seed, from a generator; torch and the compiled kernels (compiled_critic.py) then find the same
units, and the latter make no call for random numbers. With m a function that mixes bits, all modulo 2^32, unit o of row r
in layer k (rows counted through all networks of an ensemble) is kept where

    m(m(m(seed + k) + r) + o GOLDEN) >= share * 2^32
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["GOLDEN", "MULTIPLIER", "draw_seed", "kept_units", "threshold"]

SPAN = 1 << 32
MULTIPLIER = 0x045D9F3B
"""Of the bit mixer: x ^= x >> 16, x *= MULTIPLIER, twice, and x ^= x >> 16 (Mueller, in C. Wellons, Hash Prospector,
github.com/skeeto/hash-prospector). Below 2^31, so that products of 32-bit numbers fit in int64."""
GOLDEN = 0x9E3779B1
"""2^32 over the golden ratio: neighbours of a row start far from each other (Knuth, The Art of Computer Programming, 6.4)."""


def threshold(share: float) -> int:
    """The least mixed number of a unit that is kept."""
    return int(share * SPAN)


def draw_seed(generator: torch.Generator, device: torch.device | str = "cpu") -> Tensor:
    """A seed, [1] int64 from 0 to below 2^32."""
    return torch.randint(SPAN, (1,), generator=generator, device=device)


def kept_units(shape: torch.Size, share: float, seed: Tensor, layer: int) -> Tensor:
    """Which units of a layer [G, R, out] are kept, where `share` of them is dropped."""
    networks, rows, width = shape
    row = torch.arange(networks * rows, device=seed.device)
    unit = torch.arange(width, device=seed.device)
    key = _mix(_mix(seed + layer) + row)
    return (_mix(key[:, None] + unit * GOLDEN) >= threshold(share)).view(shape)


def _mix(x: Tensor) -> Tensor:
    """Bits mixed out of the lowest 32 bits of integers from 0."""
    x = x & (SPAN - 1)
    for _ in range(2):
        x = ((x ^ (x >> 16)) * MULTIPLIER) & (SPAN - 1)
    return x ^ (x >> 16)
