"""A legged robot's size and weight beside a Go2's, by which rewards and commands follow the robot.

Two robots move alike where the forces of inertia and of weight have the same ratio, the Froude number v^2 / (g L). Mass, leg
length L and gravity then fix the unit of every quantity (R. McN. Alexander and A. S. Jayes, "A dynamic similarity hypothesis
for the gaits of quadrupedal mammals", Journal of Zoology 201, 1983): a robot with legs four times as long takes steps that
last twice as long, at twice the speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rookery.robots.quadrupeds.go2 import GO2
from rookery.robots.quadrupeds.model import QuadrupedModel


@dataclass(frozen=True)
class Scale:
    """Ratios of a robot's quantities to those of a Go2 that moves alike; all are exactly 1 for a Go2.

    Args:
        mass: of the whole robots, without an arm on the back.
        length: of their legs.
    """

    mass: float
    length: float

    @property
    def velocity(self) -> float:
        """Ratio of speeds, sqrt(g L)."""
        return math.sqrt(self.length)

    @property
    def rate(self) -> float:
        """Ratio of frequencies and angular velocities, sqrt(g / L)."""
        return 1.0 / math.sqrt(self.length)

    @property
    def torque(self) -> float:
        """Ratio of torques, m g L."""
        return self.mass * self.length

    @property
    def power(self) -> float:
        """Ratio of powers, m g sqrt(g L)."""
        return self.mass * self.velocity


def scale_of(model: QuadrupedModel) -> Scale:
    """A quadruped's size and weight in those of a Go2."""
    return Scale(model.mass / GO2.mass, model.leg_length / GO2.leg_length)
