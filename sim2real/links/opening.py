"""From an address to its link or server: one row for each protocol."""

from __future__ import annotations

import importlib
from typing import Any

from rookery.sim.errors import unknown
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.link import Link
from rookery.sim2real.runtime.clock import TimeSource

LINKS = {
    "mavlink": ("mavlink", "MavlinkLink"),
    "crazyflie": ("crazyflie", "CrazyflieLink"),
    "franka": ("franka", "FrankaLink"),
    "unitree": ("unitree", "UnitreeLink"),
    "canopen": ("canopen", "CanopenLink"),
    "dynamixel": ("dynamixel", "DynamixelLink"),
    "betaflight": ("betaflight", "BetaflightLink"),
    "ros2": ("ros2", "ros2_link"),
}
"""Protocols, with the module of rookery.sim2real.links and the class, or the function that makes one."""
SERVERS = {
    "mavlink": ("mavlink", "MavlinkDrone", "drone", "DroneVehicle"),
    "crtp": ("crtp", "CrtpDrone", "drone", "DroneVehicle"),
    "unitree": ("unitree", "UnitreeGo2", "joints", "JointVehicle"),
    "fci": ("fci", "FciArm", "arm", "ArmVehicle"),
    "canopen": ("canopen", "CanopenArm", "drive_arm", "DriveArm"),
    "dynamixel": ("dynamixel", "DynamixelArm", "drive_arm", "DriveArm"),
    "betaflight": ("betaflight", "BetaflightDrone", "drone", "DroneVehicle"),
    "ros2 arm": ("ros2", "Ros2Arm", "drive_arm", "DriveArm"),
    "ros2 drone": ("ros2_drone", "Ros2Drone", "drone", "DroneVehicle"),
}
"""Protocols that vehicles are served over, with the modules of rookery.sim2real.vehicles and the classes of server and
vehicle."""


def open_link(url: str, group: ContractGroup, clock: TimeSource) -> Link:
    """The link of an address, not yet open.

    Raises:
        RookeryError: no address, or no such protocol.
    """
    address = parse_address(url)
    if address.protocol not in LINKS:
        raise unknown("protocol", address.protocol, LINKS)
    module, name = LINKS[address.protocol]
    made: Link = getattr(importlib.import_module(f"rookery.sim2real.links.{module}"), name)(address, group, clock)
    return made


def server_classes(protocol: str) -> tuple[Any, Any]:
    """The class that serves one robot over a protocol, and that of the vehicle.

    Raises:
        RookeryError: no such protocol.
    """
    if protocol not in SERVERS:
        raise unknown("protocol", protocol, SERVERS)
    names = SERVERS[protocol]
    server, vehicle = (
        getattr(importlib.import_module(f"rookery.sim2real.vehicles.{module}"), name)
        for module, name in zip(names[::2], names[1::2], strict=True)
    )
    return server, vehicle
