"""Catch: a swarm corners an evader that flees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from rookery.sim.errors import RookeryError
from rookery.tasks.swarm.multi_objective import Swarm, SwarmConfig

_SCARED_M = 0.2  # m: with the drones' mean nearer than this the evader does not know where to go
_LOWEST_M = 0.2  # m


@dataclass(frozen=True)
class CatchConfig(SwarmConfig):
    """Values of swarm-catch."""

    evader_speed: float = 2.0  # m/s, the published 0.1 m a step at 20 steps/s
    capture_m: float = 0.5  # m, from the evader to the nearest drone


class Catch(Swarm):
    """A swarm corners an evader.

    Success: all through the last second no drone had crashed and the evader had one within 0.5 m.

    The evader follows MOMAland's rule (momaland/envs/crazyrl/catch): straight away from the mean of the drones, kept inside the
    arena; where that mean is within 0.2 m it hesitates, and makes a tenth of a step into a random direction of positive x,
    y and z. Its randomness comes from the world's stream. Touching it (0.1 m) is a crash, as published: it has to be held,
    not hit.
    """

    name = "swarm-catch"

    Config: ClassVar[type] = CatchConfig
    cfg: CatchConfig

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if not c.evader_speed > 0:
            raise RookeryError(f"evader_speed must be above 0 m/s, got {c.evader_speed}: use swarm-surround.")
        if c.capture_m <= c.touch_m:
            raise RookeryError(f"capture_m must exceed touch_m {c.touch_m} m, or every capture is a crash.")

    def setup(self) -> None:
        super().setup()
        c = self.cfg
        self._low = torch.tensor((-c.arena_m, -c.arena_m, _LOWEST_M))
        self._high = torch.tensor((c.arena_m, c.arena_m, c.ceiling_m))

    def move_goal(self) -> None:
        step = self.cfg.evader_speed * self.cfg.control_dt
        away = self.goal - self.before.mean(1)  # from where the drones were: it moves while they do
        distance = away.norm(dim=-1, keepdim=True)
        self.goal += away * (step / distance.clamp_min(_SCARED_M))
        lost = (distance[:, 0] <= _SCARED_M).nonzero()[:, 0]
        if len(lost):
            self.goal[lost] = self.goal_before[lost] + 0.1 * step * self.rng(lost).uniform(0.0, 1.0, (3,))
        torch.clamp(self.goal, self._low, self._high, out=self.goal)
        torch.sub(self.goal, self.goal_before, out=self.goal_velocity)
        self.goal_velocity /= self.cfg.control_dt

    def met(self) -> Tensor:
        """[N] bool: some drone is within `capture_m` of the evader."""
        return self.figures[:, 1] < self.cfg.capture_m

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """It flees from the mean, not from the nearest: all but one drone wait in the middle, towards the side that is
        opposite to it, which keeps it in a corner; the first drone goes there."""
        controller = self.cascade_controller()
        near = 0.7 * self.cfg.capture_m
        others = self.cfg.num_drones - 1
        angle = torch.arange(others) * (2 * math.pi / others)
        ring = 0.25 * self.cfg.arena_m * torch.stack((angle.cos(), angle.sin(), 0 * angle), dim=-1)
        middle = torch.tensor((0.0, 0.0, 0.5 * self.cfg.ceiling_m))

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            out = self.drones.bodies.pos[:, :1] - self.goal[:, None]
            chase = self.goal[:, None] + near * normalize(out, dim=-1)
            wait = middle - 0.25 * (self.goal - middle)[:, None] + ring
            place = torch.cat((chase, wait), dim=1) + self.dodge()
            place[..., 2].clamp_(min=3 * self.cfg.floor_m)
            return {"drone": controller.act(place)}

        return act
