"""Names of all factors that tasks of the package have, so that a profile's misspelt name is told from one that a task lacks."""

from __future__ import annotations

from collections.abc import Mapping

from rookery.sim.specs import Group

KNOWN = frozenset(
    {
        # every task
        "gravity_tilt", "observation_noise", "observation_bias", "observation_delay", "action_delay",
        "observation_drift", "observation_jitter", "observation_dropout", "action_jitter", "action_dropout", "action_hold",
        "push_speed", "push_spin", "wrench_force", "wrench_torque",
        # drones
        "mass", "inertia", "thrust_coefficient", "torque_coefficient", "rotor_lag", "drag", "ball_mass", "load",
        "ground_effect", "ground_height", "wind_speed", "battery_charge",
        # quadrupeds
        "payload", "link_mass", "com_x", "com_y", "friction", "friction_patches", "motor_strength", "kp", "kd", "armature",
        "joint_damping", "restitution", "hand_payload", "trunk_mass", "trunk_inertia", "com_z", "encoder_offset",
        "motor_speed", "joint_friction", "knee_friction", "arm_joint_damping", "arm_armature", "arm_joint_friction", "arm_kp",
        "arm_kd", "arm_motor_strength",
        # manipulation
        "pad_friction", "object_mass", "object_friction", "tool_stiffness",
        # cameras
        "visual_camera_shift", "visual_camera_tilt", "visual_fov", "visual_brightness",
    }
)  # fmt: skip
"""Tasks of other packages may have more: a profile may name those of the task that is tested."""

COMPANIONS: dict[str, dict[str, float]] = {
    "push_speed": {"push_rate": 0.2}, "push_spin": {"push_rate": 0.2},
    "wrench_force": {"wrench_rate": 0.2, "wrench_time": 0.5}, "wrench_torque": {"wrench_rate": 0.2, "wrench_time": 0.5},
    "action_hold": {"action_dropout": 0.05},
}  # fmt: skip
"""What must be set besides a factor for it to act: the rate of pushes and wrenches (1/s), how long a wrench lasts (s),
and the share of commands that get lost; what `--randomize all` draws at most."""
DECLARED = {"observation_noise": "noise", "observation_bias": "bias", "observation_drift": "drift"}
"""Factors on what terms of observations declare, by the attribute of a term."""
LOOKS = ("visual_color", "visual_texture", "visual_light", "visual_ambient", "visual_sky")
"""Begins the names of how things look: there is no picture of the real scene to depart from."""
NOT_SWEPT = (*LOOKS, "push_rate", "wrench_rate", "wrench_time", "wind_direction")
"""Begins the names of what has no nominal value to depart from, or does nothing alone."""


def undeclared(groups: Mapping[str, Group]) -> set[str]:
    """Those of DECLARED that change nothing, since no term of any group declares it."""
    terms = [term for group in groups.values() for term in group.observation]
    return {name for name, attribute in DECLARED.items() if not any(getattr(t, attribute) for t in terms)}


def complete(point: Mapping[str, float]) -> dict[str, float]:
    """A point with the companions of its factors."""
    out = {other: value for name in point for other, value in COMPANIONS.get(name, {}).items()}
    return out | dict(point)
