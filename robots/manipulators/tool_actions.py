"""Action kinds that command the tool: its place, its pose by joint references, its pose by torques."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.robots.manipulators.actuation import goal_of
from rookery.robots.manipulators.impedance import ToolSpring, impedance, rotate_goals
from rookery.robots.manipulators.manipulator import ArmAction, Manipulator, arm_spec
from rookery.robots.manipulators.pose_search import PoseSearch
from rookery.robots.manipulators.tool_drive import GoalBounds, drive_tools, move_goals
from rookery.sim.actuation import ToolGoal
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.specs import ActionSpec

STEP = 0.01
"""m, that an action of 1 moves the tool's goal in a control step: Meta-World's action scale (metaworld 3.1.1,
sawyer_xyz_env.py)."""
ROTATION_STEP = 0.05  # rad, likewise about each of the world's axes; our choice
LEAD = 0.045
"""m, along each axis, how far the goal may be ahead of the reference: steps are made shorter for that, in their direction."""
LEASH = 0.06
"""m, likewise of the tool itself: the goal does not run away from a tool that is blocked."""
SPRING_LEASH = 0.05  # m, likewise of "impedance"
ROTATION_LEASH = 0.4  # rad, likewise of a pose's rotation
IK_DAMPING = 0.03
POSTURE = 0.04
"""Of the least squares (m and rad), and the share of the distance to home in a control step."""
MAX_JOINT_STEP = 0.2  # rad, of the inverse kinematics in a control step
STIFFNESS = (400.0, 400.0, 400.0, 20.0, 20.0, 20.0)
"""N/m and N m/rad of "impedance". The damping is 2 sqrt(stiffness) in the same units, as in the Cartesian impedance example of
Franka's libfranka for a unit mass, and half as much again, since the arm is heavier."""
NULL_SPACE = (10.0, 4.0)  # N m/rad, N m s/rad of its pull home

_MOVE = "tool's goal = goal of the step before + first three components of the command, see `tool_goal`"
_ROTATE = (
    "goal's rotation = that of the step before, rotated by the components 4 to 6 of the command, a rotation vector, "
    "see `tool_goal`"
)
_IK = (
    "joint goals, from those of the step before, once a control step: pull = posture (home - q); q += pull + J^T (J J^T + "
    "ik_damping^2)^-1 (e - J pull), each change within max_joint_step, q within the joint's limits; e = place (m) and rotation "
    "vector (rad) from the tool at q to the goal, world axes"
)
_DRIVEN = {"lead": LEAD, "leash": LEASH, "ik_damping": IK_DAMPING, "posture": POSTURE, "max_joint_step": MAX_JOINT_STEP}
_AXES = ("x", "y", "z", "roll", "pitch", "yaw")


@dataclass(frozen=True)
class Cartesian(ArmAction):
    """The tool's goal moves, its rotation stays; inverse kinematics and joint references bring the tool there.

    Args:
        step: m, that 1 moves the goal along an axis of the world in a control step.
    """

    step: float = STEP

    name = "cartesian"
    follows_tool_goal = True
    keeps_rotation = True

    def spec(self, arm: Manipulator) -> ActionSpec:
        return tool_spec(self.name, arm, [self.step] * 3)

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        return (_MOVE, _ik(arm))

    def tool_goal(self, arm: Manipulator) -> ToolGoal:
        return goal_of(arm, rotation_leash=None, **_DRIVEN)

    def tool_command(self, move: Tensor, rotate: Tensor) -> Tensor:
        return move / self.step

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        drive_to_goal(arm, self.step * command[:, :3])


@dataclass(frozen=True)
class ToolPose(ArmAction):
    """The tool's goal moves and rotates; inverse kinematics and joint references bring the tool there.

    Args:
        step: m, that 1 moves the goal along an axis of the world in a control step.
        rotation_step: rad, that 1 rotates it about such an axis.
    """

    step: float = STEP
    rotation_step: float = ROTATION_STEP

    name = "pose"
    follows_tool_goal = True

    def spec(self, arm: Manipulator) -> ActionSpec:
        return tool_spec(self.name, arm, [self.step] * 3 + [self.rotation_step] * 3)

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        return (_ROTATE, _MOVE, _ik(arm))

    def tool_goal(self, arm: Manipulator) -> ToolGoal:
        return goal_of(arm, rotation_leash=ROTATION_LEASH, **_DRIVEN)

    def tool_command(self, move: Tensor, rotate: Tensor) -> Tensor:
        return torch.cat((move / self.step, (rotate / self.rotation_step).clamp(-1.0, 1.0)), 1)

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        rotate_goal(arm, self.rotation_step * command[:, 3:])
        drive_to_goal(arm, self.step * command[:, :3])


