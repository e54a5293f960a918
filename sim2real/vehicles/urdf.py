"""An arm as the URDF that a Franka robot hands out: links, joints, axes and limits."""

from __future__ import annotations

import functools
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from rookery.robots.manipulators.model import ManipulatorModel

LINK, JOINT = "link", "joint"


@functools.cache
def arm_urdf(model: ManipulatorModel) -> str:
    """The text. Masses and inertias are those of the links, without hand."""
    compiled = model.spec().compile()
    parts = [
        f'<?xml version="1.0"?>\n<robot name={quoteattr(model.name)}>',
        _link(compiled, compiled.body(model.base).id, 0),
    ]
    for i, name in enumerate(model.joints):
        joint = compiled.joint(name)
        body = int(joint.bodyid[0])
        x, y, z = compiled.body_pos[body]
        roll, pitch, yaw = _angles(compiled.body_quat[body])
        parts += [
            _link(compiled, body, i + 1),
            f'<joint name="{JOINT}{i + 1}" type="revolute">'
            f'<origin xyz="{x:.9g} {y:.9g} {z:.9g}" rpy="{roll:.9g} {pitch:.9g} {yaw:.9g}"/>'
            f'<parent link="{LINK}{i}"/><child link="{LINK}{i + 1}"/>'
            f'<axis xyz="{" ".join(f"{v:.9g}" for v in joint.axis)}"/>'
            f'<limit lower="{model.lower[i]:.9g}" upper="{model.upper[i]:.9g}" velocity="{model.speed[i]:.9g}" '
            f'effort="{model.torque[i]:.9g}"/>'
            # libfranka wants it: how fast a joint may be before its end, where it can brake as hard as it may
            f'<position_based_velocity_limits deceleration_limit="{model.acceleration[i]:.9g}" velocity_offset="0"/></joint>',
        ]
    return "\n".join([*parts, "</robot>\n"])


def _link(model: mujoco.MjModel, body: int, number: int) -> str:
    x, y, z = model.body_ipos[body]
    roll, pitch, yaw = _angles(model.body_iquat[body])
    a, b, c = model.body_inertia[body]
    return (
        f'<link name="{LINK}{number}"><inertial><origin xyz="{x:.9g} {y:.9g} {z:.9g}" rpy="{roll:.9g} {pitch:.9g} {yaw:.9g}"/>'
        f'<mass value="{model.body_mass[body]:.9g}"/><inertia ixx="{a:.9g}" iyy="{b:.9g}" izz="{c:.9g}" ixy="0" '
        'ixz="0" iyz="0"/></inertial></link>'
    )


def _angles(quat: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch, yaw of URDF."""
    m = np.zeros(9)
    mujoco.mju_quat2Mat(m, quat)
    pitch = float(np.arcsin(np.clip(-m[6], -1.0, 1.0)))
    return float(np.arctan2(m[7], m[8])), pitch, float(np.arctan2(m[3], m[0]))
