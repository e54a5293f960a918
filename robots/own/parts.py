"""Takes a robot's spec apart: names for all its parts, what its actuators say, and what tasks bring themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

ROTOR_WORDS = ("rotor", "prop", "motor")
"""One of these is in the name of a rotor's link."""
Key = tuple[str, list[float]]
"""A keyframe's name and its qpos."""


def is_rotor(name: str) -> bool:
    """True where a link is called as rotors are."""
    return any(word in name.lower() for word in ROTOR_WORDS)


def name_all(spec: mujoco.MjSpec) -> None:
    """Give every shape and site a name of its own, and bodies and joints without a name one."""
    for i, geom in enumerate(spec.geoms):
        geom.name = f"shape_{i}"
    for i, site in enumerate(spec.sites):
        site.name = f"site_{i}"
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


def motors_of(spec: mujoco.MjSpec) -> dict[str, dict[str, float]]:
    """Motors by the actuators of an MJCF, by joint: torque (N m), and of position servos kp (N m/rad) and kd (N m s/rad)."""
    torque: dict[str, float] = {}
    kp: dict[str, float] = {}
    kd: dict[str, float] = {}
    for joint in spec.joints:
        if joint.actfrcrange[1] > joint.actfrcrange[0]:
            torque[joint.name] = float(joint.actfrcrange[1])
    for a in spec.actuators:
        if a.trntype != mujoco.mjtTrn.mjTRN_JOINT:
            continue
        gear = abs(float(a.gear[0]))
        servo = a.biastype == mujoco.mjtBias.mjBIAS_AFFINE and a.biasprm[1] < 0.0
        if servo:
            kp[a.target] = float(a.gainprm[0]) * gear
            if a.biasprm[2] < 0.0:
                kd[a.target] = -float(a.biasprm[2]) * gear
        limit = a.forcerange if a.forcerange[1] > a.forcerange[0] else None if servo else a.ctrlrange
        if limit is not None and limit[1] > limit[0]:
            torque[a.target] = float(limit[1]) * gear
    return {"torque": torque, "kp": kp, "kd": kd}


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
