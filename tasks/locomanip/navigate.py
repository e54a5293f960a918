"""Navigate: a quadruped walks to a goal between pillars that stand elsewhere in every episode; it sees them by lidar."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.assets.obstacles import post
from rookery.robots.quadrupeds.go2 import GO2
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.events import falling_below
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.scene import Scene
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.terms import Constant, Expression, Joined, Norm
from rookery.tasks.locomanip.base import HARDWARE_METRICS
from rookery.tasks.locomanip.commanded import CommandedTask
from rookery.tasks.locomanip.config import LeggedConfig
from rookery.tasks.pillars import PillarField

LEAST_GAP_M = 0.2  # for the middle of the trunk, between pillars


@dataclass(frozen=True)
class LeggedNavigateConfig(LeggedConfig):
    """Values of go2-navigate. Rows of pillars stand across the way from the start to the goal, along world x."""

    history: int = 5  # frames, as many as the policy of go2-velocity observes, which is the skill
    rows: int = 3  # of three pillars each
    row_gap_m: float = 2.0  # m, between rows
    pillar_gap_m: float = 1.8  # m, between the axes of a row's pillars
    radius_least_m: float = 0.12  # m, of the thinnest pillar
    radius_most_m: float = 0.3  # m, of the thickest one
    pillar_height_m: float = 1.0  # m
    way_m: float = 4.0  # m, of the start before the middle of the field, and of the goal behind it
    goal_box_m: float = 1.2  # m, half-width across the way of the boxes in which start and goal are drawn
    goal_m: float = 0.4  # m, from the goal: nearer counts as there
    body_m: float = 0.3  # m, from the middle of the trunk to a pillar's surface: nearer is a collision
    rays: int = 24  # of the lidar, in a ring around the trunk
    lidar_range_m: float = 3.0  # m
    start_yaw: float = 0.8  # rad, at most, off the way
    bounds_m: float = 12.0  # m, from the goal; farther is out of bounds
    reward: Weights = Weights(progress=10.0, there=0.2, proximity=-0.2, termination=-20.0)


class LeggedNavigate(PillarField, CommandedTask):
    """A Go2 walks to a goal between pillars that it sees by lidar.

    Success: it has been within 0.4 m of its goal, and has neither fallen nor come too near to a pillar.

    The episode ends where the middle of the trunk comes within 0.3 m of a pillar's surface, where the robot falls, and where
    it leaves. The gait's clock always runs: a robot that is to wait steps in place. Rewards are of the way alone: the task is
    for a high level above a policy that walks, see docs/hierarchy.md.
    """

    name = "go2-navigate"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the robot has been within goal_m of its goal, has not fallen and touched no pillar",
            "time_s": "s, until it was there first; the episode's length where it has not been",
            "distance_m": "m, level, from the goal; the present one",
            "clearance_m": "m, least distance of the trunk's middle from a pillar's surface in the episode",
            "fell": "1 where the robot fell",
            "collision": "1 where the robot came within body_m of a pillar",
            **HARDWARE_METRICS,
        }
    )

    Config: ClassVar[type] = LeggedNavigateConfig
    interface: ClassVar[tuple[str, ...]] = (*CommandedTask.interface, "rays", "lidar_range_m")
    causes: ClassVar[tuple[str, ...]] = ("fallen", "obstacle", "out_of_bounds")
    event_definitions = MappingProxyType(
        {**CommandedTask.event_definitions, "there": "the robot comes within goal_m of its goal, level"}
    )
    deciding = MappingProxyType({"distance_m": ("goal_m", True)})
    cfg: LeggedNavigateConfig

    row_offset = 0.15
    lidar_noise = 0.02  # as of the Go2's own (Unitree L1: 2 cm)

    camera = "chase-above"  # from elsewhere pillars hide the robot

    goal: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.arm != "none" or c.terrain != "flat":
            raise RookeryError("go2-navigate is for a robot without an arm on flat ground: leave arm and terrain out.")
        self.check_field(c.body_m, LEAST_GAP_M)
        if c.bounds_m <= math.hypot(2.0 * c.way_m, 2.0 * c.goal_box_m):
            raise RookeryError("robots would start out of bounds: raise bounds_m.")

    def scene(self) -> Scene:
        scene = super().scene()
        self.add_pillars(scene, post)
        return scene

    def setup(self) -> None:
        super().setup()
        self.setup_field()
        n = self.world.num_envs
        self.buffer("goal", n, 3)
        self._level = torch.zeros(n)

    @property
    def goal_place(self) -> Tensor:
        return self.goal

    def groups(self) -> dict[str, Group]:
        c = self.cfg
        goal = Term("goal", body(place("goal") - POSITION), scale=0.3, noise=0.02, bias=0.02, estimated="position")
        ring = self.lidar_term(self.robot.base.names, lambda: self._level)
        return {"robot": Group(1, (goal, ring, *self.own_terms()), self.robot.legs, history=c.history)}

    @property
    def actuation(self) -> dict[str, Actuation]:
        return {"robot": self.robot.actuation(0, 12)}

    # Episodes

    def place(self, ids: Tensor, state: Tensor) -> None:
        c = self.cfg
        ends = self.place_pillars(ids)
        state[:, 0] = -c.way_m
        state[:, 1] = ends[:, 0]
        self.goal[ids] = torch.tensor([c.way_m, 0.0, self.model.stand_height])
        self.goal[ids, 1] = ends[:, 1]

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self.measure_way(*self._way())
        self.begin_way(ids)

    def _way(self) -> tuple[Tensor, Tensor]:
        base = self.robot.base
        return base.state, (self.goal[:, :2] - base.pos[:, 0, :2]).norm(dim=1)

    def advance(self) -> None:
        super().advance()
        self.follow_way(*self._way())

    @property
    def collided(self) -> Tensor:
        """[N] bool."""
        return self.gap < self.cfg.body_m

    def terminated(self) -> Tensor:
        out = self.fallen.long()
        out = torch.where((out == 0) & self.collided, 2, out)
        return torch.where((out == 0) & (self.distance > self.cfg.bounds_m), 3, out)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"robot": self.quantities() | {"goal": self.goal[:, None]}}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        seen = self.observe_own()
        offset = self.goal - self.robot.base.pos[:, 0]
        return {"robot": seen | {"goal": self.in_body(offset)[:, None]}}

    def event_expressions(self) -> dict[str, Expression]:
        away = Joined(((place("goal") - POSITION)[:2], Constant((0.0,), "m")))
        return {"there": falling_below(Norm(away), self.cfg.goal_m)}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        ended = (self.terminated() > 0).float()
        return {"robot": self.way_rewards(self.cfg.body_m) | {"termination": ended[:, None]}}

    def state(self) -> Tensor | None:
        own = super().state()
        assert own is not None
        offset = self.in_body(self.goal - self.robot.base.pos[:, 0])
        return torch.cat((own, 0.3 * offset, self.gap[:, None]), dim=1)

    def metrics(self) -> dict[str, Tensor]:
        collided = self.collided
        return {
            **self.way_metrics(self.fallen | collided),
            "fell": self.fallen.float(),
            "collision": collided.float(),
            **self.hardware_metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """A potential field (Khatib 1986) by the true places above a trot: to the goal at up to 0.9 m/s, around pillars."""
        if self.model != GO2:  # the trot is made for its legs
            return None
        from rookery.robots.quadrupeds.gaits import Trot

        trot = Trot(self.robot, self.gait_hz)

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            r = self.robot
            here = r.base.pos[:, 0, :2]
            way = self.goal[:, :2] - here
            way = way / way.norm(dim=1, keepdim=True).clamp_min(0.5)
            wanted = way + self.around_pillars(here, way, self.cfg.body_m, 0.7)
            turn = torch.atan2(wanted[:, 1], wanted[:, 0]) - r.yaw
            turn = torch.atan2(turn.sin(), turn.cos())
            speed = 0.9 * wanted.norm(dim=1).clamp_max(1.0)
            command = torch.stack((speed * turn.cos(), 0.5 * speed * turn.sin(), (1.5 * turn).clamp(-0.8, 0.8)), dim=1)
            return {"robot": r.normalized(trot.act(self.phase, command, self.moving))[:, None, :12]}

        return act
