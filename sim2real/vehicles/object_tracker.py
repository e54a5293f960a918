"""The tracker beside a simulated arm: places of objects, which no drive or controller measures, by UDP (links/tracker.py)."""

from __future__ import annotations

import contextlib
import socket

from rookery.sim2real.links import tracker
from rookery.sim2real.vehicles.arm import ArmVehicle
from rookery.sim2real.vehicles.port import Peer

__all__ = ["ObjectTracker"]

PERIOD = 10  # steps between two datagrams


class ObjectTracker:
    """See the module.

    Args:
        vehicle: whose objects it sees.
        station: where its datagrams go; None for none.

    Attributes:
        where: they go, to follow the vehicle's own address.
    """

    def __init__(self, vehicle: ArmVehicle, station: Peer | None) -> None:
        self.where = "" if station is None else f", objects to udp://{station[0]}:{station[1]}"
        self._vehicle = vehicle
        self._station = station
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._steps = 0

    def send(self) -> None:
        """Send what is seen, in every step that `PERIOD` divides."""
        self._steps += 1
        if self._station is not None and self._steps % PERIOD == 0:
            seen = {n: x for n, x in self._vehicle.sense().values.items() if n in self._vehicle.objects}
            with contextlib.suppress(OSError):
                self._sender.sendto(tracker.pack(seen), self._station)

    def close(self) -> None:
        """Free the port."""
        self._sender.close()
