"""The base of the quadrupeds' tasks: terrain, starts, commands, gait clock, pushes, terms of observation and reward."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import cached_property
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
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.sensors.height_scan import Ground, HeightScan, scan_sensor
from rookery.sim.specs import ActionSpec, Command, Group, ObservationSet, Term
from rookery.sim.task import Task
from rookery.sim.terms import Above, Clock, Constant, Largest, Quantity, Scaled, Sines, Where
from rookery.tasks.locomanip.mirror import ACTOR_X, ACTOR_Y
from rookery.tasks.locomanip.posture import KNEE_M, Posture, posture_definitions
from rookery.tasks.locomanip.terrain_curriculum import TerrainCurriculum
from rookery.tasks.locomanip.terrains import TERRAIN_DT, find_terrain
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
STEPPING = 0.05  # share of the largest command above which a command asks for steps
LEAST_MOST = 1e-3  # m/s, rad/s: taken for the largest command where that is 0 and never asked for
COMMAND = command("commanded velocity forward, velocity left, yaw rate to the left", 3, "m/s, m/s, rad/s", "heading")
SCAN = "ground's height - trunk's height at points of a grid"
"""Quantities that a robot observes."""
LIMITS = {"max_vx": 3.5, "max_back": 2.0, "max_vy": 1.5, "max_yaw_rate": 4.0, "gait_hz": 4.0, "swing_height_m": 0.2}
"""m/s, m/s, m/s, rad/s, Hz, m: beyond these no gait of a Go2 goes (its maker's top speed is 3.7 m/s)."""
CONTACT_M = 0.004
"""m, of a Go2: a foot that is nearer to the ground is on it, since its contact gives way by some mm."""
START_M = 0.03  # m, of a Go2, of the trunk above its height of standing when an episode begins

HARDWARE_METRICS = {
    **posture_definitions(STAND_HEIGHT), **STRAIN_METRICS,
    "undesired_contact": "share of the control steps in which anything but the feet touches the floor",
    "self_collision": "share of the control steps in which parts of the robot touch each other; fingers may",
}  # fmt: skip
"""Definitions of `LeggedTask.hardware_metrics`, of a Go2."""

# Ranges that cover UMI-on-Legs (arXiv 2407.10353), Deep Whole-Body Control (2210.10044), VBC (2403.16967), RoboDuet
# (2403.17367) and UniLab's go2_arm; each term is a switch of its own in a TOML file. Pushes are the task's (`push_s`).
# `restitution` of the feet (there 0 to 0.3) is a switch too, and off unless a file names it: the zoo's go2-velocity, which has
# not met it, does not fall at 0.3 but follows with an error of 0.14 m/s in place of 0.07 (24 episodes).
DEFAULT_RANDOMIZATION = {
    "friction": Range(0.3, 1.6),
    "payload": Range(-1.0, 3.0),
    "link_mass": Range(0.9, 1.1),
    "com_x": Range(-0.03, 0.03),
    "com_y": Range(-0.03, 0.03),
    "motor_strength": Range(0.85, 1.15),
    "kp": Range(0.8, 1.2),
    "kd": Range(0.8, 1.2),
    "armature": Range(0.8, 1.2),
    "joint_damping": Range(0.5, 2.0),
    "hand_payload": Range(0.0, 0.5),
    "gravity_tilt": Range(0.0, 0.02),
    "observation_noise": Range(1.0, 1.0),
    "observation_bias": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.02),
    "action_delay": Range(0.0, 0.03),
}


@dataclass(frozen=True)
class LeggedConfig:
    """Values that all tasks of quadrupeds share.

    Those marked * are a Go2's: another robot's follow from its legs' length as in robots that move alike, see `scale.Scale`.
    """

    robot: str = "go2"  # a quadruped by its name, or the path of a URDF or MJCF file (docs/own_robot.md)
    arm: str = "none"  # "none", "airbot_play" or "arx5"
    terrain: str = (
        "flat"  # "flat", "mixed", "stairs" (up and down), or one kind of assets.terrain: "rough", "stairs_up", ...
    )
    terrain_step_m: float = 0.18  # m, rise of the steps of the hardest row of stairs
    terrain_rows: int = 8  # rows of tiles, by difficulty
    terrain_columns: int = 10  # tiles in a row
    terrain_start_rows: int = 4  # worlds begin spread over so many of the easiest rows
    terrain_level: int = -1  # row on which all episodes begin; -1: by the curriculum
    episode_s: float = 20.0  # s
    control_dt: float = 0.02  # s
    dt: float = 0.005  # s
    history: int = 1  # frames that the policy sees; above 1 a state estimator can learn the base's velocity from them
    max_vx: float = 1.0  # m/s *, forward command; backward is max_back
    max_back: float = 0.6  # m/s *
    max_vy: float = 0.4  # m/s *
    max_yaw_rate: float = 0.8  # rad/s *
    stand_share: float = 0.1  # of the commands that say: stand
    resample_s: float = 4.0  # s between commands
    tracking_sigma: float = (
        0.1  # (m/s)^2 *, of the reward for the commanded velocity; twice that in (rad/s)^2 for turning
    )
    gait_hz: float = 2.0  # Hz *, of the trot (UniLab, go2_arm_manip_loco/mujoco.yaml)
    swing_height_m: float = 0.08  # m *, of a foot in the middle of its swing, above the ground
    push_speed: float = 0.5  # m/s *, largest sudden change of horizontal velocity
    push_s: float = 4.0  # s, mean time between pushes; 0 for none
    start_yaw: float = math.pi  # rad
    start_joints: float = 0.1  # rad, spread of the joints at the start
    fall_up: float = (
        0.5  # cosine between the trunk's up and the world's below which a robot has fallen (UniLab's go2_arm: 0.5)
    )
    fall_height_m: float = (
        0.15  # m, likewise, of a Go2's trunk above the ground; of others in proportion to how high they stand
    )


def teacher_set(terms: tuple[Term, ...], privileged: tuple[Term, ...]) -> ObservationSet:
    """A policy's terms, nothing hidden, and what only a simulation knows."""
    return ObservationSet((*(replace(t, hidden=False) for t in terms), *privileged))


class LeggedTask(Task):
    """Base of the quadrupeds' tasks.

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
    causes = ("fallen",)
    event_names = ("fall", *(f"touchdown_{leg}" for leg in LEGS))
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
        self.last_action[ids] = self.robot.normalised(self.robot.home)
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
        self.slip.copy_((r.foot_vel[..., :2].square().sum(-1) * self.contact).sum(1))
        self.strain.add(r.force, r.peak, r.vel, self.undesired, self.colliding)
        self.posture.add(self.height, self.knees)
        moving = self.moving
        self.phase.copy_(torch.where(moving, (self.phase + self.gait_hz * c.control_dt) % 1.0, self.phase))
        self.fallen.copy_((r.up[:, 2] < c.fall_up) | (self.height < self.fall_height))
        if self.terrain is not None:
            self.curriculum.track(r.base.pos[:, 0], self.command[:, :2].norm(dim=1))
        self._push()
        due = (self.steps >= self.next_command).nonzero().squeeze(1)
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
    def moving(self) -> Tensor:
        """[N] bool: the command asks for steps."""
        return (self.command.abs() / self._scale).amax(1) > STEPPING

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

    # Observations

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

    # Rewards and ends

    def terminated(self) -> Tensor:
        return self.fallen.long()

    def events(self) -> dict[str, Tensor]:
        """`touchdown_<leg>`: that foot has come to the ground in this control step."""
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
