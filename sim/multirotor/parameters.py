"""Constants of a multirotor with units and sources, and the curves of its rotors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rookery.sim.errors import RookeryError

GRAVITY = 9.81  # m/s^2, MuJoCo's default

Triple = tuple[float, float, float]


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


class Battery(NamedTuple):
    """A lithium polymer pack, see aero.battery, and what the rotors take from it.

    Rotor i draws ``|torque| * speed / efficiency`` W; `idle` W more are drawn all the time.
    """

    capacity: float  # C
    cells: int  # in series
    resistance: float  # ohm, pack and wires
    efficiency: float  # 1, shaft power over electric power
    idle: float  # W
    reference: float  # V, at which rotors reach full speed; 0 if battery sag is not known of the drone


NO_BATTERY = Battery(capacity=math.inf, cells=1, resistance=0.0, efficiency=1.0, idle=0.0, reference=0.0)


@dataclass(frozen=True)
class DroneParameters:
    """Constants of one multirotor type with four rotors.

    Rotor i stands at `rotor_positions[i]` (m, body frame), pushes along body z with
    ``T(u) = t0 + t1 u + t2 u^2`` N at normalized speed u in [0, 1] and turns the body with
    ``directions[i] * (q0 + q1 u + q2 u^2)`` N m about body z. The speed follows its command u_c with
    ``du/dt = (u_c - u) / tau``, tau = `tau_up` when rising and `tau_down` when falling (s).

    The fields with defaults belong to effects (see effects.Effects); their defaults mean that the drone does not have the
    effect, except for `ground_effect_gain` and `downwash`.

    Raises:
        RookeryError: constants that no multirotor can have.
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
    max_rotor_speed: float = 0.0  # rad/s, at u = 1
    rotor_inertia: float = 0.0  # kg m^2, of one rotor with its propeller about its axis
    body_drag: Triple = (0.0, 0.0, 0.0)  # kg/s, body axes
    rotor_drag: Triple = (0.0, 0.0, 0.0)  # kg, of each rotor: N for each m/s and rad/s, body axes
    ground_effect_gain: float = 1.0  # 1, see aero.ground_effect; 1 is a single rotor's
    downwash: Triple = (2267.18, 0.16, -0.11)
    """N, 1, m: of gym-pybullet-drones' model of the wake, which has the same for all its drones (cf2x.urdf)."""
    battery: Battery = NO_BATTERY
    racket_radius: float = 0.0  # m, of a disc on top of the drone that plays balls; 0 if there is none
    racket_height: float = 0.0  # m, of that disc above the drone's centre
    published_inertia_unphysical: bool = False
    """The source gives moments of inertia of which the largest exceeds the sum of the others; keep them as published."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def max_thrust(self) -> float:
        """N, one rotor at full speed."""
        return sum(self.thrust_curve)

    @property
    def thrust_to_weight(self) -> float:
        """All rotors at full speed against the weight at g = 9.81 m/s^2."""
        return 4 * self.max_thrust / (self.mass * GRAVITY)

    def speed_for_thrust(self, thrust: float) -> float:
        """Normalized speed u at which one rotor gives `thrust` N."""
        t0, t1, t2 = self.thrust_curve
        root = math.sqrt(max(t1 * t1 + 4 * t2 * (thrust - t0), 0.0))
        return min(max((root - t1) / (2 * t2), 0.0), 1.0)

    @property
    def hover_speed(self) -> float:
        """Normalized rotor speed in hover."""
        return self.speed_for_thrust(self.mass * GRAVITY / 4)

    @property
    def wake_width(self) -> float:
        """m, standard deviation of the jet whose speed and momentum are those of the four rotors together.

        Momentum theory: a wake of half the discs' area 4 pi R^2 with twice the induced speed; a jet u exp(-r^2 / 2 s^2)
        with that u and that momentum has s^2 = 2 R^2.
        """
        return math.sqrt(2.0) * self.propeller_radius

    @property
    def hover_power(self) -> float:
        """W, electric, in hover."""
        u = self.hover_speed
        q0, q1, q2 = self.torque_curve
        shaft = 4 * (q0 + u * (q1 + u * q2)) * u * self.max_rotor_speed
        return shaft / self.battery.efficiency + self.battery.idle


def firmware_rate(kp: float) -> float:
    """A gain of the Crazyflie firmware's rate loop (1/65535 of full command, per degree) in fractions and radians."""
    return kp * math.degrees(1.0) / 65535.0


