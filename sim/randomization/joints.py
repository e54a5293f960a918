"""Parameters of a robot's joints and of the servos that drive them, joint by joint."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
from torch import Tensor

from rookery.sim.randomization.parameters import Parameter, Write, scaled, shifted
from rookery.sim.world import World


def joint_parameters(
    world: World, joints: Sequence[str], what: str, damping: tuple[float, float] = (0.0, 10.0)
) -> dict[str, Parameter]:
    """Damping, rotor inertia and dry friction of joints, as far as the engine lets them differ.

    Args:
        world: the engine's copies of the scene.
        joints: their full names.
        what: whose they are, for summaries.
        damping: least and greatest factor.
    """
    p = world.params
    names = _short(joints)
    out = {
        "joint_damping": Parameter(
            f"friction of {what}", "1", 1.0, *damping, scaled(p, joints, "damping"), names, (0.5, 2.0)
        )
    }
    if bool((p.nominal("armature", joints) > 0.0).all()):
        out["armature"] = Parameter(
            f"rotor inertia of {what}", "1", 1.0, 0.1, 5.0, scaled(p, joints, "armature"), names, (0.8, 1.2)
        )
    return out | {"joint_friction": dry_friction(world, joints, what)} if p.supports("frictionloss") else out


def dry_friction(
    world: World, joints: Sequence[str], what: str, typical: tuple[float, float] | None = None
) -> Parameter:
    """Dry friction of joints besides what the scene gives them, at most 5 N m; other arguments as in `joint_parameters`."""
    write = shifted(world.params, joints, "frictionloss")
    return Parameter(f"dry friction of {what}, added", "N m", 0.0, 0.0, 5.0, write, _short(joints), typical)


def servo_parameters(world: World, actuators: Sequence[str], what: str) -> dict[str, Parameter]:
    """Gains and strength of position servos, or of motors, as far as the engine lets them differ.

    Args:
        world: the engine's copies of the scene.
        actuators: their full names.
        what: whose they are, for summaries.
    """
    p = world.params
    names = _short(actuators)
    out: dict[str, Parameter] = {}
    if not p.supports("bias_position"):
        return out
    servo = all(world.model.actuator(name).biastype[0] == mujoco.mjtBias.mjBIAS_AFFINE for name in actuators)
    if servo:
        kp, kd = scaled(p, actuators, "gain", "bias_position"), scaled(p, actuators, "bias_velocity")
        out["kp"] = Parameter(f"stiffness of the servos of {what}", "1", 1.0, 0.2, 3.0, kp, names, (0.9, 1.1))
        out["kd"] = Parameter(f"damping of the servos of {what}", "1", 1.0, 0.2, 3.0, kd, names, (0.9, 1.1))
    limits: Write = scaled(p, actuators, "force_range")
    gain = scaled(p, actuators, "gain")

    def strength(ids: Tensor, v: Tensor) -> None:
        limits(ids, v)
        if not servo:
            gain(ids, v)

    out["motor_strength"] = Parameter(
        f"largest torque of the motors of {what}" if servo else f"torque of the motors of {what}", "1", 1.0, 0.2, 2.0,
        strength, names, (0.9, 1.1),
    )  # fmt: skip
    return out


def _short(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the scene's prefix."""
    return tuple(n.split("/", 1)[-1] for n in names)
