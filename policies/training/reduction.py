"""Sums over the processes that learn together: what data-parallel training needs, with one process as the plain case.

Each of S processes has worlds (or data) of its own and the same weights. What learning adds up over samples is added up over
the processes too, before it is used:

    counts of samples, that a loss is a mean over             PPO.learn, OffPolicyLearner.weights_of, ActionRegression.learn
    gradients, before the step of the optimizer               nn.adam.Adam.step, off_policy_networks.descend_with
    sums for the statistics of observations and returns       storage.normalizers
    means and deviations of advantages                        storage.rollout.moments
    the divergence that an adaptive learning rate goes by     PPO.learn

So all processes make the same step, the one that a single process with all the samples of the minibatch would make, and their
weights stay alike. With one process nothing is computed and nothing is copied.
"""

from __future__ import annotations

import abc

import torch
from torch import Tensor

__all__ = ["ALONE", "Alone", "Reduction", "draw_apart"]


class Reduction(abc.ABC):
    """The processes that learn together, as one of them sees it. All must call the same methods in the same order.

    Attributes:
        rank: of this process, from 0. The process of rank 0 writes files and decides when training ends.
        size: number S of processes.
    """

    rank: int
    size: int

    @abc.abstractmethod
    def sum(self, x: Tensor) -> Tensor:
        """The sum of all processes' tensors, of one shape and type, in place of `x`; returns `x`."""

    @abc.abstractmethod
    def max(self, x: Tensor) -> Tensor:
        """The largest of all processes' tensors, element by element, in place of `x`; returns `x`."""


class Alone(Reduction):
    """One process."""

    rank = 0
    size = 1

    def sum(self, x: Tensor) -> Tensor:
        return x

    def max(self, x: Tensor) -> Tensor:
        return x


ALONE = Alone()


def draw_apart(generator: torch.Generator, reduction: Reduction) -> None:
    """Seed the generator of a process that is not of rank 0 anew, so that processes explore differently."""
    if reduction.rank:
        generator.manual_seed(generator.initial_seed() + 7919 * reduction.rank)
