"""Priorities of the transitions in a replay memory (Schaul et al. 2016, arXiv 1511.05952, the proportional variant).

A transition is drawn with the probability ``p / sum of all p``, where p is its temporal-difference error to the power alpha. A
tree of sums finds it: the leaves are the p, and every node above is the sum of the FAN nodes below it.

    root     [10]
    nodes    [3, 7]            # were FAN 2: 0.35 of the way through the 10 is 3.5, in the second node, 0.5 into it
    leaves   [1, 2, 3, 4]      # and there in the third leaf

Everything is in float64, on the device of the memory, and nothing waits for the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Priorities"]

FAN = 32
"""Nodes below each node: a million leaves have four levels, and the sums take 1/31 of the memory of the leaves."""

FLOOR = 1e-6
"""Added to every error, so that no transition is lost for good."""


class Priorities:
    """Priorities by which a replay memory draws, of K places that hold a transition or none.

    Memory: 8.3 bytes a place.

    Args:
        places: K.
        alpha: power of the errors, above 0 and at most 1: 1 draws in proportion to them, towards 0 they count less.
        device: where everything lives.

    Attributes:
        leaves: [K] p of every place, 0 where nothing can be drawn; a view.
        largest: p of the largest error so far, which new transitions get; 1 before the first.
        count: number of places where something can be drawn.
    """

    def __init__(self, places: int, alpha: float, device: torch.device | str) -> None:
        self.alpha = alpha
        self.largest = torch.ones((), dtype=torch.float64, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self._levels: list[Tensor] = []  # from the root's children down to the leaves
        size = places
        while not self._levels or size > 1:
            size = -(-size // FAN)
            self._levels.insert(0, torch.zeros(size * FAN, dtype=torch.float64, device=device))
        self.leaves = self._levels[-1][:places]

    def begin(self, first: int, active: Tensor) -> None:
        """Give new transitions the largest p so far.

        Args:
            first: place of the first of them; the others follow.
            active: [M] bool, which of them can be drawn; the others get 0.
        """
        self._replace(first, torch.where(active, self.largest, 0.0))

    def clear(self, first: int, count: int) -> None:
        """Let the `count` places from `first` on hold nothing."""
        self._replace(first, self.largest.new_zeros(count))

    def update(self, place: Tensor, error: Tensor) -> None:
        """Set p of drawn transitions by their errors.

        Args:
            place: [B]; of one that is there several times the largest error counts. Places that hold nothing stay so.
            error: [B] temporal-difference errors, of any sign.
        """
        if not len(place):
            return
        p = (error.abs().double() + FLOOR) ** self.alpha
        p = torch.where(self.leaves[place] > 0.0, p, 0.0)
        self.largest.copy_(torch.maximum(self.largest, p.amax()))
        self.leaves[place] = 0.0
        self.leaves.scatter_reduce_(0, place, p, "amax")
        self._sum_above(place)

    def find(self, share: Tensor) -> Tensor:
        """Places [B] at these shares [B] of the sum of all p, float64 from 0 to below 1."""
        node = torch.zeros_like(share, dtype=torch.int64)
        rest = share * self._total()
        zero = torch.zeros_like(rest)
        for level in self._levels:
            sums = level.view(-1, FAN)[node].cumsum(-1)
            # Rounding must not lead beyond the last node that holds something.
            rest = torch.minimum(rest, torch.nextafter(sums[:, -1], zero))
            child = (sums <= rest[:, None]).sum(-1).clamp_max(FAN - 1)
            before = sums.gather(1, (child - 1).clamp_min(0)[:, None]).squeeze(1)
            rest = rest - torch.where(child > 0, before, 0.0)
            node = node * FAN + child
        return node.clamp_max(len(self.leaves) - 1)

    def weights(self, place: Tensor, beta: float) -> Tensor:
        """Importance weights ``(count P)^-beta`` [B] of drawn transitions, P being the probability of a draw.

        They are 1 where all p are the same, and 0 at places that hold nothing. The paper divides them by their maximum: so do
        callers, who may have other transitions in the batch.

        Args:
            place: [B].
            beta: 0 corrects nothing, 1 makes up for all that the priorities change.
        """
        p = self.leaves[place]
        relative = p * self.count / self._total()
        return torch.where(p > 0.0, relative ** (-beta), 0.0).float()

    def rebuild(self) -> None:
        """Make the sums and the count anew, after `leaves` were written."""
        for above, below in zip(self._levels[-2::-1], self._levels[:0:-1], strict=True):
            sums = _sums(below.view(-1, FAN))
            above[: len(sums)] = sums
        self.count.copy_((self.leaves > 0.0).sum())

    def _replace(self, first: int, p: Tensor) -> None:
        """Write the p of neighboring places."""
        place = slice(first, first + len(p))
        self.count += (p > 0.0).sum() - (self.leaves[place] > 0.0).sum()
        self.leaves[place] = p
        self._sum_above(torch.arange(first, first + len(p), device=p.device))

    def _sum_above(self, node: Tensor) -> None:
        """Bring the sums above these leaves up to date."""
        for above, below in zip(self._levels[-2::-1], self._levels[:0:-1], strict=True):
            node = node // FAN
            above[node] = _sums(below.view(-1, FAN)[node])

    def _total(self) -> Tensor:
        return _sums(self._levels[0])


def _sums(rows: Tensor) -> Tensor:
    """Sums over the last axis, in the order of `find`, so that a node is to the last bit what its children add up to."""
    return rows.cumsum(-1)[..., -1]
