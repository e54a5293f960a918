"""Storage of decisions that agents take at moments of their own: one row for each, in the order in which they are taken."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rookery.policies.storage.rollout import ActionDraws
from rookery.sim.specs import ActionSpec

__all__ = ["Decisions"]

FIELDS = ("observation", "state", "noise", "action", "choice_log_probs")
"""What a decision has; only tasks with a central critic have states, and only those with choices their probabilities."""


class Decisions:
    """The decisions of a rollout, by M agents, as many as there are.

    Args:
        most: M.
        obs: size of an observation.
        act: the agents' action.
        state: size of the environment's state; 0 without a central critic.
        device: where it lives.

    Attributes:
        drawn: `ActionDraws` of one step, whose worlds [1, R, 1, ...] are decisions: R is the room there is.
        index: [R] int64, who took each.
        end: how many there are.
    """

    def __init__(self, most: int, obs: int, act: ActionSpec, state: int, device: torch.device) -> None:
        self.most = most
        self.end = 0
        self._noisy = 0  # rows whose noise is drawn
        self._about = (obs, act, state, device)
        self._allocate(2 * most)

    def _allocate(self, rows: int) -> None:
        obs, act, state, device = self._about
        self.drawn = ActionDraws(1, rows, 1, obs, act, state, device, torch.empty)
        self.index = torch.empty(rows, dtype=torch.int64, device=device)

    def rows(self) -> dict[str, Tensor]:
        """All there are by field, [R, ...]."""
        found = {f: getattr(self.drawn, f) for f in FIELDS}
        rows = {f: x[0] if f == "state" else x[0, :, 0] for f, x in found.items() if x is not None}
        return {f: x[: self.end] for f, x in (rows | {"index": self.index}).items()}

    def begin(self) -> None:
        """Forget all."""
        self.end = 0
        self._noisy = 0

    def reserve(self, count: int, draw: Callable[[ActionDraws], object]) -> None:
        """Have room, and noise by `draw`, for so many more decisions, M at most. Noise comes in blocks of M where there is none
        left, so that the numbers of a decision do not depend on how much room there was before."""
        need = self.end + count
        room = len(self.index)
        if need > room:
            before, index = self.drawn, self.index
            self._allocate(2 * room)
            self.index[:room] = index
            for name, x in vars(before).items():
                if x is not None:
                    getattr(self.drawn, name)[:, :room] = x
        while self._noisy < need:
            draw(self.drawn.worlds(self._noisy, self._noisy + self.most))
            self._noisy += self.most

    def add(self, rows: dict[str, Tensor]) -> None:
        """Append decisions by field, for which there is room."""
        first = self.end
        self.end += len(rows["index"])
        for f, x in self.rows().items():
            x[first:] = rows[f]
