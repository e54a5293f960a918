"""Links of chains: stages, chains side by side, high levels and skills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rookery.policies.stages.decide import Decide, Each, Switch
from rookery.policies.stages.stage import Stage
from rookery.sim.errors import RookeryError

__all__ = ["Beside", "Link", "check_row"]


@dataclass(frozen=True)
class Beside:
    """Chains side by side.

    Args:
        branches: each a chain; all take the same row.

    Raises:
        RookeryError: fewer than two branches, one without a stage, or branches of other sizes.
    """

    branches: tuple[tuple[Link, ...], ...]

    def __post_init__(self) -> None:
        if len(self.branches) < 2 or not all(self.branches):
            raise RookeryError("stages side by side need at least two branches, each with a stage.")
        for branch in self.branches:
            check_row(branch, self.inputs)

    @property
    def inputs(self) -> int:
        return self.branches[0][0].inputs

    @property
    def outputs(self) -> int:
        return sum(branch[-1].outputs for branch in self.branches)


Link = Stage | Beside | Decide | Switch | Each
"""One link of a chain."""


def check_row(links: Sequence[Link], size: int) -> None:
    """Compare the sizes of rows along a chain that gets rows of `size`."""
    for link in links:
        if link.inputs != size:
            name = "beside" if isinstance(link, Beside) else link.kind
            raise RookeryError(f"the stage {name} takes {link.inputs} numbers, and gets {size}: give it those sizes.")
        size = link.outputs
