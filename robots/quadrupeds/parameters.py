"""Parameters in which quadrupeds of one model may differ: body, feet, motors, joints, and the arm on the back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.robots.quadrupeds.model import LEGS, PARTS
from rookery.sim.randomization.batch import Batch
from rookery.sim.randomization.bodies import BodyMass
from rookery.sim.randomization.joints import dry_friction, joint_parameters, servo_parameters
from rookery.sim.randomization.parameters import BatchWrite, Parameter, scaled
from rookery.sim.world import Params

if TYPE_CHECKING:
    from rookery.robots.quadrupeds.quadruped import Quadruped

LOAD_RADIUS = 0.06
"""m, of what is loaded on the trunk: a ball of the density of water has 0.9 kg."""
ARM = "arm"


def quadruped_parameters(
    robot: Quadruped, foot_contact: Callable[[float], tuple[float, float]], hand: str
) -> dict[str, Parameter]:
    """Parameters by name.

    Args:
        robot: whose they are.
        foot_contact: `solref` of a foot for a restitution.
        hand: body of an arm that carries the gripper.
    """
    world = robot.world
    p = world.params
    m = robot.model
    link_bodies = [f"{m.name}/{link}" for link in m.links]
    feet = [f"{m.name}/{leg}_foot" for leg in LEGS]
    trunk = BodyMass(world, [f"{m.name}/base"], (0.0, 0.0, m.top + LOAD_RADIUS), LOAD_RADIUS)
    out = {
        "payload": Parameter(
            "mass on the trunk's back, with its inertia; below 0 mass that the trunk lacks", "kg", 0.0, *m.payload,
            BatchWrite(trunk, "load"), (), m.typical_payload,
        ),
        "trunk_mass": Parameter(
            "mass of the trunk", "1", 1.0, 0.5, 2.0, BatchWrite(trunk, "mass"), (), (0.95, 1.05)
        ),
        "trunk_inertia": Parameter(
            "moments of inertia of the trunk", "1", 1.0, 0.5, 2.0, BatchWrite(trunk, "inertia"), (), (0.9, 1.1)
        ),
        "link_mass": Parameter(
            "mass and inertia of the links of the legs", "1", 1.0, 0.5, 2.0, scaled(p, link_bodies, "mass", "inertia"), m.links,
            (0.9, 1.1),
        ),
    } | robot.patches.parameters()  # fmt: skip
    for axis, toward, most in zip("xyz", ("forward", "left", "up"), m.com_shift, strict=True):
        write = BatchWrite(trunk, f"com_{axis}")
        what = f"shift of the trunk's centre of mass, {toward}"
        out[f"com_{axis}"] = Parameter(what, "m", 0.0, -most, most, write, (), (-m.typical_shift, m.typical_shift))
    if p.supports("solref"):  # Bullet keeps a body's restitution from when it was built

        def restitution(ids: Tensor, v: Tensor) -> None:
            each = v if v.dim() == 2 else v[:, None].expand(-1, len(LEGS))
            solref = np.array([foot_contact(float(x)) for x in each.flatten()]).reshape(*each.shape, 2)
            p.set("solref", feet, torch.from_numpy(solref), ids)

        out["restitution"] = Parameter(
            "how feet bounce: speed after over speed before", "1", 0.0, 0.0, 0.4, restitution, LEGS, (0.0, 0.3)
        )
    out |= _motors(robot) | joint_parameters(world, robot.leg_names, "the legs' joints")
    if p.supports("frictionloss"):  # a knee's gear, behind its linkage, loses more than those of hips and thighs
        knees = robot.leg_names[2 :: len(PARTS)]
        others = [name for name in robot.leg_names if name not in knees]
        usual = m.typical_friction or (None, None)
        out["joint_friction"] = dry_friction(world, others, "hips and thighs", usual[0])
        out["knee_friction"] = dry_friction(world, knees, "knees", usual[1])
    return out | (_arm(robot, hand) if robot.arm is not None else {})


def _motors(robot: Quadruped) -> dict[str, Parameter]:
    p = robot.world.params
    legs = robot.leg_names
    names = tuple(n.split("/")[1] for n in legs)
    motors = _Motors(p, legs)
    strength, speed = BatchWrite(motors, "strength"), BatchWrite(motors, "speed")
    out = {
        "motor_strength": Parameter("torque of the legs' motors", "1", 1.0, 0.2, 2.0, strength, names, (0.85, 1.15)),
        "kp": Parameter("stiffness of the legs' servos", "1", 1.0, 0.2, 3.0, scaled(p, legs, "kp"), names, (0.8, 1.2)),
        "kd": Parameter("damping of the legs' servos", "1", 1.0, 0.2, 3.0, scaled(p, legs, "kd"), names, (0.8, 1.2)),
        "encoder_offset": Parameter(
            "what the legs' encoders read at an angle of 0",
            "rad",
            0.0,
            -0.2,
            0.2,
            robot.set_offset,
            names,
            (-0.02, 0.02),
        ),
    }
    if p.supports("motor_constant"):
        out["motor_speed"] = Parameter(
            "speed at which the legs' motors have no torque left", "1", 1.0, 0.3, 2.0, speed, names, (0.9, 1.1)
        )
    return out


class _Motors:
    """Writes the line from a motor's greatest torque at rest to its greatest speed; a BatchWriter.

    With constant K and resistance R (the actuator's gain) the line begins at K V / R and ends at V / K.
    """

    def __init__(self, params: Params, names: tuple[str, ...]) -> None:
        self._params = params
        self._names = names
        self._resistance = params.nominal("gain", names)
        self._constant = params.nominal("motor_constant", names) if params.supports("motor_constant") else None
        self._limits = scaled(params, names, "force_range")
        worlds = len(params.get("gain", names))
        self._now = {name: torch.ones(worlds, len(names)) for name in ("strength", "speed")}

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        where = torch.from_numpy(ids)
        for name, v in values.items():
            given = torch.from_numpy(v)
            self._now[name][where] = given[:, None] if given.dim() == 1 else given.t()
        strength, speed = (self._now[name][where] for name in ("strength", "speed"))
        self._params.set("gain", self._names, self._resistance / (strength * speed), where)
        if "strength" in values:
            self._limits(where, strength)
        if "speed" in values and self._constant is not None:
            self._params.set("motor_constant", self._names, self._constant / speed, where)


def _arm(robot: Quadruped, hand: str) -> dict[str, Parameter]:
    """The arm's, with names of their own."""
    names = robot.joint_names[len(robot.leg_names) :]
    load = BodyMass(robot.world, [f"{ARM}/{hand}"])
    parts = joint_parameters(robot.world, names, "the arm's joints") | servo_parameters(robot.world, names, "the arm")
    return {
        "hand_payload": Parameter(
            "mass added to the hand", "kg", 0.0, 0.0, 2.0, BatchWrite(load, "load"), (), (0.0, 0.5)
        ),
        **{f"arm_{name}": parameter for name, parameter in parts.items()},
    }
