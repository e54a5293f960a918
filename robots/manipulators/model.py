"""ManipulatorModel: what a controller or a task needs to know about an arm on a table, and the arms known by name.

Your own arm is one more such object: give it to `Manipulator`, or register it and name it; `rookery.robots.load` makes
one of a URDF or MJCF file::

    from rookery.robots.manipulators.model import ManipulatorModel, register_manipulator
    register_manipulator(ManipulatorModel(name="fr3", spec=my_spec, speed=..., ...))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import mujoco

from rookery.sim.errors import RookeryError, unknown

__all__ = ["ManipulatorModel", "known_manipulator", "register_manipulator"]

LEAST, MOST = 5, 7
"""Numbers of joints that the inverse kinematics are tested with."""
Each = tuple[float, ...]


@dataclass(frozen=True)
class ManipulatorModel:
    """An arm of five to seven joints with a parallel gripper or none; tuples of J values are those of the joints from the base
    outwards.

    The spec has the body `base`, the site `tool` between the finger tips (z is the approach, y the direction in which the
    fingers close), hinges `joints` with one actuator each of the same name, and with a gripper slides `fingers` (m), the geoms
    `pads` and the actuator `gripper`, whose control is the opening between the fingers in m.

    Args:
        name: such as "panda".
        spec: makes its MjSpec; takes the keyword ``drive``: "position" for servos (control in rad) or "torque" for motors
            (control in N m), both with gravity compensation.
        joints, fingers, pads, base, tool, gripper: names in the spec; no `fingers` and `pads` without a gripper.
        lower, upper: rad, joint limits.
        speed, acceleration, jerk: rad/s, rad/s^2, rad/s^3, joint limits.
        torque: N m, limits of the motors.
        torque_rate: N m/s, limit of their change.
        inertial_torque: N m that joint references may take to accelerate the arm; the rest of `torque` is for gravity and
            friction.
        kp, kd: N m/rad and N m s/rad, gains of the position servos.
        damping, armature: N m s/rad and kg m^2 of each joint, in the spec beside the servos' gains.
        stroke: m, of one finger; the gripper opens by twice that.
        home: rad, elbow up, tool pointing down, fingers closing along the base's y.
        home_across: rad, likewise, but fingers closing along the base's x.
        nearer: m, how much nearer to a table's things its base stands than a Panda's.

    Raises:
        RookeryError: a value that is not given for each joint, a number of joints or fingers that no task knows, limits in the
            wrong order.
    """

    name: str
    spec: Callable[..., mujoco.MjSpec]
    joints: tuple[str, ...]
    fingers: tuple[str, ...]
    pads: tuple[str, ...]
    lower: Each
    upper: Each
    speed: Each
    acceleration: Each
    jerk: Each
    torque: Each
    torque_rate: float
    inertial_torque: Each
    kp: Each
    kd: Each
    damping: Each
    armature: Each
    stroke: float
    home: Each
    home_across: Each
    base: str = "link0"
    tool: str = "tcp"
    gripper: str = "gripper"
    nearer: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("Each", Each) and len(value) != len(self.joints):
                raise RookeryError(
                    f"arm {self.name!r}: {field.name} needs {len(self.joints)} values, got {len(value)}."
                )
        if not LEAST <= len(self.joints) <= MOST:
            raise RookeryError(
                f"arm {self.name!r} needs {LEAST} to {MOST} joints, got {len(self.joints)}: {', '.join(self.joints)}."
            )
        if len(self.fingers) not in (0, 2):
            raise RookeryError(f"arm {self.name!r} needs two fingers or none, got {', '.join(self.fingers)}.")
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise RookeryError(f"arm {self.name!r}: every lower joint limit must be below the upper one.")
        if not all(math.isfinite(v) and v > 0.0 for v in (*self.speed, *self.acceleration, *self.jerk, *self.torque)):
            raise RookeryError(f"arm {self.name!r}: limits of speed, acceleration, jerk and torque must be positive.")


_MODELS: dict[str, ManipulatorModel] = {}


def register_manipulator(model: ManipulatorModel) -> ManipulatorModel:
    """Make an arm known by its name; returns it.

    Raises:
        RookeryError: another arm has that name.
    """
    if _MODELS.get(model.name, model) != model:
        raise RookeryError(f"there is an arm {model.name!r} already: choose another name.")
    _MODELS[model.name] = model
    return model


def known_manipulator(name: str) -> ManipulatorModel:
    """The arm that is registered under a name.

    Raises:
        RookeryError: no such arm.
    """
    if name not in _MODELS:
        raise unknown("arm", name, _MODELS)
    return _MODELS[name]
