"""Push: bring the puck to a place on the table."""

from __future__ import annotations

from typing import ClassVar

import mujoco
from torch import Tensor

from rookery.assets.tabletop import PUCK_HALF
from rookery.sim.random_kernels import kernel
from rookery.tasks.manipulation.puck_task import PuckTask, gripping_table
from rookery.tasks.manipulation.shaping import cage_of, distance, near

RADIUS = 0.05  # m
NEAR = 0.02  # m, of the tool and the puck: what counts as in the hand


@kernel
def _score(  # type: ignore[no-untyped-def]
    tool, opening, first, target, tool_0, first_0, closing, score, done
):  # pragma: no cover - compiled
    """Reward and whether it is done in each world, see `MetaWorldTask.scored`."""
    for n in range(len(score)):
        error = distance(first, target, n)
        close = near(error, 0.0, RADIUS, distance(first_0, target, n), False)
        caged = cage_of(tool, opening, first, tool_0, first_0, closing, n, 0.015, 0.05, 0.005, -1.0)
        held = distance(tool, first, n) < NEAR and opening[n] > 0.0
        if error < RADIUS:
            score[n] = 10.0
        else:
            score[n] = 4.0 * caged + 1.0 + 5.0 * close if held else 2.0 * caged
        done[n] = error <= RADIUS


class Push(PuckTask):
    """A Panda brings a puck to a place on the table.

    Done: the puck is within 5 cm of the goal.
    """

    name = "table-push"

    radius: ClassVar = RADIUS

    lift: ClassVar = 0.015  # the arm sets out a little low, and would press the puck into the table

    def ground(self) -> mujoco.MjSpec:
        return gripping_table(super().ground())

    def reset_objects(self, ids: Tensor) -> None:
        # the goal is as high as the puck, whatever height was drawn, as in Meta-World
        super().reset_objects(ids)
        self._target[ids.numpy(), 2] = PUCK_HALF

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        _score(*self.inputs)
        return self.scored()
