"""A simulated multirotor with the onboard software of real ones: arming, set-points of several levels, landing by its own
controller, and a fail-safe that lands where set-points stop.

    vehicle = DroneVehicle(rookery.make("drone-hover", num_envs=1))
    vehicle.arm(0)
    vehicle.offboard(0)
    vehicle.setpoint(0, "position", (0.0, 0.0, 1.0, 0.0))
    vehicle.step()                                             # control_dt of physics
    vehicle.sense(0)                                           # a Reading
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from rookery.robots.drones import kernels
from rookery.robots.drones.drone import LEVELS
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.links.frames import euler
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.noise import turned
from rookery.tasks.drones.base import DroneTask

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv

SETPOINTS = {"ctbr": "ctbr", "attitude": "attitude", "velocity": "velocity", "position": "position"}
"""Action kinds that it takes as set-points."""
QUANTITIES = ("position", "velocity", "rotation", "angular velocity")
LAND_M_S = 0.4  # m/s, at which it comes down by itself
LANDED_M = 0.03  # m, of its body over where it stands
LANDED_M_S = 0.15  # m/s
LANDED_S = 0.3  # s, that both must hold
FULL_BATTERY_S = 420.0  # s of hovering: of a Crazyflie 2.1, by its data sheet
NOISE = {"position": 0.002, "velocity": 0.01, "rotation": 0.003, "angular velocity": 0.02}
"""Standard deviations in m, m/s, rad, rad/s: a motion capture's position, and an inertial unit's rates."""


@dataclass
class _Onboard:
    """State of one drone's software."""

    armed: bool = False
    mode: str = "hold"  # hold, guided, offboard, land
    level: str = "position"
    setpoint: np.ndarray = field(default_factory=lambda: np.zeros(4, np.float32))
    heard: float = -np.inf
    still: float = 0.0  # s
    landed: bool = True
    battery: float = 1.0
    memory: np.ndarray = field(default_factory=lambda: np.zeros((1, kernels.MEMORY_SIZE), np.float32))


