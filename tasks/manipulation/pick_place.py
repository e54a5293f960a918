"""Pick and place: lift the puck, and hold it at a place in the air."""

from __future__ import annotations

from typing import ClassVar

import mujoco
from torch import Tensor

from rookery.sim.random_kernels import kernel
from rookery.tasks.manipulation.meta_world import OPENING
from rookery.tasks.manipulation.puck_task import PuckTask, gripping_table
from rookery.tasks.manipulation.push import NEAR
from rookery.tasks.manipulation.shaping import cage_of, distance, join, near

RADIUS = 0.07
FULL = 0.05
"""m, of the puck from its goal: within the first the task is done, within the second the reward is full."""
LIFTED = 0.01  # m


@kernel
def _score(  # type: ignore[no-untyped-def]
    tool, opening, first, target, tool_0, first_0, closing, score, done
):  # pragma: no cover - compiled
    """Reward and whether it is done in each world, see `MetaWorldTask.scored`."""
    for n in range(len(score)):
        error = distance(first, target, n)
        close = near(error, 0.0, FULL, distance(first_0, target, n), False)
        caged = cage_of(tool, opening, first, tool_0, first_0, closing, n, 0.015, 0.05, 0.005, OPENING)
        lifted = first[n, 2] > first_0[n, 2] + LIFTED
        held = distance(tool, first, n) < NEAR and opening[n] > 0.0 and lifted
        if error < FULL:
            score[n] = 10.0
        else:
            score[n] = join(caged, close) + (1.0 + 5.0 * close if held else 0.0)
        done[n] = error <= RADIUS


class PickPlace(PuckTask):
    """A Panda brings a puck to a place in the air.

    Done: the puck is within 7 cm of the goal.
    """

    name = "table-pick-place"

    radius: ClassVar = RADIUS

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        _score(*self.inputs)
        return self.scored()
