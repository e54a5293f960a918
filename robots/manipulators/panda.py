"""The Franka Emika Panda with its hand: limits and home."""

from __future__ import annotations

import math

from rookery.assets.panda import ARMATURE, DAMPING, FINGERS, JOINTS, KD, KP, LOWER, STROKE, TORQUE, UPPER, panda_spec
from rookery.robots.manipulators.model import ManipulatorModel, register_manipulator

PANDA = register_manipulator(
    ManipulatorModel(
        name="panda",
        spec=panda_spec,
        joints=JOINTS,
        fingers=FINGERS,
        pads=tuple(f"{finger}_pad" for finger in FINGERS),
        lower=LOWER,
        upper=UPPER,
        # Franka Control Interface documentation, "Robot and interface specifications": speed, acceleration, jerk, torque rate
        speed=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
        acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
        jerk=(7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
        torque=TORQUE,
        torque_rate=1000.0,
        # Gravity takes up to 45 of joint 2's 87 N m; a servo at its limit chatters (measured: 6 kN m/s).
        inertial_torque=(50.0, 28.0, 40.0, 35.0, 6.0, 6.0, 6.0),
        kp=KP,
        kd=KD,
        damping=(DAMPING,) * len(JOINTS),
        armature=(ARMATURE,) * len(JOINTS),
        stroke=STROKE,
        home=(0.0, 0.1, 0.0, -2.0, 0.0, 2.1, math.pi / 4),
        home_across=(0.0, 0.1, 0.0, -2.0, 0.0, 2.1, -math.pi / 4),
    )
)
