"""The Unitree Go2 as a QuadrupedModel."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rookery.assets.go2 import (
    CALF_LENGTH,
    FOOT_RADIUS,
    HOME_LEG,
    JOINTS,
    KD,
    KP,
    LEGS,
    MOTORS,
    RANGES,
    THIGH_LENGTH,
    TRUNK_TOP,
    go2_spec,
)  # fmt: skip
from rookery.robots.quadrupeds.kernels import FOOT_X
from rookery.robots.quadrupeds.model import QuadrupedModel, register_quadruped
from rookery.robots.quadrupeds.quadruped import add_quadruped
from rookery.sim.scene import Scene

if TYPE_CHECKING:
    from rookery.robots.arms.arm import ArmModel

HOME_LEGS: tuple[float, ...] = tuple(angle for leg in LEGS for angle in HOME_LEG[leg])
STAND_HEIGHT = 0.29
"""m, of the trunk's frame over flat ground at home, the servos carrying the weight (tested)."""
MASS = 15.2066  # kg, of all bodies of go2_spec (tested)
LEG_SWING = {"hip": 0.4, "thigh": 0.8, "calf": 0.8}
"""rad that an action of 1 moves a joint's target away from home: the servos are soft (40 N m/rad), so that targets must go
beyond the angles to be reached by what the torque needs, 0.4 rad at half of the motor's."""
DRY_FRICTION = ((0.1, 0.4), (0.1, 1.3))
"""N m, dry friction of hips and thighs, and of knees. Of a Go2 held in the air, its legs swept (DLS Lab, Istituto Italiano di
Tecnologia, github.com/iit-DLSLab/sim2real-robot-identification, commit 06739ea, datasets/go2/traj_0.pt), least squares on
inverse dynamics give hips 0.21 to 0.38, thighs 0.22 to 0.33 and knees 0.82 to 1.51, by leg, each with a 95 % interval of about
a fifth (measured); Menagerie's go2.xml has 0.2. The least value is for a robot that is warm and run in (our choice)."""


def _range_of(joint: str) -> tuple[float, float]:
    leg, part = joint.split("_")
    return RANGES[part if part != "thigh" else ("front_thigh" if leg[0] == "F" else "rear_thigh")]


_PARTS = [joint.split("_")[1] for joint in JOINTS]

GO2 = register_quadruped(
    QuadrupedModel(
        name="go2",
        spec=go2_spec,
        joints=JOINTS,
        links=JOINTS,
        lower=tuple(_range_of(j)[0] for j in JOINTS),
        upper=tuple(_range_of(j)[1] for j in JOINTS),
        home=HOME_LEGS,
        swing=tuple(LEG_SWING[part] for part in _PARTS),
        kp=(KP,) * len(JOINTS),
        kd=(KD,) * len(JOINTS),
        torque=tuple(MOTORS[part].torque for part in _PARTS),
        speed=tuple(MOTORS[part].speed for part in _PARTS),
        stand_height=STAND_HEIGHT,
        mass=MASS,
        leg_length=THIGH_LENGTH + math.hypot(FOOT_X, CALF_LENGTH),
        foot_radius=FOOT_RADIUS,
        top=TRUNK_TOP,
        payload=(-2.0, 8.0),
        typical_payload=(-1.0, 3.0),
        com_shift=(0.2, 0.1, 0.1),
        typical_shift=0.03,
        mirror=(-4, 5, 6, -1, 2, 3, -10, 11, 12, -7, 8, 9),
        carries_arm=True,
        typical_friction=DRY_FRICTION,
    )
)


def add_go2(
    scene: Scene, arm: ArmModel | None = None, height: float = STAND_HEIGHT, dry_friction: bool = False
) -> Scene:
    """A Go2 in a scene, see `add_quadruped`; `dry_friction`: see assets.go2.go2_spec."""
    return add_quadruped(scene, replace(GO2, spec=partial(go2_spec, dry_friction=dry_friction)), arm, height)
