"""Coverage: UAV base stations fly where the users on the ground need them, and share the users out among themselves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.drones import look_along
from rookery.assets.scenery import ground
from rookery.robots.drones.actuation import drone_actuation
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import POSITION, VELOCITY, last_action
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.terms import Constant
from rookery.tasks.drones.air import air
from rookery.tasks.drones.base import DroneConfig, DroneTask
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.swarm import radio
from rookery.tasks.swarm.coverage_terms import watched, watched_terms

_MBIT = 1e-6  # Mbit in a bit


@dataclass(frozen=True)
class CoverageConfig(DroneConfig):
    """Values of uav-coverage."""

    drone: str = "iris"  # its airframe; its speed limits are set here
    num_drones: int = 4  # base stations in each world
    num_users: int = 20  # on the ground, in each world
    action: str = "velocity"  # the only one: velocities, and the association of users
    dt: float = 0.005  # s, physics step
    control_dt: float = 0.1  # s, policy step
    episode_s: float = 60.0  # s
    area_m: float = 250.0  # m, half-width of the square where the users are
    bounds_m: float = 50.0  # m, outside that square; farther is a crash
    lowest_m: float = 20.0  # m, least height
    ceiling_m: float = 150.0  # m, greatest height
    height_m: float = 80.0  # m, of the starts
    start_box_m: float = 20.0  # m, half-width of the box of starts around a random place
    start_speed: float = 1.0  # m/s, half-width per axis
    start_tilt: float = math.radians(5.0)  # rad, at most
    start_spin: float = 0.1  # rad/s, half-width per axis
    spacing_m: float = 100.0  # m, between the places of which starts are drawn
    speed: float = 12.0  # m/s, horizontal, of an action of 1
    climb: float = 3.0  # m/s, vertical, of an action of 1
    bias_db: float = 10.0  # dB, of an association action of 1
    interference: bool = True  # stations share one band; false: each has its own
    hotspots: int = 4  # places where users gather
    hotspot_m: float = 40.0  # m, standard deviation of users around them
    walk_speed: float = 1.5  # m/s, the fastest user's; the slowest makes a third of it
    near_users: int = 6  # nearest users that a station observes
    neighbours: int = 3  # nearest stations that it observes
    sight_m: float = 300.0  # m, stations farther away are not observed
    min_rate: float = 1.0  # Mbit/s that a user needs
    hold_s: float = 10.0  # s at the end of the episode that count for success
    success_share: float = 0.95  # of the users who have to have that rate then, on the mean
    reward: Weights = Weights(rate=0.1, fairness=0.1, energy=-0.1, crash=-10.0)


class Coverage(DroneTask):
    """UAV base stations serve users on the ground.

    Success: nobody crashed, and over the last 10 s 95 % of the users had 1 Mbit/s or more.

    An action is a velocity (world, the horizontal part much faster than the vertical) and an association bias: a station
    that bids higher takes users from its neighbours although their signal is stronger, which relieves them (cell range
    expansion). So any number of stations and users goes with one action and one observation size. Heading is held: nothing
    depends on it.

    The three objectives: `rate`, mean rate of the users (Mbit/s); `fairness`, Jain's index of their rates; `energy`,
    propulsion power of the station itself against that in hover, which is a cost. Links, rates and power: see radio. The
    power is that of the 20 N aircraft of the paper, the flight that of an Iris (14.9 N) with a higher speed limit.
    """

    name = "uav-coverage"

    deciding = MappingProxyType({"served": ("success_share", False)})
    metric_definitions = MappingProxyType(
        {
            "success": "1 where served is at least success_share at the end, without a crash",
            "rate_mbit": "Mbit/s, data rate of a user, mean over the episode and the users",
            "fairness": "Jain's index of the users' mean rates",
            "worst_mbit": "Mbit/s, mean rate of the user that is worst off",
            "served": "share of users with at least min_rate, mean over the last hold_s; the present one before",
            "power_w": "W, propulsion of a station, mean over the episode",
            "energy_kj": "kJ, propulsion of all stations in the episode",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = CoverageConfig
    interface: ClassVar[tuple[str, ...]] = ("near_users", "neighbours", "sight_m")
    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds")
    headline: ClassVar[str] = "rate_mbit"
    objectives: ClassVar[dict[str, tuple[str, ...]]] = {
        "rate": ("rate", "crash"),
        "fairness": ("fairness", "crash"),
        "energy": ("energy", "crash"),
    }
    cfg: CoverageConfig

    users: Tensor
    hotspot: Tensor
    waypoint: Tensor
    step_m: Tensor
    rate: Tensor
    server: Tensor
    load: Tensor
    power: Tensor
    rate_sum: Tensor
    energy_sum: Tensor
    share_sum: Tensor
    count: Tensor
    clock: Tensor  # control steps since the start: `steps` may start late (VecEnv.stagger)

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.action != "velocity":
            raise RookeryError(f"uav-coverage is flown by velocities, got action={c.action!r}: leave it out.")
        for name in ("num_users", "hotspots", "near_users", "neighbours"):
            if getattr(c, name) < 1:
                raise RookeryError(f"{name} must be at least 1, got {getattr(c, name)}.")
        for name in ("speed", "climb", "area_m", "min_rate", "walk_speed"):
            if not getattr(c, name) > 0:
                raise RookeryError(f"{name} must be above 0, got {getattr(c, name)}.")
        if not c.lowest_m + c.start_box_m < c.height_m < c.ceiling_m - c.start_box_m:
            raise RookeryError(
                f"stations start at height_m {c.height_m} +- {c.start_box_m} m, which must lie between lowest_m {c.lowest_m} "
                f"and ceiling_m {c.ceiling_m} m."
            )
        if c.spacing_m - 2 * c.start_box_m <= 2 * self.drone.body_radius:
            raise RookeryError(
                f"stations would start in collision: places {c.spacing_m} m apart with start boxes of +-{c.start_box_m} m: "
                "raise spacing_m or lower start_box_m."
            )
        if c.num_drones > len(self._grid()):
            raise RookeryError(
                f"{c.num_drones} stations do not fit on {len(self._grid())} starts {c.spacing_m} m apart: raise area_m or "
                "lower spacing_m."
            )
        gains = self.drone.gains._replace(max_velocity=c.speed)
        self.drone = dataclasses.replace(self.drone, max_velocity=c.speed, gains=gains)

    def scene(self) -> Scene:
        """As for all drones, on a ground with larger tiles; the camera `overview` sees the whole area."""
        scene = super().scene()
        area = self.cfg.area_m

        def base() -> mujoco.MjSpec:
            spec = ground(tile=0.1 * area)
            eye = np.array((-1.6 * area, -0.9 * area, 1.3 * area))
            quat = look_along(np.array((0.0, 0.0, 0.1 * area)) - eye)
            spec.worldbody.add_camera(name="overview", pos=list(eye), quat=list(quat), fovy=45)
            return spec

        scene.base = base
        return scene

    def _grid(self) -> Tensor:
        """[P, 3] m: the places of which starts are drawn."""
        c = self.cfg
        count = int(2 * (c.area_m - c.start_box_m) / c.spacing_m + 1e-6) + 1
        line = (torch.arange(count) - 0.5 * (count - 1)) * c.spacing_m
        return torch.cartesian_prod(line, line, torch.tensor([c.height_m]))

    @property
    def action(self) -> ActionSpec:
        """Velocities, and the association bias in the place of the yaw rate."""
        c = self.cfg
        names = ("velocity_x", "velocity_y", "velocity_z", "association_bias")
        high = (c.speed, c.speed, c.climb, c.bias_db)
        low = (-c.speed, -c.speed, -c.climb, -c.bias_db)
        return ActionSpec("velocity_association", names, low, high, ("m/s", "m/s", "m/s", "dB"), (0.0,) * 4)

    @property
    def actuation(self) -> dict[str, Actuation]:
        c = self.cfg
        lag = air(c).rotor_lag
        command = (
            "command = low + (a + 1) / 2 (high - low), held for the control step; the first three are the velocity command, "
            "the yaw rate command is 0, the bias goes to the radio",
        )  # fmt: skip
        return {"drone": drone_actuation(self.drone, c.action, c.dt, c.integrated_yaw, lag, command)}

    def setup(self) -> None:
        super().setup()
        c, n, a, u = self.cfg, self.world.num_envs, self.cfg.num_drones, self.cfg.num_users
        for name in ("users", "hotspot", "waypoint"):
            self.buffer(name, n, u, 2)
        for name in ("step_m", "rate", "rate_sum"):
            self.buffer(name, n, u)
        self.buffer("server", n, u, dtype=torch.int64)
        for name in ("load", "power"):
            self.buffer(name, n, a)
        for name in ("energy_sum", "share_sum", "count", "clock"):
            self.buffer(name, n)
        self._all = torch.arange(n)
        self._places = self._grid()
        self._arrived = torch.zeros(n, u, dtype=torch.bool)
        self._observed = torch.zeros(n, a, 5 + 3 * c.near_users + 5 * c.neighbours)
        self._velocity_share = torch.tensor([1.0, 1.0, c.climb / c.speed, 0.0])
        self._middle = torch.tensor([0.0, 0.0, c.height_m])
        self._channel = radio.Channel(interference=c.interference)
        self._counted_from = self.max_steps - round(c.hold_s / c.control_dt)

    def groups(self) -> dict[str, Group]:
        watched = watched_terms(self.cfg)
        middle = Constant((0.0, 0.0, self.cfg.height_m), "m", "world", "middle of the area", place=True)
        motion = (
            Term("place", POSITION - middle, scale=0.005, noise=0.5, estimated="position"),
            Term("linear_velocity", VELOCITY, scale=0.1, noise=0.1, estimated="linear velocity"),
            Term("last_action", last_action(4)),
        )
        self._widths = [t.size for t in watched]
        self._names = [t.name for t in watched]
        return {"drone": Group(self.cfg.num_drones, (*watched, *motion), self.action)}

    def measured(self) -> dict[str, dict[str, Tensor]]:
        seen = watched(self.cfg, self.drones.bodies.pos, self.users, _MBIT * self.rate, self.server)
        return {"drone": super().measured()["drone"] | seen}

    def reset(self, ids: Tensor) -> None:
        c, n, u = self.cfg, len(ids), self.cfg.num_users
        r = self.rng(ids)
        spots = r.uniform(-0.85 * c.area_m, 0.85 * c.area_m, (c.hotspots, 2))
        which = r.integers(0, c.hotspots, (u,))
        self.hotspot[ids] = spots.gather(1, which[..., None].expand(n, u, 2))
        self.users[ids] = self._near_hotspot(ids)
        self.waypoint[ids] = self._near_hotspot(ids)
        self.step_m[ids] = c.walk_speed * c.control_dt * r.uniform(1.0 / 3.0, 1.0, (u,))
        lot = r.uniform(0.0, 1.0, (len(self._places),))
        self.target[ids] = self._places[lot.topk(c.num_drones, dim=1).indices]
        self.place(ids)
        for figure in (self.rate_sum, self.energy_sum, self.share_sum, self.count, self.clock):
            figure[ids] = 0.0
        self._serve(ids)

    def _near_hotspot(self, ids: Tensor) -> Tensor:
        """[n, U, 2] m: random places around the users' hotspots, inside the area."""
        draw = self.cfg.hotspot_m * self.rng(ids).normal((self.cfg.num_users, 2))
        return (self.hotspot[ids] + draw).clamp(-self.cfg.area_m, self.cfg.area_m)

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.last_action.copy_(self.given["drone"])
        self.drones.apply(actions["drone"] * self._velocity_share)

    def advance(self) -> None:
        radio.walk(self.users.numpy(), self.waypoint.numpy(), self.step_m.numpy(), self._arrived.numpy())
        there = self._arrived.any(1).nonzero()[:, 0]
        if len(there):
            fresh = self._near_hotspot(there)
            self.waypoint[there] = torch.where(self._arrived[there, :, None], fresh, self.waypoint[there])
        self._serve(self._all)
        self.clock += 1.0
        self.rate_sum += self.rate
        self.energy_sum.add_(self.power.sum(1), alpha=self.cfg.control_dt)
        counts = (self.steps > self._counted_from).float()
        self.share_sum.addcmul_(self._served(), counts)
        self.count += counts
        self.detect_crashes(self._out_of_bounds())

    def _serve(self, ids: Tensor) -> None:
        state = self.drones.bodies.state
        bias = self.cfg.bias_db * self.last_action[..., 3]
        radio.serve(
            ids.numpy(), state.numpy(), self.users.numpy(), bias.numpy(), self._channel, self.rate.numpy(),
            self.server.numpy(), self.load.numpy(),
        )  # fmt: skip
        radio.propulsion_powers(state[..., 7:10].numpy(), self.power.numpy())

    def _served(self) -> Tensor:
        """[N] share of the users who have the rate that they need, now."""
        return (_MBIT * self.rate >= self.cfg.min_rate).float().mean(1)

    def fairness(self, rate: Tensor) -> Tensor:
        """[N] Jain's index of rates [N, U]."""
        return rate.sum(1).square() / (rate.shape[1] * rate.square().sum(1)).clamp_min(1e-12)

    def _surroundings(self) -> dict[str, Tensor]:
        """Users and other stations as each station observes them, [N, A, d] by term; views of one tensor."""
        c = self.cfg
        radio.watch(
            self._all.numpy(), self.drones.bodies.state.numpy(), self.users.numpy(), self.rate.numpy(),
            self.server.numpy(), self.load.numpy(), c.sight_m, c.near_users, c.neighbours, c.min_rate / _MBIT,
            self._observed.numpy(),
        )  # fmt: skip
        return dict(zip(self._names, self._observed.split(self._widths, dim=-1), strict=True))

    def observe(self) -> dict[str, dict[str, Tensor]]:
        b = self.drones.bodies
        own = {"place": b.pos - self._middle, "linear_velocity": b.lin_vel, "last_action": self.last_action}
        return {"drone": {**self._surroundings(), **own}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        shape = self.power.shape
        return {
            "drone": {
                "rate": (_MBIT * self.rate.mean(1))[:, None].expand(shape),
                "fairness": self.fairness(self.rate)[:, None].expand(shape),
                "energy": self.power / radio.HOVER_POWER,
                "crash": self.crashed.float(),
            }
        }

    def _out_of_bounds(self) -> Tensor:
        """[N, A] bool: stations outside the space where they may be."""
        c = self.cfg
        pos = self.drones.bodies.pos
        side = pos[..., :2].abs().amax(-1)
        height = pos[..., 2]
        return (side > c.area_m + c.bounds_m) | (height < c.lowest_m) | (height > c.ceiling_m)

    def metrics(self) -> dict[str, Tensor]:
        """Means over the episode so far: rate of a user (Mbit/s), Jain's index of the users' mean rates, rate of the worst
        off; power of a station (W) and energy of all (kJ). `served`: share of users with the rate that they need, over the
        last 10 s (the present one before)."""
        steps = self.clock.clamp_min(1.0)
        mean = torch.where(self.clock[:, None] > 0, self.rate_sum / steps[:, None], self.rate)
        crashed = self.crashed.any(1)
        served = torch.where(self.count > 0, self.share_sum / self.count.clamp_min(1.0), self._served())
        flown = (self.steps >= self.max_steps) & ~crashed
        return {
            "success": (flown & (served >= self.cfg.success_share)).float(),
            "rate_mbit": _MBIT * mean.mean(1),
            "fairness": self.fairness(mean),
            "worst_mbit": _MBIT * mean.amin(1),
            "served": served,
            "power_w": self.energy_sum / (steps * self.cfg.control_dt * self.cfg.num_drones),
            "energy_kj": 1e-3 * self.energy_sum,
            "crash": crashed.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Every station flies to the middle of its own users, which is Lloyd's step of k-means; one without users to the
        middle of the poor. Nobody bids for users."""
        c = self.cfg

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            seen = self._surroundings()
            to = torch.where(seen["own_share"] > 0, seen["own_users"], seen["poor_users"])
            velocity = 0.3 * to
            fast = velocity.norm(dim=-1, keepdim=True)
            velocity = velocity * (0.9 * c.speed / fast.clamp_min(0.9 * c.speed))
            climb = 0.5 * (c.height_m - self.drones.bodies.pos[..., 2:])
            out = torch.cat((velocity / c.speed, climb / c.climb, torch.zeros_like(climb)), dim=-1)
            return {"drone": out.clamp(-1.0, 1.0)}

        return act

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Limits within which the policy has learned to fly; a runtime takes over outside."""
        c = self.cfg
        side = {"low": -c.area_m - c.bounds_m, "high": c.area_m + c.bounds_m, "unit": "m"}
        return {"drone": {"height": {"low": c.lowest_m, "high": c.ceiling_m, "unit": "m"}, "x": side, "y": dict(side)}}

    def markers(self, i: int) -> list[dict[str, Any]]:
        """Users, green where they have the rate that they need, and a large ball at each station, which is itself too small
        to be seen."""
        out = []
        for (x, y), rate in zip(self.users[i].tolist(), self.rate[i].tolist(), strict=True):
            served = _MBIT * rate >= self.cfg.min_rate
            rgba = [0.1, 0.8, 0.2, 1.0] if served else [0.9, 0.15, 0.1, 1.0]
            out.append({"pos": [x, y, 2.0], "size": 4.0, "rgba": rgba, "trail": False})
        for pos in self.drones.bodies.pos[i].tolist():
            out.append({"pos": pos, "size": 5.0, "rgba": [0.15, 0.35, 0.95, 0.8], "trail": True})
        return out
