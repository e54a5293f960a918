"""The base of tasks in which a robot goes to a goal between pillars that stand elsewhere in every episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.obstacles import FLOOR_GAP
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.sensors import lidar
from rookery.sim.specs import Command, Term
from rookery.sim.task import Task

ACROSS = 3  # pillars in each row
NEAR_M = 0.3  # m, from the robot: there a pillar costs


class PillarField(Task):
    """Base of tasks on a field of pillars, in rows of three across the way from the start to the goal, along world x.

    Subclasses keep ``self.goal_place`` and call `check_field`, `add_pillars`, `setup_field`, `place_pillars`, `begin_way` and
    `follow_way`.

    Attributes:
        pillars: their bodies.
        gap: [N] m, from the robot's middle to the nearest pillar's surface.
        least_clearance: [N] m, the least of it in the episode.
        distance: [N] m, from the goal.
        progress: [N] m, by which the distance fell in the latest control step.
        there_at: [N] s, when the robot was first within `goal_m` of the goal; -1 before.
    """

    row_offset: ClassVar[float]
    """Share of the gap between a row's pillars by which each stands before or behind its row at most."""
    lidar_noise: ClassVar[float]
    """m, standard deviation of what the lidar measures."""
    cfg: Any

    gap: Tensor
    least_clearance: Tensor
    distance: Tensor
    progress: Tensor
    there_at: Tensor

    def check_field(self, body_m: float, passage_m: float, room_m: float = 0.0) -> None:
        """Refuse a field through which a robot finds no way.

        Args:
            body_m: m, half the robot's width.
            passage_m: m, what must be free beside it between pillars.
            room_m: m, by which starts differ along the way.

        Raises:
            RookeryError: it lacks something, or it is too narrow or too short.
        """
        c = self.cfg
        if c.rows < 1 or c.rays < 1 or not 0.0 < c.lidar_range_m < math.inf:
            raise RookeryError(
                f"{self.name} needs a row of pillars, a lidar ray and a positive lidar_range_m at least."
            )
        if not 0.0 < c.radius_least_m <= c.radius_most_m:
            raise RookeryError("the radii of pillars must be positive, the least one first.")
        gap = passage_m + 2.0 * body_m
        if min(c.pillar_gap_m, c.row_gap_m - 2.0 * self.row_offset * c.pillar_gap_m) < 2.0 * c.radius_most_m + gap:
            raise RookeryError(
                f"pillars must leave gaps of {gap:.3g} m: raise pillar_gap_m and row_gap_m, or thin them."
            )
        if c.way_m < 0.5 * c.row_gap_m * c.rows + c.radius_most_m + room_m + body_m:
            raise RookeryError("start and goal would lie among the pillars: raise way_m, or take fewer rows.")

    @property
    def radii(self) -> np.ndarray:
        """[P] m, of the pillars: evenly from the thinnest to the thickest."""
        return np.linspace(self.cfg.radius_least_m, self.cfg.radius_most_m, ACROSS * self.cfg.rows)

    @property
    def pillar_names(self) -> tuple[str, ...]:
        return tuple(f"pillar_{i}" for i in range(ACROSS * self.cfg.rows))

    def add_pillars(self, scene: Scene, make: Callable[[float, float], mujoco.MjSpec]) -> None:
        """Add the pillars to the scene, out of the way until an episode begins.

        Args:
            make: one of a radius and a height, m.
        """
        high = self.cfg.pillar_height_m
        for i, (name, radius) in enumerate(zip(self.pillar_names, self.radii.tolist(), strict=True)):
            scene.add(partial(make, radius, high), name, pos=(2.0 + 2.0 * i, 20.0, 0.5 * high + FLOOR_GAP))

    def setup_field(self) -> None:
        """Make the views and the buffers of the field."""
        n = self.world.num_envs
        self.pillars = self.world.bodies([f"{name}/base" for name in self.pillar_names])
        for name in ("gap", "least_clearance", "distance", "progress", "there_at"):
            self.buffer(name, n)
        self._clear = torch.zeros(n, 1)
        self._arrived = torch.zeros(n, dtype=torch.bool)  # of this control step alone

    def lidar_term(self, mounts: Sequence[str], ground: Callable[[], Tensor]) -> Term:
        """The ring of lidar rays around a body, declared.

        Args:
            mounts: full names of the bodies, one for each agent.
            ground: gives the ground's height [N] m.
        """
        c = self.cfg
        pillars = lidar.Cylinders([f"{name}/base" for name in self.pillar_names], self.radii, 0.5 * c.pillar_height_m)
        rays = lidar.ring_sensor(c.rays, c.lidar_range_m, mounts, pillars, ground)
        return Term("lidar", rays, scale=1.0 / c.lidar_range_m, noise=self.lidar_noise)

    def place_pillars(self, ids: Tensor, ground: Tensor | float = 0.0) -> Tensor:
        """Draw the places of the pillars in worlds `ids` [n] that begin an episode.

        Args:
            ground: [n, 1, 1] m, the ground's height.

        Returns:
            [n, 2] m, y of the start and of the goal.
        """
        c = self.cfg
        rng = self.rng(ids)
        u = rng.uniform(-1.0, 1.0, (c.rows, 1 + ACROSS))
        state = torch.zeros(len(ids), c.rows, ACROSS, 13)
        middle = torch.arange(c.rows) - 0.5 * (c.rows - 1)
        # the gaps of neighboring rows are not in line: each row is shifted by up to half a gap, its pillars a little along x
        state[..., 0] = (c.row_gap_m * middle)[:, None] + self.row_offset * c.pillar_gap_m * u[..., 1:]
        state[..., 1] = c.pillar_gap_m * (torch.arange(ACROSS) - 0.5 * (ACROSS - 1) + 0.5 * u[..., :1])
        state[..., 2] = 0.5 * c.pillar_height_m + FLOOR_GAP + ground
        state[..., 3] = 1.0
        order = rng.uniform(0.0, 1.0, (ACROSS * c.rows,)).argsort(1)  # which pillar stands where
        self.pillars.set_state(ids, state.flatten(1, 2).gather(1, order[..., None].expand(-1, -1, 13)))
        return rng.uniform(-c.goal_box_m, c.goal_box_m, (2,))

    def measure_way(self, state: Tensor, distance: Tensor) -> None:
        """Note how far pillars and goal are.

        Args:
            state: [N, 1, 13] of the robot's body.
            distance: [N] m, from the goal.
        """
        pillars = self.pillars.state.numpy()
        lidar.clearances(state.numpy(), pillars, self.radii, 0.5 * self.cfg.pillar_height_m, self._clear.numpy())
        self.gap.copy_(self._clear[:, 0])
        self.distance.copy_(distance)

    def begin_way(self, ids: Tensor) -> None:
        """Begin anew in worlds `ids`, where the way has been measured."""
        self.progress[ids] = 0.0
        self.least_clearance[ids] = self.gap[ids]
        self.there_at[ids] = -1.0

    def follow_way(self, state: Tensor, distance: Tensor) -> None:
        """Take a control step into account; arguments as in `measure_way`."""
        before = self.distance.clone()
        self.measure_way(state, distance)
        self.progress.copy_(before - self.distance)
        self.least_clearance.copy_(torch.minimum(self.least_clearance, self.gap))
        self._arrived = (self.distance < self.cfg.goal_m) & (before > self.cfg.goal_m)
        first = (self.distance <= self.cfg.goal_m) & (self.there_at < 0.0)
        self.there_at.copy_(torch.where(first, self.steps * self.cfg.control_dt, self.there_at))

    def way_rewards(self, body_m: float) -> dict[str, Tensor]:
        """Reward terms [N, 1] of progress, of being there and of pillars near a robot of half-width `body_m` m."""
        terms = {
            "progress": self.progress.clone(),
            "there": (self.distance <= self.cfg.goal_m).float(),
            "proximity": (1.0 - (self.gap - body_m) / NEAR_M).clamp(0.0, 1.0),
        }
        return {name: value[:, None] for name, value in terms.items()}

    def way_metrics(self, failed: Tensor) -> dict[str, Tensor]:
        """Success where the robot was there and has not `failed` [N]; the time until then, the distance, the clearance."""
        there = self.there_at >= 0.0
        return {
            "success": (there & ~failed).float(),
            "time_s": torch.where(there, self.there_at, self.cfg.episode_s),
            "distance_m": self.distance.clone(),
            "clearance_m": self.least_clearance.clone(),
        }

    def events(self) -> dict[str, Tensor]:
        return super().events() | {"there": self._arrived.clone()}

    def around_pillars(self, here: Tensor, way: Tensor, free_m: float, reach_m: float) -> Tensor:
        """[N, 2] m/s: a potential field's push away from near pillars, and around them on the side where the way goes.

        Args:
            here: [N, 2] m, of the robot.
            way: [N, 2], where it wants to go.
            free_m: m, from a pillar's surface, where the push is whole.
            reach_m: m, beyond that, where it begins.
        """
        off = here[:, None] - self.pillars.pos[..., :2]  # [N, P, 2], from each pillar's axis
        far = off.norm(dim=-1, keepdim=True)
        out = off / far
        near = (1.0 - (far[..., 0] - torch.from_numpy(self.radii).float() - free_m) / reach_m).clamp(0.0, 1.0)[
            ..., None
        ]
        around = torch.stack((-out[..., 1], out[..., 0]), dim=-1)
        side = torch.sign((around * way[:, None]).sum(-1, keepdim=True))
        return (near * (1.5 * near * out + 1.5 * side * around)).sum(1)

    @property
    def goal_place(self) -> Tensor:
        """[N, 3] m, world."""
        raise NotImplementedError

    def commands(self) -> list[Command]:
        return [Command("goal", self.goal_place, place=True)]

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The ball that is the goal."""
        goal = self.goal_place[i].tolist()
        return [{"pos": goal, "size": self.cfg.goal_m, "rgba": [0.1, 0.9, 0.2, 0.4], "trail": False}]
