"""A simulated quadruped with the onboard software of real ones: drives that take set-points as Unitree's LowCmd has them, and a
fail-safe that only damps where set-points stop.

    vehicle = JointVehicle(rookery.make("go2-velocity", num_envs=1, config={"dt": 0.001}))
    vehicle.arm()
    vehicle.setpoint(angles, stiffness=kp, damping=kd)         # in the order of vehicle.joints
    vehicle.step()                                             # control_dt of physics, the drives at every physics step
    vehicle.sense()                                            # a Reading

It lies on the ground with folded legs at first, on terrain where an episode of the task would begin. Drives that are not armed
damp too: a robot that stands is never dropped.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from rookery.robots.quadrupeds.gaits import FOLDED
from rookery.robots.quadrupeds.model import LEGS
from rookery.sim.errors import RookeryError
from rookery.sim2real.links.frames import matrix
from rookery.sim2real.runtime.reading import FOOT_FORCES, SPECIFIC_FORCE, Array, Reading
from rookery.sim2real.vehicles.noise import turned
from rookery.tasks.locomanip.legged_task import LeggedTask

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv

JOINT_QUANTITIES = ("joint angles", "joint velocities", "joint torques")
"""Quantities in the order of the vehicle's joints."""
QUANTITIES = (*JOINT_QUANTITIES, "rotation", "angular velocity", SPECIFIC_FORCE, FOOT_FORCES)
DRIVE_DT = 0.001  # s, of the drives' own loops, and of the physics
DAMPING = 5.0
"""Damping of the fail-safe, by that of the servos: a Go2 sinks from its stand to the ground in about a second."""
HELD_KG = 1e8  # kg and kg m^2, inertia of a trunk that is held: it sinks by 3 mm in a minute
HELD_HEIGHT = 3.0  # of the height at which it stands: no leg reaches the ground
STILL_RAD_S = 0.3  # rad/s
STILL_S = 0.5  # s, that a robot whose drives only damp must be still to count as lying
NOISE = {
    "joint angles": 0.002, "joint velocities": 0.05, "joint torques": 0.2, "rotation": 0.005, "angular velocity": 0.02,
    SPECIFIC_FORCE: 0.2, FOOT_FORCES: 3.0,
}  # fmt: skip
"""Standard deviations in rad, rad/s, N m, rad, rad/s, m/s^2, N (our choice): below those that policies are trained with."""


@dataclass
class _Setpoint:
    """[J] each, in the vehicle's order: rad, rad/s, N m, N m/rad, N m s/rad."""

    position: NDArray[np.float64]
    velocity: NDArray[np.float64]
    torque: NDArray[np.float64]
    stiffness: NDArray[np.float64]
    damping: NDArray[np.float64]


