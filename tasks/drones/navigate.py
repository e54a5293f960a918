"""Navigate: a drone flies to a goal between pillars that stand elsewhere in every episode; it sees them by lidar or camera."""

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

from rookery.assets.obstacles import FLOOR_GAP, pillar
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.scene import Scene
from rookery.sim.sensors import lidar
from rookery.sim.sensors.pictures import Marks
from rookery.sim.specs import Command, Group, Term, Weights
from rookery.tasks.drones.base import CAMERA_HEADING, TOUCHING_M, DroneConfig, DroneTask
from rookery.tasks.drones.kernels import NEAR_M
from rookery.tasks.rewards import closeness_exp

ACROSS = 3  # pillars in each row
LEAST_GAP_M = 0.4  # between neighbours of a row, with this drone's diameter on top
LIDAR_NOISE = 0.02  # m: a VL53L1X, as on the Crazyflie's Multi-ranger deck, is within 20 mm in the dark (ST, DS12385)


@dataclass(frozen=True)
class NavigateConfig(DroneConfig):
    """Values of drone-navigate. Rows of pillars stand across the way from the start to the goal, along world x."""

    action: str = "velocity"  # or another of DroneConfig's
    rows: int = 3  # of three pillars each
    row_gap_m: float = 1.8  # m, between rows
    pillar_gap_m: float = 1.2  # m, between the axes of a row's pillars
    radius_least_m: float = 0.1  # m, of the thinnest pillar
    radius_most_m: float = 0.25  # m, of the thickest one
    pillar_height_m: float = 3.0  # m
    way_m: float = 3.6  # m, of the start before the middle of the field, and of the goal behind it
    goal_box_m: float = 1.0  # m, half-width across the way of the boxes in which start and goal are drawn
    goal_m: float = 0.3  # m, from the goal: nearer counts as there
    rays: int = 24  # of the lidar, in a ring in the drone's own xy plane
    lidar_range_m: float = 3.0  # m
    height_m: float = 1.2  # m, of start and goal
    start_box_m: float = 0.2  # m, half-width of the box of starts around the place drawn
    start_tilt: float = math.radians(10.0)  # rad, at most
    bounds_m: float = 9.0  # m, from the goal; farther, or as high as the pillars' tops, is a crash
    reward: Weights = Weights(
        alive=0.1,
        progress=20.0,
        near=0.5,
        there=1.0,
        proximity=-0.5,
        ang_vel=-0.005,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-40.0,
    )


