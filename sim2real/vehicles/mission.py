"""Missions as MAVLink uploads them: waypoints that a vehicle flies by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

HOME = (47.397742, 8.545594, 488.0)
"""deg north, deg east, m above the sea, of the world's origin: where PX4's simulations start."""
EARTH_M = 6371000.0  # m, radius of the sphere that local positions are projected from, as PX4 does
NEAR_M = 0.3  # m, from a waypoint that counts as reached
WAYPOINT, LAND, RETURN, TAKE_OFF = 16, 21, 20, 22  # MAV_CMD_NAV_*


def to_global(position: Any) -> tuple[float, float, float]:
    """deg north, deg east, m above the sea, of a place in the world (m)."""
    north, east = float(position[1]), float(position[0])
    return (
        HOME[0] + math.degrees(north / EARTH_M),
        HOME[1] + math.degrees(east / (EARTH_M * math.cos(math.radians(HOME[0])))),
        HOME[2] + float(position[2]),
    )


def to_local(latitude: float, longitude: float, height: float) -> tuple[float, float, float]:
    """The place in the world (m) of deg north, deg east and m above the origin."""
    north = math.radians(latitude - HOME[0]) * EARTH_M
    east = math.radians(longitude - HOME[1]) * EARTH_M * math.cos(math.radians(HOME[0]))
    return east, north, height


@dataclass
class Mission:
    """The mission of one vehicle.

    Attributes:
        items: MISSION_ITEM_INT messages, in order.
        current: index of the one it flies to.
        reached: index of the last one reached, -1 for none.
        running: whether it flies them.
        expected: how many are being uploaded.
    """

    items: list[Any] = field(default_factory=list)
    incoming: list[Any] = field(default_factory=list)
    current: int = 0
    reached: int = -1
    running: bool = False
    expected: int = 0

    def target(self) -> tuple[float, float, float] | None:
        """The place of the current item; None where it has none."""
        if self.current >= len(self.items):
            return None
        item = self.items[self.current]
        if item.command not in (WAYPOINT, TAKE_OFF):
            return None
        return to_local(item.x / 1e7, item.y / 1e7, item.z)

    def advance(self, position: Any, landed: bool) -> bool:
        """Go on to the next item where the current one is reached; True where it was."""
        if not self.running or self.current >= len(self.items):
            return False
        target = self.target()
        there = target is not None and math.dist(target, [float(c) for c in position]) < NEAR_M
        skipped = target is None and (self.items[self.current].command not in (LAND, RETURN) or landed)
        if not there and not skipped:
            return False
        self.reached = self.current
        self.current += 1
        return True
