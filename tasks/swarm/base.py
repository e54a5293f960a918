"""Flocks: what the tasks of several drones that see their nearest neighbours share.

What a drone observes of the others has the same size however many there are: the `neighbours` nearest ones in sight, nearest
first, as relative positions and velocities in its own body frame, with a flag that separates an absent one from one at the
same place. A policy shared by all drones therefore runs with any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.robots.drones.controller import CascadeController
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import POSITION, VELOCITY, body
from rookery.sim.specs import Term
from rookery.sim.terms import Constant, Norm
from rookery.tasks.drones.base import TOUCHING_M, DroneConfig, DroneTask
from rookery.tasks.rewards import proximity_l2
from rookery.tasks.swarm import kernels
from rookery.tasks.swarm.neighbors import Neighbors


@dataclass(frozen=True)
class FlockConfig(DroneConfig):
    """Values that all flocks have."""

    num_drones: int = 6  # in each world
    neighbours: int = 3  # nearest others that a drone sees, however many there are
    sight_m: float = 3.0  # m, others farther away are not seen
    safe_m: float = 0.4  # m between two drones' middles; less costs reward, less than two body radii is a crash
    spacing_m: float = 0.8  # m, between the places of which starts are drawn
    start_box_m: float = 0.2  # m, half-width of the box of starts around each of them
    start_speed: float = 0.3  # m/s, half-width per axis
    start_tilt: float = math.radians(20.0)  # rad, at most
    start_spin: float = 0.5  # rad/s, half-width per axis
    bounds_m: float = 4.0  # m, from where a drone belongs; farther is a crash


class Flock(DroneTask):
    """Base of the tasks. Subclasses set ``self.target`` to the places of the starts before `place`."""

    least_drones = 1
    interface: ClassVar[tuple[str, ...]] = ("neighbours", "sight_m")
    cfg: Any

    before: Tensor
    gap: Tensor
    closest: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        self.diameter = 2 * self.drone.body_radius  # m
        self.contact_m = self.diameter + TOUCHING_M  # m, distance below which two drones count as colliding
        if c.num_drones < self.least_drones:
            raise RookeryError(f"this task needs at least {self.least_drones} drones, got num_drones={c.num_drones}.")
        if c.neighbours < 1:
            raise RookeryError(f"a drone must be able to see at least 1 neighbor, got neighbours={c.neighbours}.")
        if c.safe_m < self.diameter or c.sight_m < c.safe_m:
            raise RookeryError(
                f"safe_m must lie between these drones' diameter, {self.diameter:.3g} m, and sight_m, {c.sight_m} m, got "
                f"{c.safe_m} m."
            )

    def check_gap(self, distance: float, what: str) -> None:
        """Raise RookeryError unless start boxes with middles `distance` m apart, as `what` says, keep the drones apart."""
        gap = distance - 2 * self.cfg.start_box_m
        if gap <= self.diameter:
            raise RookeryError(
                f"drones would start in collision: {what} {distance:.3g} m apart with start boxes of "
                f"+-{self.cfg.start_box_m} m leave {gap:.3g} m, and these drones need more than {self.diameter:.3g} m: move "
                "the places farther apart or lower start_box_m."
            )

    def setup(self) -> None:
        super().setup()
        n, a, k = self.world.num_envs, self.cfg.num_drones, self.cfg.neighbours
        self.buffer("before", n, a, 3)
        self.buffer("gap", n, a)
        self.buffer("closest", n)
        self._gaps = self.before.numpy(), self.gap.numpy(), self.closest.numpy()
        self._offset = torch.zeros(n, a, 3 * k)
        self._velocity = torch.zeros(n, a, 3 * k)
        self._closeness = torch.zeros(n, a, k)

    def place(self, ids: Tensor) -> None:
        super().place(ids)
        self.before[ids] = self.drones.bodies.pos[ids]
        self.gap[ids] = self.closest[ids] = self.cfg.sight_m

    def track_gaps(self) -> None:
        """Update `gap` [N, A] (m, least distance to another drone during this control step, at most `sight_m`) and
        `closest` [N] (m, its least value in the episode). Called once in `advance`."""
        kernels.track_gaps(self._gaps[0], self.drones.bodies.state.numpy(), self.cfg.sight_m, *self._gaps[1:])

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        """As in DroneTask, but no drones pass through each other between two control steps. Follows `track_gaps`."""
        super().detect_crashes(out_of_bounds, self.gap < self.contact_m if collision is None else collision)

    def common_rewards(self) -> dict[str, Tensor]:
        """Reward terms that all flocks have, unweighted, [N, A]. `proximity` is 0 from `safe_m` on and 1 at distance 0."""
        return {"alive": self.alive, "proximity": proximity_l2(self.gap, self.cfg.safe_m), **self.motion_rewards()}

    def flock_terms(self) -> tuple[Term, ...]:
        """The observation of a drone's own motion and of its neighbours, declared (values from `observe_flock`)."""
        k = self.cfg.neighbours
        among = Neighbors(k)
        offset = among.positions - POSITION
        return (
            *self.body_terms(),
            Term("neighbour_offset", among.seen(body(offset)), noise=0.005, neighbors=k, estimated="other drones' position"),
            Term("neighbour_velocity", among.seen(body(among.velocities - VELOCITY)), scale=0.5, noise=0.02, neighbors=k,
                 estimated="other drones' linear velocity"),
            Term("neighbour_closeness", among.seen(Constant((1.0,)) - Norm(offset) / self.cfg.sight_m), neighbors=k,
                 present=True, estimated="other drones' position"),
        )  # fmt: skip

    def measured(self) -> dict[str, dict[str, Tensor]]:
        b, k = self.drones.bodies, self.cfg.neighbours
        return {"drone": super().measured()["drone"] | Neighbors(k).measure(b.pos, b.lin_vel, self.cfg.sight_m)}

    def observe_flock(self, points: Mapping[str, Tensor] = MappingProxyType({}), **world: Tensor) -> dict[str, Tensor]:
        """The values of `flock_terms`, and more in the body frame as in `observe_body`."""
        kernels.nearest(
            self.drones.bodies.state.numpy(), self.cfg.sight_m, self._offset.numpy(), self._velocity.numpy(),
            self._closeness.numpy(),
        )  # fmt: skip
        seen = self.observe_body(points, neighbour_offset=self._offset, neighbour_velocity=self._velocity, **world)
        return {**seen, "neighbour_closeness": self._closeness}

    def fly_apart(
        self, controller: CascadeController, velocity: Tensor, reach: float, swirl: float = 0.0, gain: float = 0.8
    ) -> Tensor:
        """Actions of a classical controller that keeps apart from others by a potential field, see kernels.avoid.

        Args:
            controller: from `self.cascade_controller()`.
            velocity: [N, A, 3] m/s, world, wanted where nobody is in the way; overwritten.
            reach: m, distance of others at which to begin to evade.
            swirl: m/s, how strongly to turn right before others.
            gain: m/s, how strongly to retreat.
        """
        kernels.avoid(self.drones.bodies.state.numpy(), reach, 2.0 * self.diameter, gain, swirl, velocity.numpy())
        place = self.drones.bodies.pos + velocity / self.drone.gains.position_kp[0]
        place[..., 2].clamp_(min=0.3)
        return controller.act(place)

    def towards(self, goal: Tensor, speed: float) -> Tensor:
        """[N, A, 3] m/s, world: velocities towards goals [N, A, 3] m, slower near them and at most `speed` m/s."""
        wanted = self.drone.gains.position_kp[0] * (goal - self.drones.bodies.pos)
        return wanted * (speed / wanted.norm(dim=-1, keepdim=True).clamp_min(1e-6)).clamp_max(1.0)
