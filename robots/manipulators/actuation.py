"""Everything between an arm's action and its motors, for contracts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from rookery.robots.manipulators.references import BANDWIDTH, TOP
from rookery.sim.actuation import Actuation, ArmChain, Gripper, Joint, JointReferences, ToolGoal
from rookery.sim.rotations import quaternion

if TYPE_CHECKING:
    from rookery.robots.manipulators.manipulator import Manipulator

RATE_SHARE = 0.8
"""Share of the torque's rate that the arm's inertia may take in free motion; the rest is for what references do not model:
speed, friction and the servos' own errors."""
GRIPPER_STEP = "gripper: opening = open + (a + 1) / 2 (closed - open) of the last component, held for the control step"
REFERENCE_STEPS = (
    "joint references go to the joint goals within the limits of `references`, all joints by one factor, so that "
    "straight ways stay "
    "straight; the target sent to a servo is reference + lead * its velocity, at every physics step",
    "torque = kp (target - q) - kd dq, and gravity compensation, within the joint's limit",
)


def arm_actuation(arm: Manipulator) -> Actuation:
    """The actuation of an arm under its action kind."""
    model = arm.model
    servo = arm.action.drive == "position"
    joints = []
    for i, name in enumerate(model.joints):
        x, y, z = (float(v) for v in arm.world.model.joint(arm.joint_names[i]).axis)
        joints.append(
            Joint(
                name, (x, y, z), home=float(arm.home[i]), lower=float(arm.lower[i]), upper=float(arm.upper[i]),
                kp=float(model.kp[i]) if servo else 0.0, kd=float(model.kd[i]) if servo else 0.0, torque=float(model.torque[i]),
            )
        )  # fmt: skip
    steps = (*arm.action.steps(arm), *(REFERENCE_STEPS if servo else ()), *((GRIPPER_STEP,) if arm.grips else ()))
    return Actuation(
        steps,
        (*model.joints, *((model.gripper,) if arm.grips else ())),
        arm.world.dt,
        joints=tuple(joints),
        references=_references(arm) if servo else None,
        tool_goal=arm.action.tool_goal(arm),
        gripper=_gripper(arm) if arm.grips else None,
        torque_rate=None if servo else float(model.torque_rate),
        chain=_chain(arm),
    )


def _chain(arm: Manipulator) -> ArmChain:
    turns, offsets, _ = arm.chain
    return ArmChain(
        tuple((float(x), float(y), float(z)) for x, y, z in offsets),
        tuple((float(w), float(x), float(y), float(z)) for w, x, y, z in quaternion(torch.from_numpy(turns))),
        tuple(float(v) for v in arm.home),
    )


def _references(arm: Manipulator) -> JointReferences:
    model = arm.model
    return JointReferences(
        speed=tuple(TOP * float(v) for v in model.speed),
        acceleration=tuple(float(v) for v in model.acceleration),
        jerk=tuple(float(v) for v in model.jerk),
        torque=tuple(float(v) for v in model.inertial_torque),
        torque_rate=RATE_SHARE * model.torque_rate,
        bandwidth=BANDWIDTH,
        lead=tuple((float(d) + c) / float(p) for d, c, p in zip(model.kd, model.damping, model.kp, strict=True)),
    )


def _gripper(arm: Manipulator) -> Gripper:
    name = f"{arm.name}/{arm.model.gripper}"
    low, high = arm.world.model.actuator(name).forcerange
    return Gripper(arm.model.gripper, 2.0 * arm.model.stroke, 0.0, float(min(-low, high)), 2.0 * arm.model.stroke)


def goal_of(arm: Manipulator, **values: object) -> ToolGoal:
    """The goal of an arm's tool; `values` are those of ToolGoal that the action kind decides."""
    x, y, z = (float(v) for v in arm.base_pos)
    w = arm.base_rotation
    yaw = math.atan2(float(w[1, 0]), float(w[0, 0]))
    low, high = (tuple(float(v) for v in corner) for corner in arm.box)
    box = (low, high) if all(map(math.isfinite, (*low, *high))) else None
    defaults: dict[str, object] = {
        "base": arm.model.base, "base_pos": (x, y, z), "base_quat": (math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw)),
        "tool": arm.model.tool, "frame": "world", "box": box, "home": tuple(float(v) for v in arm.home),
    }  # fmt: skip
    return ToolGoal(**(defaults | values))  # type: ignore[arg-type]
