"""Velocity: a quadruped tracks a commanded velocity and yaw rate, with or without an arm on its back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.robots.quadrupeds.go2 import GO2
from rookery.sim.actuation import Actuation
from rookery.sim.specs import Group, Weights
from rookery.tasks.locomanip.base import HARDWARE_METRICS
from rookery.tasks.locomanip.config import LeggedConfig
from rookery.tasks.locomanip.gait import gait_terms
from rookery.tasks.locomanip.legged_task import LeggedTask
from rookery.tasks.locomanip.mirror import mirror
from rookery.tasks.locomanip.posture import posture_definitions

SUMS = (
    "squared",
    "rate_squared",
    "squared_all",
    "rate_squared_all",
    "counted",
    "counted_all",
    "change_sum",
    "torque_peak",
)
SMOOTH_S = 0.2  # s, of the low-pass before the velocity's error
UP_ERROR = 0.2  # m/s, velocity_error of an episode below which a world goes up a row of the terrain
DOWN_ERROR = 0.35  # m/s, above which it goes down


@dataclass(frozen=True)
class VelocityConfig(LeggedConfig):
    """Values of go2-velocity."""

    arm_motion: str = "hold"  # what an arm does meanwhile: "hold" its home, or "move" about
    arm_reach: float = 0.5  # rad, how far from home a moving arm's joints go
    settle_s: float = 1.0  # s after a new command or a push in which the error does not count
    success_error: float = 0.15  # m/s, rms error of velocity that still counts as following
    reward: Weights = Weights(
        tracking_lin_vel=2.0,
        tracking_ang_vel=0.75,
        lin_vel_z=-1.0,
        ang_vel_xy=-0.05,
        orientation=-2.0,
        base_height=-20.0,
        gait_phase=-2.0,
        feet_clearance=-80.0,
        feet_slip=-0.2,
        feet_landing=-3.0,
        torques=-1e-4,
        power=-5e-4,
        action_rate=-0.02,
        hip_pos=-0.2,
        stand_still=-0.05,
        undesired_contacts=-1.0,
        self_collision=-1.0,
        kneeling=-1.0,
        termination=-20.0,
        alive=1.0,
    )


class Velocity(LeggedTask):
    """A Go2 tracks velocity commands, with or without an arm on its back.

    Success: no fall, and an rms error of the horizontal velocity below 0.15 m/s.

    Metrics: `velocity_error` (m/s) and `turn_error` (rad/s) are rms errors of the trunk's horizontal velocity and yaw rate
    behind a low-pass of 0.2 s, since the trunk sways with every step and commands do not, over the settled time, which leaves
    out `settle_s` after the start, every new command and every push. `velocity_error_all` and `turn_error_all` are those of
    the velocity itself over all time but `settle_s` at the start. Where an episode ended before any time counted, the errors
    are those at its end. `height_error` (m) is the rms difference of the trunk's height from that of standing, over
    all time: a robot that crouches may follow as well as one that walks. `action_change` is the mean change of an action
    between control steps, `torque_peak` (N m) the largest torque of any joint in any physics step.
    """

    name = "go2-velocity"

    deciding = MappingProxyType({"velocity_error": ("success_error", True)})
    metric_definitions = MappingProxyType(
        {
            "success": "1 where the robot did not fall and velocity_error is below success_error",
            "velocity_error": (
                "m/s, rms error of the trunk's horizontal velocity behind a low-pass of 0.2 s, over the settled time,"
                " which leaves out settle_s after the start, every new command and every push; the error at the end where"
                " no time was settled"
            ),
            "turn_error": "rad/s, the same of the yaw rate",
            "velocity_error_all": (
                "m/s, rms error of the velocity itself, over all time but settle_s at the start; the error at the end where"
                " the episode was shorter"
            ),
            "turn_error_all": "rad/s, the same of the yaw rate",
            "fell": "1 where the robot fell",
            "action_change": ("mean size of an action component's change between control steps, in units of [-1, 1]"),
            "torque_peak": "N m, largest torque of any joint in any physics step",
            **HARDWARE_METRICS,
        }
    )

    Config: ClassVar[type] = VelocityConfig
    headline: ClassVar[str] = "velocity_error"
    cfg: VelocityConfig
    squared: Tensor
    squared_all: Tensor
    rate_squared_all: Tensor
    counted: Tensor
    counted_all: Tensor
    smooth: Tensor
    quiet: Tensor
    rate_squared: Tensor
    change_sum: Tensor
    torque_peak: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        own = posture_definitions(self.model.stand_height)
        self.metric_definitions = MappingProxyType({**type(self).metric_definitions, **own})  # type: ignore[misc]

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        for name in SUMS:
            self.buffer(name, n)
        self.buffer("smooth", n, 3)
        self.buffer("quiet", n, dtype=torch.int64)  # step from which the error counts
        if self.robot.arm is not None:
            self.buffer("arm_goal", n, len(self.robot.joint_names) - 12)
            self.buffer("arm_from", n, len(self.robot.joint_names) - 12)

    arm_goal: Tensor
    arm_from: Tensor

    def groups(self) -> dict[str, Group]:
        group = self.group(self.body_terms(), self.robot.legs)
        if self.robot.arm is not None or self.model.mirror is None:  # an arm has one side
            return {"robot": group}
        return {"robot": replace(group, mirror=mirror(group.observation, self.model.mirror))}

    @property
    def actuation(self) -> dict[str, Actuation]:
        return {"robot": self.robot.actuation(0, 12)}

    def observe_privileged(self) -> dict[str, dict[str, Tensor]]:
        return {"robot": {"base_velocity": self.robot.velocity[:, None]}}

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        for name in (*SUMS, "smooth"):
            getattr(self, name)[ids] = 0.0
        self.quiet[ids] = round(self.cfg.settle_s / self.cfg.control_dt)
        if self.robot.arm is not None:
            self.arm_goal[ids] = self.arm_from[ids] = self.robot.home[12:]

    def terrain_verdict(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Up: it followed commands over half a tile's way at least. Down: it fell, or followed badly.

        legged_gym's rule asks how far from its start a robot got, which is little however well it walks where commands
        change every few seconds.
        """
        terrain = self.curriculum
        error = _rms(self.squared[ids], self.counted[ids], torch.full((len(ids), 1), torch.inf))
        begun = terrain.ticks[ids] > 0
        way = terrain.commanded[ids] > terrain.half_tile_m
        up = begun & way & ~self.fallen[ids] & (error < UP_ERROR)
        return up, begun & (self.fallen[ids] | (error > DOWN_ERROR))

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.clip_command()
        r = self.robot
        action = actions["robot"]
        legs = r.targets(action.squeeze(1) if action.dim() == 3 else action.squeeze(2))
        if r.arm is None:
            r.command(legs)
            self.remember(self.given["robot"][:, 0])
            return
        arm = self._arm_targets()
        arm = arm if legs.dim() == 2 else arm[:, None].expand(-1, legs.shape[1], -1)
        r.command(torch.cat((legs, arm), dim=-1))
        self.remember(torch.cat((self.given["robot"][:, 0], self.last_action[:, 12:]), dim=-1))

    def _arm_targets(self) -> Tensor:
        """[N, 6] rad: home, or a new place every two seconds, on a cosine in between."""
        if self.cfg.arm_motion == "hold":
            return self.robot.home[12:].expand(self.world.num_envs, -1)
        period = round(2.0 / self.cfg.control_dt)
        at = self.steps % period
        new = (at == 0).nonzero().squeeze(1)
        if len(new):
            self.arm_from[new] = self.arm_goal[new]
            u = self.rng(new).uniform(-1.0, 1.0, (self.arm_goal.shape[1],))
            goal = self.robot.home[12:] + self.cfg.arm_reach * u
            self.arm_goal[new] = goal.clamp(self.robot.limits[0, 12:], self.robot.limits[1, 12:])
        share = 0.5 - 0.5 * torch.cos(math.pi * at / period)
        return self.arm_from + share[:, None] * (self.arm_goal - self.arm_from)

    def advance(self) -> None:
        before = self.command.clone()
        pushes = self.next_push.clone()
        super().advance()
        r, c = self.robot, self.cfg
        settle = round(c.settle_s / c.control_dt)
        disturbed = (self.command != before).any(1) | (self.next_push != pushes)
        self.quiet.copy_(torch.where(disturbed, self.steps + settle, self.quiet))
        now = torch.cat((self.level_velocity(), r.base.ang_vel[:, 0, 2:3]), dim=1)
        self.smooth += (now - self.smooth) * min(1.0, c.control_dt / SMOOTH_S)
        error = self.smooth - before
        counts = (self.steps >= self.quiet).float()
        self.squared += counts * error[:, :2].square().sum(1)
        self.rate_squared += counts * error[:, 2].square()
        self.counted += counts
        begun = (self.steps >= settle).float()
        self.counted_all += begun
        self.squared_all += begun * (now - before)[:, :2].square().sum(1)
        self.rate_squared_all += begun * (now - before)[:, 2].square()
        self.change_sum += (self.last_action - self.before_action).abs().mean(1)
        self.torque_peak.copy_(torch.maximum(self.torque_peak, r.peak.amax(1)))

    def level_velocity(self) -> Tensor:
        """[N, 2] m/s, horizontal, along and across the heading."""
        v = self.robot.base.lin_vel[:, 0]
        yaw = self.robot.yaw
        c, s = yaw.cos(), yaw.sin()
        return torch.stack((c * v[:, 0] + s * v[:, 1], c * v[:, 1] - s * v[:, 0]), dim=1)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"robot": self.quantities()}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"robot": self.observe_body()}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"robot": gait_terms(self)}

    def metrics(self) -> dict[str, Tensor]:
        steps = self.steps.clamp_min(1)
        slow = self.smooth - self.command
        velocity = torch.cat((self.level_velocity(), self.robot.base.ang_vel[:, 0, 2:3]), dim=1) - self.command
        error = _rms(self.squared, self.counted, slow[:, :2])
        whole = ~self.fallen
        return {
            "success": (whole & (error < self.cfg.success_error)).float(),
            "velocity_error": error,
            "turn_error": _rms(self.rate_squared, self.counted, slow[:, 2:]),
            "velocity_error_all": _rms(self.squared_all, self.counted_all, velocity[:, :2]),
            "turn_error_all": _rms(self.rate_squared_all, self.counted_all, velocity[:, 2:]),
            "fell": self.fallen.float(),
            "action_change": self.change_sum / steps,
            "torque_peak": self.torque_peak,
            **self.hardware_metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        if self.model != GO2:  # the trot is made for its legs
            return None
        from rookery.robots.quadrupeds.gaits import Trot

        trot = Trot(self.robot, self.gait_hz)
        return lambda obs: {
            "robot": self.robot.normalized(trot.act(self.phase, self.command, self.moving))[:, None, :12]
        }


def _rms(squares: Tensor, counted: Tensor, present: Tensor) -> Tensor:
    """[N] root of the mean of sums of squares [N] over steps counted [N]; the length of the present error [N, d] where none
    has counted, since 0 would call an early fall perfect."""
    return torch.where(counted > 0, (squares / counted.clamp_min(1.0)).sqrt(), present.norm(dim=1))
