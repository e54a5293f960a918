"""Parameters of a jointed robot and of its drives, and what each does to the model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError, unknown
from rookery.sim2real.sysid.jointed.robot import NO_LINE, JointedRobot
from rookery.sim2real.sysid.problem import FitParameter

Array = NDArray[np.float64]
RESISTANCE, CONSTANT, KP, KD = 0, 1, 4, 6  # columns of a dcmotor's actuator_gainprm


@dataclass(frozen=True)
class FitQuantity:
    """Quantity that is identified of each joint, or of the whole robot.

    Args:
        unit: "1" for a factor.
        size, prior: see FitParameter; the prior is our choice: what a data sheet and a calibration leave open.
        low, high: bounds; in factors of `size` where `relative`.
        each: one number for each joint by default; otherwise for each kind of joint.
        what: summary.
    """

    unit: str
    size: float
    low: float
    high: float
    prior: float | None
    each: bool
    what: str


QUANTITIES: dict[str, FitQuantity] = {
    "armature": FitQuantity("kg m^2", 0.002, 0.0, 1.0, None, False, "rotor inertia at the joint"),
    "damping": FitQuantity("N m s/rad", 0.1, 0.0, 50.0, None, False, "viscous friction"),
    "friction": FitQuantity("N m", 0.1, 0.0, 30.0, None, True, "dry friction"),
    "kp": FitQuantity("1", 0.1, 0.2, 3.0, 0.05, False, "stiffness, times what the log says"),
    "kd": FitQuantity("1", 0.1, 0.2, 3.0, 0.05, False, "damping of the servo, times what the log says"),
    "torque_bias": FitQuantity("N m", 0.1, -5.0, 5.0, 0.3, True, "constant torque of the motor"),
    "encoder_offset": FitQuantity("rad", 0.02, -0.2, 0.2, 0.02, True, "reading at an angle of 0"),
    "motor_strength": FitQuantity("1", 0.1, 0.2, 2.0, 0.15, False, "largest torque, times the model's"),
    "motor_speed": FitQuantity("1", 0.1, 0.3, 2.0, 0.15, False, "speed without torque, times the model's"),
    "delay": FitQuantity("s", 0.002, 0.0, 0.08, None, False, "from a command in the log to its torque"),
}
WHOLE = ("delay",)
"""Quantities of the whole robot."""


def joint_parameters(
    robot: JointedRobot, fit: Collection[str] | None = None, each: Collection[str] | None = None
) -> tuple[FitParameter, ...]:
    """Parameters that are identified.

    Args:
        robot: whose joints.
        fit: quantities; None for all that the robot has.
        each: those with a number for each joint in place of each kind; None for what QUANTITIES says.

    Raises:
        RookeryError: an unknown quantity.
    """
    for name in (*(fit or ()), *(each or ())):
        if name not in QUANTITIES:
            raise unknown("quantity", name, QUANTITIES)
    if each is not None and set(each) & set(WHOLE):
        raise RookeryError(f"{', '.join(WHOLE)} is one number for the whole robot: leave it out of --each.")
    out: list[FitParameter] = []
    for name, q in QUANTITIES.items():
        if fit is not None and name not in fit:
            continue
        if name == "motor_speed" and (robot.speed >= NO_LINE).all():
            continue
        if name in WHOLE:
            out.append(FitParameter(name, "", q.unit, 0.0, q.low, q.high, q.size, q.prior, robot.joints))
            continue
        alone = q.each if each is None else name in each
        nominal = _nominal(robot, name)
        for group, members in _groups(robot, alone).items():
            usual = float(nominal[[robot.joints.index(j) for j in members]].mean())
            out.append(FitParameter(name, group, q.unit, usual, q.low, q.high, q.size, q.prior, members))
    return tuple(out)


def _groups(robot: JointedRobot, alone: bool) -> dict[str, tuple[str, ...]]:
    if alone:
        return {j: (j,) for j in robot.joints}
    each = list(zip(robot.joints, robot.kinds, strict=True))
    return {kind: tuple(j for j, k in each if k == kind) for kind in dict.fromkeys(robot.kinds)}


def _nominal(robot: JointedRobot, quantity: str) -> Array:
    fields = {"armature": "armature", "damping": "damping", "friction": "frictionloss"}
    if quantity in fields:
        return robot.nominal(fields[quantity])
    return np.full(len(robot.joints), 1.0 if QUANTITIES[quantity].unit == "1" else 0.0)


class Values:
    """Parameters of candidates, joint by joint.

    Args:
        robot: whose.
        parameters: that are identified; others keep their nominal values.
    """

    def __init__(self, robot: JointedRobot, parameters: tuple[FitParameter, ...]) -> None:
        self._places = [(p.quantity, [robot.joints.index(j) for j in p.members]) for p in parameters]
        self._nominal = {name: _nominal(robot, name) for name in QUANTITIES}

    def of(self, points: Array) -> dict[str, Array]:
        """[k, J] of each quantity, for candidates [k, n]."""
        out = {name: np.tile(values, (len(points), 1)) for name, values in self._nominal.items()}
        for column, (quantity, joints) in enumerate(self._places):
            out[quantity][:, joints] = points[:, [column]]
        return out


def write(batch: Batch, robot: JointedRobot, values: dict[str, Array], kp: Array, kd: Array, dt: float) -> None:
    """Put candidates into the simulations of a batch.

    Args:
        values: [nsim, J] of each quantity.
        kp, kd: [J] of the log's drives.
        dt: s, physics step, of which half times the damping acts as less inertia (see `problem`).
    """
    dofs = robot.dofs
    explicit = 0.5 * dt * (kd * values["kd"] + values["damping"])
    values = values | {"armature": values["armature"] + explicit}
    for field, name in (("dof_armature", "armature"), ("dof_frictionloss", "friction"), ("dof_damping", "damping")):
        rows = batch.expand(field)
        place = (slice(None), dofs) if rows.ndim == 2 else (slice(None), dofs, 0)
        rows[place] = values[name]
    gains = batch.expand("actuator_gainprm")
    strength, speed = values["motor_strength"], values["motor_speed"]
    gains[:, :, RESISTANCE] = robot.model.actuator_gainprm[:, RESISTANCE] / (strength * speed)
    gains[:, :, CONSTANT] = robot.model.actuator_gainprm[:, CONSTANT] / speed
    gains[:, :, KP] = kp * values["kp"]
    gains[:, :, KD] = kd * values["kd"]
    batch.expand("actuator_forcerange")[:] = robot.model.actuator_forcerange * strength[:, :, None]
    batch.set_const()
