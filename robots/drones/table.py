"""The table of drones: each type is declared in a file of its own and listed here; yours is added with `register_drone`.

    from rookery.robots.drones.table import register_drone
    register_drone(dataclasses.replace(find_drone("iris"), name="heavy_iris", mass=1.8))
    rookery.make("drone-hover", config={"drone": "heavy_iris"})

Tasks name a drone, or its URDF file (docs/own_robot.md), in their config; a scene takes the object itself, see
`model.add_drone`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rookery.assets.drones import LOOKS
from rookery.robots.drones.air import AIR
from rookery.robots.drones.cf2x import CF2X
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.hummingbird import HUMMINGBIRD
from rookery.robots.drones.iris import IRIS
from rookery.robots.own.drone import load_drone
from rookery.robots.own.reading import is_file
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor.parameters import DroneParameters

_TABLE: dict[str, DroneParameters] = {}

DRONES: Mapping[str, DroneParameters] = MappingProxyType(_TABLE)
"""All drones by name, read-only."""


def register_drone(drone: DroneParameters, *, replace: bool = False) -> DroneParameters:
    """Add a drone to the table, so that every task can be flown with it by name.

    Args:
        drone: its constants, in SI units.
        replace: whether a drone of that name may be in the table already.

    Returns:
        The drone.

    Raises:
        RookeryError: the name is taken, no airframe has that look, or the drone is too heavy to fly.
    """
    if drone.name in _TABLE and not replace and _TABLE[drone.name] != drone:
        raise RookeryError(f"there is already a drone {drone.name!r}: give yours another name, or replace=True.")
    if drone.look not in LOOKS:
        raise unknown("look of a drone", drone.look, LOOKS)
    check_flies(drone)
    _TABLE[drone.name] = drone
    return drone


def find_drone(name: str) -> DroneParameters:
    """The drone of that name, or of the URDF or MJCF file at that path.

    Raises:
        RookeryError: there is none, or the file's drone cannot be used.
    """
    if is_file(name):
        return load_drone(name).model
    if name not in _TABLE:
        raise unknown("drone", name, _TABLE)
    return _TABLE[name]


def check_flies(drone: DroneParameters) -> None:
    """Refuse a drone whose rotors at full speed do not carry its weight.

    Raises:
        RookeryError: thrust-to-weight ratio of 1 or less.
    """
    if drone.thrust_to_weight <= 1.0:
        raise RookeryError(
            f"drone {drone.name!r} is too heavy to fly: its rotors give at most {4 * drone.max_thrust:.4g} N, "
            f"{drone.thrust_to_weight:.2f} times the weight of its {drone.mass:.4g} kg; that ratio must exceed 1: lower its "
            "mass or raise its thrust_curve."
        )


for _drone in (CRAZYFLIE_21, IRIS, HUMMINGBIRD, CF2X, AIR):
    register_drone(_drone)
