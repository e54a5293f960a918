"""Reach: bring the tool to a place in the air. A puck lies on the table and is of no concern."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from rookery.sim.random_kernels import kernel
from rookery.tasks.manipulation.arm_task import ToolTarget
from rookery.tasks.manipulation.puck_task import PuckTask
from rookery.tasks.manipulation.shaping import distance, near

RADIUS = 0.05  # m


@kernel
def _score(  # type: ignore[no-untyped-def]
    tool, opening, first, target, tool_0, first_0, closing, score, done
):  # pragma: no cover - compiled
    """Reward and whether it is done in each world, see `MetaWorldTask.scored`."""
    for n in range(len(score)):
        error = distance(tool, target, n)
        score[n] = 10.0 * near(error, 0.0, RADIUS, distance(tool_0, target, n), False)
        done[n] = error <= RADIUS


class Reach(PuckTask):
    """A Panda brings its tool to a place in the air.

    Done: the tool is within 5 cm of the goal.
    """

    name = "table-reach"

    radius: ClassVar = RADIUS
    needs_gripper: ClassVar = False

    def misses(self) -> Tensor:
        return (self.robot.tool - self.target).norm(dim=1)

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        _score(*self.inputs)
        return self.scored()

    def expert_targets(self) -> dict[str, ToolTarget]:
        return {"arm": ToolTarget(self.target, torch.full_like(self.closing, -1.0))}
