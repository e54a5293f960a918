"""Names of all factors that tasks of the package have, so that a profile's misspelt name is told from one that a task lacks."""

from __future__ import annotations

KNOWN = frozenset(
    {
        # every task
        "gravity_tilt", "observation_noise", "observation_bias", "observation_delay", "action_delay",
        # drones
        "mass", "inertia", "thrust_coefficient", "torque_coefficient", "rotor_lag", "drag", "ball_mass",
        # quadrupeds
        "payload", "link_mass", "com_x", "com_y", "friction", "motor_strength", "kp", "kd", "armature", "joint_damping",
        "restitution", "hand_payload",
        # manipulation
        "pad_friction", "object_mass", "object_friction", "tool_stiffness",
    }
)  # fmt: skip
"""Tasks of other packages may have more: a profile may name those of the task that is tested."""

NOT_SWEPT = "visual_"
"""Begins the names of what cameras see, which has no nominal value to depart from."""
