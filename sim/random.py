"""Random streams, one a world, that are the same at any thread count and after a resume.

Each world's numbers come from SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
2014) in counter form: the i-th 64-bit output of a world is ``mix(key + i * GAMMA)``, with the key hashed from the seed
and the world's index. Only a counter a world is state. The arithmetic is that of 64-bit integers modulo 2**64, compiled (see
`random_kernels`, whose functions other kernels use for numbers of their own).

The counter's high 32 bits count the world's episodes (`begin_episode`), its low 32 bits the draws of the episode: an
episode's numbers depend on the seed, the world and the episode's number, whatever was drawn before it. Uses that must not
shift each other (starts, randomization, noise) have streams of different names.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim import random_kernels as kernels
from rookery.sim.arrays import array
from rookery.sim.buffers import Buffers

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def _hash(name: str) -> int:
    """64 bits that follow from a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def place_of(name: str) -> int:
    """Number of the draw within an episode that `Streams.named` keeps for a name."""
    return _hash(name) & ((1 << 32) - 1)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function; of arrays, whose arithmetic wraps."""
    z = (z ^ (z >> np.uint64(30))) * _M1
    z = (z ^ (z >> np.uint64(27))) * _M2
    return z ^ (z >> np.uint64(31))


def numbered(first: int, count: int, starts: int) -> NDArray[np.int64]:
    """[count] the numbers of the worlds from `first` on: their index, modulo `starts` unless that is 0."""
    index = np.arange(first, first + count)
    return index % starts if starts else index


class Streams(Buffers):
    """Random streams of N worlds.

    Calling it with world ids gives a `Draw`: ``streams(ids).uniform(-1.0, 1.0, (3,))`` is [n, 3], one row a world, and
    advances those worlds' streams only.

    Args:
        num_envs: N.
        seed: any integer; different seeds give unrelated streams.
        name: of the use; streams of the same seed and different names are unrelated.
        first: index of the first world. Streams of 3 worlds from 5 on are those of worlds 5, 6 and 7 of a larger set.
        starts: world i has the numbers of world i % starts; 0 for numbers of its own.
    """

    def __init__(self, num_envs: int, seed: int, name: str = "", first: int = 0, starts: int = 0) -> None:
        super().__init__()
        self._name = np.uint64(_hash(name)) if name else None
        self.num_envs = num_envs
        self.first = first
        self.starts = starts
        self.buffer("key", num_envs, dtype=torch.int64)
        self.buffer("counter", num_envs, dtype=torch.int64)
        self.keys = self.key.numpy()
        self.counters = self.counter.numpy()
        self.all = np.arange(num_envs)
        self._places: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self.seed(seed)

    key: Tensor
    counter: Tensor

    def seed(self, seed: int) -> None:
        """Start all streams anew from a seed."""
        base = _mix(np.array([seed % (1 << 64)], dtype=np.uint64))
        if self._name is not None:
            base = _mix(base + self._name)
        world = numbered(self.first, self.num_envs, self.starts)
        number = (world + 1).astype(np.uint64)
        self.keys[:] = _mix(base + number * _GAMMA).view(np.int64)
        self.counters[:] = 0

    def begin_episode(self, ids: Tensor) -> None:
        """Worlds `ids` [n] begin an episode: their counters go to its first draw."""
        kernels.begin_episode(self.counters, array(ids))

    def named(self, ids: Tensor, names: Sequence[str]) -> Tensor:
        """[n, P] float32, uniform in [0, 1): one number for each name in this episode, whatever else is drawn."""
        names = tuple(names)
        if names not in self._places:
            self._places[names] = np.array([place_of(name) for name in names], dtype=np.int64)
        out = torch.empty(len(ids), len(names))
        kernels.named(self.keys, self.counters, array(ids), self._places[names], out.numpy())
        return out

    def __call__(self, ids: Tensor | None = None) -> Draw:
        """Draws for the worlds `ids` (int64 [n], None for all).

        Raises:
            TypeError: `ids` is not int64, such as a mask.
        """
        if ids is None:
            return Draw(self, self.all)
        if ids.dtype is not torch.int64:
            raise TypeError(f"random streams take the indices of worlds as int64, got {ids.dtype}")
        return Draw(self, array(ids))

    def bits(self, ids: Tensor | None, count: int) -> Tensor:
        """[n, count] int64 with 64 random bits each."""
        where = self.all if ids is None else array(ids)
        out = torch.empty(len(where), count, dtype=torch.int64)
        kernels.bits(self.keys, self.counters, where, out.numpy())
        return out


class Draw:
    """Draws from some worlds' streams; every method gives float32 [n, *shape] unless it says otherwise."""

    def __init__(self, streams: Streams, ids: NDArray[np.int64]) -> None:
        self._streams = streams
        self._ids = ids
        self.n = len(ids)

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: tuple[int, ...] = ()) -> Tensor:
        """Uniform in [low, high)."""
        s = self._streams
        out = np.empty((self.n, math.prod(shape)), np.float32)
        kernels.uniform(s.keys, s.counters, self._ids, float(low), float(high), out)
        return torch.from_numpy(out.reshape(self.n, *shape))

    def normal(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Standard normal, by Box and Muller (Annals of Mathematical Statistics 29, 1958)."""
        s = self._streams
        out = np.empty((self.n, math.prod(shape)), np.float32)
        kernels.normal(s.keys, s.counters, self._ids, out)
        return torch.from_numpy(out.reshape(self.n, *shape))

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> Tensor:
        """int64, uniform in [low, high)."""
        s = self._streams
        out = np.empty((self.n, math.prod(shape)), np.int64)
        kernels.integers(s.keys, s.counters, self._ids, low, high, out)
        return torch.from_numpy(out.reshape(self.n, *shape))

    def unit_vectors(self, shape: tuple[int, ...] = ()) -> Tensor:
        """[n, *shape, 3], uniform on the sphere."""
        v = self.normal((*shape, 3))
        kernels.to_unit_length(v.view(-1, 3).numpy())
        return v
