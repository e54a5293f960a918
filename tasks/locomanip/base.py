"""The world of the quadrupeds' tasks: terrain, starts, commands, gait clock, pushes, falls."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.scenery import ground
from rookery.assets.terrain import Terrain
from rookery.robots.arms.models import find_arm
from rookery.robots.quadrupeds.go2 import STAND_HEIGHT
from rookery.robots.quadrupeds.model import LEGS
from rookery.robots.quadrupeds.quadruped import SELF, UNDESIRED, Quadruped, add_quadruped
from rookery.robots.quadrupeds.scale import scale_of
from rookery.robots.quadrupeds.table import find_quadruped
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.sensors.height_scan import Ground, HeightScan
from rookery.sim.specs import Command
from rookery.sim.task import Task
from rookery.tasks.locomanip.config import DEFAULT_RANDOMIZATION, LIMITS, LeggedConfig
from rookery.tasks.locomanip.mirror import ACTOR_X, ACTOR_Y
from rookery.tasks.locomanip.posture import KNEE_M, Posture, posture_definitions
from rookery.tasks.locomanip.terrain_curriculum import TerrainCurriculum
from rookery.tasks.locomanip.terrains import TERRAIN_DT, find_terrain
from rookery.tasks.rewards import feet_slide_l2
from rookery.tasks.strain import STRAIN_METRICS, Strain

IMPRATIO = 10.0
"""MuJoCo's `impratio`: how much stiffer friction is than the normal force. At 1, a standing robot's feet creep apart by
1 cm within 10 s."""
NO_WARM_START = mujoco.mjtDisableBit.mjDSBL_WARMSTART | mujoco.mjtDisableBit.mjDSBL_ISLAND
"""Feet come and go: from the accelerations without constraints, Newton's method takes fewer iterations to the same solution
than from those of the last step, and one robot is one island. A third more steps/s (benchmarks/legged_fast.py)."""
HIPS = ((0.2, 0.15), (0.2, -0.15), (-0.2, 0.15), (-0.2, -0.15))
"""m, of a Go2, forward and left of the trunk's centre: on terrain, its height is that over the mean ground below these points,
which does not jump where it crosses the edge of a step."""
FINGERS = ("arm/finger_left", "arm/finger_right")
STEPPING = 0.05  # share of the largest command above which a command asks for steps
LEAST_MOST = 1e-3  # m/s, rad/s: taken for the largest command where that is 0 and never asked for
CONTACT_M = 0.004
"""m, of a Go2: a foot that is nearer to the ground is on it, since its contact gives way by some mm."""
START_M = 0.03  # m, of a Go2, of the trunk above its height of standing when an episode begins

HARDWARE_METRICS = {
    **posture_definitions(STAND_HEIGHT), **STRAIN_METRICS,
    "undesired_contact": "share of the control steps in which anything but the feet touches the floor",
    "self_collision": "share of the control steps in which parts of the robot touch each other; fingers may",
}  # fmt: skip
"""Definitions of `LeggedTask.hardware_metrics`, of a Go2."""


def for_grasping(floor: mujoco.MjSpec) -> mujoco.MjSpec:
    """Elliptic friction cones: with pyramids what the gripper holds creeps out of it by 3 mm/s (measured).

    With them, and with parts that lie about, warm starts and islands pay: 24 us of one core a step in place of 57.
    """
    floor.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    floor.option.disableflags &= ~NO_WARM_START
    return floor


class LeggedBase(Task):
    """World of the quadrupeds' tasks: what happens in it; see LeggedTask for what a policy sees of it.

    Attributes:
        model: what kind of quadruped it is. robot: the quadrupeds. scale: its size and weight in a Go2's.
        least, most: m/s, m/s, rad/s: of the commands that are drawn.
        gait_hz, swing_height: Hz, m: those of the config, for this robot.
        command: [N, 3] m/s forward, m/s left, rad/s left turn; in the frame of the heading. May be written at any time, for
            instance by a joystick; what is beyond `LIMITS`, which are a Go2's, is clipped at the next step, with one warning.
        phase: [N] of the gait, in [0, 1).
        contact: [N, 4] bool, feet on the ground.
        undesired, colliding: [N] contact points of anything but the feet with the floor, and of the robot with itself.
        knees: [N, 4] heights of the knees over the ground, as shares of those of standing.
        height: [N] m, of the trunk above the ground below it, on terrain above the mean of the ground below its hips.
    """

    interface: ClassVar[tuple[str, ...]] = ("robot", "arm", "history", "gait_hz", "terrain", "terrain_step_m")
    causes: ClassVar[tuple[str, ...]] = ("fallen",)
    event_definitions: Mapping[str, str] = MappingProxyType(
        {"fall": "the robot has fallen"} | {f"touchdown_{leg}": f"the foot {leg} comes to the ground" for leg in LEGS}
    )
    default_randomization = DEFAULT_RANDOMIZATION
    first_action: ClassVar[str] = "the neutral action"
    """What `last_action` holds when an episode begins, in words."""
    cfg: LeggedConfig
    command: Tensor
    phase: Tensor
    last_action: Tensor
    before_action: Tensor
    fallen: Tensor
    next_push: Tensor
    next_command: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        self.model = find_quadruped(self.cfg.robot)
        if type(self).camera == Task.camera:  # a task's own stays
            self.camera = f"{self.model.name}/chase"
        m = self.model
        loads = {"payload": Range(*m.typical_payload)}
        shifts = {axis: Range(-m.typical_shift, m.typical_shift) for axis in ("com_x", "com_y")}
        frictions = dict(zip(("joint_friction", "knee_friction"), m.typical_friction or (), strict=False))
        dry = {name: Range(*bounds) for name, bounds in frictions.items()}
        self.default_randomization = {**type(self).default_randomization, **loads, **shifts, **dry}  # type: ignore[misc]
        self.scale = scale_of(m)
        self.fall_height = self.cfg.fall_height_m * self.model.stand_height / STAND_HEIGHT
        for name, limit in LIMITS.items():
            value = getattr(self.cfg, name)
            if value < 0.0:
                raise RookeryError(f"{name} is {value}: give a value from 0 to {limit}.")
            if value > limit:
                print(
                    f"rookery: {name} {value} is beyond what a quadruped here can do: clipped to {limit}.",
                    file=sys.stderr,
                )
                self.cfg = replace(self.cfg, **{name: limit})  # type: ignore[arg-type]
        if self.cfg.terrain != "flat" and self.cfg.dt > TERRAIN_DT:
            print(
                f"rookery: physics steps of {self.cfg.dt} s are too long for terrain: {TERRAIN_DT} s.", file=sys.stderr
            )
            self.cfg = replace(self.cfg, dt=TERRAIN_DT)  # type: ignore[arg-type]
        c, size = self.cfg, self.scale
        self.most = (c.max_vx * size.velocity, c.max_vy * size.velocity, c.max_yaw_rate * size.rate)
        self.least = (-c.max_back * size.velocity, -self.most[1], -self.most[2])
        self.gait_hz = c.gait_hz * size.rate
        self.swing_height = c.swing_height_m * size.length

    @cached_property
    def terrain(self) -> Terrain | None:
        """The grid of tiles; None for a plane."""
        c = self.cfg
        if c.terrain == "flat":
            return None
        return find_terrain(c.terrain, c.terrain_rows, c.terrain_columns, c.terrain_step_m)

    def scene(self) -> Scene:
        c = self.cfg
        scene = Scene(self.floor, dt=c.dt)
        add_quadruped(scene, self.model, find_arm(c.arm))
        return scene

    def floor(self) -> mujoco.MjSpec:
        """The ground."""
        spec = ground() if self.terrain is None else self.terrain.spec()
        spec.option.impratio = IMPRATIO
        spec.option.disableflags |= NO_WARM_START
        return spec

    @property
    def shardable(self) -> bool:
        """A terrain's columns are shared out among all worlds."""
        return self.terrain is None

    def setup(self) -> None:
        n = self.world.num_envs
        self.robot = Quadruped(self.world, self.model, find_arm(self.cfg.arm), self.rng)
        self.child("robot", self.robot)
        actions = len(self.robot.joint_names)
        self.buffer("command", n, 3)
        self.buffer("phase", n)
        self.buffer("last_action", n, actions)
        self.buffer("before_action", n, actions)
        self.buffer("fallen", n, dtype=torch.bool)
        self.buffer("next_push", n, dtype=torch.int64)
        self.buffer("next_command", n, dtype=torch.int64)
        self.buffer("contact", n, 4, dtype=torch.bool)
        self.buffer("touchdown", n, 4, dtype=torch.bool)
        self.buffer("slip", n)
        self.undesired = self.world.contact_count(UNDESIRED)
        self.colliding = self.world.contact_count(SELF)
        self.strain = Strain(n, self.robot.torque_limits)
        self.child("strain", self.strain)
        self.posture = Posture(n, self.model.stand_height)
        self.child("posture", self.posture)
        self._standing_knees = self.robot.standing_knees()
        self._read = -1  # the world's version
        self.height = torch.zeros(n)
        self.knees = torch.zeros(n, 4)
        self.clearance = torch.zeros(n, 4)
        if self.terrain is not None:
            t, c = self.terrain, self.cfg
            self.ground = Ground(t.heights, t.origin, t.cell_m)
            self.scan = HeightScan(self.ground, ACTOR_X, ACTOR_Y)
            self.wide_scan = HeightScan(self.ground)
            self.curriculum = TerrainCurriculum(
                t, self.rng, episode_s=c.episode_s, control_dt=c.control_dt, start_rows=c.terrain_start_rows
            )
            self.child("curriculum", self.curriculum)
        self._scale = torch.tensor(self.most).clamp_min(LEAST_MOST)
        units = torch.tensor((self.scale.velocity, self.scale.velocity, self.scale.rate))
        self._least = -units * torch.tensor((LIMITS["max_back"], LIMITS["max_vy"], LIMITS["max_yaw_rate"]))
        self._most = units * torch.tensor((LIMITS["max_vx"], LIMITS["max_vy"], LIMITS["max_yaw_rate"]))
        self._said = False
        self._replaced = torch.zeros(0, dtype=torch.int64), torch.zeros(0, 3)

    contact: Tensor
    touchdown: Tensor
    slip: Tensor

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        return self.robot.base.names

    def parameters(self) -> dict[str, Parameter]:
        return self.robot.parameters()

    # Episodes

    def reset(self, ids: Tensor) -> None:
        c, n = self.cfg, len(ids)
        u = self.rng(ids).uniform(-1.0, 1.0, (len(self.robot.joint_names) + 3,))
        state = torch.zeros(n, 13)
        yaw = c.start_yaw * u[:, 0]
        state[:, 2] = self.model.stand_height + START_M * self.scale.length
        state[:, 3] = (0.5 * yaw).cos()
        state[:, 6] = (0.5 * yaw).sin()
        self.place(ids, state)
        joints = self.robot.home + c.start_joints * u[:, 3:]
        self.robot.reset(ids, state, joints.clamp(self.robot.limits[0], self.robot.limits[1]))
        self.last_action[ids] = self.robot.normalized(self.robot.home)
        self.before_action[ids] = self.last_action[ids]
        self.phase[ids] = 0.5 * (u[:, 1] + 1.0)
        self.contact[ids] = False
        self.touchdown[ids] = False
        self.slip[ids] = 0.0
        self.strain.reset(ids)
        self.posture.reset(ids)
        self.fallen[ids] = False
        self._sample_command(ids)
        self._sample_push(ids)

    def place(self, ids: Tensor, state: Tensor) -> None:
        """Move the starts `state` [n, 13] of the worlds `ids`, in place, to their tiles."""
        if self.terrain is not None:
            if self.cfg.terrain_level >= 0:
                self.curriculum.level[ids] = min(self.cfg.terrain_level, self.curriculum.rows - 1)
                still = torch.zeros(len(ids), dtype=torch.bool)
                state[:, :3] += self.curriculum.reset(ids, still, still)
            else:
                state[:, :3] += self.curriculum.reset(ids, *self.terrain_verdict(ids))

    def terrain_verdict(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the worlds `ids` [n], whose episode is over, go up a row of the terrain and which go down, each [n] bool."""
        return self.curriculum.verdict(ids)

    def _sample_command(self, ids: Tensor) -> None:
        c = self.cfg
        back = self.least[0]
        forward, aside, turn = self.most
        u = self.rng(ids).uniform(0.0, 1.0, (5,))
        command = torch.stack(
            (
                u[:, 0] * (forward - back) + back,
                (2 * u[:, 1] - 1) * aside,
                (2 * u[:, 2] - 1) * turn,
            ),
            dim=1,
        )
        command[u[:, 3] < c.stand_share] = 0.0
        self.command[ids] = command
        self.next_command[ids] = self.steps[ids] + ((0.5 + u[:, 4]) * c.resample_s / c.control_dt).long().clamp_min(1)

    def _sample_push(self, ids: Tensor) -> None:
        if self.cfg.push_s > 0:
            wait = self.rng(ids).uniform(0.5, 1.5) * self.cfg.push_s / self.cfg.control_dt
            self.next_push[ids] = self.steps[ids] + wait.long().clamp_min(1)

    def clip_command(self) -> None:
        """Clip commands that were written from outside; to be called when actions are applied."""
        inside = torch.maximum(torch.minimum(self.command, self._most), self._least)
        if torch.equal(inside, self.command):
            return
        if not self._said:
            world = int((inside != self.command).any(1).nonzero()[0, 0])
            asked, given = (tuple(round(v, 3) for v in x[world].tolist()) for x in (self.command, inside))
            print(
                f"rookery: the command {asked} (m/s, m/s, rad/s) is beyond what a quadruped here can do: clipped to {given}. "
                "Others will be clipped without a word.", file=sys.stderr,
            )  # fmt: skip
            self._said = True
        self.command.copy_(inside)

    def advance(self) -> None:
        c, r = self.cfg, self.robot
        self.refresh()
        r.patches.update(r.foot_pos)
        r.read_forces()
        contact = self.clearance < CONTACT_M * self.scale.length
        torch.logical_and(contact, ~self.contact, out=self.touchdown)
        self.contact.copy_(contact)
        # before a push below changes the velocities
        self.slip.copy_(feet_slide_l2(r.foot_vel, self.contact))
        self.strain.add(r.force, r.peak, r.vel, self.undesired, self.colliding)
        self.posture.add(self.height, self.knees)
        moving = self.moving
        self.phase.copy_(torch.where(moving, (self.phase + self.gait_hz * c.control_dt) % 1.0, self.phase))
        self.fallen.copy_((r.up[:, 2] < c.fall_up) | (self.height < self.fall_height))
        if self.terrain is not None:
            self.curriculum.track(r.base.pos[:, 0], self.command[:, :2].norm(dim=1))
        self._push()
        due = (self.steps >= self.next_command).nonzero().squeeze(1)
        self._replaced = due, self.command[due]
        if len(due):
            self._sample_command(due)

    def refresh(self) -> None:
        """Read the robot; place trunk and feet over the ground. A state that was read before is not read again."""
        if self._read == self.world.version:
            return
        self._read = self.world.version
        r = self.robot
        r.refresh()
        self.height.copy_(r.base.pos[:, 0, 2])
        if self.terrain is not None:
            self.height -= self.ground.at(self._below_hips()).mean(1)
        self.clearance.copy_(self.over_ground(r.foot_pos) - self.model.foot_radius)
        lower = self._standing_knees - self.over_ground(r.knee_pos)
        self.knees.copy_(1.0 - lower / (KNEE_M * self.scale.length))

    def over_ground(self, points: Tensor) -> Tensor:
        """[N, P] m, heights of points [N, P, 3] m, world, over the ground below them."""
        return points[..., 2] if self.terrain is None else points[..., 2] - self.ground.at(points[..., :2])

    def _below_hips(self) -> Tensor:
        """[N, 4, 2] m, world: where the trunk's height is measured."""
        r = self.robot
        ahead = torch.stack((r.yaw.cos(), r.yaw.sin()), dim=1)
        left = torch.stack((-ahead[:, 1], ahead[:, 0]), dim=1)
        hips = self.scale.length * torch.tensor(HIPS)
        return r.base.pos[:, :, :2] + hips[:, :1] * ahead[:, None] + hips[:, 1:] * left[:, None]

    @property
    def followed(self) -> Tensor:
        """[N, 3] the command that was in force in this control step, as rewards and errors take it: `command`, but where a new
        one was drawn at the step's end."""
        due, before = self._replaced
        if not len(due):
            return self.command
        followed = self.command.clone()
        followed[due] = before
        return followed

    @property
    def moving(self) -> Tensor:
        """[N] bool: the command asks for steps."""
        return self.asks_for_steps(self.command)

    def asks_for_steps(self, command: Tensor) -> Tensor:
        """[N] bool of commands [N, 3] m/s, m/s, rad/s."""
        return (command.abs() / self._scale).amax(1) > STEPPING

    def _push(self) -> None:
        if self.cfg.push_s <= 0 or self.cfg.push_speed <= 0:
            return
        due = (self.steps >= self.next_push).nonzero().squeeze(1)
        if len(due):
            u = self.rng(due).uniform(0.0, 1.0, (2,))
            angle = 2 * math.pi * u[:, 0]
            speed = self.cfg.push_speed * self.scale.velocity * u[:, 1].sqrt()
            state = self.robot.base.state[due].clone()
            state[:, 0, 7] += speed * angle.cos()
            state[:, 0, 8] += speed * angle.sin()
            self.robot.base.set_state(due, state)
            self._sample_push(due)

    # Ends

    def terminated(self) -> Tensor:
        return self.fallen.long()

    def events(self) -> dict[str, Tensor]:
        feet = {f"touchdown_{leg}": self.touchdown[:, i].clone() for i, leg in enumerate(LEGS)}
        return {"fall": self.fallen.clone(), **feet}

    def hardware_metrics(self) -> dict[str, Tensor]:
        """Demands of the episode on the robot beside its task, each [N], see HARDWARE_METRICS."""
        return self.posture.metrics(self.steps) | self.strain.metrics(self.steps)

    def remember(self, action: Tensor) -> None:
        """Keep the action [N, J] that was given, for the next observation and the reward of changes."""
        self.before_action.copy_(self.last_action)
        self.last_action.copy_(action)

    def commands(self) -> list[Command]:
        return [
            Command("velocity", self.command, self.least, self.most, ("forward m/s", "left m/s", "turn left rad/s"))
        ]

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The commanded velocity as a row of dots ahead of the trunk."""
        r = self.robot
        base = r.base.pos[i, 0]
        yaw = float(r.yaw[i])
        x, y = float(self.command[i, 0]), float(self.command[i, 1])
        tip = (x * math.cos(yaw) - y * math.sin(yaw), x * math.sin(yaw) + y * math.cos(yaw))
        return [
            {
                "pos": [float(base[0]) + s * tip[0], float(base[1]) + s * tip[1], float(base[2]) + 0.25],
                "size": 0.012, "rgba": [0.1, 0.8, 0.2, 0.9], "trail": False,
            }
            for s in (0.15, 0.3, 0.45, 0.6)
        ]  # fmt: skip
