"""Navigate: a quadruped walks to a goal between pillars that stand elsewhere in every episode; it sees them by lidar."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.assets.obstacles import FLOOR_GAP, post
from rookery.robots.quadrupeds.go2 import GO2
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.scene import Scene
from rookery.sim.sensors import lidar
from rookery.sim.specs import Command, Group, Term, Weights
from rookery.sim.terms import Clock, Scaled, Sines
from rookery.tasks.locomanip.base import HARDWARE_METRICS, LeggedConfig, LeggedTask

ACROSS = 3  # pillars in each row
LIDAR_NOISE = 0.02  # m, as of the Go2's own (Unitree L1: 2 cm)
LEAST_GAP_M = 0.2  # for the middle of the trunk, between pillars
JITTER = 0.15  # of the gap between a row's pillars, by which each stands before or behind its row
NEVER = 1 << 30


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


class LeggedNavigate(LeggedTask):
    """A Go2 walks to a goal between pillars that it sees by lidar.

    Success: it has been within 0.4 m of its goal, and has neither fallen nor come too near to a pillar.

    The episode ends where the middle of the trunk comes within 0.3 m of a pillar's surface, where the robot falls, and where it
    leaves. The gait's clock always runs: a robot that is to wait steps in place. Rewards are of the way alone: the task is for
    a high level above a policy that walks, see docs/hierarchy.md.
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
    interface: ClassVar[tuple[str, ...]] = (*LeggedTask.interface, "rays", "lidar_range_m")
    causes: ClassVar[tuple[str, ...]] = ("fallen", "obstacle", "out_of_bounds")
    event_names = (*LeggedTask.event_names, "there")
    deciding = MappingProxyType({"distance_m": ("goal_m", True)})
    cfg: LeggedNavigateConfig

    goal: Tensor
    gap: Tensor
    least_clearance: Tensor
    distance: Tensor
    progress: Tensor
    there_at: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.arm != "none" or c.terrain != "flat":
            raise RookeryError("go2-navigate is for a robot without an arm on flat ground: leave arm and terrain out.")
        if c.rows < 1 or c.rays < 1 or not 0.0 < c.lidar_range_m < math.inf:
            raise RookeryError(
                "go2-navigate needs a row of pillars, a lidar ray and a positive lidar_range_m at least."
            )
        if not 0.0 < c.radius_least_m <= c.radius_most_m:
            raise RookeryError("the radii of pillars must be positive, the least one first.")
        gap = LEAST_GAP_M + 2.0 * c.body_m
        if min(c.pillar_gap_m, c.row_gap_m - 2.0 * JITTER * c.pillar_gap_m) < 2.0 * c.radius_most_m + gap:
            raise RookeryError(
                f"pillars must leave gaps of {gap:.3g} m: raise pillar_gap_m and row_gap_m, or thin them."
            )
        if c.way_m < 0.5 * c.row_gap_m * c.rows + c.radius_most_m + c.body_m:
            raise RookeryError("start and goal would lie among the pillars: raise way_m, or take fewer rows.")
        if c.bounds_m <= math.hypot(2.0 * c.way_m, 2.0 * c.goal_box_m):
            raise RookeryError("robots would start out of bounds: raise bounds_m.")

    @property
    def radii(self) -> np.ndarray:
        """[P] m, of the pillars: evenly from the thinnest to the thickest."""
        return np.linspace(self.cfg.radius_least_m, self.cfg.radius_most_m, ACROSS * self.cfg.rows)

    @property
    def pillar_names(self) -> tuple[str, ...]:
        return tuple(f"pillar_{i}" for i in range(ACROSS * self.cfg.rows))

    def scene(self) -> Scene:
        scene = super().scene()
        high = self.cfg.pillar_height_m
        for i, (name, radius) in enumerate(zip(self.pillar_names, self.radii.tolist(), strict=True)):
            at = (2.0 + 2.0 * i, 20.0, 0.5 * high + FLOOR_GAP)  # until an episode begins, out of the way
            scene.add(partial(post, radius, high), name, pos=at)
        return scene

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.pillars = self.world.bodies([f"{name}/base" for name in self.pillar_names])
        self.buffer("goal", n, 3)
        for name in ("gap", "least_clearance", "distance", "progress", "there_at"):
            self.buffer(name, n)
        self._clear = torch.zeros(n, 1)
        self._level = torch.zeros(n)

    # The gait's clock always runs, and commands come from the high level

    @property
    def moving(self) -> Tensor:
        return torch.ones(self.world.num_envs, dtype=torch.bool)

    @property
    def clock(self) -> Clock:
        return Clock("gait phase", 1, frequency=self.gait_hz)

    def _sample_command(self, ids: Tensor) -> None:
        self.next_command[ids] = NEVER

    def groups(self) -> dict[str, Group]:
        c = self.cfg
        goal = Term("goal", body(place("goal") - POSITION), scale=0.3, noise=0.02, bias=0.02, estimated="position")
        cylinders = lidar.Cylinders([f"{name}/base" for name in self.pillar_names], self.radii, 0.5 * c.pillar_height_m)
        rays = lidar.ring_sensor(c.rays, c.lidar_range_m, list(self.robot.base.names), cylinders, lambda: self._level)
        ring = Term("lidar", rays, scale=1.0 / c.lidar_range_m, noise=LIDAR_NOISE)
        gait = Term("gait", Sines(Scaled(self.clock, math.tau, "rad")))
        own = tuple(gait if t.name == "gait" else t for t in self.body_terms() if t.name != "command")
        return {"robot": Group(1, (goal, ring, *own), self.robot.legs, history=c.history)}

    @property
    def actuation(self) -> dict[str, Actuation]:
        return {"robot": self.robot.actuation(0, 12)}

    # Episodes

    def place(self, ids: Tensor, state: Tensor) -> None:
        c = self.cfg
        rng = self.rng(ids)
        u = rng.uniform(-1.0, 1.0, (c.rows, 1 + ACROSS))
        places = torch.zeros(len(ids), c.rows, ACROSS, 13)
        middle = torch.arange(c.rows) - 0.5 * (c.rows - 1)
        # the gaps of neighboring rows are not in line: each row is shifted by up to half a gap, its pillars a little along x
        places[..., 0] = (c.row_gap_m * middle)[:, None] + JITTER * c.pillar_gap_m * u[..., 1:]
        places[..., 1] = c.pillar_gap_m * (torch.arange(ACROSS) - 0.5 * (ACROSS - 1) + 0.5 * u[..., :1])
        places[..., 2] = 0.5 * c.pillar_height_m + FLOOR_GAP
        places[..., 3] = 1.0
        order = rng.uniform(0.0, 1.0, (ACROSS * c.rows,)).argsort(1)  # which pillar stands where
        self.pillars.set_state(ids, places.flatten(1, 2).gather(1, order[..., None].expand(-1, -1, 13)))
        ends = rng.uniform(-c.goal_box_m, c.goal_box_m, (2,))
        state[:, 0] = -c.way_m
        state[:, 1] = ends[:, 0]
        self.goal[ids] = torch.tensor([c.way_m, 0.0, self.model.stand_height])
        self.goal[ids, 1] = ends[:, 1]

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self._measure()
        self.progress[ids] = 0.0
        self.least_clearance[ids] = self.gap[ids]
        self.there_at[ids] = -1.0

    def _measure(self) -> None:
        state, pillars = self.robot.base.state.numpy(), self.pillars.state.numpy()
        lidar.clearances(state, pillars, self.radii, 0.5 * self.cfg.pillar_height_m, self._clear.numpy())
        self.gap.copy_(self._clear[:, 0])
        self.distance.copy_((self.goal[:, :2] - self.robot.base.pos[:, 0, :2]).norm(dim=1))

    def apply(self, actions: dict[str, Tensor]) -> None:
        action = actions["robot"]
        self.robot.command(self.robot.targets(action.squeeze(1) if action.dim() == 3 else action.squeeze(2)))
        self.remember(self.given["robot"][:, 0])

    def advance(self) -> None:
        before = self.distance.clone()
        super().advance()
        self._measure()
        self.progress.copy_(before - self.distance)
        self.least_clearance.copy_(torch.minimum(self.least_clearance, self.gap))
        first = (self.distance <= self.cfg.goal_m) & (self.there_at < 0.0)
        self.there_at.copy_(torch.where(first, self.steps * self.cfg.control_dt, self.there_at))

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
        seen = self.observe_body()
        del seen["command"]
        offset = self.goal - self.robot.base.pos[:, 0]
        return {"robot": seen | {"goal": self._in_body(offset)[:, None]}}

    def _in_body(self, vector: Tensor) -> Tensor:
        """World vectors [N, 3] in the trunk's axes."""
        return torch.einsum("nij,ni->nj", self.robot.rotation.view(-1, 3, 3), vector)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        c = self.cfg
        terms = {
            "progress": self.progress.clone(),
            "there": (self.distance <= c.goal_m).float(),
            "proximity": (1.0 - (self.gap - c.body_m) / 0.3).clamp(0.0, 1.0),
            "termination": (self.terminated() > 0).float(),
        }
        return {"robot": {name: value[:, None] for name, value in terms.items()}}

    def events(self) -> dict[str, Tensor]:
        return super().events() | {
            "there": (self.there_at >= 0.0) & (self.there_at == self.steps * self.cfg.control_dt)
        }

    def state(self) -> Tensor | None:
        own = super().state()
        assert own is not None
        offset = self._in_body(self.goal - self.robot.base.pos[:, 0])
        return torch.cat((own, 0.3 * offset, self.gap[:, None]), dim=1)

    def metrics(self) -> dict[str, Tensor]:
        there = self.there_at >= 0.0
        return {
            "success": (there & ~self.fallen & ~self.collided).float(),
            "time_s": torch.where(there, self.there_at, self.cfg.episode_s),
            "distance_m": self.distance.clone(),
            "clearance_m": self.least_clearance.clone(),
            "fell": self.fallen.float(),
            "collision": self.collided.float(),
            **self.hardware_metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """A potential field (Khatib 1986) by the true places above a trot: to the goal at up to 0.9 m/s, around pillars."""
        if self.model != GO2:  # the trot is made for its legs
            return None
        from rookery.robots.quadrupeds.gaits import Trot

        trot = Trot(self.robot, self.gait_hz)
        radii = torch.from_numpy(self.radii).float()

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            r = self.robot
            here = r.base.pos[:, 0, :2]
            way = self.goal[:, :2] - here
            way = way / way.norm(dim=1, keepdim=True).clamp_min(0.5)
            off = here[:, None] - self.pillars.pos[..., :2]
            far = off.norm(dim=-1, keepdim=True)
            out = off / far
            near = (1.0 - (far[..., 0] - radii - self.cfg.body_m) / 0.7).clamp(0.0, 1.0)[..., None]
            around = torch.stack((-out[..., 1], out[..., 0]), dim=-1)
            side = torch.sign((around * way[:, None]).sum(-1, keepdim=True))
            wanted = way + (near * (1.5 * near * out + 1.5 * side * around)).sum(1)
            turn = torch.atan2(wanted[:, 1], wanted[:, 0]) - r.yaw
            turn = torch.atan2(turn.sin(), turn.cos())
            speed = 0.9 * wanted.norm(dim=1).clamp_max(1.0)
            command = torch.stack((speed * turn.cos(), 0.5 * speed * turn.sin(), (1.5 * turn).clamp(-0.8, 0.8)), dim=1)
            return {"robot": r.normalised(trot.act(self.phase, command, self.moving))[:, None, :12]}

        return act

    def commands(self) -> list[Command]:
        return [Command("goal", self.goal, place=True)]

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The disc around the goal, as a ball."""
        return [{"pos": self.goal[i].tolist(), "size": self.cfg.goal_m, "rgba": [0.1, 0.9, 0.2, 0.4], "trail": False}]