class JointVehicle:
    """See the module.

    Args:
        env: one world of a quadruped's task, without an arm; its physics step is that of the drives.
        joints: names in the vehicle's order; None for that of Unitree's motors, right before left.
        noise: factor on NOISE.
        seed: of the noise.
        timeout_s: s without a set-point after which the drives only damp.
        held: whether it hangs by its trunk, which nothing moves, clear of the ground.

    Attributes:
        joints: names, in its order.
        period: s, of `step`.
        mode: "off", "ready" (armed, no set-point yet), "setpoints", or "failsafe", in which it stays until it is armed again.
    """

    def __init__(
        self, env: VecEnv, joints: Sequence[str] | None = None, noise: float = 1.0, seed: int = 0, timeout_s: float = 0.06,
        held: bool = False,
    ) -> None:  # fmt: skip
        task = env.task
        if not isinstance(task, LeggedTask) or task.robot.arm is not None or env.num_envs != 1:
            raise RookeryError("a jointed vehicle needs one world of a quadruped's task, without an arm.")
        self.kind = task.model
        of = self.kind.joints
        self.joints = tuple(joints) if joints is not None else tuple(of[i + k] for i in (3, 0, 9, 6) for k in range(3))
        if sorted(self.joints) != sorted(of):
            raise RookeryError(f"joints must be those of {self.kind.name}, in any order: {', '.join(of)}.")
        self.timeout_s = timeout_s
        self.period = env.control_dt
        self.noise = noise
        self.mode = "off"
        self._rng = np.random.default_rng(seed)
        self._model = copy.copy(env.world.model)
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION  # the drives below take its place
        self._held = held
        if held:
            self._model.dof_armature[:6] = HELD_KG
        self._data = mujoco.MjData(self._model)
        self._steps_each = round(self.period / self._model.opt.timestep)
        found = [self._model.joint(f"{self.kind.name}/{name}") for name in self.joints]
        self._q = np.array([j.qposadr[0] for j in found])
        self._v = np.array([j.dofadr[0] for j in found])
        self._feet = {self._model.geom(f"{self.kind.name}/{leg}_foot").id: i for i, leg in enumerate(LEGS)}
        self._acceleration = np.zeros(3)  # of the trunk, world, mean over the last step, as an IMU's filter gives it
        places = [of.index(name) for name in self.joints]
        self._limit, self._top, self._passive = (
            np.array([values[i] for i in places]) for values in (self.kind.torque, self.kind.speed, self.kind.kd)
        )
        self._passive *= DAMPING
        self._torque = np.zeros(len(places))
        self._setpoint = self._damping()
        self._steps = 0
        self._heard = -np.inf
        self._still = 0.0
        self._terrain = None if task.terrain is None else task.ground
        start = np.zeros(3)
        if self._terrain is not None:
            env.reset()
            start[:2] = task.robot.base.pos[0, 0, :2].numpy()
            start[2] = float(task.robot.yaw[0])
        self._lie_down(np.clip(FOLDED, self.kind.lower, self.kind.upper)[places], start)

    def _lie_down(self, folded: NDArray[np.float64], start: NDArray[np.float64]) -> None:
        """Lie at [3] x, y and heading, m and rad."""
        height = (HELD_HEIGHT if self._held else 0.5) * self.kind.stand_height + float(self.ground(start[:2]))
        turn = math.cos(0.5 * start[2]), 0.0, 0.0, math.sin(0.5 * start[2])
        self._data.qpos[:7] = (*start[:2], height, *turn)
        self._data.qpos[self._q] = folded
        for _ in range(round(1.5 / self.period)):
            self.step()
        self._data.qpos[:2] = start[:2]
        self._steps = 0

    def _damping(self) -> _Setpoint:
        zero = np.zeros(len(self.joints))
        return _Setpoint(zero, zero, zero, zero, self._passive)

    # -- what links ask ----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """s, its clock."""
        return self._steps * float(self._model.opt.timestep)

    @property
    def armed(self) -> bool:
        """True while set-points can move it."""
        return self.mode != "off"

    def arm(self) -> None:
        """Take set-points."""
        if self.mode == "off":
            self.mode = "ready"
            self._still = 0.0

    def disarm(self) -> None:
        """Take none any more; the drives damp."""
        self.mode = "off"
        self._setpoint = self._damping()

    def setpoint(
        self, position: ArrayLike, velocity: ArrayLike = 0.0, torque: ArrayLike = 0.0, *, stiffness: ArrayLike,
        damping: ArrayLike,
    ) -> None:  # fmt: skip
        """Set-points of all drives, each [J] in the order of `joints` or one for all: the torque is
        ``stiffness (position - q) + damping (velocity - dq) + torque`` within what the motor gives at its speed.

        Those that are not finite, or whose gains are negative, count as none.

        Args:
            position, velocity, torque: rad, rad/s, N m.
            stiffness, damping: N m/rad, N m s/rad.
        """
        given = np.empty((5, len(self.joints)))
        for row, values in zip(given, (position, velocity, torque, stiffness, damping), strict=True):
            with np.errstate(invalid="ignore"):  # a NaN of single precision that signals
                row[:] = values
        if self.mode in ("off", "failsafe") or not np.isfinite(given).all() or (given[3:] < 0.0).any():
            return
        self.mode = "setpoints"
        self._setpoint = _Setpoint(*given)
        self._heard = self.now

    @property
    def stiff(self) -> bool:
        """True while a drive pulls towards an angle."""
        return bool(self._setpoint.stiffness.any())

    @property
    def lying(self) -> bool:
        """True where the drives only damp, and nothing has moved for STILL_S."""
        return self._still >= STILL_S

    def ground(self, points: ArrayLike) -> NDArray[np.float64]:
        """[...] m, world: heights of the ground at [..., 2] m, world."""
        places = np.asarray(points, float)
        if self._terrain is None:
            return np.zeros(places.shape[:-1])
        return self._terrain.at(torch.from_numpy(places)).double().numpy()

    # -- physics -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Onboard software and physics of one control step."""
        d, dt = self._data, float(self._model.opt.timestep)
        before = d.qvel[:3].copy()
        for _ in range(self._steps_each):
            if self.mode == "setpoints" and self.now - self._heard > self.timeout_s:
                self.mode = "failsafe"
                self._setpoint = self._damping()
            self._drive()
            d.qfrc_applied[self._v] = self._torque
            mujoco.mj_step(self._model, d)
            self._steps += 1
            quiet = not self.stiff and np.abs(d.qvel[self._v]).max() < STILL_RAD_S
            self._still = self._still + dt if quiet else 0.0
        self._acceleration = (d.qvel[:3] - before) / self.period

    def _foot_forces(self) -> NDArray[np.float64]:
        """[4] N, normal forces on the feet, in LEGS' order."""
        out = np.zeros(len(LEGS))
        force = np.zeros(6)
        for i in range(self._data.ncon):
            for geom in self._data.contact.geom[i]:
                if geom in self._feet:
                    mujoco.mj_contactForce(self._model, self._data, i, force)
                    out[self._feet[geom]] += force[0]
        return out

    def _drive(self) -> None:
        s, q, dq = self._setpoint, self._data.qpos[self._q], self._data.qvel[self._v]
        wanted = s.stiffness * (s.position - q) + s.damping * (s.velocity - dq) + s.torque
        share = dq / self._top
        low, high = (np.clip(self._limit * (end - share), -self._limit, self._limit) for end in (-1.0, 1.0))
        self._torque = np.clip(wanted, low, high)

    def truth(self) -> Mapping[str, Array]:
        """Quantities without noise, and position and velocity of the trunk in the world, which it cannot measure."""
        d = self._data
        values = {
            "joint angles": d.qpos[self._q], "joint velocities": d.qvel[self._v], "joint torques": self._torque,
            "rotation": d.qpos[3:7], "angular velocity": d.qvel[3:6], "position": d.qpos[:3], "velocity": d.qvel[:3],
            SPECIFIC_FORCE: (self._acceleration - self._model.opt.gravity) @ matrix(d.qpos[3:7]),
            FOOT_FORCES: self._foot_forces(),
        }  # fmt: skip
        return {name: np.array(value, np.float32) for name, value in values.items()}

    def sense(self) -> Reading:
        """Measurements now, joints in the vehicle's order; `received` is left to the link."""
        true = self.truth()
        values: dict[str, Array] = {}
        for name in QUANTITIES:
            size = 3 if name == "rotation" else true[name].size
            drawn = (self.noise * NOISE[name] * self._rng.standard_normal(size)).astype(np.float32)
            values[name] = turned(true[name], drawn) if name == "rotation" else true[name] + drawn
        return Reading(self.now, self.now, values, armed=self.armed, landed=self.lying, mode=self.mode)
