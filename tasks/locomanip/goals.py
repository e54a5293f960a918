"""Moving goals of an end effector: poses drawn on a sphere around the shoulder, reached on smooth ways that spare the trunk.

Ranges and the box that ways must avoid: Deep Whole-Body Control (arXiv 2210.10044, widowGo1_config.py) and UniLab
(envs/locomotion/go2_arm/manip_loco.py). Goals live in the *stance frame*: its origin is on the ground below the trunk, x along
the heading, z up, so that a goal does not sway with the trunk. Spheres are centred on the shoulder as it stands at rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.robots.arms.kinematics import Place
from rookery.sim.buffers import Buffers
from rookery.sim.random import Streams
from rookery.sim.rotations import from_axis_angle, multiply, slerp

TRIES = 8
"""Goals drawn for each one that is wanted; the first whose way is free is taken."""
SAMPLES = 24
"""Points of a way that are looked at."""
TRUNK_BOX = ((-0.30, -0.20, -0.55), (0.36, 0.20, -0.08))
"""m, about the shoulder: where the trunk, the head and the legs are, with some room."""
GROUND = 0.05  # m, of a goal above the ground


@dataclass(frozen=True)
class GoalRanges:
    """Ranges of goals.

    Attributes:
        radius: m, from the shoulder.
        pitch, yaw: rad, up from the horizon and left of the heading, of the way from the shoulder to the goal.
        tilt: rad, half-width by which the tool's axis differs from that way, about each axis.
        travel_s, hold_s: s, from one goal to the next, and at each.
    """

    radius: tuple[float, float] = (0.30, 0.65)
    pitch: tuple[float, float] = (-1.2566, 1.0472)
    yaw: tuple[float, float] = (-1.8850, 1.8850)
    tilt: float = 0.5
    travel_s: tuple[float, float] = (1.0, 3.0)
    hold_s: tuple[float, float] = (0.5, 2.0)


class MovingGoals(Buffers):
    """One goal that moves in each of N worlds.

    Args:
        num_envs: N.
        shoulder: m, in the stance frame at rest.
        home: (radius m, pitch rad, yaw rad) where goals begin.
        rng: the worlds' random streams.
        dt: s, control step.
    """

    start: Tensor
    end: Tensor
    start_quat: Tensor
    end_quat: Tensor
    clock: Tensor
    travel: Tensor
    hold: Tensor

    def __init__(
        self, num_envs: int, shoulder: tuple[float, float, float], home: tuple[float, float, float], rng: Streams,
        dt: float, ranges: GoalRanges | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.ranges = ranges or GoalRanges()
        self.rng = rng
        self.dt = dt
        self.shoulder = torch.tensor(shoulder)
        self.home = torch.tensor(home)
        for name in ("start", "end"):
            self.buffer(name, num_envs, 3)  # radius, pitch, yaw
            self.buffer(f"{name}_quat", num_envs, 4)
        for name in ("clock", "travel", "hold"):
            self.buffer(name, num_envs)

    def reset(self, ids: Tensor) -> None:
        """Begin at home, and go to a first goal."""
        self.end[ids] = self.home
        self.end_quat[ids] = facing(self.end[ids])
        self._next(ids)

    def advance(self) -> None:
        """Let a control step pass; goals that were held long enough move on to the next."""
        self.clock += self.dt
        due = (self.clock >= self.travel + self.hold).nonzero().squeeze(1)
        if len(due):
            self._next(due)

    def _next(self, ids: Tensor) -> None:
        r, n = self.ranges, len(ids)
        self.start[ids] = self.end[ids]
        self.start_quat[ids] = self.end_quat[ids]
        u = self.rng(ids).uniform(0.0, 1.0, (3 * TRIES + 5,))
        low, high = (torch.tensor(v) for v in zip(r.radius, r.pitch, r.yaw, strict=True))
        ends = low + u[:, : 3 * TRIES].view(n, TRIES, 3) * (high - low)
        free = self.path_is_free(self.start[ids][:, None].expand(-1, TRIES, -1), ends)
        first = free.to(torch.uint8).argmax(1)  # the first free one; where there is none the goal stays where it is
        chosen = ends[torch.arange(n), first]
        self.end[ids] = torch.where(free.any(1, keepdim=True), chosen, self.start[ids])
        roll, pitch, yaw = (r.tilt * (2.0 * u[:, 3 * TRIES : 3 * TRIES + 3] - 1.0)).unbind(1)
        self.end_quat[ids] = multiply(facing(self.end[ids]), _from_rpy(roll, pitch, yaw))
        self.travel[ids] = r.travel_s[0] + u[:, -2] * (r.travel_s[1] - r.travel_s[0])
        self.hold[ids] = r.hold_s[0] + u[:, -1] * (r.hold_s[1] - r.hold_s[0])
        self.clock[ids] = 0.0

    def path_is_free(self, start: Tensor, end: Tensor) -> Tensor:
        """[...] bool: whether the ways from start to end [..., 3] (radius, pitch, yaw) spare trunk and ground."""
        share = torch.linspace(0.0, 1.0, SAMPLES).view(-1, 1)
        points = cartesian(start[..., None, :] + share * (end - start)[..., None, :])
        low = torch.tensor(TRUNK_BOX[0])
        high = torch.tensor(TRUNK_BOX[1])
        inside = ((points > low) & (points < high)).all(-1)
        buried = points[..., 2] + self.shoulder[2] < GROUND
        return ~(inside | buried).any(-1)

    def pose(self, ahead_s: float = 0.0) -> Place:
        """Goals in the stance frame: pos [N, 3] m, quat [N, 4] wxyz.

        Args:
            ahead_s: s from now; no further than the goal that is being approached.
        """
        share = ((self.clock + ahead_s) / self.travel).clamp(0.0, 1.0)[:, None]
        share = share * share * (3.0 - 2.0 * share)
        pos = cartesian(self.start + share * (self.end - self.start)) + self.shoulder
        return Place(pos, slerp(self.start_quat, self.end_quat, share))


def cartesian(sphere: Tensor) -> Tensor:
    """[..., 3] m from (radius m, pitch up rad, yaw left rad) [..., 3]."""
    radius, pitch, yaw = sphere.unbind(-1)
    level = radius * pitch.cos()
    return torch.stack((level * yaw.cos(), level * yaw.sin(), radius * pitch.sin()), dim=-1)


def facing(sphere: Tensor) -> Tensor:
    """[..., 4] wxyz: x axis from the centre to a point (radius, pitch, yaw) [..., 3], z up as far as that allows."""
    return _from_rpy(torch.zeros_like(sphere[..., 0]), -sphere[..., 1], sphere[..., 2])


def _from_rpy(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    x, y, z = torch.eye(3)
    about_z = from_axis_angle(z.expand(*yaw.shape, 3), yaw)
    about_y = from_axis_angle(y.expand(*pitch.shape, 3), pitch)
    return multiply(multiply(about_z, about_y), from_axis_angle(x.expand(*roll.shape, 3), roll))
