"""Sums and messages over the processes that learn together: what they need of each other, with one process as the plain case.

Data-parallel algorithms have worlds (or data) and the same weights in each of S processes. What learning adds up over samples
is added up over the processes too, before it is used:

    counts of samples, that a loss is a mean over             PPO.learn
    gradients, before the step of the optimizer               nn.adam.Adam.step
    sums for the statistics of observations and returns       storage.normalizers
    means and deviations of advantages                        storage.rollout.moments
    the divergence that an adaptive learning rate goes by     PPO.learn

So all processes make the same step, the one that a single process with all the samples of the minibatch would make, and their
weights stay alike. PPO draws its noise and its shuffles as that single process would, and each process takes what belongs to
its worlds (`draw_own`, `own_part`): S processes of n worlds learn what one of S n worlds learns, but for the rounding of sums.
With one process nothing is computed and nothing is copied.

Off-policy algorithms have one process that learns from what all of them do: see algorithms/off_policy_exchange.py.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["ALONE", "Alone", "Reduction", "draw_own", "own_part"]


class Reduction(abc.ABC):
    """The processes that learn together, as one of them sees it. All must call the same methods in the same order.

    Attributes:
        rank: of this process, from 0. The process of rank 0 writes files and decides when training ends.
        size: number S of processes.
        sent, received: bytes of sums and messages that have left this process and come to it so far; `gather` does not count.
    """

    rank: int
    size: int
    sent: float = 0.0
    received: float = 0.0

    def traffic(self) -> dict[str, float]:
        """`sent` and `received` as figures for the log; empty for one process."""
        return {} if self.size == 1 else {"sent_bytes": self.sent, "received_bytes": self.received}

    @abc.abstractmethod
    def sum(self, x: Tensor) -> Tensor:
        """The sum of all processes' tensors, of one shape and type, in place of `x`; returns `x`."""

    @abc.abstractmethod
    def max(self, x: Tensor) -> Tensor:
        """The largest of all processes' tensors, element by element, in place of `x`; returns `x`."""

    @abc.abstractmethod
    def gather(self, value: Any) -> list[Any] | None:
        """All processes' values, by rank, for the process of rank 0; None for the others."""

    @abc.abstractmethod
    def broadcast(self, x: Tensor) -> Tensor:
        """The tensor of the process of rank 0, of one shape and type in all, in place of `x`; returns `x`."""

    @abc.abstractmethod
    def collect(self, message: bytes) -> list[bytes] | None:
        """All processes' messages, of any lengths, by rank, for the process of rank 0; None for the others."""


class Alone(Reduction):
    """One process."""

    rank = 0
    size = 1

    def sum(self, x: Tensor) -> Tensor:
        return x

    def max(self, x: Tensor) -> Tensor:
        return x

    def gather(self, value: Any) -> list[Any] | None:
        return [value]

    def broadcast(self, x: Tensor) -> Tensor:
        return x

    def collect(self, message: bytes) -> list[bytes] | None:
        return [message]


ALONE = Alone()


def draw_own(out: Tensor, axis: int, fill: Callable[[Tensor], object], index: int, count: int) -> None:
    """Fill `out` with this process's part of what a single process with all worlds would draw.

    Args:
        out: values of the process's own worlds.
        axis: of the worlds.
        fill: draws values into a tensor, from a generator that all processes have in the same state.
        index, count: of this process among those that divide the worlds, and their number.
    """
    if count == 1:
        fill(out)
        return
    worlds = out.shape[axis]
    shape = list(out.shape)
    shape[axis] = worlds * count
    whole = out.new_empty(shape)
    fill(whole)
    out.copy_(whole.narrow(axis, index * worlds, worlds))


def own_part(
    order: Tensor, bounds: Sequence[int], worlds: int, each: int, reduction: Reduction
) -> tuple[Tensor, list[int]]:
    """This process's samples of the minibatches that a single process with all worlds would make.

    Args:
        order: [U] a shuffle of all samples, sample u = (t S n + w) k + i of step t, world w and place i of k.
        bounds: where minibatches begin and end in that shuffle.
        worlds: n, of each process.
        each: k, samples of one world and step.
        reduction: the S processes.

    Returns:
        the own samples in that order, with the numbers that they have in this process, and the bounds of the minibatches there.
    """
    everywhere = worlds * reduction.size
    first = worlds * reduction.rank
    world = order // each % everywhere
    mine = (world >= first) & (world < first + worlds)
    step = order // (each * everywhere)
    own = order - (step * (everywhere - worlds) + first) * each
    sums = torch.cat((mine.new_zeros(1, dtype=torch.int64), mine.cumsum(0)))
    return own[mine], sums[list(bounds)].tolist()
