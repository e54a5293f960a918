"""Who of several processes steps worlds, and who learns, where one of them learns for all.

staleness 0     every process steps worlds, and all wait while that of rank 0 learns
1 or more       that of rank 0 learns while the others step all worlds, with weights that are some updates old
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ONE", "Roles"]


@dataclass(frozen=True)
class Roles:
    """The part of one process.

    Args:
        rank: of this process; that of rank 0 learns.
        size: number S of processes.
        staleness: updates that may lie between the weights that act and those that learn from it.
    """

    rank: int = 0
    size: int = 1
    staleness: int = 0

    @property
    def learns(self) -> bool:
        """True for the process that learns for all."""
        return self.rank == 0

    @property
    def acts(self) -> bool:
        """True for those that step worlds."""
        return self.rank > 0 or self.staleness == 0

    @property
    def actors(self) -> int:
        """Number of processes that step worlds."""
        return self.size - (self.staleness > 0)

    @property
    def index(self) -> int:
        """Place of this process among those that step worlds, from 0, in the order of their worlds; 0 where it steps none."""
        return max(self.rank - (self.staleness > 0), 0)


ONE = Roles()
"""One process, which acts and learns."""
