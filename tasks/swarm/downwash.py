"""Downwash: drones keep their stations below others, whose wakes push them down."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.robots.drones.controller import CascadeController
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.quantities import POSITION, body, place, velocity
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones.kernels import NEAR_M, ON_TARGET_M
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_exp, distance
from rookery.tasks.swarm.base import Flock, FlockConfig

UPPER = ("hover", "line")
STATIONS = ("keep", "cross")


@dataclass(frozen=True)
class DownwashConfig(FlockConfig):
    """Values of drone-downwash."""

    num_drones: int = (
        2  # in each world, an even number: the first half are agents, each with one of the others above it
    )
    neighbours: int = 1  # nearest others that a drone sees, however many there are
    sight_m: float = 2.0  # m, others farther away are not seen
    safe_m: float = 0.2  # m between two drones' middles; less costs reward, less than two body radii is a crash
    upper: str = "mixed"  # hover, line (back and forth along a line), or mixed: one of them for each pair and episode
    station: str = (
        "mixed"  # keep (beside in one half of the episode, beneath in the other), cross (to and fro), or mixed
    )
    line_m: float = 0.5  # m, half the length of the line
    beside_m: float = 0.8  # m, horizontal distance of the station when beside, and at the ends of a crossing
    depth_low_m: float = 0.4  # m, least depth of the station below the upper drone
    depth_high_m: float = 0.8  # m, greatest depth
    period_low_s: float = 6.0  # s, shortest time to and fro, of line and crossing
    period_high_s: float = 10.0  # s, longest
    beneath_m: float = 0.3  # m, horizontal distance up to which a station is beneath the upper drone
    settle_s: float = 1.5  # s at the start and after the station moved, in which the error does not count
    success_m: float = 0.1  # m, mean error beneath, and beside, that still counts as keeping station
    spacing_m: float = 3.2  # m, between the pairs
    start_box_m: float = 0.1  # m, half-width of the box of starts around each place
    bounds_m: float = 2.0  # m, from the station; farther is a crash
    reward: Weights = Weights(
        alive=1.0,
        distance=-0.4,
        near=0.5,
        on_target=1.0,
        velocity_error=-0.05,
        proximity=-2.0,
        ang_vel=-0.005,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-20.0,
    )


class Downwash(Flock):
    """Drones keep their places below others.

    Success: no crash, and a mean distance from the station below 10 cm, both while it was beneath and while beside.

    Each agent has a drone of its own above it, which the PID cascade flies: hovering, or back and forth along a level line.
    The station is a place below that drone, wherever it is now: "keep" is straight beneath it in one half of the episode and
    beside in the other, "cross" goes to and fro under it. The wake is one of the `effects`; those called "volleybots",
    "gym-pybullet-drones" and "realistic" have one. The difference of `beneath_error_m` and
    `beside_error_m` shows what it does. The published models are far stronger than the measured one: under "volleybots" a
    Crazyflie has too little thrust to stay beneath another within 2 m, so give it a greater depth.
    """

    name = "drone-downwash"

    metric_definitions = MappingProxyType(
        {
            "success": (
                "1 where the episode ran to its end without a crash and every agent's mean distance from its station "
                "is below success_m both beneath and beside"
            ),
            "beneath_error_m": (
                "m, distance from the station while it was beneath, mean over that time and the agents; the present "
                "one before any counted"
            ),
            "beside_error_m": "m, the same while it was beside",
            "gap_m": "m, least distance between two drones in the episode",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    deciding = MappingProxyType({"beneath_error_m": ("success_m", True), "beside_error_m": ("success_m", True)})
    Config: ClassVar[type] = DownwashConfig
    headline: ClassVar[str] = "beneath_error_m"
    least_drones = 2
    cfg: DownwashConfig

    velocity: Tensor
    directions: Tensor
    swing: Tensor
    clock: Tensor
    sums: Tensor
    counts: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.num_drones % 2:
            raise RookeryError(
                f"drone-downwash needs an even number of drones, one above each agent, got {c.num_drones}."
            )
        for name, known in (("upper", UPPER), ("station", STATIONS)):
            if getattr(c, name) not in (*known, "mixed"):
                raise unknown(f"value of {name}", getattr(c, name), (*known, "mixed"))
        for low, high in (("depth_low_m", "depth_high_m"), ("period_low_s", "period_high_s")):
            if not 0 < getattr(c, low) <= getattr(c, high):
                raise RookeryError(
                    f"{low} must be above 0 and at most {high}, got {getattr(c, low)} and {getattr(c, high)}."
                )
        if c.beside_m <= c.beneath_m:
            raise RookeryError(f"beside_m, {c.beside_m} m, must exceed beneath_m, {c.beneath_m} m.")
        if c.height_m - c.depth_high_m - c.start_box_m <= 2 * self.drone.body_height:
            raise RookeryError(f"stations {c.depth_high_m} m below {c.height_m} m are on the ground: raise height_m.")
        self.check_gap(c.depth_low_m, "stations and the drones above them are")
        self.check_gap(c.spacing_m - 2 * (c.line_m + c.beside_m), "pairs, at their nearest,")

    @property
    def pairs(self) -> int:
        """A: agents, and drones above them."""
        return int(self.cfg.num_drones) // 2

    def setup(self) -> None:
        super().setup()
        n, a = self.world.num_envs, self.pairs
        self.buffer("velocity", n, 2 * a, 3)
        self.buffer("directions", n, a, 2, 3)  # unit, world: of the line, and to the side of the station
        self.buffer("swing", n, a, 7)
        self.buffer("clock", n, dtype=torch.int64)  # control steps flown: `steps` may start late (VecEnv.stagger)
        self.buffer("sums", n, a, 2)  # m, of the distances beneath and beside
        self.buffer("counts", n, a, 2)
        self.leader: CascadeController = self.cascade_controller()
        self.child("leader", self.leader)
        middle = torch.arange(a) - 0.5 * (a - 1)
        self.places = torch.stack((middle * self.cfg.spacing_m, torch.zeros(a), torch.full((a,), self.cfg.height_m)), 1)
        self._half_way = self.max_steps // 2
        self._settle = round(self.cfg.settle_s / self.cfg.control_dt)
        self.side = torch.zeros(n, a)  # m, horizontal distance of the station from the drone above

    def groups(self) -> dict[str, Group]:
        terms = (
            Term("station_offset", body(place("station") - POSITION), noise=0.005, bias=0.005, estimated="position"),
            Term("station_velocity", body(velocity("station's velocity")), scale=0.5, noise=0.02,
                 estimated="velocity of the drone above"),
        )  # fmt: skip
        return {"drone": Group(self.pairs, (*terms, *self.flock_terms()), self.action)}

    def reset(self, ids: Tensor) -> None:
        n, a, c, r = len(ids), self.pairs, self.cfg, self.rng(ids)
        angle = math.pi * r.uniform(-1.0, 1.0, (a, 2))
        self.directions[ids] = torch.stack((angle.cos(), angle.sin(), torch.zeros_like(angle)), dim=-1)
        u = r.uniform(0.0, 1.0, (a, 7))
        kinds = ((u[..., 0] < 0.5), (u[..., 1] < 0.5))
        line, cross = (
            kind if value == "mixed" else torch.full((n, a), value == name)
            for kind, value, name in zip(kinds, (c.upper, c.station), ("line", "cross"), strict=True)
        )
        s = self.swing[ids]
        s[..., 0] = c.line_m * line
        s[..., 1:3] = 2 * math.pi / (c.period_low_s + (c.period_high_s - c.period_low_s) * u[..., 2:4])  # rad/s
        s[..., 3] = cross.float()
        s[..., 4] = math.pi / 2 * (u[..., 4] < 0.5)  # a crossing's phase
        s[..., 5] = (u[..., 5] < 0.5).float()  # which half of the episode is spent beneath
        s[..., 6] = c.depth_low_m + (c.depth_high_m - c.depth_low_m) * u[..., 6]
        self.swing[ids] = s
        self.clock[ids] = 0
        self.target[ids, a:] = self.places
        self._station(self.target[:, a:], torch.zeros(len(self.clock), a, 3))
        self.place(ids)
        self.sums[ids] = self.counts[ids] = 0.0
        self._move()

    def _move(self) -> None:
        """Move the places where the upper drones should be, and the stations below where they are."""
        a, b = self.pairs, self.drones.bodies
        t = (self.clock * self.cfg.control_dt)[:, None]
        w = self.swing[..., 1]
        line = self.directions[:, :, 0]
        self.target[:, a:] = self.places + (self.swing[..., 0] * (w * t).sin())[..., None] * line
        self.velocity[:, a:] = (self.swing[..., 0] * w * (w * t).cos())[..., None] * line
        self._station(b.pos[:, a:], b.lin_vel[:, a:])

    def _station(self, above: Tensor, velocity: Tensor) -> None:
        """Stations for upper drones at `above` (m, world) that fly at `velocity` (m/s), both [N, A, 3]."""
        a, s = self.pairs, self.swing
        angle = s[..., 2] * (self.clock * self.cfg.control_dt)[:, None] + s[..., 4]
        beside = ((self.clock < self._half_way)[:, None] != (s[..., 5] > 0)).float()
        share = torch.lerp(beside, angle.sin(), s[..., 3])
        cross = self.directions[:, :, 1]
        self.side = self.cfg.beside_m * share.abs()
        self.target[:, :a] = above + (self.cfg.beside_m * share)[..., None] * cross
        self.target[:, :a, 2] -= s[..., 6]
        self.velocity[:, :a] = velocity + (self.cfg.beside_m * s[..., 3] * s[..., 2] * angle.cos())[..., None] * cross

    def apply(self, actions: dict[str, Tensor]) -> None:
        a = self.pairs
        own = actions["drone"]
        above = self.leader.act(self.target, self.velocity)[:, a:]
        self.previous_action.copy_(self.last_action)
        self.last_action[:, :a] = self.given["drone"]
        self.last_action[:, a:] = above
        if own.dim() == 4:
            above = above[:, None].expand(-1, own.shape[1], -1, -1)
        self.drones.apply(torch.cat((own, above), dim=-2))

    def advance(self) -> None:
        self.clock += 1
        self.track_gaps()
        self._move()
        k = self.clock[:, None]
        cross = self.swing[..., 3] > 0
        since = torch.where((k >= self._half_way) & ~cross, k - self._half_way, k)
        counts = since > self._settle
        beneath = self.side < self.cfg.beneath_m
        which = torch.stack((counts & beneath, counts & ~beneath), dim=-1).float()
        distance = self.distances()
        self.sums.addcmul_(distance[:, : self.pairs, None], which)
        self.counts += which
        self.detect_crashes(distance > self.cfg.bounds_m)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        seen = super().measured()["drone"] | {"station": self.target, "station's velocity": self.velocity}
        return {"drone": {name: value[:, : self.pairs] for name, value in seen.items()}}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        seen = self.observe_flock({"station_offset": self.target}, station_velocity=self.velocity)
        return {"drone": {name: value[:, : self.pairs] for name, value in seen.items()}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`near` pulls over half a meter, `on_target` over the last decimeter."""
        d = self.distances()
        near = {"near": closeness_exp(d, NEAR_M), "on_target": closeness_exp(d, ON_TARGET_M)}
        own = {"distance": d, **near, "velocity_error": distance(self.drones.bodies.lin_vel, self.velocity)}
        return {"drone": {name: value[:, : self.pairs] for name, value in (own | self.common_rewards()).items()}}

    def events(self) -> dict[str, Tensor]:
        return {"crash": self.crashed[:, : self.pairs].clone()}

    def metrics(self) -> dict[str, Tensor]:
        """Success; mean distances from the station while it was beneath and while it was beside, of all agents (the present
        one before any counted); the least distance between two drones, and whether the episode ended in a crash."""
        now = self.distances()[:, : self.pairs, None]
        mean = self.sums / self.counts.clamp_min(1.0)
        error = torch.where(self.counts > 0, mean, now)
        crashed = self.crashed.any(1)
        good = (error < self.cfg.success_m).flatten(1).all(1)
        return {
            "success": (good & (self.steps >= self.max_steps) & ~crashed).float(),
            "beneath_error_m": error[..., 0].mean(1),
            "beside_error_m": error[..., 1].mean(1),
            "gap_m": self.closest.clone(),
            "crash": crashed.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """The PID cascade, without a model of wakes."""
        controller = self.cascade_controller()
        return lambda obs: {"drone": controller.act(self.target, self.velocity)[:, : self.pairs]}