class Navigate(DroneTask):
    """A drone flies to a goal between pillars that it sees by lidar or camera.

    Success: the drone has been within 0.3 m of its goal, and has not crashed.

    Whoever touches a pillar (with its body, or with the sphere around it at the end of a control step) or the ground, or
    leaves, also above the pillars, has crashed.
    With obs=state the drone sees the direction of the goal and the distances of a ring of lidar rays; with obs=depth, rgb or
    segmentation the picture of its camera in place of the lidar.
    """

    name = "drone-navigate"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the drone has been within goal_m of its goal and has not crashed",
            "time_s": "s, until it was there first; the episode's length where it has not been",
            "distance_m": "m, from the goal; the present one",
            "clearance_m": "m, least distance of the drone's middle from a pillar's surface in the episode",
            "crash": "1 where the episode ended in a crash",
        }
    )

    Config: ClassVar[type] = NavigateConfig
    interface: ClassVar[tuple[str, ...]] = ("rays", "lidar_range_m")
    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds", "obstacle")
    event_names: ClassVar[tuple[str, ...]] = ("crash", "there")
    deciding = MappingProxyType({"distance_m": ("goal_m", True)})
    cfg: NavigateConfig

    clearance: Tensor
    least_clearance: Tensor
    distance: Tensor
    progress: Tensor
    there_at: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.num_drones != 1:
            raise RookeryError(f"one drone flies in drone-navigate, got num_drones={c.num_drones}.")
        if c.rows < 1 or c.rays < 1 or not 0.0 < c.lidar_range_m < math.inf:
            raise RookeryError(
                "drone-navigate needs a row of pillars, a lidar ray and a positive lidar_range_m at least."
            )
        if not 0.0 < c.radius_least_m <= c.radius_most_m:
            raise RookeryError("the radii of pillars must be positive, the least one first.")
        gap = LEAST_GAP_M + 2.0 * self.drone.body_radius
        if min(c.pillar_gap_m, c.row_gap_m - 0.5 * c.pillar_gap_m) < 2.0 * c.radius_most_m + gap:
            raise RookeryError(
                f"pillars must leave gaps of {gap:.3g} m: raise pillar_gap_m and row_gap_m, or thin them."
            )
        if c.way_m < 0.5 * c.row_gap_m * c.rows + c.radius_most_m + c.start_box_m + self.drone.body_radius:
            raise RookeryError("start and goal would lie among the pillars: raise way_m, or take fewer rows.")
        room = math.sqrt(3.0) * c.start_box_m
        if c.bounds_m <= math.hypot(2.0 * c.way_m, 2.0 * c.goal_box_m) + room or c.pillar_height_m <= c.height_m + room:
            raise RookeryError("drones would start out of bounds: raise bounds_m and pillar_height_m.")

    @property
    def radii(self) -> np.ndarray:
        """[P] m, of the pillars: evenly from the thinnest to the thickest."""
        return np.linspace(self.cfg.radius_least_m, self.cfg.radius_most_m, ACROSS * self.cfg.rows)

    @property
    def start_heading(self) -> float:
        """rad; a drone faces the field, so that what the lidar sees need not be learned for every heading."""
        return CAMERA_HEADING

    @property
    def camera(self) -> Any:
        """From above: from elsewhere pillars hide the drone."""
        return "chase-above"

    @property
    def pillar_names(self) -> tuple[str, ...]:
        return tuple(f"pillar_{i}" for i in range(ACROSS * self.cfg.rows))

    @property
    def _obstacles(self) -> list[str]:
        """The pillars' shapes."""
        return [f"{name}/obstacle" for name in self.pillar_names]

    def scene(self) -> Scene:
        scene = super().scene()
        high = self.cfg.pillar_height_m
        for i, (name, radius) in enumerate(zip(self.pillar_names, self.radii.tolist(), strict=True)):
            place = (2.0 + 2.0 * i, 20.0, 0.5 * high + FLOOR_GAP)  # until an episode begins, out of the way
            scene.add(partial(pillar, radius, high), name, pos=place)
            scene.extension(Aeronautics).moving.append(name)
        return scene.add_contact_sensor("drone_0/collision", self._obstacles)

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.pillars = self.world.bodies([f"{name}/base" for name in self.pillar_names])
        self.contact = self.world.contact_sensor("drone_0/collision", self._obstacles)
        for name in ("clearance", "least_clearance", "distance", "progress", "there_at"):
            self.buffer(name, n)
        self._radii = self.radii
        self._half = 0.5 * self.cfg.pillar_height_m
        self._ceiling = self.cfg.pillar_height_m - self.drone.body_height  # m
        self._clear = torch.zeros(n, 1)

    def groups(self) -> dict[str, Group]:
        c, offset = self.cfg, body(place("goal") - POSITION)
        goal = Term("goal_offset", offset, scale=0.3, noise=0.01, bias=0.01, estimated="position")
        pillars = lidar.Cylinders([f"{name}/base" for name in self.pillar_names], self.radii, 0.5 * c.pillar_height_m)
        rays = lidar.ring_sensor(c.rays, c.lidar_range_m, ["drone_0/base"], pillars, lambda: self.ground_height)
        ring = Term("lidar", rays, scale=1.0 / c.lidar_range_m, noise=LIDAR_NOISE)
        seen = self.pictures() if self.sees else (ring,)
        return {"drone": Group(1, (goal, *seen, *self.body_terms()), self.action)}

    def reset(self, ids: Tensor) -> None:
        c = self.cfg
        rng = self.rng(ids)
        u = rng.uniform(-1.0, 1.0, (c.rows, 1 + ACROSS))
        state = torch.zeros(len(ids), c.rows, ACROSS, 13)
        middle = torch.arange(c.rows) - 0.5 * (c.rows - 1)
        # the gaps of neighboring rows are not in line: each row is shifted by up to half a gap, its pillars a little along x
        state[..., 0] = (c.row_gap_m * middle)[:, None] + 0.25 * c.pillar_gap_m * u[..., 1:]
        state[..., 1] = c.pillar_gap_m * (torch.arange(ACROSS) - 0.5 * (ACROSS - 1) + 0.5 * u[..., :1])
        state[..., 2] = self._half + FLOOR_GAP + self.ground_height[ids, None, None]
        state[..., 3] = 1.0
        order = rng.uniform(0.0, 1.0, (ACROSS * c.rows,)).argsort(1)  # which pillar stands where
        places = state.flatten(1, 2).gather(1, order[..., None].expand(-1, -1, 13))
        self.pillars.set_state(ids, places)
        ends = rng.uniform(-c.goal_box_m, c.goal_box_m, (2, 1))
        self.target[ids] = torch.tensor([-c.way_m, 0.0, c.height_m])
        self.target[ids, :, 1] = ends[:, 0]
        self.place(ids)
        self.target[ids, :, 0] = c.way_m
        self.target[ids, :, 1] = ends[:, 1]
        self._measure()
        self.progress[ids] = 0.0
        self.least_clearance[ids] = self.clearance[ids]
        self.there_at[ids] = -1.0

    def _measure(self) -> None:
        state, pillars = self.drones.bodies.state.numpy(), self.pillars.state.numpy()
        lidar.clearances(state, pillars, self._radii, self._half, self._clear.numpy())
        self.clearance.copy_(self._clear[:, 0])
        self.distance.copy_(self.distances()[:, 0])

    def advance(self) -> None:
        before = self.distance.clone()
        self._measure()
        self.progress.copy_(before - self.distance)
        self.least_clearance.copy_(torch.minimum(self.least_clearance, self.clearance))
        first = (self.distance <= self.cfg.goal_m) & (self.there_at < 0.0)
        self.there_at.copy_(torch.where(first, self.steps * self.cfg.control_dt, self.there_at))
        over = self.drones.bodies.pos[..., 2] > self._ceiling
        self.detect_crashes(over | (self.distance[:, None] > self.cfg.bounds_m))

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        super().detect_crashes(out_of_bounds, collision)
        # a drone that strikes a pillar beside its middle has bounced off by the end of the control step: contacts count too
        hit = (self.clearance < self.drone.body_radius + TOUCHING_M) | (self.contact.impulse > 0.0).any(1)
        self.crash_where(hit[:, None], "obstacle")

    def observe(self) -> dict[str, dict[str, Tensor]]:
        seen = self.observe_body({"goal_offset": self.target})
        return {"drone": seen}

    def marks(self) -> Marks:
        return Marks(self.target)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": super().measured()["drone"] | {"goal": self.target}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        distance = self.distance[:, None]
        terms = {
            "alive": self.alive,
            "progress": self.progress[:, None].clone(),
            "near": closeness_exp(distance, NEAR_M),
            "there": (distance <= self.cfg.goal_m).float(),
            "proximity": (1.0 - (self.clearance[:, None] - self.drone.body_radius) / 0.3).clamp(0.0, 1.0),
        }
        return {"drone": terms | self.motion_rewards()}

    def events(self) -> dict[str, Tensor]:
        now = self.steps * self.cfg.control_dt
        return super().events() | {"there": (self.there_at >= 0.0) & (self.there_at == now)}

    def metrics(self) -> dict[str, Tensor]:
        """Success; the time until the goal; the present distance from it; the least clearance; a crash."""
        crashed = self.crashed[:, 0]
        there = self.there_at >= 0.0
        return {
            "success": (there & ~crashed).float(),
            "time_s": torch.where(there, self.there_at, self.cfg.episode_s),
            "distance_m": self.distance.clone(),
            "clearance_m": self.least_clearance.clone(),
            "crash": crashed.float(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """A potential field (Khatib 1986) by the true places: to the goal at 1 m/s, away from pillars and around them."""
        controller = self.cascade_controller()

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            pos = self.drones.bodies.pos
            goal = self.target - pos
            way = goal / goal.norm(dim=-1, keepdim=True).clamp_min(1.0)
            off = pos[..., :2] - self.pillars.pos[..., :2]  # [N, P, 2], from each pillar's axis
            far = off.norm(dim=-1, keepdim=True)
            out = off / far
            near = (1.0 - (far[..., 0] - torch.from_numpy(self._radii).float() - 0.1) / 0.6).clamp(0.0, 1.0)
            around = torch.stack((-out[..., 1], out[..., 0]), dim=-1)
            side = (around * way[..., :2]).sum(-1, keepdim=True)
            push = (near[..., None] * (1.5 * near[..., None] * out + 1.5 * around * torch.sign(side))).sum(
                1, keepdim=True
            )
            velocity = way.clone()
            velocity[..., :2] += push
            velocity[..., :2] /= velocity[..., :2].norm(dim=-1, keepdim=True).clamp_min(1.0)
            here = pos.clone()
            here[..., 2] = self.target[..., 2]
            velocity[..., 2] = 0.0
            return {"drone": controller.act(here, velocity)}

        return act

    def commands(self) -> list[Command]:
        return [Command("goal", self.target[:, 0], place=True)]

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The ball that is the goal."""
        goal = self.target[i, 0].tolist()
        return [{"pos": goal, "size": self.cfg.goal_m, "rgba": [0.1, 0.9, 0.2, 0.4], "trail": False}]
