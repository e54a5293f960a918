"""A jointed robot as identification simulates it: held by its base, without contacts, each joint driven by one motor whose
controller is the log's.

Drives are MuJoCo's `dcmotor` with the inputs `pos` and `ff`: ``kp (target - q) - kd dq + ff`` until the motor's torque-speed
line limits it, the same equations as those of the robots in the tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError, unknown

if TYPE_CHECKING:
    from rookery.robots.manipulators.model import ManipulatorModel
    from rookery.robots.quadrupeds.model import QuadrupedModel

Array = NDArray[np.float64]
BUS_VOLTAGE = 1.0  # V; only ratios matter to a motor whose gains are given in torque
FRICTION_S = 0.005
"""s, in which dry friction stops a joint. MuJoCo's default of 0.02 rounds the jump of the torque where the motion turns, which
a fit takes for 0.01 N m s/rad more damping and 0.8 ms less delay (measured, on logs of Bullet, whose friction is hard)."""
FRICTION_FIRM = 0.999
"""Impedance of dry friction: with MuJoCo's default of 0.9 a joint that is held by it creeps by some mrad/s."""
NO_LINE = 1e4
"""rad/s, no-load speed of motors whose torque does not depend on the speed."""


@dataclass(frozen=True)
class JointedRobot:
    """See the module.

    Args:
        name: such as "go2".
        family: "quadruped" or "arm".
        model: compiled; its actuators are those of `joints`, in their order, with two controls each: target and feedforward.
        joints: names [J].
        kinds: [J] names of groups of equal joints, such as "hip".
        lower, upper: [J] rad.
        torque, speed: [J] N m and rad/s of the motors.
        kp, kd: [J] of the robot's own servos, N m/rad and N m s/rad.
        home: [J] rad.
    """

    name: str
    family: str
    model: mujoco.MjModel
    joints: tuple[str, ...]
    kinds: tuple[str, ...]
    lower: Array
    upper: Array
    torque: Array
    speed: Array
    kp: Array
    kd: Array
    home: Array

    @property
    def dofs(self) -> NDArray[np.int64]:
        """[J] degrees of freedom of the joints."""
        return np.array([self.model.joint(name).dofadr[0] for name in self.joints])

    @property
    def trees(self) -> NDArray[np.int64]:
        """[J] kinematic trees of the joints; those of different trees do not move each other."""
        return np.array([self.model.dof_treeid[d] for d in self.dofs])

    def nominal(self, field: str) -> Array:
        """[J] of the model: "armature" (kg m^2), "damping" (N m s/rad), "frictionloss" (N m)."""
        values = np.asarray(getattr(self.model, f"dof_{field}"), float).reshape(self.model.nv, -1)[:, 0]
        return np.asarray(values[self.dofs])


def find_robot(name: str) -> JointedRobot:
    """The jointed robot of that name, or of the URDF or MJCF file at that path.

    Raises:
        RookeryError: there is none, or it has no joints.
    """
    from rookery.robots import load
    from rookery.robots.manipulators.table import PANDA
    from rookery.robots.own.reading import is_file
    from rookery.robots.quadrupeds.table import GO2

    if not is_file(name):
        known: dict[str, Any] = {m.name: m for m in (GO2, PANDA)}
        if name not in known:
            raise unknown("jointed robot", name, known)
        return _quadruped(GO2) if name == GO2.name else _arm(PANDA)
    robot = load(name)
    robot.warn()
    if robot.family not in ("quadruped", "arm"):
        raise RookeryError(f"{name} is a {robot.family}: a log of joints needs a quadruped or an arm.")
    return _quadruped(robot.model) if robot.family == "quadruped" else _arm(robot.model)


def _quadruped(m: QuadrupedModel) -> JointedRobot:
    spec = m.spec()
    spec.delete(spec.joint("root"))
    kinds = tuple(("hip", "thigh", "calf")[i % 3] for i in range(len(m.joints)))
    each = (m.joints, kinds, m.lower, m.upper, m.torque, m.speed, m.kp, m.kd, m.home)
    return make_robot(m.name, "quadruped", spec, *each)


def _arm(m: ManipulatorModel) -> JointedRobot:
    spec = m.spec(drive="position")
    for name in m.fingers:
        spec.delete(spec.joint(name))
    line = (NO_LINE,) * len(m.joints)
    each = (m.joints, m.joints, m.lower, m.upper, m.torque, line, m.kp, m.kd, m.home)
    return make_robot(m.name, "arm", spec, *each)


def make_robot(
    name: str, family: str, spec: mujoco.MjSpec, joints: tuple[str, ...], kinds: tuple[str, ...], *numbers: Any
) -> JointedRobot:
    """A robot from an MjSpec, whose actuators are replaced.

    Args:
        spec: with the hinges `joints`, its base fixed.
        numbers: the other arguments of JointedRobot from `lower` on, [J] each.
    """
    lower, upper, torque, speed, kp, kd, home = (np.array(values, float) for values in numbers)
    _strip(spec)
    for i, joint in enumerate(joints):
        actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_dcmotor(
            motorconst=[0.0, 0.0], resistance=0.0, nominal=[BUS_VOLTAGE, torque[i], speed[i]],
            saturation=[torque[i], 0.0, 0.0], controller=[kp[i], 0.0, kd[i], 0.0, 0.0, BUS_VOLTAGE],
            ctrlspec=int(mujoco.mjtCtrlInput.mjINPUT_POS) | int(mujoco.mjtCtrlInput.mjINPUT_FF),
        )  # fmt: skip
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    model = spec.compile()
    model.dof_solref[:] = (FRICTION_S, 1.0)
    model.dof_solimp[:, :2] = FRICTION_FIRM
    return JointedRobot(name, family, model, joints, kinds, lower, upper, torque, speed, kp, kd, home)


def _strip(spec: mujoco.MjSpec) -> None:
    """Leave bodies with their inertias and joints: what remains is the least that a physics step has to place."""
    # first what refers to joints that are gone, such as a gripper's tendons and its servo
    parts = (spec.actuators, spec.sensors, spec.equalities, spec.keys, spec.tendons, spec.excludes, spec.pairs)
    for part in [p for group in parts for p in group]:
        spec.delete(part)
    full = spec.compile()
    for body in spec.bodies[1:]:
        found = full.body(body.name)
        body.explicitinertial = True
        body.mass = float(found.mass[0])
        body.ipos, body.iquat, body.inertia = found.ipos, found.iquat, found.inertia
        body.fullinertia = [math.nan] * 6
    things = (spec.geoms, spec.sites, spec.cameras, spec.lights, spec.meshes, spec.textures, spec.materials)
    for part in [p for group in things for p in group]:
        spec.delete(part)
