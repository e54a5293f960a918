"""Drones in a world: views, rotors, onboard controllers and the action kinds through which a policy commands them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.robots.drones import kernels
from rookery.robots.drones.kernels import ATTITUDE, MEMORY_SIZE, MOTORS, POSITION, RATES, VELOCITY
from rookery.robots.drones.parameters import drone_parameters
from rookery.robots.drones.table import check_flies
from rookery.sim.buffers import Buffers
from rookery.sim.errors import unknown
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.layout import type_row
from rookery.sim.multirotor.parameters import GRAVITY, DroneParameters
from rookery.sim.randomization.batch import Batch
from rookery.sim.randomization.parameters import Parameter, Write
from rookery.sim.specs import ActionSpec
from rookery.sim.world import World

LEVELS = {"rotor_thrust": MOTORS, "ctbr": RATES, "attitude": ATTITUDE, "velocity": VELOCITY, "position": POSITION}
"""Action kinds, and the level of the cascade (see kernels) at which each enters."""

WORKSPACE = ((-3.0, -3.0, 0.0), (3.0, 3.0, 3.0))  # m, world: the box that position actions span


def action_spec(drone: DroneParameters, kind: str) -> ActionSpec:
    """The declaration of an action kind for a drone type.

    Raises:
        RookeryError: no such kind, or the drone is too heavy to fly.
    """
    check_flies(drone)
    if kind not in LEVELS:
        raise unknown("action kind", kind, LEVELS)
    hover = drone.mass * GRAVITY
    thrust = 4 * drone.max_thrust
    share = 2 * hover / thrust - 1  # the action at which the thrust carries the weight
    wx, wy, wz = drone.max_rate
    tilt = drone.max_tilt
    v = drone.max_velocity
    rad = "rad"
    rads = "rad/s"
    ms = "m/s"
    if kind == "rotor_thrust":
        rotors = tuple(f"rotor_{i}_thrust" for i in (1, 2, 3, 4))
        return ActionSpec(kind, rotors, (0.0,) * 4, (drone.max_thrust,) * 4, ("N",) * 4, (share,) * 4)
    if kind == "ctbr":
        names = ("roll_rate", "pitch_rate", "yaw_rate", "collective_thrust")
        return ActionSpec(
            kind, names, (-wx, -wy, -wz, 0.0), (wx, wy, wz, thrust), (rads, rads, rads, "N"), (0, 0, 0, share)
        )
    if kind == "attitude":
        names = ("roll", "pitch", "yaw_rate", "collective_thrust")
        return ActionSpec(
            kind, names, (-tilt, -tilt, -wz, 0.0), (tilt, tilt, wz, thrust), (rad, rad, rads, "N"), (0, 0, 0, share)
        )
    if kind == "velocity":
        names = ("velocity_x", "velocity_y", "velocity_z", "yaw_rate")
        return ActionSpec(kind, names, (-v, -v, -v, -wz), (v, v, v, wz), (ms, ms, ms, rads), (0.0,) * 4)
    low, high = WORKSPACE
    names = ("position_x", "position_y", "position_z", "yaw")
    return ActionSpec(kind, names, (*low, -np.pi), (*high, np.pi), ("m", "m", "m", rad), (0.0,) * 4)


class Drones(Buffers):
    """A drones of one type in each of N worlds.

    On an engine with multirotors inside (World.multirotors), onboard controllers and rotors run there. On others they run
    here: between physics steps, or ahead for all K of them where they do not depend on the state (rotor_thrust).

    Args:
        world: the engine's copies of the scene.
        names: prefixes of the drones in the scene, such as ("drone_0", "drone_1").
        drone: their constants.
        kind: action kind, one of LEVELS.
        integrated_yaw: track the integral of the yaw rate command, as the Crazyflie firmware's PID controller does.

    Attributes:
        bodies: view of the drones' base bodies.
        spec: the action's declaration.
        level: of the cascade at which actions enter.
        constants: [layout.TYPE] of the drone, as kernels take them.
    """

    charge: Tensor
    """[N] what batteries hold at the start of an episode, 0 to 1."""
    memory: Tensor
    setpoint: Tensor
    rotor_params: Tensor
    speeds: Tensor

    def __init__(
        self, world: World, names: Sequence[str], drone: DroneParameters, kind: str, integrated_yaw: bool = False
    ) -> None:
        super().__init__()
        self.world = world
        self.drone = drone
        self.names = tuple(names)
        self.integrated_yaw = integrated_yaw
        self.spec = action_spec(drone, kind)
        self.level = LEVELS[kind]
        self.constants = np.array(type_row(drone, integrated_yaw))
        self.bodies = world.bodies([f"{n}/base" for n in names])
        low = torch.tensor(self.spec.low)
        high = torch.tensor(self.spec.high)
        self._half = (high - low) / 2
        self._mid = low + self._half
        self._scale = self._mid.numpy(), self._half.numpy()
        self._hover = torch.full((1, len(names), 4), drone.hover_speed)
        self.native = world.multirotors(names)
        self._charge = self.buffer("charge", world.num_envs).fill_(1.0).numpy()
        if self.native is not None:
            self.native.integrate_yaw(integrated_yaw)
            return
        parts = ("rotor_1", "rotor_2", "rotor_3", "rotor_4", "reaction")
        self.actuators = world.actuators([f"{n}/{p}" for n in names for p in parts])
        n, a = world.num_envs, len(names)
        self.buffer("speeds", n, a, 4, dtype=torch.float64)  # in float32 they would stall short of their commands
        self.buffer("memory", n, a, MEMORY_SIZE)
        self.buffer("setpoint", n, a, 4)
        self.buffer("rotor_params", n, a, 4, 4)
        self._nominal_rotor = torch.tensor([1.0, 1.0, drone.tau_up, drone.tau_down])
        if not world.scene.extension(Aeronautics).effects.rotor_lag:
            self._nominal_rotor[2:] = 0.0
        self.rotor_params.copy_(self._nominal_rotor.expand(n, a, 4, 4))
        self._rows: Tensor | None = None  # [N, K, A, 4] setpoints of the K physics steps, when they differ
        self._out = torch.zeros(n, a, 5, dtype=torch.float64)
        self._schedule = torch.zeros(n, 1, a, 5, dtype=torch.float64)
        if self.level != MOTORS:
            world.inner_loops += (self._fly,)

    @property
    def rotor_speed(self) -> Tensor:
        """[N, A, 4] normalized rotor speeds u."""
        return self.speeds.float() if self.native is None else self.native.rotor_speed

    def physical(self, action: Tensor) -> Tensor:
        """Commands in the units of the action spec for normalized actions in [-1, 1], any shape [..., 4]."""
        return self._mid + self._half * action

    def normalized(self, command: Tensor) -> Tensor:
        """The action in [-1, 1] for a command in the units of the spec, clipped."""
        return ((command - self._mid) / self._half).clamp(-1.0, 1.0)

    def apply(self, action: Tensor) -> None:
        """Command the coming control step.

        Args:
            action: [N, A, 4] in [-1, 1], held; or [N, K, A, 4], one row a physics step.
        """
        if self.native is not None:
            self.native.command(self.level, action, *self._scale)
            return
        command = self.physical(action)
        if self.level == MOTORS:
            self._schedule_rotors(command if command.dim() == 4 else command[:, None])
        elif command.dim() == 4:
            self._rows = command
        else:
            self._rows = None
            self.setpoint.copy_(command)

    def _schedule_rotors(self, thrust: Tensor) -> None:
        n, _, a, _ = thrust.shape
        k = self.physics_steps
        if self._schedule.shape[1] != k:
            self._schedule = torch.zeros(n, k, a, 5, dtype=torch.float64)
        kernels.rotor_schedule(
            thrust.numpy(), self.world.dt, self.constants, self.speeds.numpy(), self.rotor_params.numpy(),
            self._schedule.numpy(),
        )  # fmt: skip
        self.actuators.set_control(self._schedule.view(n, k, a * 5))

    physics_steps: int = 1
    """K, set by the task: how many physics steps `apply` plans ahead for rotor_thrust."""

    def _fly(self, i: int) -> None:
        """Before physics step i: the onboard controller and the rotors of every drone."""
        if self._rows is not None:
            self.setpoint.copy_(self._rows[:, i])
        kernels.fly(
            self.level, self.bodies.state.view(-1, 13).numpy(), self.setpoint.view(-1, 4).numpy(),
            self.memory.view(-1, MEMORY_SIZE).numpy(), self.constants, self.world.dt, self.speeds.view(-1, 4).numpy(),
            self.rotor_params.view(-1, 4, 4).numpy(), self._out.view(-1, 5).numpy(),
        )  # fmt: skip
        self.actuators.set_control(self._out.view(self.world.num_envs, -1))

    def reset(self, ids: Tensor, state: Tensor) -> None:
        """Put drones at `state` [n, A, 13] (see Bodies.state) with rotors at hover speed and an empty controller."""
        self.bodies.set_state(ids, state)
        if self.native is not None:
            self.native.start(ids, self._hover, self._charge)
            return
        self.speeds[ids] = self.drone.hover_speed
        self.memory[ids] = 0.0
        self.setpoint[ids] = 0.0

    def parameters(self) -> dict[str, Parameter]:
        """Physical quantities that can differ between worlds, most of them as factors on the nominal value."""
        return drone_parameters(self)

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        """See randomization's BatchWriter: "charge", what batteries hold, 0 to 1, at the start of the next episodes."""
        self._charge[ids] = values["charge"]

    def vary_rotors(self, *columns: int) -> Write:
        """The write of a factor on columns of `rotor_params`, for all rotors or for each, on engines without rotors inside."""

        def write(ids: Tensor, v: Tensor) -> None:
            each = (v if v.dim() == 2 else v[:, None]).unsqueeze(1)
            for c in columns:
                self.rotor_params[ids, :, :, c] = each * self._nominal_rotor[c]

        return write
