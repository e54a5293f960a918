"""Takes a robot's spec apart: names for all its parts, what its actuators say, and what tasks bring themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from rookery.sim.errors import RookeryError

ROTOR_WORDS = ("rotor", "prop", "motor")
"""One of these is in the name of a rotor's link."""
Key = tuple[str, list[float]]
"""A keyframe's name and its qpos."""
_FOLLOWS = tuple(
    int(d) for d in (mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
)
"""Activations that come to the control itself."""


def is_rotor(name: str) -> bool:
    """True where a link is called as rotors are."""
    return any(word in name.lower() for word in ROTOR_WORDS)


def name_all(spec: mujoco.MjSpec) -> None:
    """Give every shape and site a name of its own, and bodies and joints without a name one."""
    for i, geom in enumerate(spec.geoms):
        geom.name = f"shape_{i}"
    for i, site in enumerate(spec.sites):
        site.name = f"site_{i}"
    name_bodies(spec)


def name_bodies(spec: mujoco.MjSpec) -> None:
    """Give bodies and joints without a name one."""
    for i, body in enumerate(spec.bodies):
        if not body.name:
            body.name = f"link_{i}"
    for i, joint in enumerate(spec.joints):
        if not joint.name:
            joint.name = f"joint_{i}"


def strip(spec: mujoco.MjSpec) -> None:
    """Delete what tasks bring themselves (actuators, sensors, keyframes, cameras; options, sizes, how all is drawn) and pairs
    of shapes, which get new names."""
    for element in [*spec.sensors, *spec.actuators, *spec.keys, *spec.pairs, *spec.cameras]:
        spec.delete(element)
    spec.nkey = 0
    plain = mujoco.MjSpec()
    for part in ("option", "visual", "stat"):
        _copy_numbers(getattr(plain, part), getattr(spec, part))
    for size in ("memory", "njmax", "nconmax", "nstack"):
        setattr(spec, size, getattr(plain, size))


def _copy_numbers(source: Any, target: Any) -> None:
    """Copy all fields of one of MuJoCo's structures, and of those in it, to another."""
    for name in dir(source):
        value = getattr(source, name)
        if name.startswith("_") or callable(value):
            continue
        if type(value).__module__.startswith("mujoco"):
            _copy_numbers(value, getattr(target, name))
        else:
            setattr(target, name, value)


def motors_of(spec: mujoco.MjSpec, floats: bool) -> dict[str, dict[str, float]]:
    """Motors by the actuators of an MJCF, by joint: torque (N m), and of servos kp (N m/rad) and kd (N m s/rad).

    All are as the joint has them: behind a gear g an actuator sees g times the angle and gives g times its force, so that its
    torque counts g times and its gains count g^2 times. The torque is the least of what limits it.

    Args:
        floats: the robot's base is free in the world, on which what a damping ratio comes to depends.
    """
    torque: dict[str, float] = {}
    for joint in spec.joints:
        if joint.actfrcrange[1] > joint.actfrcrange[0] and joint.actfrclimited != mujoco.mjtLimited.mjLIMITED_FALSE:
            torque[joint.name] = float(joint.actfrcrange[1])
    kp: dict[str, float] = {}
    kd: dict[str, float] = {}
    model = _with_actuators(spec, floats)
    if model is None:
        return {"torque": torque, "kp": kp, "kd": kd}
    for a in range(model.nu):
        if model.actuator_trntype[a] != mujoco.mjtTrn.mjTRN_JOINT:
            continue
        name = model.joint(int(model.actuator_trnid[a, 0])).name
        gear = abs(float(model.actuator_gear[a, 0]))
        _, stiffness, damping = -gear * gear * model.actuator_biasprm[a, :3] * _is_affine(model, a)
        if stiffness > 0.0:
            kp[name] = float(stiffness)
        if damping > 0.0:
            kd[name] = kd.get(name, 0.0) + float(damping)
        most = gear * _most_force(model, a)
        if most < math.inf:
            torque[name] = min(most, torque.get(name, math.inf))
    return {"torque": torque, "kp": kp, "kd": {name: v for name, v in kd.items() if name in kp}}  # not of brakes alone


def _with_actuators(spec: mujoco.MjSpec, floats: bool) -> mujoco.MjModel | None:
    """The file's model, in which MuJoCo has worked out limits and damping ratios of actuators; None without any, or where it
    cannot be compiled, which later checks say."""
    if not spec.actuators:
        return None
    alone = spec.copy()
    free = [] if floats else [j for j in alone.joints if j.type == mujoco.mjtJoint.mjJNT_FREE]
    for element in [*alone.sensors, *alone.keys, *free]:  # which may not fit the reader's base
        alone.delete(element)
    alone.nkey = 0
    alone.compiler.balanceinertia = True  # what is no body's inertia is refused or mended later
    try:
        return alone.compile()
    except ValueError:
        return None


def _is_affine(model: mujoco.MjModel, a: int) -> bool:
    """True where an actuator's force falls with its own length or speed."""
    return bool(model.actuator_biastype[a] == mujoco.mjtBias.mjBIAS_AFFINE)


def _most_force(model: mujoco.MjModel, a: int) -> float:
    """N (N m) that an actuator gives at most, before its gear; infinite without a limit. Of a servo, whose control is no
    force, only its own limit counts."""
    most = math.inf
    if model.actuator_forcelimited[a]:
        most = float(model.actuator_forcerange[a, 1])
    direct = model.actuator_gaintype[a] == mujoco.mjtGain.mjGAIN_FIXED and int(model.actuator_dyntype[a]) in _FOLLOWS
    if model.actuator_ctrllimited[a] and direct and model.actuator_biastype[a] == mujoco.mjtBias.mjBIAS_NONE:
        most = min(most, abs(float(model.actuator_gainprm[a, 0])) * float(model.actuator_ctrlrange[a, 1]))
    return most


def take_refs(path: Path, spec: mujoco.MjSpec, joints: Sequence[str]) -> None:
    """Let the robot stand at angle 0 where the file has it at the `ref` of these joints: their angles mean what they did, and
    what computes with the bodies' places at angle 0 has them.

    Args:
        spec: its angles in rad, its orientations as quaternions.

    Raises:
        RookeryError: another joint lies between one with a `ref` and its body, or is coupled to it.
    """
    coupled = {n for e in spec.equalities if e.type == mujoco.mjtEq.mjEQ_JOINT for n in (e.name1, e.name2)}
    for joint in (spec.joint(name) for name in joints):
        ref = float(joint.ref)
        if ref == 0.0:
            continue
        body = joint.parent
        if joint.name in coupled or body.joints[0].name != joint.name:
            raise RookeryError(
                f"{path}: joint {joint.name!r} has ref = {ref:.3g} and shares its body or its motion with another joint: turn "
                "its body by that much in the file in place of it."
            )
        turn, axis = np.zeros(9), np.array(joint.axis) / np.linalg.norm(joint.axis)
        mujoco.mju_quat2Mat(turn, np.array(body.quat))
        shift = -ref * axis
        if joint.type == mujoco.mjtJoint.mjJNT_HINGE:
            back, at, quat = np.zeros(4), np.zeros(3), np.zeros(4)
            mujoco.mju_axisAngle2Quat(back, axis, -ref)
            mujoco.mju_rotVecQuat(at, np.array(joint.pos), back)
            mujoco.mju_mulQuat(quat, np.array(body.quat), back)
            body.quat = list(quat)
            shift = np.array(joint.pos) - at
        body.pos = list(np.array(body.pos) + turn.reshape(3, 3) @ shift)
        joint.ref = 0.0


def keys_of(spec: mujoco.MjSpec) -> list[Key]:
    """The keyframes of an MJCF."""
    return [(k.name, [float(v) for v in k.qpos]) for k in spec.keys]


def home_key(keys: Sequence[Key], model: mujoco.MjModel, joints: Sequence[str]) -> np.ndarray | None:
    """[J] rad of the keyframe `home`, or of the only one; None where there is none that fits."""
    fitting = [(name, qpos) for name, qpos in keys if len(qpos) == model.nq]
    chosen = [qpos for name, qpos in fitting if name == "home"] or [qpos for _, qpos in fitting[:1]]
    if not chosen:
        return None
    return np.array([chosen[0][int(model.joint(j).qposadr[0])] for j in joints])
