"""A simulated arm at its table with the onboard software of real ones: it takes joint positions at 1 kHz, tracks them by its
own servos over gravity compensation, and stops by itself where they leave its limits, stay away, or something pushes it.

    vehicle = ArmVehicle(rookery.make("table-reach", num_envs=1))
    vehicle.arm()
    vehicle.setpoint(angles)                        # rad, each PERIOD_S
    vehicle.step()                                  # PERIOD_S of physics
    vehicle.sense()                                 # a Reading

It begins at its home pose. A tracker, as cameras have them, measures the task's objects; the goal that the task has drawn is
among the measurements, where nobody commands another.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING
from rookery.sim2real.links.arm_drive import QUANTITIES
from rookery.sim2real.runtime.reading import Array, Reading
from rookery.sim2real.vehicles.motion_monitor import PUSHED, SILENCE, MotionMonitor
from rookery.sim2real.vehicles.noise import turned
from rookery.tasks.manipulation.arm_task import ArmTask

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv

PERIOD_S = 0.001  # s, of the arm's controller and of the physics
TRACKER_S = 0.01  # s, between two measurements of objects
MISSED = 20  # joint positions in a row that do not come before it stops (Franka's FCI documentation, "Network")
COLLISION = 0.5
"""Share of the joints' limits of torque at which it stops, 43 N m of shoulder and elbow and 6 of the wrist: our choice.
libfranka's examples set 20 N m for all (examples_common.cpp, setDefaultBehavior), and policies touch their tables with 22."""
FILTER_S = 0.01  # s, of the estimate of external torques; our choice
STILL_RAD_S = 0.02  # rad/s
NOISE = {
    "joint angles": 1e-4, "joint velocities": 3e-3, "joint torques": 0.1, "external torques": 0.1, OPENING.name: 2e-4,
}  # fmt: skip
"""Standard deviations in rad, rad/s, N m, N m, m (our choice): a tenth to a third of those that policies are trained with."""
TRACKER_M = 5e-4  # m and rad, of objects


