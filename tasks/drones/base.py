"""The base of the drone tasks: the drones, their randomized starts, and crashes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.assets.scenery import ground
from rookery.robots.drones.actuation import drone_actuation
from rookery.robots.drones.controller import CascadeController
from rookery.robots.drones.drone import Drones, action_spec
from rookery.robots.drones.model import add_drone
from rookery.robots.drones.table import check_flies, find_drone
from rookery.sim.actuation import Actuation
from rookery.sim.arrays import array
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim.quantities import ANGULAR_VELOCITY, LAST_ACTION, VELOCITY, WORLD_Z, body, last_action
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import KINDS
from rookery.sim.sensors.pictures import Marks, PictureConfig, check_pictures, picture_terms
from rookery.sim.specs import ActionSpec, Term, Weights
from rookery.sim.task import Task
from rookery.tasks.drones import kernels
from rookery.tasks.drones.air import AirConfig, air
from rookery.tasks.drones.body_frame import BodyFrame
from rookery.tasks.drones.turning import Turning
from rookery.tasks.outdated import OutdatedWorlds
from rookery.tasks.rewards import distance

MOST_DRONES = 200  # in a world: its scene compiles in 20 s, and one of twice as many in minutes
# m between drones that count as colliding. Engines stop bodies where they touch, and by the end of the control step they may
# have parted again: in 512 episodes of drone-formation with the engine's contacts recorded, drones came closer than this in
# all 65 with a contact and in one without; with 1e-4 m, 27 of them went unnoticed.
TOUCHING_M = 1e-3
CAMERA_HEADING = 0.3  # rad, half-width of the headings of starts where the policy sees pictures
_NOBODY = np.zeros((0, 0), bool)


@dataclass(frozen=True)
class DroneConfig(PictureConfig, AirConfig):
    """Values that every drone task has."""

    drone: str = "crazyflie21"  # one of robots.drones.table.DRONES
    num_drones: int = 1  # in each world
    action: str = "ctbr"  # rotor_thrust, ctbr, attitude, velocity or position
    integrated_yaw: bool = False  # track the integral of yaw rate commands, as the Crazyflie firmware does
    dt: float = 0.002  # s, physics step
    control_dt: float = 0.01  # s, policy step
    episode_s: float = 10.0  # s
    spacing_m: float = 3.0  # m, between the drones' own places
    height_m: float = 2.0  # m, of those places
    start_box_m: float = 1.0  # m, half-width of the box of starts around the target
    start_speed: float = 0.5  # m/s, half-width per axis
    start_tilt: float = math.radians(30.0)  # rad, at most
    start_spin: float = 1.0  # rad/s, half-width per axis
    bounds_m: float = 3.0  # m, from the target; farther is a crash
    reward: Weights = Weights()


class DroneTask(Task):
    """Base of drone tasks. Subclasses set ``self.target`` [N, A, 3] before `place` and keep it current.

    A start elsewhere: write it to ``self.target``, call `place`, and then write the goal to ``self.target``.

    Attributes:
        drones: actuation and sensors; ``drones.bodies.pos`` [N, A, 3] m and ``drones.bodies.state`` [N, A, 13] (position,
            quaternion w, x, y, z, velocity; world axes; angular velocity in body axes).
        drone: parameters of the drone.
        places: [A, 3] m, middle of the arena of each drone, world.
        target: [N, A, 3] m, world: where each drone is to be.
        crashed, crash_cause: [N, A] bool, and 1 + the index of its cause in `causes`.
        alive: [N, A] ones: the reward term of flying on.
        turning: how fast headings drift, which nothing that a drone observes tells. A task's `metrics` have those of it, and
            its `metric_definitions` the TURNING_METRICS.
    """

    engines = ("rotor", "mujoco", "pybullet")
    family = "drone"
    interface: ClassVar[tuple[str, ...]] = (
        "drone",
        "action",
        "integrated_yaw",
        "obs",
        "image_width",
        "image_height",
        "image_range_m",
    )
    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds")
    event_definitions: Mapping[str, str] = MappingProxyType(
        {"crash": "the drone has touched the ground or another one, or has left: an episode ends"}
    )

    target: Tensor
    ground_height: Tensor
    last_action: Tensor
    previous_action: Tensor
    crashed: Tensor
    crash_cause: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        self.drone: DroneParameters = find_drone(self.cfg.drone)
        check_flies(self.drone)
        if not 1 <= self.cfg.num_drones <= MOST_DRONES:
            raise RookeryError(f"num_drones must be from 1 to {MOST_DRONES}, got {self.cfg.num_drones}.")
        air(self.cfg)
        check_pictures(self.cfg, ("state", *KINDS))

    def scene(self) -> Scene:
        cfg = self.cfg
        scene = Scene(ground, dt=cfg.dt, integrator="euler")
        scene.extension(Aeronautics).effects = air(cfg)
        for i, name in enumerate(self.names):
            add_drone(scene, name, self.drone, (i * cfg.spacing_m, 0.0, cfg.height_m))
        return scene

    @property
    def names(self) -> tuple[str, ...]:
        """Prefixes of the drones in the scene."""
        return tuple(f"drone_{i}" for i in range(self.cfg.num_drones))

    @property
    def action(self) -> ActionSpec:
        """The configured action kind of this drone."""
        return action_spec(self.drone, self.cfg.action)

    @property
    def actuation(self) -> dict[str, Actuation]:
        """The onboard loops, mixer and rotors below the action kind."""
        c = self.cfg
        lag = air(c).rotor_lag
        return {"drone": drone_actuation(self.drone, c.action, c.dt, c.integrated_yaw, lag)}

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Limits within which the policy has learned to fly; a runtime takes over outside."""
        return {
            "drone": {
                "height": {"low": self.drone.body_height, "high": None, "unit": "m"},
                "distance_from_target": {"low": None, "high": self.cfg.bounds_m, "unit": "m"},
            }
        }

    def setup(self) -> None:
        cfg = self.cfg
        n = self.world.num_envs
        a = self.cfg.num_drones
        self.drones = Drones(self.world, self.names, self.drone, cfg.action, cfg.integrated_yaw)
        self.drones.physics_steps = self.physics_steps
        self.child("drones", self.drones)
        self.buffer("target", n, a, 3)
        self._ground = self.buffer("ground_height", n).numpy()
        self._clock = self.steps.numpy()
        self.turning = Turning(n, a)
        self.child("turning", self.turning)
        self.buffer("last_action", n, a, 4)
        self.buffer("previous_action", n, a, 4)
        self.buffer("crashed", n, a, dtype=torch.bool)
        self.buffer("crash_cause", n, a, dtype=torch.int64)
        self._controllers: list[CascadeController] = []
        self._neutral = torch.tensor(self.action.neutral, dtype=torch.float32)
        self._body_frame = BodyFrame(n, a)
        self._outdated = OutdatedWorlds(n)
        self._target = self.target.numpy()
        self._crash = self.crashed.numpy(), self.crash_cause.numpy()
        self._cause = torch.zeros(n, dtype=torch.int64)
        self._cause_array = self._cause.numpy()
        self._actions = self.last_action.numpy(), self.previous_action.numpy()
        self._motion_rewards = {name: torch.zeros(n, a) for name in ("ang_vel", "yaw_rate", "action_rate", "crash")}
        self._motion_arrays = tuple(t.numpy() for t in self._motion_rewards.values())
        self.alive = torch.ones(n, a)
        self._fresh = self._neutral.numpy(), *self._actions, *self._crash
        places = [(i * cfg.spacing_m, 0.0, cfg.height_m) for i in range(a)]
        self._detected = False  # in this control step
        self.places = torch.tensor(places)  # [A, 3] m, world
        self.facing = torch.zeros(n, a)  # rad, from world x, the middles of the headings of starts

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        return tuple(f"{name}/base" for name in self.drones.names)

    def parameters(self) -> dict[str, Parameter]:
        out = self.drones.parameters()
        if self.cfg.obs == "state":  # pictures show the scene's own ground
            out["ground_height"] = Parameter(
                "height of the ground over where the task takes it to be", "m", 0.0, -0.3, 0.3, self._move_ground, (),
                (-0.1, 0.1),
            )  # fmt: skip
        return out

    def _move_ground(self, ids: Tensor, height: Tensor) -> None:
        self.ground_height[ids] = height
        self.world.params.set("height", ["ground"], height[:, None], ids)

    @property
    def start_heading(self) -> float:
        """rad, half-width of the headings of starts, around `facing`: with a camera a drone starts with what it looks for in
        view."""
        return math.pi if self.cfg.obs == "state" else CAMERA_HEADING

    def place(self, ids: Tensor) -> None:
        """Random starts around the targets: box, speed, tilt, heading and spin of the config. None is in raised ground."""
        cfg = self.cfg
        draws = self.rng(ids).uniform(-1.0, 1.0, (cfg.num_drones, 12))
        where = array(ids)
        state = np.empty((len(where), cfg.num_drones, 13), np.float32)
        radius, height = self.drone.body_radius, self.drone.body_height
        tilt = min(cfg.start_tilt, math.atan2(radius, 0.5 * height))  # at which a body reaches down furthest
        above = max(2.0 * height, radius * math.sin(tilt) + 0.5 * height * math.cos(tilt) + 2.0 * TOUCHING_M)
        kernels.starts(
            where, draws.numpy(), self._target, array(self.facing), cfg.start_box_m, cfg.start_speed, cfg.start_spin,
            self.start_heading, cfg.start_tilt, self._ground, above, state,
        )  # fmt: skip
        self.drones.reset(ids, torch.from_numpy(state))
        kernels.begin(where, *self._fresh)
        self.turning.reset(where)
        for controller in self._controllers:
            controller.reset(ids)
        self._outdated.begin(ids)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._outdated.move()

    def apply(self, actions: dict[str, Tensor]) -> None:
        self._outdated.move()
        self._detected = False
        last, previous = self._actions
        previous[:] = last
        last[:] = self.given["drone"].numpy()
        self.drones.apply(actions["drone"])

    def body_terms(self) -> tuple[Term, ...]:
        """The observation of a drone's own motion, declared (values from `observe_body`).

        Everything is in the body frame and the heading is left out: the task does not depend on it, and a policy
        that had to learn that from world frame values would still fly away from some headings.
        """
        return (
            Term("up", body(WORLD_Z), noise=0.005, estimated="attitude"),
            Term("linear_velocity", body(VELOCITY), scale=0.5, noise=0.01, estimated="linear velocity"),
            Term("angular_velocity", ANGULAR_VELOCITY, scale=0.1, noise=0.02),
            Term("last_action", last_action(4)),
        )

    def measured(self) -> dict[str, dict[str, Tensor]]:
        b = self.drones.bodies
        return {
            "drone": {
                "position": b.pos, "velocity": b.lin_vel, "rotation": b.quat, "angular velocity": b.ang_vel,
                "target": self.target, LAST_ACTION: self.last_action,
            }
        }  # fmt: skip

    @property
    def sees(self) -> bool:
        """True where drones observe pictures."""
        return self.cfg.obs != "state"

    def pictures(self) -> tuple[Term, ...]:
        """The pictures of the drones' onboard cameras, declared; none with ``obs="state"``. They take the place of terms that a
        task then leaves out; what a drone feels without looking stays: up, velocities, last action."""
        return picture_terms(self.cfg, [(f"{name}/onboard",) for name in self.names], "onboard camera", self.marks)

    def marks(self) -> Marks | None:
        """Balls that pictures show beside the scene; None for none."""
        return None

    def observe_body(self, points: Mapping[str, Tensor] = MappingProxyType({}), **world: Tensor) -> dict[str, Tensor]:
        """The values of `body_terms`, and more in the body frame: points [N, A, 3 k] m, world, seen from the drone, and
        vectors [N, A, 3 k] in world axes."""
        seen = self._body_frame.observe(self.drones.bodies.state, points, world, self._outdated.take())
        seen["last_action"] = self.last_action
        return seen

    def distances(self) -> Tensor:
        """[N, A] m from each drone to its target."""
        return distance(self.drones.bodies.pos, self.target)

    def wind(self) -> Tensor:
        """[N, 3] m/s, world axes: the air's velocity now, gusts included, the same for all drones of a world. No drone measures
        it: for goals that drift, critics and teachers."""
        air = self.world.wind
        return torch.zeros(self.world.num_envs, 3) if air is None else air.velocity(self.world.num_envs)

    def motion_rewards(self) -> dict[str, Tensor]:
        """Reward terms [N, A], unweighted, of each drone's own motion: `ang_vel` (`rewards.ang_vel_l2`), `yaw_rate` (its size,
        rad/s), `action_rate` (`rewards.action_rate_l2`) and `crash` (`rewards.is_terminated`), in one compiled loop."""
        kernels.motion_rewards(array(self.drones.bodies.state), *self._actions, self._crash[0], *self._motion_arrays)
        return self._motion_rewards.copy()

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        """Set `crashed` and `crash_cause`, and count how far drones have turned; called once in `advance`.

        A drone crashes on the ground where its body touches it, also with its edge, or its middle is lower than the body is
        high.

        Where a drone crashes in several ways at once, a collision counts first, then the ground.

        Args:
            out_of_bounds: [N, A] bool, drones that have left where they may be.
            collision: [N, A] bool, drones that have touched another; by default those whose bodies touch now.
        """
        drone = self.drone
        self._detected = True
        state = array(self.drones.bodies.state)
        self.turning.add(state, self._clock)
        kernels.detect_crashes(
            state, self._ground, drone.body_radius, drone.body_height, TOUCHING_M,
            out_of_bounds.numpy(), _NOBODY if collision is None else collision.numpy(), *self._crash,
        )  # fmt: skip

    def crash_where(self, mask: Tensor, cause: str) -> None:
        """Add the crashes of a task's own cause, which counts before those of `detect_crashes`; called after it.

        Args:
            mask: [N, A] bool.
            cause: one of `causes`.

        Raises:
            RookeryError: it is none of them, or `detect_crashes` was not called before.
        """
        if cause not in self.causes:
            raise unknown("cause of a crash", cause, self.causes)
        if not self._detected:
            raise RookeryError(
                f"crash_where({cause!r}) before detect_crashes(), which would forget it: call it after that."
            )
        self.crashed |= mask
        self.crash_cause[mask] = 1 + self.causes.index(cause)

    def terminated(self) -> Tensor:
        """A crash of one drone ends the episode of its world; of several crashes in one step the causes rank as in
        `detect_crashes`."""
        kernels.first_cause(self._crash[1], self._cause_array)
        return self._cause

    def events(self) -> dict[str, Tensor]:
        return {"crash": torch.from_numpy(self._crash[0].copy())}

    def cascade_controller(self) -> CascadeController:
        """A new PID cascade for these drones; its memory is cleared when their episodes begin."""
        controller = CascadeController(self.drones, self.cfg.control_dt)
        self.child(f"controller_{len(self._controllers)}", controller)
        self._controllers.append(controller)
        return controller

    @property
    def camera(self) -> Any:  # type: ignore[override]
        """All drones in one picture."""
        return "group" if self.cfg.num_drones > 1 else "chase"

    def markers(self, i: int) -> list[dict[str, Any]]:
        return [
            {
                "pos": self.target[i, a].tolist(),
                "size": 0.4 * self.drone.body_radius,
                "rgba": [0.1, 0.9, 0.2, 0.6],
                "trail": False,
            }
            for a in range(self.cfg.num_drones)
        ]