@dataclass(frozen=True)
class Impedance(ToolPose):
    """The tool's goal moves and rotates; torques pull the tool there like a spring with a damper.

    The torques follow the joints at the robot: what is sent there, and may be late, is the goal.

    Args:
        stiffness: N/m (three) and N m/rad (three).
    """

    stiffness: tuple[float, ...] = STIFFNESS

    name = "impedance"
    drive = "torque"

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        rate = arm.model.torque_rate
        pull = (
            "torque above gravity compensation = J^T (stiffness * error - damping * J dq) + the part of "
            "null_space's pull home that "
            f"does not move the tool, at every physics step, within the joints' limits, changing by at most {rate:g} N m/s"
        )
        return (_ROTATE, _MOVE, pull)

    def tool_goal(self, arm: Manipulator) -> ToolGoal:
        return goal_of(
            arm, rotation_leash=ROTATION_LEASH, lead=None, leash=SPRING_LEASH, ik_damping=0.0, posture=0.0, max_joint_step=0.0,
            stiffness=self.stiffness, damping=tuple(3.0 * math.sqrt(k) for k in self.stiffness), null_space=NULL_SPACE,
        )  # fmt: skip

    def attach(self, arm: Manipulator) -> None:
        stiffness = arm.action_buffer("stiffness", 6)
        damping = arm.action_buffer("damping", 6)
        self._set_stiffness(arm, torch.arange(arm.world.num_envs), torch.ones(arm.world.num_envs))
        spring = ToolSpring(
            arm.home.numpy(), stiffness.numpy(), damping.numpy(), *NULL_SPACE, np.array(arm.model.torque, float),
            arm.model.torque_rate * arm.world.dt,
        )  # fmt: skip

        def pull(step: int) -> None:
            """Torques of one physics step."""
            goal, rotation = arm.goal, arm.goal_rotation
            if arm.late is not None:
                goal, rotation = arm.arrived[:, step, :3].clone(), arm.arrived[:, step, 3:12].clone().view(-1, 3, 3)
                arm.rows[:, 0, spring.torque.size :] = arm.arrived[:, step, 12:]
            impedance(
                arm.joints.pos.numpy(), arm.joints.vel.numpy(), goal.numpy(), rotation.numpy(), arm.chain, spring,
                arm.torque.numpy(), arm.rows.flatten(1).numpy(),  # as contiguous as one world's: one compiled version
            )  # fmt: skip
            arm.actuators.set_control(arm.rows[:, 0])

        arm.world.inner_loops += (pull,)

    def _set_stiffness(self, arm: Manipulator, ids: Tensor, factor: Tensor) -> None:
        """Set springs and dampers to `factor` [n] times the stiffness."""
        stiffness = factor.double()[:, None] * torch.tensor(self.stiffness, dtype=torch.float64)
        arm.action_state["stiffness"][ids] = stiffness
        arm.action_state["damping"][ids] = 3.0 * stiffness.sqrt()

    def parameters(self, arm: Manipulator) -> dict[str, Parameter]:
        write = functools.partial(self._set_stiffness, arm)
        return {"tool_stiffness": Parameter("stiffness of the springs that pull the tool", "1", 1.0, 0.1, 2.0, write)}

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        # torques have no reference that goes ahead
        move_goals(
            arm.goal.numpy(), (self.step * command[:, :3]).numpy(), arm.reference.numpy(), arm.exact_tool.numpy(),
            GoalBounds(math.inf, SPRING_LEASH, *arm.box.numpy()), arm.chain,
        )  # fmt: skip
        rotate_goal(arm, self.rotation_step * command[:, 3:])
        count = arm.torque.shape[1]
        arm.rows[:, :, :count] = arm.torque[:, None]
        arm.rows[:, :, count:] = arm.grip[:, None, None]
        if arm.late is not None:
            arm.arrived = arm.delay.push(_goals(arm), arm.late)

    def sent(self, arm: Manipulator) -> int:
        return 12 + arm.grips

    def hold(self, arm: Manipulator, ids: Tensor) -> None:
        arm.delay.reset(ids, _goals(arm))


def _goals(arm: Manipulator) -> Tensor:
    """[N, 12] of each tool's goal: place, then rotation; and the gripper's opening, where there is one."""
    parts = [arm.goal, arm.goal_rotation.view(-1, 9)]
    return torch.cat((*parts, arm.grip[:, None]) if arm.grips else parts, 1)


def _ik(arm: Manipulator) -> str:
    """The inverse kinematics in words."""
    return _IK if len(arm.model.joints) > 5 else f"{_IK}; rotation about the tool's own z is left out of e and J"


def tool_spec(kind: str, arm: Manipulator, steps: list[float]) -> ActionSpec:
    """The ActionSpec of a tool's goal that moves by [3] m and, where there are six `steps`, rotates by [3] rad."""
    count = len(steps)
    units = (*("m",) * 3, *("rad",) * (count - 3))
    return arm_spec(kind, arm, [f"tool_{axis}" for axis in _AXES[:count]], [-s for s in steps], steps, units)


def drive_to_goal(arm: Manipulator, move: Tensor) -> None:
    """Move the goal by [N, 3] m and send the joint references that bring the tool there."""
    search = PoseSearch(arm.lower, arm.upper, arm.home.numpy(), IK_DAMPING, POSTURE, MAX_JOINT_STEP)
    drive_tools(
        arm.goal.numpy(), arm.goal_rotation.numpy(), move.numpy(), arm.exact_tool.numpy(),
        GoalBounds(LEAD, LEASH, *arm.box.numpy()), arm.joint_goal.numpy(), search, arm.reference.numpy(), *arm.motion(),
    )  # fmt: skip
    arm.send()


def rotate_goal(arm: Manipulator, rotate: Tensor) -> None:
    """Rotate the goal by rotation vectors [N, 3] rad, as far as it may be from the tool."""
    rotate_goals(rotate.numpy(), arm.exact_rotation.numpy(), math.cos(ROTATION_LEASH), arm.goal_rotation.numpy())
