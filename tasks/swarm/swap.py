"""Swap: drones on a circle exchange their places without touching each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.specs import Command, Group, Term, Weights
from rookery.tasks.drones.kernels import NEAR_M, ON_TARGET_M
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_exp
from rookery.tasks.swarm.base import Flock, FlockConfig

EXCHANGES = ("antipodal", "permutation")


@dataclass(frozen=True)
class SwapConfig(FlockConfig):
    """Values of drone-swap."""

    exchange: str = "mixed"  # antipodal, permutation, or mixed: one of them for each episode
    radius_m: float = 1.2  # m, of the circle
    sight_m: float = 2.0  # m, others farther away are not seen
    start_box_m: float = 0.1  # m, half-width of the box of starts around each place
    arrive_m: float = 0.15  # m from its goal within which a drone has arrived
    hold_s: float = 1.0  # s, for which all drones have to have been there at the end
    reward: Weights = Weights(
        alive=1.0,
        distance=-0.4,
        near=0.5,
        on_target=1.0,
        proximity=-4.0,
        ang_vel=-0.005,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-20.0,
    )


class Swap(Flock):
    """Drones exchange their places without touching each other.

    Success: no crash, nor two drones nearer than two body radii, and all drones within 15 cm of their goals for at least
    the last second.

    "antipodal": everyone's goal is the opposite point of the circle, so that all ways cross in the middle. "permutation": the
    places are handed round in one random cycle, so that nobody stays where it is. The circle is turned at random. A drone
    knows its own goal, and of the others only where those in sight are and how they move.
    """

    name = "drone-swap"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where all drones had been at their goals for hold_s at the end, without a crash",
            "arrival_s": "s, when the last drone came to stay at its goal; the time flown while one has not",
            "arrived": "share of drones at their goals",
            "path_ratio": "way flown over the straight way, mean of the drones",
            "gap_m": "m, least distance between two drones in the episode",
            "collision": "1 where any two drones collided",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = SwapConfig
    least_drones = 2
    cfg: SwapConfig

    distance: Tensor
    path: Tensor
    straight: Tensor
    there: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.exchange not in (*EXCHANGES, "mixed"):
            raise unknown("exchange", c.exchange, (*EXCHANGES, "mixed"))
        if not c.arrive_m > 0:
            raise RookeryError(f"arrive_m must be above 0 m, got {c.arrive_m} m.")
        if 2 * c.radius_m + 2 * c.start_box_m > c.bounds_m:
            raise RookeryError(
                f"the circle's diameter, {2 * c.radius_m:.3g} m, and the start boxes do not fit into bounds_m, {c.bounds_m} m, "
                "which is how far a drone may be from its goal: lower radius_m or raise bounds_m."
            )
        if c.height_m - c.start_box_m <= 2 * self.drone.body_height:
            raise RookeryError(f"drones would start on the ground with height_m={c.height_m} m: raise it.")
        self.check_gap(2 * c.radius_m * math.sin(math.pi / c.num_drones), f"{c.num_drones} places on the circle")

    def setup(self) -> None:
        super().setup()
        n, a = self.world.num_envs, self.cfg.num_drones
        for name in ("distance", "path", "straight"):
            self.buffer(name, n, a)
        self.buffer("there", n, a, dtype=torch.int64)  # control steps for which the drone has been at its goal

    def groups(self) -> dict[str, Group]:
        offset = body(place("goal") - POSITION)
        goal = Term("goal_offset", offset, scale=0.5, noise=0.005, bias=0.005, estimated="position")
        return {"drone": Group(self.cfg.num_drones, (goal, *self.flock_terms()), self.action)}

    def reset(self, ids: Tensor) -> None:
        n, a, c, r = len(ids), self.cfg.num_drones, self.cfg, self.rng(ids)
        turn = math.pi * r.uniform(-1.0, 1.0, (1,))
        order = r.uniform(0.0, 1.0, (a,)).argsort(dim=1)
        kind = r.integers(0, 2, (1,)) if c.exchange == "mixed" else torch.full((n, 1), EXCHANGES.index(c.exchange))
        start = turn + torch.arange(a) * (2 * math.pi / a)
        taken = start.gather(1, order)  # in the order of the cycle: everyone takes the place of the next
        goal = torch.where(kind == 0, start + math.pi, torch.empty(n, a).scatter_(1, order, taken.roll(-1, dims=1)))
        self.target[ids] = self._on_circle(start)
        self.place(ids)
        self.target[ids] = self._on_circle(goal)
        self.distance.copy_(self.distances())
        self.straight[ids] = self.distance[ids]
        self.path[ids] = 0.0
        self.there[ids] = 0

    def _on_circle(self, angle: Tensor) -> Tensor:
        radius = self.cfg.radius_m
        return torch.stack((radius * angle.cos(), radius * angle.sin(), torch.full_like(angle, self.cfg.height_m)), -1)

    def advance(self) -> None:
        self.path += (self.drones.bodies.pos - self.before).norm(dim=-1)
        self.track_gaps()
        self.distance.copy_(self.distances())
        self.there.add_(1).mul_(self.distance < self.cfg.arrive_m)
        self.detect_crashes(self.distance > self.cfg.bounds_m)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": super().measured()["drone"] | {"goal": self.target}}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": self.observe_flock({"goal_offset": self.target})}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`near` pulls over half a meter, `on_target` over the last decimeter."""
        d = self.distance
        near = {"near": closeness_exp(d, NEAR_M), "on_target": closeness_exp(d, ON_TARGET_M)}
        return {"drone": {"distance": d, **near, **self.common_rewards()}}

    def metrics(self) -> dict[str, Tensor]:
        """Success; `arrival_s`, when the last drone came to stay at its goal (the time flown while one has not); the
        share of drones there; the way flown over the straight way, mean of the drones; the least distance between two;
        whether any two collided, and whether the episode ended in any crash."""
        dt = self.cfg.control_dt
        crashed = self.crashed.any(1)
        there = self.there > 0
        arrival = (self.steps[:, None] - self.there + there).amax(1) * dt
        held = (self.there * dt >= self.cfg.hold_s - 1e-6).all(1)
        return {
            "success": (held & (self.steps >= self.max_steps) & ~crashed).float(),
            "arrival_s": arrival,
            "arrived": there.float().mean(1),
            "path_ratio": (self.path / self.straight.clamp_min(1e-3)).mean(1),
            "gap_m": self.closest.clone(),
            "collision": (self.closest < self.contact_m).float(),
            "crash": crashed.float(),
            **self.turning.metrics(),
        }

    def gauges(self, i: int) -> list[Gauge]:
        waited = self.there[i].amin() * self.cfg.control_dt
        arrived = Gauge(
            "drones at their goals", float((self.there[i] > 0).sum()), float(self.there.shape[1]), at_most=False
        )
        return [arrived, Gauge("all there for", float(waited), self.cfg.hold_s, "s", at_most=False)]

    def commands(self) -> list[Command]:
        return [Command(f"target_{a}", self.target[:, a], place=True) for a in range(self.cfg.num_drones)]

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Each drone flies straight to its goal, retreats from those who are near, and turns right before those who come
        towards it."""
        controller = self.cascade_controller()
        return lambda obs: {
            "drone": self.fly_apart(controller, self.towards(self.target, 0.8), 1.2, swirl=1.5, gain=1.5)
        }
