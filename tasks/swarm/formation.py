"""Formation: drones arrange themselves in a regular polygon around a target, and share its corners out among themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.sensors.pictures import Marks
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones.kernels import NEAR_M, ON_TARGET_M
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_exp
from rookery.tasks.swarm import formation_kernels, kernels
from rookery.tasks.swarm.base import Flock, FlockConfig


@dataclass(frozen=True)
class FormationConfig(FlockConfig):
    """Values of drone-formation."""

    side_m: float = 0.8  # m, mean edge of the polygon
    side_spread: float = 0.2  # share by which the edge differs from that between episodes
    centre_box_m: float = 0.5  # m, half-width of the box of places of the polygon's middle
    arena_m: float = 2.0  # m, half-width of the square, around the origin, in which drones start
    settled_s: float = 2.0  # s, the end of the episode over which the errors count
    hausdorff_m: float = 0.1  # m, mean Hausdorff distance that still counts as the formation
    centre_m: float = 0.1  # m, mean error of the middle that still counts as its place
    reward: Weights = Weights(
        alive=0.5,
        formation=0.5,
        centre=0.2,
        placed=0.5,
        distance=-0.4,
        near=0.5,
        on_target=0.5,
        proximity=-2.0,
        ang_vel=-0.005,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-20.0,
    )


CORNER = "corner that falls to the drone"
SHARING = (
    "by shares among itself and the drones within sight_m of it: again and again, of the drones and corners that are left, the "
    "nearest pair"
)
"""The quantity that `corner_offset` shows, and how it is found."""


class Formation(Flock):
    """Drones form a polygon around a point, places not assigned.

    Success: no crash; over the last 2 s a mean Hausdorff distance between drones and polygon, both seen from their
    middles, below 10 cm, and a mean distance of the middles below 10 cm.

    The polygon is level, has as many corners as there are drones, lies somewhere in the arena and is turned at random; its
    edge stays the same size with the number of drones. Any drone may take any corner. Each knows the corners and where the
    drones in its sight are, and shares the corners out between itself and those, nearest pair first: what it observes is the
    way to the corner that falls to it, and its nearest neighbours. Nothing of that grows with the number of drones.
    `formation`, `centre` and `placed` are the terms of OmniDrones' Formation with its figures (envs/formation.py, arXiv
    2309.12825), damped like there by ``min(gap / safe_m, 1)^2``; the others judge each drone by the corner that falls to it
    when everybody is in sight.
    """

    name = "drone-formation"

    deciding = MappingProxyType({"hausdorff_m": ("hausdorff_m", True), "centre_error_m": ("centre_m", True)})
    metric_definitions = MappingProxyType(
        {
            "success": (
                "1 where the episode ran to its end without a crash, hausdorff_m is below the config's hausdorff_m "
                "and centre_error_m below centre_m"
            ),
            "hausdorff_m": (
                "m, Hausdorff distance between drones and corners, both about their middles, mean over the last "
                "settled_s"
            ),
            "centre_error_m": "m, distance of the drones' middle from the centre, mean over the last settled_s",
            "gap_m": "m, least distance between two drones in the episode",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = FormationConfig
    least_drones = 3
    cfg: FormationConfig

    centre: Tensor
    slots: Tensor
    hausdorff: Tensor
    astray: Tensor
    own: Tensor
    hausdorff_sum: Tensor
    astray_sum: Tensor
    counted: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        least = c.side_m * (1 - c.side_spread)
        if not 0 <= c.side_spread < 1 or least <= c.safe_m:
            raise RookeryError(
                f"the smallest edge of the polygon, {least:.3g} m, must exceed safe_m, {c.safe_m} m: raise side_m or lower "
                "side_spread or safe_m."
            )
        self.check_gap(c.spacing_m, "places")
        across = max(math.floor(2 * (c.arena_m - c.start_box_m) / c.spacing_m + 1e-6) + 1, 0)
        if across**2 < c.num_drones:
            raise RookeryError(
                f"{c.num_drones} drones do not fit into the arena: it has {across**2} places {c.spacing_m} m apart; "
                "raise arena_m or lower spacing_m."
            )
        low = c.height_m - max(c.start_box_m, c.centre_box_m)
        if low <= 2 * self.drone.body_height:
            raise RookeryError(f"drones would start or stand {low:.3g} m above the ground: raise height_m.")
        line = (torch.arange(across) - 0.5 * (across - 1)) * c.spacing_m
        self._grid = torch.cartesian_prod(line, line, torch.tensor([c.height_m]))
        self._corners = torch.arange(c.num_drones) * (2 * math.pi / c.num_drones)
        self._reach = c.side_m * (1 + c.side_spread) / (2 * math.sin(math.pi / c.num_drones))

    def setup(self) -> None:
        super().setup()
        n, a = self.world.num_envs, self.cfg.num_drones
        self.buffer("centre", n, 3)
        self.buffer("slots", n, a, 3)
        self.buffer("own", n, a, dtype=torch.int64)
        for name in ("hausdorff", "astray", "hausdorff_sum", "astray_sum", "counted"):
            self.buffer(name, n)
        self._places = torch.zeros(n, a, 3)
        self._claim = torch.zeros(n, a, 3)
        self.counted_from = self.max_steps - round(self.cfg.settled_s / self.cfg.control_dt)

    def groups(self) -> dict[str, Group]:
        offset = body(place(CORNER, doc=SHARING) - POSITION)
        corner = Term("corner_offset", offset, noise=0.005, bias=0.005, estimated="position")
        others = self.flock_terms()
        if self.sees:  # with a camera, its pictures show the others, and balls where the corners are
            others = (*(t for t in others if not t.name.startswith("neighbor")), *self.pictures())
        return {"drone": Group(self.cfg.num_drones, (corner, *others), self.action)}

    def reset(self, ids: Tensor) -> None:
        c, r = self.cfg, self.rng(ids)
        u = r.uniform(-1.0, 1.0, (5,))
        self.centre[ids] = torch.tensor([0.0, 0.0, c.height_m]) + c.centre_box_m * u[:, :3]
        radius = c.side_m * (1 + c.side_spread * u[:, 3]) / (2 * math.sin(math.pi / c.num_drones))
        angle = self._corners + math.pi * u[:, 4:]
        self.slots[ids] = radius[:, None, None] * torch.stack((angle.cos(), angle.sin(), torch.zeros_like(angle)), -1)
        lot = r.uniform(0.0, 1.0, (len(self._grid),)).topk(c.num_drones, dim=1).indices
        self.target[ids] = self._grid[lot]
        self.place(ids)
        for total in (self.hausdorff_sum, self.astray_sum, self.counted):
            total[ids] = 0.0
        self._evaluate()

    def _evaluate(self) -> None:
        """Errors of the shape, and whose corner is whose: `target` is from now on each drone's own."""
        state = self.drones.bodies.state.numpy()
        torch.add(self.slots, self.centre[:, None], out=self._places)
        formation_kernels.shape_errors(
            state, self.slots.numpy(), self.centre.numpy(), self.hausdorff.numpy(), self.astray.numpy()
        )
        kernels.assign(state, self._places.numpy(), self.own.numpy())
        self.target.copy_(self._places.gather(1, self.own[..., None].expand(-1, -1, 3)))

    def advance(self) -> None:
        self.track_gaps()
        self._evaluate()
        counts = (self.steps > self.counted_from).float()
        self.hausdorff_sum.addcmul_(self.hausdorff, counts)
        self.astray_sum.addcmul_(self.astray, counts)
        self.counted += counts
        away = (self.drones.bodies.pos - self.centre[:, None]).norm(dim=-1)
        self.detect_crashes((away - self._reach).clamp_min(0.0) > self.cfg.bounds_m)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        """The corners are shared out as `SHARING` says, drone by drone."""
        pos, corners = self.drones.bodies.pos, self.slots + self.centre[:, None]
        apart = (pos[:, :, None] - pos[:, None]).norm(dim=-1)  # [N, A, A]
        far = (pos[:, :, None] - corners[:, None]).norm(dim=-1)  # [N, A, corners]
        claims = torch.stack([_claim(far, apart[:, a] <= self.cfg.sight_m, a) for a in range(pos.shape[1])], dim=1)
        own = corners.gather(1, claims[..., None].expand(-1, -1, 3))
        return {"drone": super().measured()["drone"] | {CORNER: own}}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        state = self.drones.bodies.state.numpy()
        torch.add(self.slots, self.centre[:, None], out=self._places)
        kernels.claims(state, self._places.numpy(), self.cfg.sight_m, self._claim.numpy())
        seen = self.observe_flock(corner_offset=self._claim)
        if self.sees:
            seen = {name: v for name, v in seen.items() if not name.startswith("neighbor")}
        return {"drone": seen}

    def marks(self) -> Marks:
        return Marks(self._places, own=False)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`near` pulls over half a meter, `on_target` over the last decimeter."""
        distance = self.distances()
        apart = (self.gap.amin(1) / self.cfg.safe_m).clamp_max(1.0).square()
        formation = apart / (1 + (1.6 * self.hausdorff).square())
        centre = (-self.astray).exp()
        shared = {"formation": formation, "centre": apart * centre, "placed": formation * centre}
        return {
            "drone": {
                **{name: value[:, None].expand_as(distance) for name, value in shared.items()},
                "distance": distance,
                "near": closeness_exp(distance, NEAR_M),
                "on_target": closeness_exp(distance, ON_TARGET_M),
                **self.common_rewards(),
            }
        }

    def metrics(self) -> dict[str, Tensor]:
        """Success, the mean errors while they counted (the present ones before), the least distance between two drones in the
        episode, and whether it ended in a crash."""
        count = self.counted.clamp_min(1.0)
        counts = self.counted > 0
        hausdorff = torch.where(counts, self.hausdorff_sum / count, self.hausdorff)
        astray = torch.where(counts, self.astray_sum / count, self.astray)
        crashed = self.crashed.any(1)
        good = (hausdorff < self.cfg.hausdorff_m) & (astray < self.cfg.centre_m)
        return {
            "success": (good & (self.steps >= self.max_steps) & ~crashed).float(),
            "hausdorff_m": hausdorff,
            "centre_error_m": astray,
            "gap_m": self.closest.clone(),
            "crash": crashed.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Each drone flies to the corner that is its own, and around those who are in its way."""
        controller = self.cascade_controller()
        return lambda obs: {
            "drone": self.fly_apart(controller, self.towards(self.target, 0.8), self.cfg.side_m, swirl=1.0)
        }

    def markers(self, i: int) -> list[dict[str, Any]]:
        corner = {"size": 0.4 * self.drone.body_radius, "rgba": [0.1, 0.9, 0.2, 0.6], "trail": False}
        return [{"pos": (self.slots[i, s] + self.centre[i]).tolist(), **corner} for s in range(self.cfg.num_drones)]


def _claim(distance: Tensor, who: Tensor, own: int) -> Tensor:
    """[N] int64: the corner that falls to drone `own` by `SHARING`.

    Args:
        distance: [N, A, S] m, of drones and corners.
        who: [N, A] bool, those that share.
    """
    left = distance.masked_fill(~who[..., None], torch.inf)
    claim = torch.zeros(len(distance), dtype=torch.int64)
    for _ in range(distance.shape[1]):
        best = left.flatten(1).argmin(1)
        drone, corner = best // distance.shape[2], best % distance.shape[2]
        mine = (drone == own) & left.flatten(1).amin(1).isfinite()
        claim = torch.where(mine, corner, claim)
        left = left.scatter(1, drone[:, None, None].expand(-1, -1, distance.shape[2]), torch.inf)
        left = left.scatter(2, corner[:, None, None].expand(-1, distance.shape[1], -1), torch.inf)
    return claim
