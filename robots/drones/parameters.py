"""What a multirotor is: constants with units and sources, and the curves of its rotors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class CascadeGains(NamedTuple):
    """Gains of the cascaded controller. Triples are x (roll), y (pitch), z (yaw).

    Rate loop: the output is a fraction of full motor command for one rad/s (rad, rad/s^2) of error, as in the Crazyflie
    firmware, whose figures are in 1/65535 of full command and degrees.
    """

    rate_kp: tuple[float, float, float]
    rate_ki: tuple[float, float, float]
    rate_kd: tuple[float, float, float]
    rate_integral_limit: tuple[float, float, float]  # rad
    rate_output_limit: tuple[float, float, float]  # fraction of full motor command
    attitude_kp: tuple[float, float, float]  # 1/s
    attitude_ki: tuple[float, float, float]  # 1/s^2
    attitude_kd: tuple[float, float, float]  # 1
    attitude_integral_limit: tuple[float, float, float]  # rad s
    velocity_kp: tuple[float, float, float]  # 1/s
    velocity_ki: tuple[float, float, float]  # 1/s^2
    velocity_integral_limit: tuple[float, float, float]  # m
    position_kp: tuple[float, float, float]  # 1/s
    max_velocity: float  # m/s, of the setpoint that the position loop may ask for
    max_tilt: float  # rad, that the velocity loop may ask for


@dataclass(frozen=True)
class DroneParameters:
    """Constants of one multirotor type with four rotors.

    Rotor i stands at `rotor_positions[i]` (m, body frame), pushes along body z with
    ``T(u) = t0 + t1 u + t2 u^2`` N at normalised speed u in [0, 1] and turns the body with
    ``directions[i] * (q0 + q1 u + q2 u^2)`` N m about body z. The speed follows its command u_c with
    ``du/dt = (u_c - u) / tau``, tau = `tau_up` when rising and `tau_down` when falling (s).
    """

    name: str
    mass: float  # kg
    inertia: tuple[float, float, float]  # kg m^2, principal, body axes
    rotor_positions: tuple[tuple[float, float, float], ...]  # m
    directions: tuple[int, ...]  # sign of the reaction torque about body z
    thrust_curve: tuple[float, float, float]  # N
    torque_curve: tuple[float, float, float]  # N m
    tau_up: float  # s
    tau_down: float  # s
    propeller_radius: float  # m
    body_radius: float  # m, collision cylinder
    body_height: float  # m
    max_rate: tuple[float, float, float]  # rad/s, of a ctbr action of 1
    max_tilt: float  # rad, of an attitude action of 1
    max_velocity: float  # m/s, of a velocity action of 1
    gains: CascadeGains
    look: str

    @property
    def max_thrust(self) -> float:
        """N, one rotor at full speed."""
        return sum(self.thrust_curve)

    @property
    def thrust_to_weight(self) -> float:
        """All rotors at full speed against the weight at g = 9.81 m/s^2."""
        return 4 * self.max_thrust / (self.mass * GRAVITY)

    def speed_for_thrust(self, thrust: float) -> float:
        """Normalised speed u at which one rotor gives `thrust` N."""
        t0, t1, t2 = self.thrust_curve
        root = math.sqrt(max(t1 * t1 + 4 * t2 * (thrust - t0), 0.0))
        return min(max((root - t1) / (2 * t2), 0.0), 1.0)

    @property
    def hover_speed(self) -> float:
        """Normalised rotor speed in hover."""
        return self.speed_for_thrust(self.mass * GRAVITY / 4)


GRAVITY = 9.81  # m/s^2, MuJoCo's default


def firmware_rate(kp: float) -> float:
    """A gain of the Crazyflie firmware's rate loop (1/65535 of full command, per degree) in fractions and radians."""
    return kp * math.degrees(1.0) / 65535.0