def _check(d: DroneParameters) -> None:
    """Refuse constants that are not physical."""

    def refuse(what: str) -> RookeryError:
        return RookeryError(f"drone {d.name!r}: {what}.")

    if len(d.rotor_positions) != 4 or len(d.directions) != 4:
        raise refuse(
            f"{len(d.rotor_positions)} rotor positions and {len(d.directions)} directions, but a drone here has 4 rotors: "
            "give four of each"
        )
    if any(s not in (-1, 1) for s in d.directions):
        raise refuse(f"rotor directions are {d.directions}: each must be 1 or -1")
    for name in ("mass", "tau_up", "tau_down", "propeller_radius", "body_radius", "body_height"):
        if not (0.0 < getattr(d, name) < math.inf):
            raise refuse(f"{name} is {getattr(d, name)}: it must be positive")
    for name in ("max_rotor_speed", "rotor_inertia", "ground_effect_gain", "racket_radius"):
        if not (0.0 <= getattr(d, name) < math.inf):
            raise refuse(f"{name} is {getattr(d, name)}: it must not be negative")
    for name in ("body_drag", "rotor_drag"):
        if not all(0.0 <= x < math.inf for x in getattr(d, name)):
            raise refuse(f"{name} is {getattr(d, name)}: it must not be negative, drag takes energy")
    _check_inertia(d, refuse)
    _, t1, t2 = d.thrust_curve
    if not (t2 > 0.0 and t1 >= 0.0):
        raise refuse(
            f"the thrust curve {d.thrust_curve} N does not grow all the way from u = 0 to 1: its second coefficient must "
            "not be negative and its third must be positive"
        )
    needs = {"rotor_inertia": d.rotor_inertia, "rotor_drag": max(d.rotor_drag), "battery": d.battery.reference}
    missing = [name for name, value in needs.items() if value > 0.0]
    if missing and d.max_rotor_speed == 0.0:
        raise refuse(f"{' and '.join(missing)} need max_rotor_speed: give the rotors' speed at u = 1 in rad/s")
    _check_battery(d.battery, refuse)


def _check_inertia(d: DroneParameters, refuse: Callable[[str], RookeryError]) -> None:
    if not all(0.0 < j < math.inf for j in d.inertia):
        raise refuse(f"inertia is {d.inertia} kg m^2: all three moments must be positive")
    largest = max(d.inertia)
    others = sum(d.inertia) - largest
    if largest > others * (1 + 1e-12) and not d.published_inertia_unphysical:
        raise refuse(
            f"no rigid body has the moments of inertia {d.inertia} kg m^2: the largest, {largest:.6g}, must not exceed the "
            f"sum of the other two, {others:.6g}; correct them, or set published_inertia_unphysical to keep them as published"
        )
    if d.published_inertia_unphysical and largest <= others:
        raise refuse(f"its inertia {d.inertia} kg m^2 is physical: leave published_inertia_unphysical out")


def _check_battery(b: Battery, refuse: Callable[[str], RookeryError]) -> None:
    if not (b.capacity > 0.0 and b.cells >= 1):
        raise refuse(f"a battery of {b.capacity} C in {b.cells} cells: both must be positive")
    if not (0.0 <= b.resistance < math.inf and 0.0 <= b.idle < math.inf and 0.0 <= b.reference < math.inf):
        raise refuse("a battery's resistance, idle power and reference voltage must not be negative")
    if not (0.0 < b.efficiency <= 1.0):
        raise refuse(f"a battery feeds rotors with an efficiency of {b.efficiency}: it must be above 0 and at most 1")
