"""Race: drones fly through the gates of a course, one after another, lap by lap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.assets.gates import BAR, COURSES, DEPTH, gate
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import POSITION, body, own, place
from rookery.sim.scene import Scene
from rookery.sim.sensors.pictures import Marks
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.swarm import race_kernels
from rookery.tasks.swarm.base import Flock, FlockConfig

STARTS = ("grid", "anywhere")
GATES_SEEN = 2
APPROACH_M = 1.0  # m, in front of its gate, where the first drone starts
SAMPLES = 48  # of the controller's path from one gate to the next


@dataclass(frozen=True)
class RaceConfig(FlockConfig):
    """Values of drone-race."""

    num_drones: int = 3  # in each world
    course: str = "figure-eight"  # or oval, split-s: see rookery.assets.gates
    opening_m: float = 1.0  # m, inner edge of the gates
    laps: int = 1  # to be flown within an episode
    start: str = "grid"  # all behind the first gate, or "anywhere": before gates of their own, from a random one on
    neighbours: int = 2  # nearest others that a drone sees, however many there are
    sight_m: float = 3.0  # m, others farther away are not seen
    bounds_m: float = 6.0  # m, from the next gate; farther is a crash
    episode_s: float = 20.0  # s
    reward: Weights = Weights(
        progress=10.0, gate_passed=2.0, proximity=-1.0, ang_vel=-0.005, yaw_rate=-0.1, action_rate=-0.02, crash=-20.0
    )


MIDDLES, DIRECTIONS = "middles of the next gates", "directions in which to pass the next gates"
"""Quantities that a drone observes."""


class Race(Flock):
    """Drones race through the gates of a course.

    Success: no crash, and every drone has flown `laps` laps: passed all gates in order, and its first one again.

    A gate is passed when the middle of the drone crosses its plane forwards within the opening, judged on the straight line
    between two control steps. Whoever touches a frame (with the sphere around its body), the ground or another drone has
    crashed, and so has who is more than `bounds_m` away from its next gate. Lap times count from a gate to the same gate, to
    a fraction of a control step. A drone sees its next two gates, middle and direction.
    """

    name = "drone-race"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where all drones flew all laps without a crash",
            "lap_s": "s, mean of the drones' fastest laps; the episode's length where none has flown any",
            "gates": "gates passed, mean of the drones",
            "gap_m": "m, least distance between two drones in the episode",
            "collision": "1 where any two drones collided",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = RaceConfig
    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds", "gate")
    event_definitions = MappingProxyType(
        {**Flock.event_definitions, "gate_passed": "the drone flies through the gate that it was to pass next"}
    )
    headline: ClassVar[str] = "lap_s"
    cfg: RaceConfig

    following: Tensor
    passed: Tensor
    passed_at: Tensor
    best_lap: Tensor
    progress: Tensor
    when: Tensor
    hit: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.course not in COURSES:
            raise unknown("course", c.course, COURSES)
        if c.start not in STARTS:
            raise unknown("start", c.start, STARTS)
        if c.laps < 1:
            raise RookeryError(f"a race has at least 1 lap, got laps={c.laps}.")
        if c.opening_m <= 2 * self.diameter:
            raise RookeryError(f"opening_m must exceed two of these drones' diameters, {2 * self.diameter:.3g} m.")
        poses = COURSES[c.course]
        self._course = np.array([(p.x, p.y, p.z, math.cos(p.yaw), math.sin(p.yaw)) for p in poses])
        self.gates = torch.tensor(self._course[:, :3], dtype=torch.float32)  # [G, 3] m, world
        level = np.pad(self._course[:, 3:], ((0, 0), (0, 1)))
        self.gate_directions = torch.tensor(level, dtype=torch.float32)  # [G, 3] unit, world
        self.body = math.hypot(self.drone.body_radius, 0.5 * self.drone.body_height)  # m, sphere around the body
        self._first, self._starts = self._start_places()
        to_gate = self.gates[self._first] - self._starts
        self._bearings = torch.atan2(to_gate[..., 1], to_gate[..., 0])  # rad, from world x
        self._check_starts()

    def _start_places(self) -> tuple[Tensor, Tensor]:
        """Starts, for each way to start (one with "grid", G with "anywhere") and drone: [W, A] the first gate, [W, A, 3] m the
        place: two in each row, row behind row."""
        c = self.cfg
        count = len(self.gates)
        drone = torch.arange(c.num_drones)
        if c.start == "grid":
            first = torch.zeros(1, c.num_drones, dtype=torch.int64)
            rank = drone[None]
        else:
            first = (torch.arange(count)[:, None] + drone) % count
            rank = (drone // count).expand(count, -1)
        back = APPROACH_M + c.spacing_m * (rank // 2)
        side = c.spacing_m * (rank % 2 - 0.5)
        if c.num_drones == 1 or (c.start == "anywhere" and c.num_drones <= count):
            side = torch.zeros_like(side)
        way = self.gate_directions[first]
        left = torch.stack((-way[..., 1], way[..., 0], way[..., 2]), dim=-1)
        return first, self.gates[first] - back[..., None] * way + side[..., None] * left

    def _check_starts(self) -> None:
        c = self.cfg
        if c.num_drones > 1:
            apart = torch.cdist(self._starts, self._starts).add_(torch.eye(c.num_drones) * 1e3).min()
            self.check_gap(float(apart), "places")
        room = math.sqrt(3.0) * c.start_box_m + self.body
        lowest = float(self._starts[..., 2].min())
        if lowest - c.start_box_m <= 2 * self.drone.body_height:
            raise RookeryError(
                f"drones would start {lowest - c.start_box_m:.3g} m above the ground: lower start_box_m."
            )
        out = np.empty(3)
        half = 0.5 * c.opening_m
        for start in self._starts.reshape(-1, 3).numpy():
            for pose in self._course:
                race_kernels.into(start, pose, out)
                if race_kernels.frame_distance(out[0], out[1], out[2], half, BAR, 0.5 * DEPTH) <= room:
                    raise RookeryError(
                        f"drones would start in a gate of the course {c.course!r}: use fewer drones, or lower start_box_m or "
                        "spacing_m."
                    )
        legs = (self.gates - self.gates.roll(1, 0)).norm(dim=-1).max()
        queue = (self._starts - self.gates[self._first]).norm(dim=-1).max() + room
        if c.bounds_m <= max(float(legs), float(queue)):
            raise RookeryError(
                f"bounds_m, {c.bounds_m} m, is too small an arena: gates are up to {float(legs):.3g} m apart, and starts up to "
                f"{float(queue):.3g} m from theirs."
            )

    def scene(self) -> Scene:
        scene = super().scene()
        for i, pose in enumerate(COURSES[self.cfg.course]):
            scene.add(
                lambda: gate(opening=self.cfg.opening_m), f"gate_{i}", pos=(pose.x, pose.y, pose.z), quat=pose.quat
            )
        return scene

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        a = self.cfg.num_drones
        count = len(self.gates)
        self.buffer("following", n, a, dtype=torch.int64)
        self.buffer("passed", n, a, dtype=torch.int64)
        self.buffer("passed_at", n, a, count)  # s, when each gate was passed the last time; below 0: not yet
        for name in ("best_lap", "progress", "when"):
            self.buffer(name, n, a)
        self.buffer("hit", n, a, dtype=torch.bool)

    def groups(self) -> dict[str, Group]:
        offset = body(place(MIDDLES, GATES_SEEN) - POSITION)
        directions = body(own(DIRECTIONS, 3 * GATES_SEEN, "1", "world"))
        terms: tuple[Term, ...] = (
            Term("gate_offset", offset, scale=0.3, noise=0.01, bias=0.01, estimated="position"),
            Term("gate_direction", directions, noise=0.01, estimated="attitude"),
        )
        if self.sees:  # with a camera, its pictures show the gates, and a ball which of them is next
            terms = self.pictures()
        return {"drone": Group(self.cfg.num_drones, (*terms, *self.flock_terms()), self.action)}

    def reset(self, ids: Tensor) -> None:
        way = self.rng(ids).integers(0, len(self._first))
        self.following[ids] = self._first[way]
        self.target[ids] = self._starts[way]
        if self.sees:
            self.facing[ids] = self._bearings[way]
        self.place(ids)
        self.target[ids] = self.gates[self.following[ids]]
        self.passed[ids] = 0
        self.passed_at[ids] = -1.0
        self.best_lap[ids] = math.inf
        self.progress[ids] = 0.0
        self.when[ids] = -1.0
        self.hit[ids] = False

    def advance(self) -> None:
        race_kernels.fly(
            self.before.numpy(), self.drones.bodies.state.numpy(), self._course, self.cfg.opening_m, BAR, DEPTH, self.body,
            self.following.numpy(), self.progress.numpy(), self.when.numpy(), self.hit.numpy(),
        )  # fmt: skip
        self.track_gaps()
        through = self.when >= 0
        if through.any():
            self._note(through)
        self.detect_crashes(self.distances() > self.cfg.bounds_m)

    def _note(self, through: Tensor) -> None:
        """Count the gates passed in this step, and time the laps that end with them."""
        world, drone = through.nonzero(as_tuple=True)
        gate = (self.following[world, drone] - 1) % len(self.gates)
        now = (self.steps[world] - 1 + self.when[world, drone]) * self.cfg.control_dt
        last = self.passed_at[world, drone, gate]
        lap = torch.where(last >= 0, now - last, math.inf)
        self.best_lap[world, drone] = torch.minimum(self.best_lap[world, drone], lap)
        self.passed_at[world, drone, gate] = now
        self.passed += through
        self.target[world, drone] = self.gates[self.following[world, drone]]

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        super().detect_crashes(out_of_bounds, collision)
        self.crash_where(self.hit, "gate")

    def marks(self) -> Marks:
        return Marks(self.target)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        ahead = (self.following[..., None] + torch.arange(GATES_SEEN)) % len(self.gates)
        own = {MIDDLES: self.gates[ahead].flatten(-2), DIRECTIONS: self.gate_directions[ahead].flatten(-2)}
        return {"drone": super().measured()["drone"] | own}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        if self.sees:
            return {"drone": self.observe_flock()}
        ahead = (self.following[..., None] + torch.arange(GATES_SEEN)) % len(self.gates)
        offset = (self.gates[ahead] - self.drones.bodies.pos[:, :, None]).flatten(-2)
        return {"drone": self.observe_flock(gate_offset=offset, gate_direction=self.gate_directions[ahead].flatten(-2))}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        common = self.common_rewards()
        del common["alive"]  # waiting must not pay
        return {"drone": {"progress": self.progress.clone(), "gate_passed": (self.when >= 0).float(), **common}}

    def events(self) -> dict[str, Tensor]:
        return super().events() | {"gate_passed": self.when >= 0}

    def metrics(self) -> dict[str, Tensor]:
        """Success; the mean of the drones' fastest laps (the episode's length where none has flown any); gates passed, mean
        of the drones; the least distance between two; whether two collided, and whether the episode ended in any crash."""
        crashed = self.crashed.any(1)
        flown = self.best_lap.isfinite()
        laps = self.best_lap.where(flown, 0.0).sum(1) / flown.sum(1).clamp_min(1)
        done = (self.passed > self.cfg.laps * len(self.gates)).all(1)
        return {
            "success": (done & ~crashed).float(),
            "lap_s": torch.where(flown.any(1), laps, self.cfg.episode_s),
            "gates": self.passed.float().mean(1),
            "gap_m": self.closest.clone(),
            "collision": (self.closest < self.contact_m).float(),
            "crash": crashed.float(),
            **self.turning.metrics(),
        }

    def gauges(self, i: int) -> list[Gauge]:
        """The drone that is last decides."""
        gates = float(self.cfg.laps * len(self.gates) + 1)
        return [Gauge("gates passed by the last", float(self.passed[i].min()), gates, at_most=False)]

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Everyone follows a smooth curve through the gates at 1.6 m/s, and keeps its distance."""
        controller = self.cascade_controller()
        speed = 1.6
        places, ways = self._racing_line()
        lead = round(0.3 * speed / float((places[:, 1:SAMPLES] - places[:, : SAMPLES - 1]).norm(dim=-1).mean()))

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            pos = self.drones.bodies.pos
            near = (places[self.following][:, :, :SAMPLES] - pos[:, :, None]).norm(dim=-1).argmin(-1)
            correction = self.drone.gains.position_kp[0] * (places[self.following, near] - pos)
            return {"drone": self.fly_apart(controller, correction + speed * ways[self.following, near + lead], 0.6)}

        return act

    def _racing_line(self) -> tuple[Tensor, Tensor]:
        """Places (m) and directions [G, 2 SAMPLES, 3] of a cubic spline from the gate before each, to it, to the one after."""
        a, b, t = self.gates.roll(1, 0)[:, None], self.gates[:, None], torch.arange(SAMPLES)[:, None] / SAMPLES
        pull = 1.2 * (b - a).norm(dim=-1, keepdim=True)
        u, v = pull * self.gate_directions.roll(1, 0)[:, None], pull * self.gate_directions[:, None]
        place = (
            (2 * t**3 - 3 * t**2 + 1) * a + (t**3 - 2 * t**2 + t) * u + (3 * t**2 - 2 * t**3) * b + (t**3 - t**2) * v
        )
        way = (6 * t**2 - 6 * t) * (a - b) + (3 * t**2 - 4 * t + 1) * u + (3 * t**2 - 2 * t) * v
        way /= way.norm(dim=-1, keepdim=True)
        return torch.cat((place, place.roll(-1, 0)), 1), torch.cat((way, way.roll(-1, 0)), 1)
