"""Drives of an arm that was read from a file, its contacts, and a test that it holds still."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.assets.arms import COLLISION_GROUP, FIXTURE_BIT, LINK_BIT, PAD_FRICTION, PAD_SOLIMP, TOUCH_BIT, set_servo
from rookery.assets.drones import VISUAL_GROUP
from rookery.assets.panda import GRIP_KD, GRIP_KP, HAND_SOLREF
from rookery.robots.manipulators.model import ManipulatorModel

HOLD_S = 10.0  # s
OFF = 0.02  # rad, off home, where joints are let go; after 1 s they are to be there
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ArmDrives:
    """Drives of the joints, for `spec_of`: N m/rad, N m s/rad, N m by joint; N, of the gripper on each finger."""

    joints: tuple[str, ...]
    kp: tuple[float, ...]
    kd: tuple[float, ...]
    torque: tuple[float, ...]
    gripper: str | None
    force: float
    stroke: float


def spec_of(spec: mujoco.MjSpec, drives: ArmDrives, drive: str = "position") -> mujoco.MjSpec:
    """The arm with its drives, see ManipulatorModel."""
    out = spec.copy()
    for name, kp, kd, torque in zip(drives.joints, drives.kp, drives.kd, drives.torque, strict=True):
        act = out.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
        if drive == "position":
            set_servo(act, kp, kd, torque)  # without a range: references lead their joints
        else:
            act.set_to_motor()
            act.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
            act.forcerange = [-torque, torque]
    if drives.gripper is not None:
        servo = out.add_actuator(name=drives.gripper, trntype=mujoco.mjtTrn.mjTRN_TENDON, target="opening")
        set_servo(servo, GRIP_KP, GRIP_KD, drives.force, (0.0, 2.0 * drives.stroke))
    return out


def set_contact(geom: mujoco.MjsGeom, hand: bool, finger: bool) -> None:
    """Links meet links, hand and fingers also what stands on the table, as a Panda's."""
    if not (geom.contype or geom.conaffinity):
        geom.group = VISUAL_GROUP
        return
    geom.contype = TOUCH_BIT | LINK_BIT if hand else LINK_BIT
    geom.conaffinity = TOUCH_BIT | FIXTURE_BIT if hand else LINK_BIT
    geom.group = COLLISION_GROUP
    geom.condim = 3
    if hand:
        geom.solref = list(HAND_SOLREF)
    if finger:
        geom.condim = 4
        geom.priority = 1
        geom.friction = list(PAD_FRICTION)
        geom.solimp = list(PAD_SOLIMP)


def loads(model: mujoco.MjModel, joints: tuple[str, ...], poses: Floats) -> tuple[Floats, Floats]:
    """[J] largest inertia about each joint, kg m^2, and what gravity takes of its motor, N m, over poses [P, J] rad."""
    bare = model
    gravcomp = bare.body_gravcomp.copy()
    bare.body_gravcomp[:] = 0.0
    data = mujoco.MjData(bare)
    dofs = [int(bare.joint(j).dofadr[0]) for j in joints]
    inertia, gravity = np.zeros(len(joints)), np.zeros(len(joints))
    full = np.zeros((bare.nv, bare.nv))
    for q in poses:
        for joint, angle in zip(joints, q, strict=True):
            data.joint(joint).qpos[0] = angle
        mujoco.mj_forward(bare, data)
        mujoco.mj_fullM(bare, data, full)
        inertia = np.maximum(inertia, full[dofs, dofs])
        gravity = np.maximum(gravity, np.abs(data.qfrc_bias[dofs]))
    bare.body_gravcomp[:] = gravcomp
    return inertia, gravity


def hold(model: ManipulatorModel, seconds: float = HOLD_S) -> float:
    """Rad, the farthest that a joint is from home, under gravity, from the second second on, when servos drew it there."""
    spec = model.spec(drive="position")
    spec.option.timestep = 0.0025
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    compiled = spec.compile()
    data = mujoco.MjData(compiled)
    addresses = [int(compiled.joint(j).qposadr[0]) for j in model.joints]
    home = np.array(model.home)
    data.qpos[addresses] = home + OFF * np.where(np.arange(len(home)) % 2, -1.0, 1.0)
    for joint, angle in zip(model.joints, model.home, strict=True):
        data.actuator(joint).ctrl[0] = angle
    farthest = 0.0
    mujoco.mj_step(compiled, data, 400)
    for _ in range(round(seconds / 0.1) - 10):
        mujoco.mj_step(compiled, data, 40)
        farthest = max(farthest, float(np.abs(data.qpos[addresses] - home).max()))
        if not np.isfinite(data.qpos).all():
            return math.inf
    return farthest
