"""Swarms around one target: what swarm-surround, swarm-escort and swarm-catch share.

The goals are those of MOMAland's CrazyRL environments (momaland/envs/crazyrl): come close to a target, keep away from each
other, touch nothing. Arena, 20 Hz control, episode length, starts on request, the rule by which an evader moves and the
vector reward are theirs; the drones are not points that jump by up to 20 cm but bodies that have to tilt to move. Two more
things differ: nobody is clipped to the arena, so leaving it by more than a meter ends the episode, and unless
``starts="published"`` every episode starts elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.quantities import (
    ANGULAR_VELOCITY,
    POSITION,
    VELOCITY,
    WORLD_Z,
    body,
    last_action,
    place,
    velocity,
)
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.terms import Expression
from rookery.tasks.drones.base import TOUCHING_M, DroneConfig, DroneTask
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.swarm import multi_objective_kernels as kernels
from rookery.tasks.swarm.multi_objective_kernels import CAUSES, FIGURES, TERMS
from rookery.tasks.swarm.neighbors import Neighbors

PUBLISHED_STARTS = ((0.0, 0.0, 1.0), (1.0, 1.0, 1.0), (0.0, 1.0, 1.0), (2.0, 2.0, 1.0))  # m
PUBLISHED_TARGET = (1.0, 1.0, 2.5)  # m
STARTS = ("random", "published")
_TARGET_PLACES = ((-1.5, 1.5), (-1.5, 1.5), (1.3, 1.8))  # m, so that a shell around it fits into the arena
_WORLD_AXES = ("velocity", "position")


@dataclass(frozen=True)
class SwarmConfig(DroneConfig):
    """Values that the three swarm tasks have. The reward weights are MOMAland's; `shell`, `around` and `yaw_rate`, which are 0
    there, are for training: the sum of the published two is largest for drones in the corners of the arena, and drones that
    the reward lets turn do turn."""

    num_drones: int = 4  # in each world, at least 2
    action: str = "velocity"  # the published action kind; rotor_thrust, ctbr, attitude and position fly too
    dt: float = 0.005  # s, physics step
    control_dt: float = 0.05  # s, policy step: the published 20 frames/s
    episode_s: float = 10.0  # s, the published 200 steps
    arena_m: float = 3.0  # m, half-width of the arena in x and y
    ceiling_m: float = 3.0  # m, its height
    bounds_m: float = 1.0  # m, outside the arena; farther is a crash
    floor_m: float = 0.1  # m, height below which a drone has hit the ground
    collision_m: float = 0.1  # m, between two drones' middles, if their bodies are not wider
    touch_m: float = 0.1  # m, between a drone and the target
    starts: str = "random"  # or "published": MOMAland's places, for 4 drones
    spacing_m: float = 1.0  # m, between the places of which random starts are drawn
    start_box_m: float = 0.3  # m, half-width of the box of starts around each of them
    start_speed: float = 0.2  # m/s, half-width per axis
    start_tilt: float = math.radians(10.0)  # rad, at most
    start_spin: float = 0.2  # rad/s, half-width per axis
    sight_m: float = 3.5  # m, neighbours farther away are not seen
    neighbours: int = 3  # nearest ones that a drone sees, however many there are
    shell_m: float = 0.8  # m, radius around the target at which the drones should be
    shell_width_m: float = 0.4  # m, deviation from it that still counts
    hold_s: float = 1.0  # s at the end of the episode, over which the goal has to be met
    reward: Weights = Weights(approach=1.0, apart=1.0, shell=0.0, around=0.0, yaw_rate=0.0, crash=-10.0)


class Swarm(DroneTask):
    """Base of the three tasks. Subclasses move ``self.goal`` [N, 3] in `move_goal` and say in `met` when all is well.

    The two objectives per drone, as published: `closeness`, how much nearer it came to where the target was (m a step),
    and `spread`, its mean distance to the others (m). A drone that crashes gets -10 in both, and nothing else.
    """

    interface: ClassVar[tuple[str, ...]] = ("neighbours", "sight_m")
    deciding = MappingProxyType({"held_s": ("hold_s", False)})
    metric_definitions = MappingProxyType(
        {
            "success": (
                "1 where no drone crashed and the goal was met all through the last second, see the task's `met`"
            ),
            "held_s": "s, for which the goal has been met without a break",
            "distance_m": "m, mean distance of the drones from the target now",
            "nearest_m": "m, least distance of a drone from the target now",
            "around": (
                "1, least value over the drones of the reward term `around`: how far apart the drones stand as seen "
                "from the target"
            ),
            "gap_m": "m, least distance between two drones in the episode",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    causes: ClassVar[tuple[str, ...]] = CAUSES
    objectives: ClassVar[dict[str, tuple[str, ...]]] = {
        "closeness": ("approach", "shell", "yaw_rate", "crash"),
        "spread": ("apart", "around", "crash"),
    }
    cfg: Any

    goal: Tensor
    goal_velocity: Tensor
    goal_before: Tensor
    before: Tensor
    terms: Tensor
    figures: Tensor
    cause: Tensor
    held: Tensor
    number: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        self.near = max(c.collision_m, 2 * self.drone.body_radius + TOUCHING_M)  # m
        if c.num_drones < 2:
            raise RookeryError(f"a swarm has at least 2 drones, got num_drones={c.num_drones}.")
        if c.starts not in STARTS:
            raise unknown("value of starts", c.starts, STARTS)
        if c.neighbours < 1:
            raise RookeryError(f"a drone must see at least 1 neighbor, got neighbours={c.neighbours}.")
        if not 0 < c.shell_width_m < c.shell_m:
            raise RookeryError(
                f"shell_width_m must lie between 0 and shell_m {c.shell_m} m, got {c.shell_width_m} m: the drones would "
                "have to be inside the target."
            )
        self._check_starts()

    def _check_starts(self) -> None:
        c = self.cfg
        if c.starts == "published":
            if c.num_drones != len(PUBLISHED_STARTS):
                raise RookeryError(
                    f"the published starts are for {len(PUBLISHED_STARTS)} drones, got num_drones={c.num_drones}: use "
                    "starts='random'."
                )
            return
        gap = c.spacing_m - 2 * c.start_box_m
        if gap <= self.near:
            raise RookeryError(
                f"drones would start in collision: places {c.spacing_m} m apart with start boxes of +-{c.start_box_m} m leave "
                f"{gap:.3g} m and these drones need more than {self.near:.3g} m: raise spacing_m or lower start_box_m."
            )
        free = len(self._grid()) - 27  # the target takes one place and those around it
        if c.num_drones > free:
            raise RookeryError(
                f"{c.num_drones} drones do not fit into the arena, which has {max(free, 0)} places {c.spacing_m} m apart: "
                "raise arena_m or lower spacing_m (and start_box_m)."
            )

    def _grid(self) -> Tensor:
        """[P, 3] m: the places of which random starts are drawn."""
        c = self.cfg
        lowest = c.start_box_m + 4 * max(c.floor_m, self.drone.body_height)
        axes = []
        for low, high in ((-c.arena_m, c.arena_m), (-c.arena_m, c.arena_m), (lowest - c.start_box_m, c.ceiling_m)):
            count = int((high - low - 2 * c.start_box_m) / c.spacing_m + 1e-6) + 1
            axes.append((torch.arange(count) - 0.5 * (count - 1)) * c.spacing_m + 0.5 * (low + high))
        return torch.cartesian_prod(*axes)

    def setup(self) -> None:
        super().setup()
        c, n, a = self.cfg, self.world.num_envs, self.cfg.num_drones
        for name in ("goal", "goal_velocity", "goal_before"):
            self.buffer(name, n, 3)
        self.buffer("before", n, a, 3)
        self.buffer("terms", len(TERMS), n, a)
        self.buffer("figures", n, len(FIGURES))
        self.buffer("cause", n, dtype=torch.int64)
        self.buffer("held", n, dtype=torch.int64)
        self.buffer("number", n, dtype=torch.int64)  # of drones that take part: the first ones
        self.number.fill_(a)
        self._all = torch.arange(n)
        self._hold_steps = max(round(c.hold_s / c.control_dt), 1)
        self._places = self._grid()
        low, high = torch.tensor(_TARGET_PLACES).T
        self._target_low = low
        self._target_size = high - low
        self._bind()

    def _bind(self) -> None:
        """Arguments of the kernels in every step, as arrays, and their results as tensors."""
        c, n, a = self.cfg, self.world.num_envs, self.cfg.num_drones
        self._taking_part = self.number.numpy()
        goal, velocity, goal_before = self.goal.numpy(), self.goal_velocity.numpy(), self.goal_before.numpy()
        before, figures = self.before.numpy(), self.figures.numpy()
        self._begun = goal, goal_before, velocity, self._target, before, figures, self.held.numpy()
        self._motion = before, goal, goal_before
        near = np.array((self.near, c.touch_m))
        self._limits = c.shell_m, near, self._ground, c.floor_m, c.arena_m + c.bounds_m, c.ceiling_m + c.bounds_m
        yaw_rate = torch.zeros(n, a)  # of the latest control step, no part of what an episode remembers
        self._judged = yaw_rate.numpy(), self.terms.numpy(), self.cause.numpy(), figures
        self._rewards = dict(zip(TERMS, self.terms.unbind(0), strict=True)) | {"yaw_rate": yaw_rate}
        middle = np.array((0.0, 0.0, 0.5 * c.ceiling_m))
        observed = torch.zeros(n, a, 18 + 7 * c.neighbours)
        in_body = c.action not in _WORLD_AXES
        self._seen = goal, velocity, middle, c.sight_m, c.neighbours, in_body, observed.numpy()
        own = self.groups()["drone"].observation[:-1]
        parts = observed.split([t.size for t in own], dim=-1)
        self._views = dict(zip((t.name for t in own), parts, strict=True)) | {"last_action": self.last_action}

    def groups(self) -> dict[str, Group]:
        k = self.cfg.neighbours
        among = Neighbors(k)

        def seen(vector: Expression) -> Expression:
            return vector if self.cfg.action in _WORLD_AXES else body(vector)

        terms = (
            Term("target_offset", seen(place("target") - POSITION), noise=0.005, estimated="position, target's position"),
            Term("target_velocity", seen(velocity("target's velocity") - VELOCITY), scale=0.5, noise=0.02,
                 estimated="linear velocity, target's velocity"),
            Term("middle_offset", seen(place("middle of the arena") - POSITION), scale=0.5, noise=0.005, estimated="position"),
            Term("up", body(WORLD_Z), noise=0.005, estimated="attitude"),
            Term("linear_velocity", seen(VELOCITY), scale=0.5, noise=0.01, estimated="linear velocity"),
            Term("angular_velocity", ANGULAR_VELOCITY, scale=0.1, noise=0.02),
            Term("neighbour_offset", among.seen(seen(among.positions - POSITION)), noise=0.005, neighbors=k,
                 estimated="other drones' position"),
            Term("neighbour_velocity", among.seen(seen(among.velocities - VELOCITY)), scale=0.5, noise=0.02, neighbors=k,
                 estimated="other drones' linear velocity"),
            Term("neighbour_seen", among.in_sight, neighbors=k, present=True),
            Term("last_action", last_action(4)),
        )  # fmt: skip
        return {"drone": Group(self.cfg.num_drones, terms, self.action)}

    def measured(self) -> dict[str, dict[str, Tensor]]:
        b, c = self.drones.bodies, self.cfg
        out = super().measured()["drone"] | Neighbors(c.neighbours).measure(b.pos, b.lin_vel, c.sight_m, self.present)
        shape = (-1, c.num_drones, -1)
        out["target"] = self.goal[:, None].expand(shape)
        out["target's velocity"] = self.goal_velocity[:, None].expand(shape)
        out["middle of the arena"] = torch.tensor((0.0, 0.0, 0.5 * c.ceiling_m)).expand(self.target.shape)
        return {"drone": out}

    @property
    def present(self) -> Tensor:
        """[N, A] bool: who takes part."""
        return torch.arange(self.cfg.num_drones) < torch.from_numpy(self._taking_part)[:, None]

    def reset(self, ids: Tensor) -> None:
        """Starts on random places of a grid, away from the target; or the published ones."""
        if self.cfg.starts == "published":
            goal = torch.tensor(PUBLISHED_TARGET).repeat(len(ids), 1)
            self.target[ids] = torch.tensor(PUBLISHED_STARTS)
        else:
            draws = self.rng(ids).uniform(0.0, 1.0, (3 + len(self._places),))
            goal = torch.empty(len(ids), 3)
            kernels.choose_places(
                ids.numpy(), draws.numpy(), self._places.numpy(), self._target_low.numpy(), self._target_size.numpy(),
                1.5 * self.cfg.spacing_m, goal.numpy(), self._target,
            )  # fmt: skip
        self.place(ids)  # scatters the drones around `target`: until here their own places, from here the goal
        kernels.begin(ids.numpy(), goal.numpy(), self.drones.bodies.state.numpy(), *self._begun)
        self._evaluate(ids)

    def move_goal(self) -> None:
        """Move ``self.goal`` on by one control step and set ``self.goal_velocity``; a goal at rest needs nothing."""

    def met(self) -> Tensor:
        """[N] bool: the drones are where they should be, now.

        All of them on the shell around the target, no two seen from it under less than half the angle that n drones can
        have to each other (the side of an equal share of the sphere), and not all of them on one side.
        """
        error, around, imbalance = self.figures[:, 2], self.figures[:, 3], self.figures[:, 4]
        return (error < self.cfg.shell_width_m) & (around > 0.5) & (imbalance < 0.4)

    def advance(self) -> None:
        self.goal_before.copy_(self.goal)
        self.move_goal()
        self._evaluate(self._all)
        self.turning.add(self.drones.bodies.state.numpy(), self._clock)
        self.held.add_(1).mul_(self.met())

    def _evaluate(self, ids: Tensor) -> None:
        kernels.evaluate(
            ids.numpy(),
            self._taking_part,
            self.drones.bodies.state.numpy(),
            *self._motion,
            *self._limits,
            *self._judged,
        )

    def observe(self) -> dict[str, dict[str, Tensor]]:
        ids = self._outdated.take()
        kernels.observe(ids.numpy(), self._taking_part, self.drones.bodies.state.numpy(), *self._seen)
        return {"drone": self._views.copy()}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """Those of the kernel; none for who takes no part."""
        return {"drone": self._rewards.copy()}

    def terminated(self) -> Tensor:
        """A crash of one drone ends the episode of its world."""
        return self.cause.clone()

    def events(self) -> dict[str, Tensor]:
        return {"crash": self.terms[TERMS.index("crash")] > 0}

    def metrics(self) -> dict[str, Tensor]:
        """Success: the goal was met all through the last second. The rest is of the present moment, but `gap_m`, the least
        distance between two drones in the episode."""
        f = self.figures
        intact = self.cause == 0
        return {
            "success": (intact & (self.held >= self._hold_steps)).float(),
            "held_s": self.held * self.cfg.control_dt,
            "distance_m": f[:, 0].clone(),
            "nearest_m": f[:, 1].clone(),
            "around": f[:, 3].clone(),
            "gap_m": f[:, 5].clone(),
            "crash": (~intact).float(),
            **self.turning.metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Each drone flies to the shell and there away from the others that take part, as charges on a sphere spread out."""
        controller = self.cascade_controller()
        radius = self.cfg.shell_m
        lowest = 4 * self.cfg.floor_m

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            direction = normalize(self.drones.bodies.pos - self.goal[:, None], dim=-1)
            apart = direction[:, :, None] - direction[:, None]
            push = (
                self.present[:, None, :, None] * apart / apart.norm(dim=-1, keepdim=True).clamp_min(0.1).pow(3)
            ).sum(2)
            aim = direction + 0.5 * push / push.norm(dim=-1, keepdim=True).clamp_min(1.0)
            place = self.goal[:, None] + radius * normalize(aim, dim=-1) + self.dodge()
            place[..., 2].clamp_(min=lowest)
            return {"drone": controller.act(place, self.goal_velocity[:, None].expand_as(place))}

        return act

    def dodge(self) -> Tensor:
        """[N, A, 3] m: how far a classical controller shifts each drone's aim away from those that are near it."""
        pos = self.drones.bodies.pos
        away = pos[:, :, None] - pos[:, None]
        return 0.01 * (away / away.norm(dim=-1, keepdim=True).clamp_min(0.1).pow(4)).sum(2).clamp(-50.0, 50.0)

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Limits within which the policy has learned to fly; a runtime takes over outside."""
        c = self.cfg
        side = c.arena_m + c.bounds_m
        return {
            "drone": {
                "height": {"low": c.floor_m, "high": c.ceiling_m + c.bounds_m, "unit": "m"},
                "x": {"low": -side, "high": side, "unit": "m"},
                "y": {"low": -side, "high": side, "unit": "m"},
            }
        }

    def markers(self, i: int) -> list[dict[str, Any]]:
        return [{"pos": self.goal[i].tolist(), "size": 0.1, "rgba": [0.95, 0.25, 0.2, 1.0], "trail": True}]
