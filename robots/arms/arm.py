"""ArmModel: what a controller or a task needs to know about an arm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco

from rookery.assets.arms import ArmNumbers, Six, Vec

JOINTS = ("joint1", "joint2", "joint3", "joint4", "joint5", "joint6")
"""Names of the joints and of the servos that drive them, before the scene's prefix."""


@dataclass(frozen=True)
class ArmModel:
    """A six-joint arm with a parallel gripper; six values are those of joint 1 to 6.

    Args:
        name: such as "airbot_play".
        spec: makes its MjSpec.
        numbers: what the spec is made of.
        velocity: rad/s, limits of the joints' speeds. The physics does not enforce them.
        home: rad, folded, with the tool level and in front.
        ready: rad, elbow up, tool level and in front, far from joint limits and singular poses: a good start for searches.
        reach: m, from the shoulder (frame of link 2) to `tcp` with the arm stretched.
        mount: m, place of the arm's base in the trunk's frame of a Unitree Go2.
        adapter: kg, plate between trunk and arm, at `adapter_pos` m in the trunk's frame.
    """

    name: str
    spec: Callable[..., mujoco.MjSpec]
    numbers: ArmNumbers
    velocity: Six
    home: Six
    ready: Six
    reach: float
    mount: Vec
    adapter: float = 0.0
    adapter_pos: Vec = (0.0, 0.0, 0.0)
    joints: tuple[str, ...] = JOINTS

    @property
    def lower(self) -> Six:
        """Rad, lower joint limits."""
        return self.numbers.lower

    @property
    def upper(self) -> Six:
        """Rad, upper joint limits."""
        return self.numbers.upper

    @property
    def effort(self) -> Six:
        """N m, torque limits of the joints."""
        return self.numbers.effort

    @property
    def kp(self) -> Six:
        """N m/rad, of the joints' position servos."""
        return self.numbers.kp

    @property
    def kd(self) -> Six:
        """N m s/rad, of the joints' position servos."""
        return self.numbers.kd

    @property
    def gripper_range(self) -> tuple[float, float]:
        """M, closed and open: range of the control of the servo `gripper`."""
        return 0.0, 2 * self.numbers.gripper.stroke

    @property
    def mass(self) -> float:
        """Kg, gripper included, adapter not."""
        return self.numbers.mass
