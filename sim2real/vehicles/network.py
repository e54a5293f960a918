"""A network between a vehicle and its ground station: latency, jitter and loss, as asked."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from rookery.sim.errors import RookeryError

T = TypeVar("T")


@dataclass(frozen=True)
class NetworkConfig:
    """A network's faults.

    Args:
        latency_ms: ms, each way.
        jitter_ms: ms, standard deviation of what is added; packets may overtake each other.
        loss: share of packets that never arrive, each way.
    """

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not (self.latency_ms >= 0.0 and self.jitter_ms >= 0.0 and 0.0 <= self.loss <= 1.0):
            raise RookeryError(
                f"latency and jitter must not be below 0 ms and loss must be from 0 to 1, got {self.latency_ms:g}, "
                f"{self.jitter_ms:g} and {self.loss:g}."
            )


class PacketChannel(Generic[T]):
    """One direction of a network.

    Args:
        config: its faults.
        seed: of them.
    """

    def __init__(self, config: NetworkConfig, seed: int = 0) -> None:
        self._config = config
        self._rng = np.random.default_rng(seed)
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, T]] = []

    def put(self, now: float, packet: T) -> None:
        """A packet sets out."""
        c = self._config
        if c.loss > 0.0 and self._rng.random() < c.loss:
            return
        delay = c.latency_ms + (abs(c.jitter_ms * self._rng.standard_normal()) if c.jitter_ms > 0.0 else 0.0)
        heapq.heappush(self._waiting, (now + delay / 1e3, next(self._order), packet))

    def take(self, now: float) -> Iterator[T]:
        """The packets that have arrived."""
        while self._waiting and self._waiting[0][0] <= now:
            yield heapq.heappop(self._waiting)[2]
