"""The base of the drone tasks: the drones, their randomised starts, and crashes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.assets.scenery import ground
from rookery.robots.drones.controller import CascadeController
from rookery.robots.drones.drone import Drones, action_spec
from rookery.robots.drones.model import add_drone
from rookery.robots.drones.table import check_flies, find_drone
from rookery.sim.engines.rotor.effects import effects
from rookery.sim.engines.rotor.extension import Aeronautics
from rookery.sim.engines.rotor.parameters import DroneParameters
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import from_axis_angle, matrix, multiply
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Term, Weights
from rookery.sim.task import Task
from rookery.tasks.drones.vision import Vision, VisionConfig, image_terms

_UP = torch.tensor([0.0, 0.0, 1.0])
GROUND, COLLISION, OUT_OF_BOUNDS, GATE = 1, 2, 3, 4  # causes of a drone's crash, counted from 1 as in `terminated`
CAUSE_RANKS = (OUT_OF_BOUNDS, GROUND, COLLISION, GATE)  # a later one overrides those before it
MOST_DRONES = 200  # in a world: its scene compiles in 20 s, and one of twice as many in minutes
# m between drones that count as colliding. Engines stop bodies where they touch, and by the end of the control step they may
# have parted again: in 512 episodes of drone-formation with the engine's contacts recorded, drones came closer than this in
# all 65 with a contact and in one without; with 1e-4 m, 27 of them went unnoticed.
TOUCHING_M = 1e-3
CAMERA_HEADING = 0.3  # rad, half-width of the headings of starts where the policy sees pictures


@dataclass(frozen=True)
class DroneConfig(VisionConfig):
    """Values that every drone task has."""

    drone: str = "crazyflie21"  # one of robots.drones.table.DRONES
    num_drones: int = 1  # in each world
    effects: str = "realistic"  # of air, rotors and battery: none, volleybots, gym-pybullet-drones or realistic
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
    """Base of drone tasks. Subclasses set ``self.target`` [N, A, 3] before `place` and keep it current."""

    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds")
    event_names: ClassVar[tuple[str, ...]] = ("crash",)

    target: Tensor
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
        effects(self.cfg.effects)
        image_terms(self.cfg)  # so that a wrong kind of picture is refused before any world is made

    def scene(self) -> Scene:
        cfg = self.cfg
        scene = Scene(ground, dt=cfg.dt, integrator="euler")
        scene.extension(Aeronautics).effects = effects(cfg.effects)
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
    def actuator_order(self) -> dict[str, list[str]]:
        """Rotors in the order of the action, for the contract."""
        return {"drone": ["rotor_1", "rotor_2", "rotor_3", "rotor_4"]}

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Where the policy has learned to fly; a runtime takes over outside."""
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
        self.vision = Vision(self.world, self.names, cfg)
        self.buffer("target", n, a, 3)
        self.buffer("last_action", n, a, 4)
        self.buffer("previous_action", n, a, 4)
        self.buffer("crashed", n, a, dtype=torch.bool)
        self.buffer("crash_cause", n, a, dtype=torch.int64)
        self._controllers: list[CascadeController] = []
        self._neutral = torch.tensor(self.action.neutral)
        places = [(i * cfg.spacing_m, 0.0, cfg.height_m) for i in range(a)]
        self.places = torch.tensor(places)  # [A, 3] m, world

    def parameters(self) -> dict[str, Parameter]:
        return self.drones.parameters()

    def place(self, ids: Tensor) -> None:
        """Random starts around the targets: box, speed, tilt, heading and spin of the config."""
        cfg = self.cfg
        a = self.cfg.num_drones
        r = self.rng(ids)
        box, speed, spin, turn = r.uniform(-1.0, 1.0, (a, 12)).split(3, dim=-1)
        state = torch.empty(len(ids), a, 13)
        state[..., 0:3] = self.target[ids] + cfg.start_box_m * box
        # with a camera a drone starts with what it looks for in view
        heading = (math.pi if cfg.obs == "state" else CAMERA_HEADING) * turn[..., 0]
        around = math.pi * turn[..., 1]
        axis = torch.stack((around.cos(), around.sin(), torch.zeros_like(around)), dim=-1)
        tilt = from_axis_angle(axis, cfg.start_tilt * turn[..., 2].abs())
        state[..., 3:7] = multiply(tilt, from_axis_angle(_UP, heading))
        state[..., 7:10] = cfg.start_speed * speed
        state[..., 10:13] = cfg.start_spin * spin
        self.drones.reset(ids, state)
        self.last_action[ids] = self.previous_action[ids] = self._neutral
        self.crashed[ids] = False
        self.crash_cause[ids] = 0
        for controller in self._controllers:
            controller.reset(ids)

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.previous_action.copy_(self.last_action)
        self.last_action.copy_(self.given["drone"])
        self.drones.apply(actions["drone"])

    def body_terms(self) -> tuple[Term, ...]:
        """The observation of a drone's own motion, declared (values from `observe_body`).

        Everything is in the body frame and the heading is left out: the task does not depend on it, and a policy
        that had to learn that from world frame values would still fly away from some headings.
        """
        return (
            Term("up", 3, "1", "body, the world's z axis", noise=0.005),
            Term("linear_velocity", 3, "m/s", "body", scale=0.5, noise=0.01),
            Term("angular_velocity", 3, "rad/s", "body", scale=0.1, noise=0.02),
            Term("last_action", 4, "1"),
        )

    def observe_body(self, **world: Tensor) -> dict[str, Tensor]:
        """The values of `body_terms`, and the given vectors [N, A, 3 k], in world axes, turned into the body frame."""
        b = self.drones.bodies
        rotation = matrix(b.quat).unflatten(-1, (3, 3))
        vectors = torch.cat((b.lin_vel, *world.values()), dim=-1).unflatten(-1, (-1, 3))
        body = (vectors @ rotation).flatten(-2)  # rows times R are R^T v
        velocity, *others = body.split([3, *(v.shape[-1] for v in world.values())], dim=-1)
        return {
            "up": rotation[..., 2, :],
            "linear_velocity": velocity,
            "angular_velocity": b.ang_vel,
            "last_action": self.last_action,
            **dict(zip(world, others, strict=True)),
        }

    def distances(self) -> Tensor:
        """[N, A] m from each drone to its target."""
        return (self.target - self.drones.bodies.pos).norm(dim=-1)

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        """Set `crashed` and `crash_cause`; called once in `advance`.

        Where a drone crashes in several ways at once, a collision counts first, then the ground.

        Args:
            out_of_bounds: [N, A] bool, drones that have left where they may be.
            collision: [N, A] bool, drones that have touched another; by default those whose bodies touch now.
        """
        pos = self.drones.bodies.pos
        ground = pos[..., 2] < self.drone.body_height
        torch.logical_or(ground, out_of_bounds, out=self.crashed)
        if collision is None and self.cfg.num_drones > 1:
            near = torch.cdist(pos, pos) < 2 * self.drone.body_radius + TOUCHING_M
            near.diagonal(dim1=1, dim2=2).fill_(False)
            collision = near.any(-1)
        if collision is not None:
            self.crashed |= collision
        self.crash_cause.zero_()
        if self.crashed.any():
            self.crash_cause[out_of_bounds] = OUT_OF_BOUNDS
            self.crash_cause[ground] = GROUND
            if collision is not None:
                self.crash_cause[collision] = COLLISION

    def terminated(self) -> Tensor:
        """A crash of one drone ends the episode of its world; of several crashes in one step the causes rank as in
        `detect_crashes`."""
        cause = torch.zeros(self.world.num_envs, dtype=torch.int64)
        if self.crashed.any():
            for code in CAUSE_RANKS:
                cause[(self.crash_cause == code).any(1)] = code
        return cause

    def events(self) -> dict[str, Tensor]:
        return {"crash": self.crashed.clone()}

    def cascade_controller(self) -> CascadeController:
        """A new PID cascade for these drones; its memory is cleared when their episodes begin."""
        controller = CascadeController(self.drones, self.cfg.control_dt)
        self.child(f"controller_{len(self._controllers)}", controller)
        self._controllers.append(controller)
        return controller

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
