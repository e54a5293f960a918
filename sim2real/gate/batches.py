"""Points of the gate in batches that are played at once, by other processes or machines.

A batch has an environment of its own with as many worlds as one that plays all batches in turns, so that nothing is computed in
other shapes: the outcomes are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rookery.sim.errors import RookeryError
from rookery.sim2real.gate.trials import Open, Outcome, Point, Trials

A = TypeVar("A")
B = TypeVar("B")


class Mapper(Protocol):
    """Calls a function with each of some orders, and gives the results in their order: like `map`, which calls it when a result
    is asked for, or the `map` of `concurrent.futures` or a cluster, which begins with all at once."""

    def __call__(self, work: Callable[[A], B], orders: Sequence[A], /) -> Iterator[B]: ...


@dataclass(frozen=True)
class BatchOrder:
    """Points that are played together.

    Args:
        open_env: makes the environment; another process gets it.
        points: one or more.
        capacity: points that the environment has worlds for.
        episodes: at each point.
        seed: of the episodes.
        options: of `open_env`.
    """

    open_env: Open
    points: tuple[Point, ...]
    capacity: int
    episodes: int
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def trials(self) -> Trials:
        """The environment, and what acts in it."""
        env, act = self.open_env(self.capacity * self.episodes, starts=self.episodes, **self.options)
        return Trials(env, act, self.episodes, self.seed)


def play(order: BatchOrder) -> list[Outcome]:
    """The outcome of each point of a batch."""
    trials = order.trials()
    try:
        return trials.run(order.points)
    finally:
        trials.close()


def try_to_play(order: BatchOrder) -> list[Outcome] | str:
    """`play`, or why there is no such environment here."""
    try:
        trials = order.trials()
    except RookeryError as error:
        return str(error)
    try:
        return trials.run(order.points)
    finally:
        trials.close()


class BatchTrials:
    """Runs a policy at points, in batches that other processes play.

    Args:
        order: of every batch, but for its points.
        mapper: plays the batches.
    """

    def __init__(self, order: BatchOrder, mapper: Mapper) -> None:
        self._order = order
        self._mapper = mapper
        self.seed = order.seed
        self.episodes_run = 0

    def run(self, points: Sequence[Point], seed: int | None = None) -> list[Outcome]:
        """The outcome of each point; `seed` is that of other episodes than usual."""
        order, most = self._order, self._order.capacity
        seed = self.seed if seed is None else seed
        batches = [tuple(points[first : first + most]) for first in range(0, len(points), most)]
        orders = [BatchOrder(order.open_env, b, most, order.episodes, seed, order.options) for b in batches]
        self.episodes_run += len(points) * order.episodes
        return [outcome for played in self._mapper(play, orders) for outcome in played]

    def close(self) -> None:
        """Nothing: every batch closes its environment."""
