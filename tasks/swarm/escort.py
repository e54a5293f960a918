"""Escort: a swarm surrounds a target that travels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.specs import Command
from rookery.tasks.swarm.multi_objective import Swarm, SwarmConfig

PUBLISHED_END = (-2.0, -2.0, 3.0)  # m
PUBLISHED_SPEED = math.dist((1.0, 1.0, 2.5), PUBLISHED_END) / (51 * 0.05)  # m/s: 52 places, 20 a second


@dataclass(frozen=True)
class EscortConfig(SwarmConfig):
    """Values of swarm-escort."""

    target_speed: float = 0.6  # m/s; MOMAland's target makes 1.68 m/s, for drones that can do 4


class Escort(Swarm):
    """A swarm surrounds a target that travels.

    Success: as in swarm-surround, while the target travels.

    The target flies straight from one random place to the next, chosen anew whenever it arrives. With
    ``starts="published"`` it makes MOMAland's one journey, (1, 1, 2.5) to (-2, -2, 3) at 1.68 m/s, and stays there.
    """

    name = "swarm-escort"

    Config: ClassVar[type] = EscortConfig
    cfg: EscortConfig

    waypoint: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        if not self.cfg.target_speed > 0:
            raise RookeryError(f"target_speed must be above 0 m/s, got {self.cfg.target_speed}: use swarm-surround.")

    def setup(self) -> None:
        super().setup()
        self.buffer("waypoint", self.world.num_envs, 3)
        self._published = self.cfg.starts == "published"
        self._speed = PUBLISHED_SPEED if self._published else self.cfg.target_speed

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self.waypoint[ids] = self._next(ids)

    def _next(self, ids: Tensor) -> Tensor:
        """[n, 3] m: where the targets of the worlds `ids` go."""
        if self._published:
            return torch.tensor(PUBLISHED_END).expand(len(ids), 3)
        return self._target_low + self._target_size * self.rng(ids).uniform(0.0, 1.0, (3,))

    def commands(self) -> list[Command]:
        return [Command("waypoint", self.waypoint, place=True)]

    def move_goal(self) -> None:
        step = self._speed * self.cfg.control_dt
        to_go = self.waypoint - self.goal
        left = to_go.norm(dim=-1, keepdim=True)
        torch.mul(to_go, (step / left.clamp_min(1e-9)).clamp_max(1.0), out=self.goal_velocity)
        self.goal += self.goal_velocity
        self.goal_velocity /= self.cfg.control_dt
        there = (left[:, 0] <= step).nonzero()[:, 0]
        if len(there) and not self._published:
            self.waypoint[there] = self._next(there)