class ArmVehicle:
    """See the module.

    Args:
        env: one world of a table-top task with one arm whose drives take positions.
        noise: factor on the noise of measurements.
        seed: of the noise.

    Attributes:
        kind: the arm's model.
        joints: names, in its order.
        period: s, of `step`. count: of arms.
        now: s, its clock.
        mode: "off", in which its own controller holds it, "ready" (armed, no position yet), "setpoints", or "stopped", in
            which it stays until it is armed again.
        error: why it stopped, a name of Franka's; "" where it has not.
        opening_goal: m, of the gripper.
        collision: [J] N m, external torques at which it stops.
        objects: what the tracker saw last, and the goal, without noise.
        quantities: names of what it and its tracker measure.
    """

    def __init__(self, env: VecEnv, noise: float = 1.0, seed: int = 0) -> None:
        task = env.task
        if not isinstance(task, ArmTask) or len(task.arms) != 1 or env.num_envs != 1 or task.action.drive != "position":
            raise RookeryError(
                "an arm's vehicle needs one world of a table-top task with one arm whose drives take positions."
            )
        self.task, self.env = task, env
        self.group = next(iter(task.arms))
        self._robot = task.robot
        self.kind = task.model
        self.joints = tuple(self.kind.joints)
        self.period, self.count = PERIOD_S, 1
        self.noise = noise
        self._rng = np.random.default_rng(seed)
        env.reset()
        self._prepare()
        self.monitor = MotionMonitor(
            PERIOD_S, self.kind.lower, self.kind.upper, self.kind.speed, self.kind.acceleration, self.kind.jerk
        )
        self.collision = COLLISION * np.array(self.kind.torque, float)
        self.external = np.zeros(len(self.joints))
        self._steps = 0
        self._fresh = False
        self._missed = 0
        self.mode, self.error = "off", ""
        self.monitor.begin(self._robot.home.numpy())
        self._look()
        self.quantities = (*QUANTITIES, *self.objects)
        self.begin_episode()

    def _prepare(self) -> None:
        """Physics of its own at PERIOD_S, of the world that the task has set up."""
        world = self.env.world
        self._data = world.mj_data(0)
        self._model = copy.copy(world.model)
        self._model.opt.timestep = PERIOD_S
        m, robot = self._model, self._robot
        found = [m.joint(name) for name in (*robot.joint_names, *robot.finger_names)]
        count = len(robot.joint_names)
        self._q, self._v = (np.array([getattr(j, k)[0] for j in found]) for k in ("qposadr", "dofadr"))
        self._arm = slice(0, count)
        self._drives = np.array([m.actuator(name).id for name in robot.joint_names])
        self._gripper = m.actuator(f"{robot.name}/{self.kind.gripper}").id if robot.grips else None
        self._lead = (np.array(self.kind.kd) + np.array(self.kind.damping)) / np.array(self.kind.kp)
        self.opening_goal = 2.0 * self.kind.stroke if self.task.opening is None else self.task.opening
        self._data.qpos[self._q[:count]] = robot.home.numpy()
        self._data.qvel[:] = 0.0
        of_type = mujoco.mjtJoint
        free = np.flatnonzero(m.jnt_type == int(of_type.mjJNT_FREE))
        slide = np.flatnonzero(np.isin(m.jnt_type, [int(of_type.mjJNT_HINGE), int(of_type.mjJNT_SLIDE)]))
        self._free = [(world.bodies([m.body(m.jnt_bodyid[i]).name]), m.jnt_qposadr[i], m.jnt_dofadr[i]) for i in free]
        self._hinged = world.joints([m.joint(i).name for i in slide]), m.jnt_qposadr[slide], m.jnt_dofadr[slide]

    # -- what links ask ----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """s, its clock."""
        return self._steps * PERIOD_S

    @property
    def armed(self) -> bool:
        """True while joint positions can move it."""
        return self.mode in ("ready", "setpoints")

    @property
    def still(self) -> bool:
        """True where neither the arm nor what it was told moves."""
        moving = np.abs(self._data.qvel[self._v[self._arm]]).max()
        return bool(moving < STILL_RAD_S and not self.monitor.velocity.any())

    def arm(self) -> None:
        """Take joint positions; ends a stop."""
        if not self.armed and not self.monitor.velocity.any():
            self.mode, self.error = "ready", ""
            self.monitor.begin(self.monitor.position)
            self._missed = 0

    def disarm(self) -> None:
        """Take none any more; it brakes, and its own controller holds it."""
        if self.armed:
            self.mode = "off"

    def setpoint(self, angles: ArrayLike) -> None:
        """The joint positions [J] rad of this step."""
        if not self.armed:
            return
        fault = self.monitor.take(angles)
        if fault:
            self.stop(fault)
            return
        self.mode = "setpoints"
        self._fresh = True
        self._missed = 0

    def stop(self, error: str) -> None:
        """Its own controller stops it, for an error of Franka's."""
        self.mode, self.error = "stopped", error

    def begin_episode(self) -> None:
        """Begin anew: nothing that was done before counts."""
        for values in (self.task.done_steps, self.task.ever_done, self.task.steps_to_done):
            values.zero_()
        self._judged = self.now

    @property
    def success(self) -> bool:
        """Success by the task, since `begin_episode`."""
        return bool(self.task.success()[0])

    # -- physics -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Onboard software and physics of PERIOD_S."""
        self._follow()
        d = self._data
        mujoco.mj_step(self._model, d)
        self._steps += 1
        self.external += PERIOD_S / FILTER_S * (d.qfrc_constraint[self._v[self._arm]] - self.external)
        self._guard()
        if self._steps % round(TRACKER_S / PERIOD_S) == 0:
            self._look()
            if self.now - self._judged > self.env.control_dt - 0.5 * PERIOD_S:
                self.task.advance()
                self._judged += self.env.control_dt

    def _follow(self) -> None:
        """Its controller of this step: what the motors' servos track."""
        d, monitor = self._data, self.monitor
        if self.mode == "setpoints" and not self._fresh:
            self._missed += 1
            monitor.extrapolate()
            if self._missed > MISSED:
                self.stop(SILENCE)
        elif not self.armed:
            monitor.brake()
        self._fresh = False
        d.ctrl[self._drives] = monitor.position + self._lead * monitor.velocity
        if self._gripper is not None:
            d.ctrl[self._gripper] = self.opening_goal

    def _guard(self) -> None:
        """Its controller stops it where something pushes against it."""
        if self.armed and (np.abs(self.external) > self.collision).any():
            self.stop(PUSHED)

    def _look(self) -> None:
        """The tracker measures the objects: the task reads its world, which is put in the state of the physics."""
        d, ids = self._data, torch.zeros(1, dtype=torch.int64)
        for body, q, v in self._free:
            state = np.concatenate((d.qpos[q : q + 7], d.qvel[v : v + 6]))
            body.set_state(ids, torch.tensor(state, dtype=torch.float32)[None, None])
        joints, q, v = self._hinged
        joints.set_state(ids, *(torch.tensor(x[None], dtype=torch.float32) for x in (d.qpos[q], d.qvel[v])))
        self.env.world.forward(ids)
        self.task.refresh()
        seen = self.task.quantities(self.group)
        self.objects = {name: value[0].numpy().astype(np.float32) for name, value in seen.items()}

    def truth(self) -> Mapping[str, Array]:
        """Quantities without noise."""
        d, at = self._data, self._v[self._arm]
        q = d.qpos[self._q]
        opening = q[self._arm.stop :].sum(keepdims=True)
        values: dict[str, NDArray[np.float64]] = {
            "joint angles": q[self._arm], "joint velocities": d.qvel[at], "joint torques": d.qfrc_actuator[at],
            "external torques": self.external, OPENING.name: opening if opening.size else np.zeros(1),
        }  # fmt: skip
        return {name: np.array(value, np.float32) for name, value in values.items()} | self.objects

    def sense(self) -> Reading:
        """Measurements now; `received` is left to the link."""
        values = {}
        for name, true in self.truth().items():
            scale = self.noise * NOISE.get(name, TRACKER_M)
            if name in NOISE or (name.endswith("position") and "goal" not in name):  # goals are told, not measured
                values[name] = true + (scale * self._rng.standard_normal(true.size)).astype(np.float32)
            elif name.endswith("rotation") and true.any():
                values[name] = turned(true, scale * self._rng.standard_normal(3)).astype(np.float32)
            else:
                values[name] = true
        return Reading(self.now, self.now, values, armed=self.armed, landed=None, mode=self.error or self.mode)
