"""The base of the quadrupeds' tasks: their world (base.py), and what a policy and a critic observe of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from rookery.sim.quantities import (
    ANGULAR_VELOCITY,
    LAST_ACTION,
    VELOCITY,
    WORLD_Z,
    body,
    command,
    joint_angles,
    joint_velocities,
    last_action,
)
from rookery.sim.sensors.height_scan import scan_sensor
from rookery.sim.specs import ActionSpec, CommandRange, Group, ObservationSet, Term
from rookery.sim.terms import Above, Clock, Constant, Largest, Quantity, Scaled, Sines, Where
from rookery.tasks.locomanip.base import LEAST_MOST, STEPPING, LeggedBase
from rookery.tasks.locomanip.mirror import ACTOR_X, ACTOR_Y

COMMAND = command("commanded velocity forward, velocity left, yaw rate to the left", 3, "m/s, m/s, rad/s", "heading")
SCAN = "ground's height - trunk's height at points of a grid"
"""Quantities that a robot observes."""


def teacher_set(terms: tuple[Term, ...], privileged: tuple[Term, ...]) -> ObservationSet:
    """A policy's terms, nothing hidden, and what only a simulation knows."""
    return ObservationSet((*(replace(t, hidden=False) for t in terms), *privileged))


class LeggedTask(LeggedBase):
    """Base of the quadrupeds' tasks."""

    family = "legged"

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {COMMAND.name: CommandRange(self.least, self.most)}

    def body_terms(self) -> tuple[Term, ...]:
        """Measurements of encoders and IMU, and the robot's own commands. Noise: half of legged_gym's (0.2 rad/s, 1.5 rad/s)
        for velocities, about theirs (0.05, 0.01 rad) for `up` and joint angles."""
        j = len(self.robot.joint_names)
        home = Quantity("home", j, "rad", own_memory=True, doc="angles of the home pose, see the actuation's joints")
        phase = Sines(Scaled(self.clock, math.tau, "rad"))
        gait = Where(phase, self.moving_now, "0, 0 while the clock stands still")
        terms: tuple[Term, ...] = (
            Term("angular_velocity", ANGULAR_VELOCITY, scale=0.25, noise=0.1, bias=0.02),
            Term("up", body(WORLD_Z), noise=0.03, bias=0.02, estimated="attitude"),
            Term("command", COMMAND),
            Term("gait", gait),
            Term("joint_position", joint_angles(j) - home, noise=0.01, bias=0.02),
            Term("joint_velocity", joint_velocities(j), scale=0.05, noise=0.75),
            Term("last_action", last_action(j, self.first_action), scale=0.5),
        )  # fmt: skip
        if self.terrain is None:
            return terms
        points = f"heading axes, x {ACTOR_X} m slowly, y {ACTOR_Y} m fast"
        ground = scan_sensor(SCAN, self.scan, self.robot.base.names[0], points)
        rest = Constant((self.model.stand_height,), "m")
        return (*terms, Term("heights", ground + rest, scale=3.0, clip=1.0, estimated="terrain, height"))

    @property
    def clock(self) -> Clock:
        """The gait's, as the policy sees it."""
        return Clock("gait phase", 1, frequency=self.gait_hz, runs=self.moving_now)

    @property
    def moving_now(self) -> Above:
        """1 where the command asks for steps, as `moving`."""
        most = tuple(max(v, LEAST_MOST) for v in self.most)
        return Above(Largest(COMMAND, most, ("vx", "vy", "yaw rate")), STEPPING)

    def group(self, terms: tuple[Term, ...], action: ActionSpec, *targets: Term, future: tuple[str, ...] = ()) -> Group:
        """One agent. With a history, the base's velocity and `targets` are there to be predicted from it; the set "teacher"
        has them, and nothing hidden."""
        h = self.cfg.history
        targets = (
            Term("base_velocity", body(VELOCITY), estimated="linear velocity"),
            *targets,
        )
        sets = {"teacher": teacher_set(terms, targets)}
        if h == 1:
            return Group(1, terms, action, observation_sets=sets)
        return Group(1, terms, action, history=h, targets=targets, future=future, observation_sets=sets)

    def quantities(self) -> dict[str, Tensor]:
        """Those that `body_terms` are made of, [N, 1, d]."""
        self.refresh()
        r = self.robot
        values = {
            "rotation": r.base.quat[:, 0], "position": r.base.pos[:, 0], "velocity": r.base.lin_vel[:, 0],
            "angular velocity": r.base.ang_vel[:, 0], COMMAND.name: self.command, "gait phase": self.phase[:, None],
            "joint angles": r.measured, "home": r.home.expand(len(self.phase), -1), "joint velocities": r.joints.vel,
            LAST_ACTION: self.last_action,
        }  # fmt: skip
        if self.terrain is not None:
            ahead = torch.stack((r.yaw.cos(), r.yaw.sin()), dim=1)[:, None]
            left = torch.stack((-r.yaw.sin(), r.yaw.cos()), dim=1)[:, None]
            points = r.base.pos[:, :, :2] + self.scan.points[:, :1] * ahead + self.scan.points[:, 1:] * left
            values[SCAN] = (self.ground.at(points) - r.base.pos[:, :, 2]).clamp(-self.scan.clip, self.scan.clip)
        return {name: value[:, None] for name, value in values.items()}

    def observe_body(self) -> dict[str, Tensor]:
        """Values of `body_terms`, each [N, 1, d]."""
        self.refresh()
        r = self.robot
        angle = 2.0 * math.pi * self.phase
        gait = torch.stack((angle.sin(), angle.cos()), dim=1) * self.moving[:, None]
        values = {
            "angular_velocity": r.base.ang_vel[:, 0], "up": r.up, "command": self.command, "gait": gait,
            "joint_position": r.measured - r.home, "joint_velocity": r.vel, "last_action": self.last_action,
        }  # fmt: skip
        return {k: v[:, None] for k, v in values.items()}

    def privileged(self) -> Tensor:
        """[N, S] what only a critic may know: velocity, height, feet and their contact, and what cannot be measured."""
        r = self.robot
        return torch.cat(
            (
                r.velocity, self.height[:, None] - self.model.stand_height, self.contact.float(),
                10.0 * self.clearance.clamp(-0.1, 0.2),
                0.02 * self.robot.force, 0.2 * r.foot_vel.flatten(1).clamp(-5, 5),
            ),
            dim=1,
        )  # fmt: skip

    def state(self) -> Tensor | None:
        r = self.robot
        angle = 2.0 * math.pi * self.phase
        own = (
            0.25 * r.base.ang_vel[:, 0], r.up, self.command, angle.sin()[:, None] * self.moving[:, None],
            angle.cos()[:, None] * self.moving[:, None], r.pos - r.home, 0.05 * r.vel, 0.5 * self.last_action,
        )  # fmt: skip
        if self.terrain is None:
            return torch.cat((*own, self.privileged()), dim=1)
        heights = 3.0 * (self.wide_scan(r.base.pos[:, 0], r.yaw) + self.model.stand_height)
        return torch.cat((*own, self.privileged(), heights), dim=1)
