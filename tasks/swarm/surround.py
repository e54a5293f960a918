"""Surround: a swarm closes in on a target at rest, from all sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.specs import Command
from rookery.tasks.swarm.multi_objective import Swarm, SwarmConfig

_ASIDE_M = 50.0  # m from the arena: where those wait who do not take part, out of sight and of each other's wake


@dataclass(frozen=True)
class SurroundConfig(SwarmConfig):
    """Values of swarm-surround."""

    fewest_drones: int = 0  # above 0: half of the episodes have only so many, to train one policy with two numbers
    between: bool = False  # with fewest_drones: every number from there to num_drones as often, in place of these two


class Surround(Swarm):
    """A swarm closes in on a target from all sides.

    Success: all through the last second no drone had crashed, all were within 0.4 and 1.2 m of the target, and they
    stood around it rather than on one side (see `Swarm.met`).

    MOMAland's surround_v0 with drones that have mass (momaland/envs/crazyrl/surround); it defines rewards but no success.
    """

    name = "swarm-surround"

    Config: ClassVar[type] = SurroundConfig
    cfg: SurroundConfig

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.between and not c.fewest_drones:
            raise RookeryError("between is for episodes with fewer drones: give fewest_drones too.")
        if c.fewest_drones and not 2 <= c.fewest_drones <= c.num_drones:
            raise RookeryError(
                f"fewest_drones must be 0 or lie between 2 and num_drones, {c.num_drones}, got {c.fewest_drones}."
            )

    def setup(self) -> None:
        super().setup()
        c = self.cfg
        self._aside = torch.tensor([(_ASIDE_M + 3.0 * i, 0.0, c.height_m) for i in range(c.num_drones)])

    def place(self, ids: Tensor) -> None:
        c = self.cfg
        if c.fewest_drones:
            if c.between:
                self.number[ids] = self.rng(ids).integers(c.fewest_drones, c.num_drones + 1, (1,))[:, 0]
            else:
                few = self.rng(ids).integers(0, 2, (1,))[:, 0] > 0
                self.number[ids] = torch.where(few, c.fewest_drones, c.num_drones)
            self.target[ids] = torch.where(self.present[ids, :, None], self.target[ids], self._aside)
        super().place(ids)

    def apply(self, actions: dict[str, Tensor]) -> None:
        if self.cfg.fewest_drones:  # those aside hover
            given = actions["drone"]
            here = self.present[..., None]
            here = here[:, None] if given.dim() == 4 else here  # delayed: a row for each physics step
            actions = {"drone": torch.where(here, given, self._neutral)}
        super().apply(actions)

    def commands(self) -> list[Command]:
        return [Command("goal", self.goal, place=True)]

    def active(self) -> dict[str, Tensor] | None:
        return {"drone": self.present} if self.cfg.fewest_drones else None
