"""Which worlds' observations a task has to make anew."""

from __future__ import annotations

import torch
from torch import Tensor


class OutdatedWorlds:
    """After a control step all worlds; for the second observation of the step, those whose episodes ended and began anew.

    Args:
        num_envs: N.
    """

    def __init__(self, num_envs: int) -> None:
        self._all = torch.arange(num_envs)
        self._begun: Tensor | None = None
        self._observed = False

    def move(self) -> None:
        """All worlds have moved, or were put back."""
        self._begun = None
        self._observed = False

    def begin(self, ids: Tensor) -> None:
        """Episodes begin in the worlds `ids`."""
        self._begun = ids if self._observed else None
        self._observed = False

    def take(self) -> Tensor:
        """[m] int64: the worlds to observe now."""
        ids = self._all if self._begun is None else self._begun
        self._begun = None
        self._observed = True
        return ids
