"""Navigate: a drone flies to a goal between pillars that stand elsewhere in every episode; it sees them by lidar or camera."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.assets.obstacles import pillar
from rookery.sim.errors import RookeryError
from rookery.sim.events import falling_below
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.scene import Scene
from rookery.sim.sensors.pictures import Marks
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.terms import Expression, Norm
from rookery.tasks.drones.base import CAMERA_HEADING, TOUCHING_M, DroneConfig, DroneTask
from rookery.tasks.drones.kernels import NEAR_M
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.pillars import PillarField
from rookery.tasks.rewards import closeness_exp

LEAST_GAP_M = 0.4  # between neighbours of a row, with this drone's diameter on top


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


class Navigate(PillarField, DroneTask):
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
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = NavigateConfig
    interface: ClassVar[tuple[str, ...]] = ("rays", "lidar_range_m")
    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds", "obstacle")
    event_definitions = MappingProxyType(
        {**DroneTask.event_definitions, "there": "the drone comes within goal_m of its goal"}
    )
    deciding = MappingProxyType({"distance_m": ("goal_m", True)})
    cfg: NavigateConfig

    row_offset = 0.25
    lidar_noise = 0.02  # a VL53L1X, as on the Crazyflie's Multi-ranger deck, is within 20 mm in the dark (ST, DS12385)

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.num_drones != 1:
            raise RookeryError(f"one drone flies in drone-navigate, got num_drones={c.num_drones}.")
        self.check_field(self.drone.body_radius, LEAST_GAP_M, c.start_box_m)
        room = math.sqrt(3.0) * c.start_box_m
        if c.bounds_m <= math.hypot(2.0 * c.way_m, 2.0 * c.goal_box_m) + room or c.pillar_height_m <= c.height_m + room:
            raise RookeryError("drones would start out of bounds: raise bounds_m and pillar_height_m.")

    @property
    def start_heading(self) -> float:
        """rad; a drone faces the field, so that what the lidar sees need not be learned for every heading."""
        return CAMERA_HEADING

    @property
    def camera(self) -> Any:
        """From above: from elsewhere pillars hide the drone."""
        return "chase-above"

    @property
    def _obstacles(self) -> list[str]:
        """The pillars' shapes."""
        return [f"{name}/obstacle" for name in self.pillar_names]

    def scene(self) -> Scene:
        scene = super().scene()
        self.add_pillars(scene, pillar)
        scene.extension(Aeronautics).moving.extend(self.pillar_names)
        return scene.add_contact_sensor("drone_0/collision", self._obstacles)

    def setup(self) -> None:
        super().setup()
        self.setup_field()
        self.contact = self.world.contact_sensor("drone_0/collision", self._obstacles)
        self._ceiling = self.cfg.pillar_height_m - self.drone.body_height  # m

    @property
    def goal_place(self) -> Tensor:
        return self.target[:, 0]

    def groups(self) -> dict[str, Group]:
        offset = body(place("goal") - POSITION)
        goal = Term("goal_offset", offset, scale=0.3, noise=0.01, bias=0.01, estimated="position")
        seen = self.pictures() if self.sees else (self.lidar_term(["drone_0/base"], lambda: self.ground_height),)
        return {"drone": Group(1, (goal, *seen, *self.body_terms()), self.action)}

    def reset(self, ids: Tensor) -> None:
        c = self.cfg
        ends = self.place_pillars(ids, self.ground_height[ids, None, None])
        self.target[ids] = torch.tensor([-c.way_m, 0.0, c.height_m])
        self.target[ids, :, 1] = ends[:, :1]
        self.place(ids)
        self.target[ids, :, 0] = c.way_m
        self.target[ids, :, 1] = ends[:, 1:]
        self.measure_way(self.drones.bodies.state, self.distances()[:, 0])
        self.begin_way(ids)

    def advance(self) -> None:
        self.follow_way(self.drones.bodies.state, self.distances()[:, 0])
        over = self.drones.bodies.pos[..., 2] > self._ceiling
        self.detect_crashes(over | (self.distance[:, None] > self.cfg.bounds_m))

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        super().detect_crashes(out_of_bounds, collision)
        # a drone that strikes a pillar beside its middle has bounced off by the end of the control step: contacts count too
        hit = (self.gap < self.drone.body_radius + TOUCHING_M) | (self.contact.impulse > 0.0).any(1)
        self.crash_where(hit[:, None], "obstacle")

    def observe(self) -> dict[str, dict[str, Tensor]]:
        seen = self.observe_body({"goal_offset": self.target})
        return {"drone": seen}

    def event_expressions(self) -> dict[str, Expression]:
        return {"there": falling_below(Norm(place("goal") - POSITION), self.cfg.goal_m)}

    def marks(self) -> Marks:
        return Marks(self.target)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": super().measured()["drone"] | {"goal": self.target}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        way = self.way_rewards(self.drone.body_radius)
        near = closeness_exp(self.distance[:, None], NEAR_M)
        terms = {"alive": self.alive, "progress": way.pop("progress"), "near": near, **way}
        return {"drone": terms | self.motion_rewards()}

    def metrics(self) -> dict[str, Tensor]:
        """Success; the time until the goal; the present distance from it; the least clearance; a crash; the drift of the
        heading."""
        crashed = self.crashed[:, 0]
        return self.way_metrics(crashed) | {"crash": crashed.float()} | self.turning.metrics()

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """A potential field (Khatib 1986) by the true places: to the goal at 1 m/s, away from pillars and around them."""
        controller = self.cascade_controller()

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            pos = self.drones.bodies.pos
            goal = self.target - pos
            way = goal / goal.norm(dim=-1, keepdim=True).clamp_min(1.0)
            velocity = way.clone()
            velocity[:, 0, :2] += self.around_pillars(pos[:, 0, :2], way[:, 0, :2], 0.1, 0.6)
            velocity[..., :2] /= velocity[..., :2].norm(dim=-1, keepdim=True).clamp_min(1.0)
            here = pos.clone()
            here[..., 2] = self.target[..., 2]
            velocity[..., 2] = 0.0
            return {"drone": controller.act(here, velocity)}

        return act
