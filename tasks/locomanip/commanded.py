"""Base of the quadrupeds' tasks for a high level above a policy that walks: it commands, and the gait's clock always runs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rookery.sim.specs import CommandRange, Term
from rookery.sim.terms import Clock, Scaled, Sines
from rookery.tasks.locomanip.legged_task import LeggedTask

NEVER = 1 << 30  # steps


class CommandedTask(LeggedTask):
    """A task without commands of its own: none is drawn, observed or tracked."""

    @property
    def moving(self) -> Tensor:
        return torch.ones(self.world.num_envs, dtype=torch.bool)

    @property
    def clock(self) -> Clock:
        return Clock("gait phase", 1, frequency=self.gait_hz)

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {}

    def _sample_command(self, ids: Tensor) -> None:
        self.next_command[ids] = NEVER

    def own_terms(self) -> tuple[Term, ...]:
        """`body_terms` without the command, with a gait that always runs."""
        gait = Term("gait", Sines(Scaled(self.clock, math.tau, "rad")))
        return tuple(gait if t.name == "gait" else t for t in self.body_terms() if t.name != "command")

    def observe_own(self) -> dict[str, Tensor]:
        """Values of `own_terms`, each [N, 1, d]."""
        return {name: value for name, value in self.observe_body().items() if name != "command"}

    def apply(self, actions: dict[str, Tensor]) -> None:
        action = actions["robot"]
        self.robot.command(self.robot.targets(action.squeeze(1) if action.dim() == 3 else action.squeeze(2)))
        self.remember(self.given["robot"][:, 0])

    def in_body(self, vector: Tensor) -> Tensor:
        """World vectors [N, 3] in the trunk's axes."""
        return torch.einsum("nij,ni->nj", self.robot.rotation.view(-1, 3, 3), vector)