class DroneVehicle:
    """See the module. All drones of the environment's one world; they begin on the ground, in a row.

    Args:
        env: one world of a drone task with the action kind "ctbr".
        noise: factor on NOISE.
        seed: of the noise.
        timeout_s: s without a set-point after which an offboard drone lands by itself.

    Attributes:
        now: s, its clock.
        count: of drones.
        period: s, of `step`.
    """

    def __init__(self, env: VecEnv, noise: float = 1.0, seed: int = 0, timeout_s: float = 0.5) -> None:
        task = env.task
        if not isinstance(task, DroneTask) or task.cfg.action != "ctbr" or env.num_envs != 1:
            raise RookeryError("a drone vehicle needs one world of a drone task whose action is ctbr.")
        self.env = env
        self.drones = task.drones
        self.timeout_s = timeout_s
        self.period = env.control_dt
        self.count = task.cfg.num_drones
        self.noise = noise
        self.now = 0.0
        self._physics_steps = round(env.control_dt / env.world.dt)
        self._rng = np.random.default_rng(seed)
        self._onboard = [_Onboard() for _ in range(self.count)]
        self._commands = np.zeros((1, self.count, 4), np.float32)
        env.reset()
        self._put_down(task)

    def _put_down(self, task: DroneTask) -> None:
        """On the ground, with rotors at rest."""
        state = torch.zeros(1, self.count, 13)
        state[..., 3] = 1.0
        state[..., 0] = torch.arange(self.count) * task.cfg.spacing_m
        state[..., 2] = task.drone.body_height
        ids = torch.zeros(1, dtype=torch.int64)
        self.drones.reset(ids, state)
        for _ in range(round(2.0 / self.period)):
            self._push()
        self.drones.bodies.set_state(ids, state)
        for _ in range(round(0.5 / self.period)):
            self._push()
        self._rest = self._state()[:, 2].copy()

    def _state(self) -> np.ndarray:
        """[A, 13], see Bodies.state."""
        return self.drones.bodies.state[0].numpy()

    def _push(self) -> None:
        self.drones.apply(self.drones.normalized(torch.from_numpy(self._commands)))
        self.env.world.step(self._physics_steps)

    # -- what links ask ----------------------------------------------------------------------------------------

    def arm(self, i: int) -> None:
        """Motors may turn."""
        o = self._onboard[i]
        if not o.armed:
            o.memory[:] = 0.0
            o.mode = "hold"
            o.level = "position"
            o.setpoint[:] = (*self._state()[i, :3], 0.0)
            o.armed = True

    def disarm(self, i: int) -> None:
        """Motors stop."""
        self._onboard[i].armed = False
        self._onboard[i].mode = "hold"

    def offboard(self, i: int) -> bool:
        """Follow set-points; only while they arrive."""
        o = self._onboard[i]
        if self.now - o.heard > self.timeout_s:
            return False
        if o.armed and o.mode != "land":
            o.mode = "offboard"
        return o.mode == "offboard"

    def hold(self, i: int) -> None:
        """Stay here."""
        o = self._onboard[i]
        o.mode = "hold"
        o.level = "position"
        o.setpoint[:] = (*self._state()[i, :3], self._yaw(i))

    def guide(self, i: int, position: Sequence[float], yaw: float | None = None) -> None:
        """Fly to a place (m, world) by its own controller, as missions do."""
        o = self._onboard[i]
        if not o.armed:
            return
        if o.level != "position":
            o.memory[:] = 0.0
        o.mode = "guided"
        o.level = "position"
        o.setpoint[:] = (*position, self._yaw(i) if yaw is None else yaw)

    def land(self, i: int) -> None:
        """Come down here; the motors stop on the ground."""
        o = self._onboard[i]
        if o.mode == "land" or not o.armed:
            return
        o.mode = "land"
        o.memory[:] = 0.0
        o.level = "velocity"  # down and not sideways: no position to swing back to after a push
        o.setpoint[:] = (0.0, 0.0, -LAND_M_S, 0.0)

    def setpoint(self, i: int, kind: str, values: Sequence[float]) -> None:
        """A set-point of one of SETPOINTS, in the units of the action kind (see rookery.robots.drones.drone.action_spec)."""
        o = self._onboard[i]
        o.heard = self.now
        given = np.asarray(values, np.float32)
        if given.shape != (4,) or not np.isfinite(given).all() or o.mode == "land":
            return
        if kind != o.level:
            o.memory[:] = 0.0
        o.level = kind
        o.setpoint[:] = given

    def correct(self, i: int, kind: str, values: Sequence[float]) -> None:
        """Change the set-point by feedback of the vehicle's own: nobody was heard from."""
        heard = self._onboard[i].heard
        self.setpoint(i, kind, values)
        self._onboard[i].heard = heard

    def mode(self, i: int) -> str:
        """hold, guided, offboard or land."""
        return self._onboard[i].mode

    def armed(self, i: int) -> bool:
        """True while motors may turn."""
        return self._onboard[i].armed

    # -- physics -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Onboard software and physics of one control step."""
        self.now += self.period
        state = self._state()
        for i, o in enumerate(self._onboard):
            self._commands[0, i] = self._command(i, o, state)
        self._push()
        self._after()

    def _command(self, i: int, o: _Onboard, state: np.ndarray) -> np.ndarray:
        if not o.armed:
            return np.zeros(4, np.float32)
        if o.mode == "offboard" and self.now - o.heard > self.timeout_s:
            self.land(i)
        if o.landed and o.mode == "hold":  # idles until somebody wants it to go up
            return np.zeros(4, np.float32)
        command = o.setpoint[None].copy()
        if LEVELS[o.level] > LEVELS["ctbr"]:
            rows = np.ascontiguousarray(state[i : i + 1])
            kernels.cascade(
                LEVELS[o.level], LEVELS["ctbr"], rows, command, o.memory, self.drones.constants, self.period
            )
        return command[0]

    def _after(self) -> None:
        weight = self.drones.drone.mass * GRAVITY
        for i, (o, x) in enumerate(zip(self._onboard, self._state(), strict=True)):
            near = x[2] - self._rest[i] < LANDED_M and abs(float(x[9])) < LANDED_M_S
            weak = self._commands[0, i, 3] < 0.9 * weight
            o.still = o.still + self.period if near and weak else 0.0
            o.landed = o.still > LANDED_S if o.armed else bool(near)
            if o.landed and o.mode == "land":
                self.disarm(i)
            if o.armed:
                o.battery = max(0.0, o.battery - self.period / FULL_BATTERY_S)

    def _yaw(self, i: int) -> float:
        return euler(self._state()[i, 3:7])[2]

    def truth(self, i: int) -> dict[str, np.ndarray]:
        """Quantities without noise."""
        x = self._state()[i]
        return {
            "position": x[:3].copy(), "rotation": x[3:7].copy(), "velocity": x[7:10].copy(), "angular velocity": x[10:13].copy()
        }  # fmt: skip

    def sense(self, i: int) -> Reading:
        """Estimate of its own state now; `received` is left to the link."""
        true = self.truth(i)
        values = {}
        for name in QUANTITIES:
            drawn = (self.noise * NOISE[name] * self._rng.standard_normal(3)).astype(np.float32)
            values[name] = turned(true[name], drawn) if name == "rotation" else true[name] + drawn
        o = self._onboard[i]
        return Reading(self.now, self.now, values, battery=o.battery, armed=o.armed, landed=o.landed, mode=o.mode)
