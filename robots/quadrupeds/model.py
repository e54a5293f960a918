"""QuadrupedModel: what a task needs to know about a four-legged robot, and the quadrupeds known by name.

Yours is one more such object: `rookery.robots.load` makes it of a URDF or MJCF file, and tasks take its name or the
file's path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco

from rookery.sim.errors import RookeryError, unknown

LEGS = ("FL", "FR", "RL", "RR")
"""Front left, front right, rear left, rear right: the order of legs everywhere."""
PARTS = ("hip", "thigh", "calf")
"""The joints of a leg, from the trunk outwards: sideways, forward, knee."""
LEG_JOINTS = len(LEGS) * len(PARTS)

Twelve = tuple[float, ...]


@dataclass(frozen=True)
class QuadrupedModel:
    """A trunk and four legs of three hinges; tuples of twelve values are those of the legs in LEGS' order, each from the trunk
    outwards.

    The spec has the body `base` with the free joint `root`, x forward, y left, z up; the hinges `joints` at their bodies'
    origins, with one position servo each of the same name; a ball geom and a site `FL_foot`, `FR_foot`, `RL_foot`, `RR_foot`
    at the end of each leg; and the camera `chase`.

    Args:
        name: such as "go2"; the prefix of its names in a scene.
        spec: makes its MjSpec.
        joints, links: names in the spec of the hinges, and of the bodies that they move.
        lower, upper: rad, joint limits.
        home: rad, at which it stands.
        swing: rad that an action of 1 moves a joint's target away from home.
        kp, kd: N m/rad, N m s/rad of the servos.
        torque: N m, of the motors at rest. speed: rad/s, at which they have none left.
        stand_height: m, of the trunk's frame over flat ground at home, the servos carrying the weight.
        mass: kg, of the whole robot. leg_length: m, of a stretched leg, from its second joint to the foot's centre.
        foot_radius: m, of the balls that the feet are.
        top: m, upper face of the trunk in its frame, where loads and an arm's adapter go.
        payload: kg, least and most that randomization loads. typical_payload: kg, likewise by default.
        com_shift: m, most by which the trunk's centre of mass is moved along x, y and z. typical_shift: m, by default.
        mirror: signed places, from 1 on, of the joints in the robot's mirror image (see rookery.sim.specs.Mirror); None where
            its sides differ.
        carries_arm: whether the spec has the site `arm_mount` on the trunk's top.
        typical_friction: N m, least and most dry friction of hips and thighs, and of knees, that randomization draws by
            default; None: none.
    """

    name: str
    spec: Callable[[], mujoco.MjSpec]
    joints: tuple[str, ...]
    links: tuple[str, ...]
    lower: Twelve
    upper: Twelve
    home: Twelve
    swing: Twelve
    kp: Twelve
    kd: Twelve
    torque: Twelve
    speed: Twelve
    stand_height: float
    mass: float
    leg_length: float
    foot_radius: float
    top: float
    payload: tuple[float, float]
    typical_payload: tuple[float, float]
    com_shift: tuple[float, float, float]
    typical_shift: float
    mirror: tuple[int, ...] | None = None
    carries_arm: bool = False
    typical_friction: tuple[tuple[float, float], tuple[float, float]] | None = None


_MODELS: dict[str, QuadrupedModel] = {}


def register_quadruped(model: QuadrupedModel, *, replace: bool = False) -> QuadrupedModel:
    """Make a quadruped known by its name; returns it.

    Raises:
        RookeryError: another one has that name.
    """
    if model.name in _MODELS and not replace and _MODELS[model.name] != model:
        raise RookeryError(f"there is a quadruped {model.name!r} already: give yours another name, or replace=True.")
    _MODELS[model.name] = model
    return model


def known_quadruped(name: Any) -> QuadrupedModel:
    """The quadruped of that name.

    Raises:
        RookeryError: there is none.
    """
    if name not in _MODELS:
        raise unknown("quadruped", str(name), _MODELS)
    return _MODELS[name]
