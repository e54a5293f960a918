"""Action kinds that command joints: positions, velocities, torques."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.robots.manipulators.manipulator import ArmAction, Manipulator, arm_spec
from rookery.sim.specs import ActionSpec


@dataclass(frozen=True)
class JointPosition(ArmAction):
    """Joint angles: -1 and 1 are the limits of position."""

    name = "joint_position"

    def spec(self, arm: Manipulator) -> ActionSpec:
        limits = zip(arm.home, arm.lower, arm.upper, strict=True)
        neutral = [float(2 * (home - low) / (high - low) - 1) for home, low, high in limits]
        return arm_spec(
            self.name, arm, arm.model.joints, arm.lower, arm.upper, ("rad",) * len(arm.model.joints), neutral
        )

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        return ("joint goal = low + (a + 1) / 2 (high - low)",)

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        low = torch.from_numpy(arm.lower)
        high = torch.from_numpy(arm.upper)
        arm.joint_goal.copy_(low + 0.5 * (command + 1.0) * (high - low))
        arm.follow_joints(arm.joint_goal, together=True)


@dataclass(frozen=True)
class JointVelocity(ArmAction):
    """Joint velocities: 1 is the limit of speed; motion ends before the limits of position."""

    name = "joint_velocity"

    def spec(self, arm: Manipulator) -> ActionSpec:
        speed = arm.model.speed
        return arm_spec(self.name, arm, arm.model.joints, [-v for v in speed], speed, ("rad/s",) * len(speed))

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        return (
            "joint velocity = low + (a + 1) / 2 (high - low), which ends before the limits; the references follow it",
        )

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        arm.follow_joints(command * torch.tensor(arm.model.speed, dtype=torch.float64), together=False)


@dataclass(frozen=True)
class JointTorque(ArmAction):
    """Joint torques above gravity compensation, which change no faster than the robot allows."""

    name = "joint_torque"
    drive = "torque"

    def spec(self, arm: Manipulator) -> ActionSpec:
        torque = arm.model.torque
        return arm_spec(self.name, arm, arm.model.joints, [-v for v in torque], torque, ("N m",) * len(torque))

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        return (
            "torque above gravity compensation = low + (a + 1) / 2 (high - low), changing by at most "
            f"{arm.model.torque_rate:g} "
            "N m/s; it starts at 0",
        )

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        wanted = command * torch.tensor(arm.model.torque, dtype=torch.float64)
        steps = torch.arange(1, arm.steps + 1, dtype=torch.float64)
        most = (arm.model.torque_rate * arm.world.dt * steps)[:, None]
        ramp = arm.torque[:, None] + (wanted - arm.torque)[:, None].clamp(-most, most)
        arm.rows[:, :, : ramp.shape[2]] = ramp
        arm.torque.copy_(ramp[:, -1])
        arm.rows[:, :, ramp.shape[2] :] = arm.grip[:, None, None]
        arm.send()
