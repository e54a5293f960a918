"""The base of the volleyball tasks: court, drones with rackets, ball, starts, observations, the referee.

A control step: `apply` commands the rotors, the engine flies K physics steps, `advance` shows the referee what touched the
ball and where everything is, and rewards, ends of episodes and observations follow from the referee's sheet.

Rules, courts, places, starts, observations and rewards are VolleyBots' (arXiv 2502.01932, github.com/thu-uav/VolleyBots).
Physics steps are shorter than its 0.02 s; contacts are exact in time. Restitution 0.8 holds for the ball against everything, as
on its drones; what it would be on the ground (there 0, averaged by PhysX) does not matter, since a landed ball ends the rally.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.court import check_court, court
from rookery.assets.scenery import ball as ball_spec
from rookery.robots.drones.actuation import drone_actuation
from rookery.robots.drones.drone import GRAVITY, Drones, action_spec
from rookery.robots.drones.model import add_drone
from rookery.robots.drones.table import check_flies, find_drone
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.effects import effects
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim.quantities import LAST_ACTION, last_action
from rookery.sim.randomization.parameters import Parameter, scaled
from rookery.sim.rendering.camera import Follow
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Term, Weights
from rookery.sim.task import Task
from rookery.sim.world import Bodies
from rookery.tasks.drones.turning import Turning
from rookery.tasks.volleyball import kernels
from rookery.tasks.volleyball.ball import BALLS, DOWN, DOWN_IN, ball_terms
from rookery.tasks.volleyball.landing import landing
from rookery.tasks.volleyball.rally import BALL_FAULTS, BALL_LANDED, DRONE_FAULTS, FAULTS, HIT_FAULTS, RallyLog
from rookery.tasks.volleyball.referee import Referee
from rookery.tasks.volleyball.rules import Rules
from rookery.tasks.volleyball.state import (
    SIDE,
    STATE,
    TERMS,
    THROTTLES,
    drone_state,
)

CTBR_RATE = math.radians(
    0.8 * 180.0
)  # rad/s on all axes, of a ctbr action of 1 (VolleyBots, utils/torchrl/transforms.py)


@dataclass(frozen=True)
class VolleyConfig:
    """Values that every volleyball task has."""

    drone: str = "iris"  # one of robots.drones.table.DRONES
    racket_radius_m: float = 0.2  # m
    action: str = (
        "rotor_thrust"  # VolleyBots' PRT: linear in each rotor's thrust; or ctbr, attitude, velocity, position
    )
    integrated_yaw: bool = False  # track the integral of yaw rate commands, as the Crazyflie firmware does
    ball: str = "volleybots"  # "volleybots": 5 g, radius 0.1 m, no air; or "realistic": 47.2 g, 0.04 m, in air
    effects: str = ""  # preset of aerodynamic effects; empty: the one that goes with the ball
    solid_net: bool = False  # whether ball and drones bounce off the net; it is a matter of rules either way
    court_length_m: float = 18.0  # m
    court_width_m: float = 9.0  # m
    net_height_m: float = 2.43  # m
    net_band_m: float = 1.0  # m, height of the net's mesh: looks only
    dt: float = 0.005  # s, physics step
    control_dt: float = 0.02  # s, policy step
    episode_s: float = 16.0  # s
    start_box_m: tuple[float, ...] = (0.5, 0.5, 0.2)  # m, half-widths of the box of starts around each drone's place
    start_tilt: float = 0.1 * math.pi  # rad, half-width of roll and of pitch
    start_yaw: float = math.pi  # rad, half-width of the heading
    observe_landing: bool = (
        False  # whether agents also observe where and when the ball comes down, which follows from the rest
    )
    observe_action: bool = (
        False  # whether agents also observe their last action, of which delayed measurements do not tell yet
    )
    history: int = 1  # control steps that an observation holds: several tell noise from motion
    ball_above_m: float = 2.0  # m, where the ball starts above the drone that is to hit it first
    reward: Weights = Weights()


class VolleyTask(Task):
    """Base of volleyball tasks. A subclass sets `anchors` and gives `rules`, groups, rewards and metrics.

    Attributes:
        referee: judges the rallies; see Referee and Sheet for its tensors.
        drones: of all agents, [N, A].
        ball: view of the ball, one body; None in a task without.
        log: of the rallies; the referee writes it.
        turning: how fast headings drift; a task's `metrics` have those of it, its `metric_definitions` the TURNING_METRICS.
    """

    engines = ("rotor", "mujoco")
    family = "volley"
    interface: ClassVar[tuple[str, ...]] = (
        "drone", "action", "integrated_yaw", "observe_landing", "observe_action", "history",
    )  # fmt: skip
    causes: ClassVar[tuple[str, ...]] = FAULTS
    event_definitions: Mapping[str, str] = MappingProxyType(
        {
            "hit": "the drone itself hits the ball, legally",
            "crossed_net": "the ball crosses the net's plane",
            "ball_down": "the ball lands in the court",
            "crash": "the drone commits a fault that has nothing to do with the ball",
        }
    )
    anchors: ClassVar[tuple[tuple[float, float, float], ...]] = ((4.5, 0.0, 2.0),)
    """[A] m, world: the drones' places. Those with x < 0 are of the far side."""
    turned: ClassVar[bool] = False
    """Whether drones of the far side see the court turned, so that one policy can play either side."""
    has_ball: ClassVar[bool] = True
    over_net: ClassVar[bool] = False
    """Whether the ball goes over the net although all drones stand on one side: videos then show both halves."""

    cfg: Any
    commanded: Tensor
    """[N, A, 4] actions of the last control step as they were given, before any delay."""
    log: RallyLog
    referee: Referee
    ball: Bodies | None

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        self.given = {}  # until an environment tells
        c = self.cfg
        if c.ball not in BALLS:
            raise unknown("ball", c.ball, BALLS)
        self.ball_kind = BALLS[c.ball]
        self.effects = effects(c.effects or self.ball_kind.effects)
        self.drone: DroneParameters = replace(find_drone(c.drone), max_rate=(CTBR_RATE,) * 3)
        check_flies(self.drone)
        check_court(c.court_length_m, c.court_width_m, c.net_height_m, c.net_band_m, self.anchors)
        if c.racket_radius_m <= 0:
            raise RookeryError(f"racket_radius_m must be positive, got {c.racket_radius_m} m.")
        if len(c.start_box_m) != 3:
            raise RookeryError(f"start_box_m must have three values (x, y, z), got {c.start_box_m}.")
        if self.has_ball and c.ball_above_m < self.ball_kind.radius + self.drone.body_height:
            raise RookeryError(f"ball_above_m {c.ball_above_m} m puts the ball into the drone: start it higher.")

    @property
    def num_drones(self) -> int:
        """A, of both sides."""
        return len(self.anchors)

    @property
    def camera(self) -> Any:  # type: ignore[override]
        """Beside the court, or the half of it that is played on; it follows drones and balls."""
        c = self.cfg
        both = any(x < 0 for x, _, _ in self.anchors) or self.over_net
        middle, width = (0.0, c.court_length_m) if both else (0.25 * c.court_length_m, 0.5 * c.court_length_m)
        eye = (middle + 0.2 * width, -0.5 * c.court_width_m - 0.4 * width, 2.0 + 0.12 * width)
        return Follow(eye, (middle, 0.0, 2.0))

    @property
    def sides(self) -> tuple[int, ...]:
        """[A] 0 for the near side (x > 0), 1 for the far one."""
        return tuple(int(x < 0) for x, _, _ in self.anchors)

    @property
    def names(self) -> tuple[str, ...]:
        """Prefixes of the drones in the scene."""
        return tuple(f"drone_{i}" for i in range(self.num_drones))

    @property
    def touched(self) -> list[str]:
        """Geoms whose contacts with the ball the referee reads: rackets, bodies, ground and a solid net."""
        drones = [f"{d}/{g}" for g in ("racket", "collision") for d in self.names]
        return [*drones, "ground", *["net"] * self.cfg.solid_net]

    def rules(self) -> Rules:
        """The rules of this task."""
        raise NotImplementedError(f"{type(self).__name__} has no rules.")

    def court_rules(self, **others: Any) -> Rules:
        """Rules with this task's court and ball, and `others`."""
        c = self.cfg
        return Rules(0.5 * c.court_length_m, 0.5 * c.court_width_m, c.net_height_m, self.ball_kind.radius, **others)

    def scene(self) -> Scene:
        c, b = self.cfg, self.ball_kind

        def base() -> mujoco.MjSpec:
            return court(c.court_length_m, c.court_width_m, c.net_height_m, c.net_band_m, solid_net=c.solid_net)

        def ball() -> mujoco.MjSpec:
            return ball_spec(b.radius, b.mass, restitution=b.restitution, friction=(b.friction, 0.0, 0.0))

        scene = Scene(base, dt=c.dt, integrator="euler")
        scene.extension(Aeronautics).effects = self.effects
        for name, anchor in zip(self.names, self.anchors, strict=True):
            add_drone(scene, name, self.drone, anchor, c.racket_radius_m if self.has_ball else 0.0)
        if self.has_ball:
            x, y, z = self.anchors[0]
            scene.add(ball, "ball", pos=(x, y, z + c.ball_above_m))
            scene.add_contact_sensor("ball/ball", self.touched)
        return scene

    @property
    def action(self) -> ActionSpec:
        """The configured action kind of this drone."""
        return action_spec(self.drone, self.cfg.action)

    @property
    def actuation(self) -> dict[str, Actuation]:
        """The onboard loops, mixer and rotors below the action kind."""
        c = self.cfg
        lag = self.effects.rotor_lag
        return {"drone": drone_actuation(self.drone, c.action, c.dt, c.integrated_yaw, lag)}

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Limits within which the policy has learned to fly; a runtime takes over outside."""
        return {"drone": {"height": {"low": 0.4, "high": None, "unit": "m"}}}

    def setup(self) -> None:
        n = self.world.num_envs
        self.drones = Drones(self.world, self.names, self.drone, self.cfg.action, self.cfg.integrated_yaw)
        self.drones.physics_steps = self.physics_steps
        self.child("drones", self.drones)
        self.turning = Turning(n, self.num_drones)
        self.child("turning", self.turning)
        self.places = torch.tensor(self.anchors)  # [A, 3] m, world
        self.buffer("commanded", n, self.num_drones, 4)
        self._neutral = torch.tensor(self.drones.spec.neutral)
        self._numbers = torch.arange(self.num_drones)
        self._no_fault = torch.zeros(n, self.num_drones)
        self._fault_kinds = np.zeros((len(FAULTS) + 1, 3), np.float32)
        for column, kind in enumerate((HIT_FAULTS, DRONE_FAULTS, BALL_FAULTS)):
            self._fault_kinds[list(kind), column] = 1.0
        self._faults = {name: torch.zeros(n, self.num_drones) for name in ("wrong_hit", "drone_fault", "ball_fault")}
        self._turned = torch.tensor([self.turned and side == 1 for side in self.sides])
        self.mirror = torch.where(self._turned[:, None], torch.tensor([-1.0, -1.0, 1.0]), torch.ones(3))
        """[A, 3] what a world vector is multiplied by for each drone to see it; -1 where the court is turned."""
        heading = math.pi * torch.tensor(self.sides)
        self._start = self.places.numpy(), heading.numpy()
        self.ball = None
        if not self.has_ball:
            self.log = RallyLog(n)
            self.child("log", self.log)
        else:
            self.ball = self.world.bodies(["ball/base"])
            self.touches = self.world.contact_sensor("ball/ball", self.touched)
            self._when = torch.full((n, len(self.touched)), math.inf)
            self.referee = Referee(n, self.rules(), self.sides, self.cfg.control_dt, self.cfg.dt)
            self.child("referee", self.referee)
            self.log = self.referee.log

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        return tuple(f"{name}/base" for name in self.drones.names)

    def parameters(self) -> dict[str, Parameter]:
        out = self.drones.parameters()
        if self.has_ball:
            set_ball_mass = scaled(self.world.params, ["ball/base"], "mass")
            out["ball_mass"] = Parameter("mass of the ball", "1", 1.0, 0.1, 10.0, set_ball_mass, (), (0.95, 1.05))
        return out

    def servers(self, ids: Tensor) -> Tensor:
        """[n] int64: the drones above which the balls start, drawn anew for each episode where that is random."""
        return torch.zeros(len(ids), dtype=torch.int64)

    def reset(self, ids: Tensor) -> None:
        """Drones near their places at rest, the ball at rest above the server, a new rally."""
        c, a = self.cfg, self.num_drones
        draws = self.rng(ids).uniform(-1.0, 1.0, (a, 6))
        state = torch.empty(len(ids), a, 13)
        kernels.starts(draws.numpy(), *self._start, tuple(c.start_box_m), c.start_tilt, c.start_yaw, state.numpy())
        self.drones.reset(ids, state)
        self.commanded[ids] = self._neutral
        self.turning.reset(ids.numpy())
        if self.ball is not None:
            servers = self.servers(ids)
            ball = torch.empty(len(ids), 1, 13)
            kernels.balls_above(state.numpy(), servers.numpy(), c.ball_above_m, ball.numpy())
            self.ball.set_state(ids, ball)
            self.referee.start(ids, ball[:, 0], servers)

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.commanded.copy_(self.given.get("drone", actions["drone"]))
        self.drones.apply(actions["drone"])

    def advance(self) -> None:
        self.count_turning()
        if self.ball is not None:
            self._when.copy_(self.touches.when)
            self.referee.step(self._when, self.ball.state[:, 0], self.drones.bodies.state)

    def count_turning(self) -> None:
        """Count how far drones have turned in this control step; called once in `advance`."""
        self.turning.add(self.drones.bodies.state.numpy(), self.steps.numpy())

    def state_terms(self) -> tuple[Term, ...]:
        """The 23 numbers of a drone's own state, declared (values from `observe_state`)."""
        return TERMS

    def measured(self) -> dict[str, dict[str, Tensor]]:
        b, n = self.drones.bodies, self.world.num_envs
        shape = (n, self.num_drones, 3)
        half = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
        out = {
            "position": b.pos, "velocity": b.lin_vel, "rotation": b.quat, "angular velocity": b.ang_vel,
            SIDE.name: half[self._turned.long()].expand(n, -1, -1), THROTTLES.name: self.drones.rotor_speed,
            LAST_ACTION: self.commanded,
        }  # fmt: skip
        if self.ball is not None:
            fall = self.ball.pos[..., 2:] - b.pos[..., 2:] - self.ball_kind.radius - 0.5 * self.drone.body_height
            up = self.ball.lin_vel[..., 2:]
            time = (up + (up * up + 2.0 * GRAVITY * fall.clamp_min(0.0)).sqrt()) / GRAVITY * (fall > 0.0)
            down = self.ball.pos + self.ball.lin_vel * time
            out |= {"anchor": self.places.expand(shape), "ball's position": self.ball.pos.expand(shape)}
            out |= {"ball's velocity": self.ball.lin_vel.expand(shape), DOWN: down, DOWN_IN: time}
        return {"drone": out}

    def observe_state(self) -> dict[str, Tensor]:
        """The values of `state_terms`, views of one [N, A, 23] tensor."""
        x = self.drones.bodies.state
        out = torch.empty(*x.shape[:2], STATE)
        drone_state(np.arange(len(x)), x.numpy(), self.drones.rotor_speed.numpy(), self._turned.numpy(), out.numpy())
        return dict(zip((t.name for t in TERMS), out.split([t.size for t in TERMS], dim=-1), strict=True))

    def action_terms(self) -> tuple[Term, ...]:
        """The last action, declared where agents observe it (value from `observe_action`)."""
        return (Term("last_action", last_action(4)),) if self.cfg.observe_action else ()

    def observe_action(self) -> dict[str, Tensor]:
        """The value of `action_terms`, [N, A, 4]."""
        return {"last_action": self.commanded} if self.cfg.observe_action else {}

    def ball_terms(self) -> tuple[Term, ...]:
        """Anchor and ball as a drone sees them, declared (values from `observe_ball`)."""
        return ball_terms(self.cfg.observe_landing)

    def observe_ball(self) -> dict[str, Tensor]:
        """The values of `ball_terms`, each [N, A, 3]."""
        assert self.ball is not None
        pos = self.drones.bodies.pos
        ball = self.ball.state
        seen = {
            "from_anchor": (pos - self.places) * self.mirror,
            "from_ball": (pos - ball[..., 0:3]) * self.mirror,
            "ball_velocity": ball[..., 7:10] * self.mirror,
        }
        return seen | self.observe_landing() if self.cfg.observe_landing else seen

    def observe_landing(self) -> dict[str, Tensor]:
        """The values of those `ball_terms` that say where and when the ball comes down, [N, A, 2] and [N, A, 1]."""
        down, time = self.landing()
        off = down - self.drones.bodies.pos[..., :2]
        return {"to_landing": off * self.mirror[:, :2], "landing_in": time[..., None]}

    def landing(self) -> tuple[Tensor, Tensor]:
        """Place [N, A, 2] (m, world) and time [N, A] (s) at which the ball comes down to each drone's racket, without drag."""
        assert self.ball is not None
        height = self.drones.bodies.pos[..., 2] + self.ball_kind.radius + 0.5 * self.drone.body_height
        return landing(self.ball.state, height)

    def faults(self) -> dict[str, Tensor]:
        """Reward terms of what went wrong in this step, each [N, A] of 0 and 1: `wrong_hit` and `drone_fault` for the drone
        that did it, `ball_fault` for all."""
        r = self.referee.sheet
        kernels.blame(r.fault, r.culprit, r.partner, self._fault_kinds, *(t.numpy() for t in self._faults.values()))
        return self._faults.copy()

    def terminated(self) -> Tensor:
        return self.referee.fault.long()

    def events(self) -> dict[str, Tensor]:
        n, a = self.world.num_envs, self.num_drones
        shapes = {"hit": (n, a), "crossed_net": (n,), "ball_down": (n,), "crash": (n, a)}
        out = {name: torch.empty(shape, dtype=torch.bool) for name, shape in shapes.items()}
        kernels.note_events(self.referee.sheet, BALL_LANDED, self._fault_kinds, *(t.numpy() for t in out.values()))
        return out

    def event_log(self, i: int) -> list[str]:
        """The rally before this one, and this one as far as it has come."""
        return [*self.play_by_play(i, 1), *self.play_by_play(i)]

    def play_by_play(self, world: int, back: int = 0, names: Sequence[str] = ()) -> list[str]:
        """The rally of a world as readable lines; see RallyLog.play_by_play. A finished rally is the one before (back=1),
        since a new one begins in the same step."""
        return self.log.play_by_play(world, back, names)
