"""Effects of the air, the rotors and the battery in a world of multirotors, and presets of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rookery.sim.errors import RookeryError, unknown

DOWNWASH = ("none", "volleybots", "gym-pybullet-drones", "realistic")


@dataclass(frozen=True)
class Effects:
    """Switches and constants; how large an effect is on a drone is said by its DroneParameters.

    Raises:
        RookeryError: an unknown downwash model, or a constant that is not physical.
    """

    rotor_lag: bool = True
    """Rotors follow their commands with tau_up and tau_down; off: at once."""
    gyroscopic: bool = True
    """Torque of the spinning rotors on a turning body, -w x h."""
    body_drag: bool = True
    """Linear drag of the body, by DroneParameters.body_drag."""
    rotor_drag: bool = True
    """Drag of the rotors in proportion to their speed, by DroneParameters.rotor_drag."""
    ground_effect: bool = True
    """More thrust near ground, by DroneParameters.ground_effect_gain (aero.ground_effect)."""
    downwash: str = "realistic"
    """Force on drones in the wakes of others: one of DOWNWASH (aero.downwash_volleybots, _pybullet_drones, _jet)."""
    wind_speed: float = 0.0
    """m/s, mean wind, at 6 m above ground where gusts are concerned."""
    wind_direction: float = 0.0
    """rad, from world x towards y: where the wind blows to."""
    wind_up: float = 0.0
    """m/s, upward part of the mean wind; turbulence does not depend on it."""
    gusts: bool = True
    """Dryden turbulence on the mean wind (rookery.sim.multirotor.wind); in calm air there is none but that of gust_speed."""
    gust_speed: float = 0.0
    """m/s, standard deviation of each horizontal part of the turbulence; 0: MIL-F-8785C's for the wind and the height."""
    gust_time: float = 0.0
    """s, time constant of the horizontal turbulence, L / V; 0: what MIL-F-8785C has for the wind and the height."""
    battery: bool = True
    """Sag of the voltage with load and with used charge slows the rotors."""
    ball_drag: bool = True
    """Quadratic drag of balls."""
    ball_lift: bool = True
    """Magnus force on spinning balls."""
    air_density: float = 1.225
    """kg/m^3; sea level, 15 degrees C."""
    ball_drag_coefficient: float = 0.47
    """1, of a smooth sphere below the drag crisis."""
    ball_lift_slope: float = 1.0
    """Lift coefficient over spin parameter r w / v. Nathan (American Journal of Physics 76, 2008) measured 1 / (0.4 + 2.32 S)
    on baseballs: 1.0 at S = 0.26."""

    def __post_init__(self) -> None:
        if self.downwash not in DOWNWASH:
            raise unknown("downwash model", self.downwash, DOWNWASH)
        for name in ("wind_speed", "gust_speed", "gust_time", "ball_drag_coefficient", "ball_lift_slope"):
            if not (0.0 <= getattr(self, name) < math.inf):
                raise RookeryError(f"{name} of effects is {getattr(self, name)}: give a finite number of 0 or more.")
        if not (0.0 < self.air_density < math.inf):
            raise RookeryError(f"air_density of effects is {self.air_density} kg/m^3: give a number above 0.")
        if not math.isfinite(self.wind_direction):
            raise RookeryError(f"wind_direction of effects is {self.wind_direction}: give an angle in rad.")
        if not math.isfinite(self.wind_up):
            raise RookeryError(f"wind_up of effects is {self.wind_up}: give a speed in m/s.")

    @property
    def mean_wind(self) -> tuple[float, float, float]:
        """m/s, world."""
        return (
            self.wind_speed * math.cos(self.wind_direction),
            self.wind_speed * math.sin(self.wind_direction),
            self.wind_up,
        )

    def ball_constants(self, mass: float, radius: float) -> tuple[float, float]:
        """(k_drag in 1/m, k_lift in 1) for aero.ball_acceleration, 0 where switched off.

        Args:
            mass: kg.
            radius: m.
        """
        half = 0.5 * self.air_density * math.pi * radius * radius / mass
        drag = half * self.ball_drag_coefficient if self.ball_drag else 0.0
        lift = half * radius * self.ball_lift_slope if self.ball_lift else 0.0
        return drag, lift


_NONE = Effects(
    rotor_lag=True,
    gyroscopic=False,
    body_drag=False,
    rotor_drag=False,
    ground_effect=False,
    downwash="none",
    gusts=False,
    battery=False,
    ball_drag=False,
    ball_lift=False,
)

PRESETS: dict[str, Effects] = {
    # rigid bodies in a vacuum whose rotors push all the same, with their lag, which is the drone's own: what the engines
    # `mujoco` and `rotor` have in common
    "none": _NONE,
    # VolleyBots (github.com/thu-uav/VolleyBots) with OmniDrones' Iris: rotor lag and downwash; its drag is multiplied by 0;
    # no ground effect, no wind, balls in a vacuum
    "volleybots": replace(_NONE, downwash="volleybots"),
    # gym-pybullet-drones, envs/BaseAviary.py, physics pyb_gnd_drag_dw: rotors without lag, drag in proportion to rotor speed,
    # ground effect
    "gym-pybullet-drones": replace(
        _NONE, rotor_lag=False, rotor_drag=True, ground_effect=True, downwash="gym-pybullet-drones"
    ),
    "realistic": Effects(),
}
"""Named sets of effects; "realistic" is the default everywhere."""


def effects(name: str) -> Effects:
    """The preset of that name.

    Raises:
        RookeryError: no such preset.
    """
    if name not in PRESETS:
        raise unknown("preset of effects", name, PRESETS)
    return PRESETS[name]
