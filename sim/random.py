"""Random streams, one a world, that are the same at any thread count and after a resume.

Each world's numbers come from SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
2014) in counter form: the i-th 64-bit output of a world is ``mix(key + i * GAMMA)``, with the key hashed from the seed
and the world's index. Only a counter a world is state. All arithmetic is on int64 tensors, whose overflow wraps, so the
numbers are the same on every device.

The counter's high 32 bits count the world's episodes (`begin_episode`), its low 32 bits the draws of the episode: an
episode's numbers depend on the seed, the world and the episode's number, whatever was drawn before it. Uses that must not
shift each other (starts, randomization, noise) have streams of different names.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers


def _signed(x: int) -> int:
    return x - (1 << 64) if x >= 1 << 63 else x


_LAST_DRAW = (1 << 32) - 1
"""Largest number of a draw within an episode, in the low 32 bits of a counter."""
_GAMMA = _signed(0x9E3779B97F4A7C15)
_M1 = _signed(0xBF58476D1CE4E5B9)
_M2 = _signed(0x94D049BB133111EB)


def _hash(name: str) -> int:
    """64 bits that follow from a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _xorshift(z: Tensor, s: int) -> Tensor:
    # torch shifts int64 arithmetically: the mask makes it the logical shift that the algorithm means
    return z.bitwise_xor_((z >> s).bitwise_and_((1 << (64 - s)) - 1))


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's output function, in place."""
    _xorshift(z, 30).mul_(_M1)
    _xorshift(z, 27).mul_(_M2)
    return _xorshift(z, 31)


class Streams(Buffers):
    """Random streams of N worlds.

    Calling it with world ids gives a `Draw`: ``streams(ids).uniform(-1.0, 1.0, (3,))`` is [n, 3], one row a world, and
    advances those worlds' streams only.

    Args:
        num_envs: N.
        seed: any integer; different seeds give unrelated streams.
        device: where the numbers are made.
        name: of the use; streams of the same seed and different names are unrelated.
    """

    def __init__(self, num_envs: int, seed: int, device: torch.device | str = "cpu", name: str = "") -> None:
        super().__init__()
        self._name = _signed(_hash(name)) if name else 0
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.buffer("key", num_envs, dtype=torch.int64, device=str(device))
        self.buffer("counter", num_envs, dtype=torch.int64, device=str(device))
        self._steps: dict[int, Tensor] = {}
        self.seed(seed)

    key: Tensor
    counter: Tensor

    def seed(self, seed: int) -> None:
        """Start all streams anew from a seed."""
        world = torch.arange(self.num_envs, dtype=torch.int64, device=self.device)
        base = _mix(torch.tensor([_signed(seed % (1 << 64))], dtype=torch.int64, device=self.device))
        if self._name:
            base = _mix(base + self._name)
        self.key.copy_(_mix(base + (world + 1) * _GAMMA))
        self.counter.zero_()

    def begin_episode(self, ids: Tensor) -> None:
        """Worlds `ids` [n] begin an episode: their counters go to its first draw."""
        counter = self.counter[ids]
        self.counter[ids] = counter.bitwise_or_(_LAST_DRAW).add_(1)

    def named(self, ids: Tensor, names: Sequence[str]) -> Tensor:
        """[n, P] float32, uniform in [0, 1): one number for each name in this episode, whatever else is drawn."""
        places = torch.tensor([_hash(name) & _LAST_DRAW for name in names], dtype=torch.int64, device=self.device)
        episode = self.counter[ids].bitwise_and_(~_LAST_DRAW)
        return _unit(_mix(self.key[ids, None] + (episode[:, None] + places) * _GAMMA))

    def __call__(self, ids: Tensor | None = None) -> Draw:
        """Draws for the worlds `ids` (int64 [n], None for all)."""
        return Draw(self, ids)

    def bits(self, ids: Tensor | None, count: int) -> Tensor:
        """[n, count] int64 with 64 random bits each."""
        steps = self._steps.get(count)
        if steps is None:
            steps = torch.arange(1, count + 1, dtype=torch.int64, device=self.device) * _GAMMA
            self._steps[count] = steps
        if ids is None:
            start = self.key + self.counter * _GAMMA
            self.counter += count
        else:
            counter = self.counter[ids]
            start = self.key[ids] + counter * _GAMMA
            self.counter[ids] = counter + count
        return _mix(start[:, None] + steps)


class Draw:
    """Draws from some worlds' streams; every method gives float32 [n, *shape] unless it says otherwise."""

    def __init__(self, streams: Streams, ids: Tensor | None) -> None:
        self._streams = streams
        self._ids = ids
        self.n = streams.num_envs if ids is None else len(ids)

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: tuple[int, ...] = ()) -> Tensor:
        """Uniform in [low, high)."""
        count = math.prod(shape)
        u = _unit(self._streams.bits(self._ids, count))
        return u.mul_(high - low).add_(low).view(self.n, *shape)

    def normal(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Standard normal, by Box and Muller (Annals of Mathematical Statistics 29, 1958)."""
        count = math.prod(shape)
        pairs = (count + 1) // 2
        bits = self._streams.bits(self._ids, pairs)
        # one word gives both uniforms of a pair: 32 bits each, the first kept away from 0 for the logarithm
        hi = (bits >> 32).bitwise_and_(0xFFFFFFFF).to(torch.float32).add_(1.0).mul_(2.0**-32)
        lo = bits.bitwise_and_(0xFFFFFFFF).to(torch.float32).mul_(2.0**-32 * 2.0 * math.pi)
        radius = hi.clamp_(max=1.0).log_().mul_(-2.0).sqrt_()
        out = torch.cat((radius * lo.cos(), radius.mul_(lo.sin_())), dim=1)
        return out[:, :count].reshape(self.n, *shape)

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> Tensor:
        """int64, uniform in [low, high)."""
        count = math.prod(shape)
        bits = self._streams.bits(self._ids, count)
        return ((bits >> 1).bitwise_and_((1 << 62) - 1) % (high - low) + low).view(self.n, *shape)

    def unit_vectors(self, shape: tuple[int, ...] = ()) -> Tensor:
        """[n, *shape, 3], uniform on the sphere."""
        v = self.normal((*shape, 3))
        return v / v.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def _unit(bits: Tensor) -> Tensor:
    """float32 in [0, 1) from the top 24 bits, which float32 holds exactly."""
    return (bits >> 40).bitwise_and_((1 << 24) - 1).to(torch.float32).mul_(2.0**-24)
