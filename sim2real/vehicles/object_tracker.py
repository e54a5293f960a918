"""The tracker beside a simulated robot: what it does not measure itself, by UDP (links/tracker.py)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping

from rookery.sim2real.links import tracker
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.vehicles.arm import ArmVehicle
from rookery.sim2real.vehicles.port import Peer

__all__ = ["ObjectTracker", "objects_of"]

PERIOD = 10  # steps of an arm between two datagrams

See = Callable[[], Mapping[str, Array]]


def objects_of(vehicle: ArmVehicle) -> See:
    """Places of the objects around an arm, as cameras see them."""
    return lambda: {n: x for n, x in vehicle.sense().values.items() if n in vehicle.objects}


class ObjectTracker:
    """See the module.

    Args:
        see: measures.
        station: where its datagrams go; None for none.
        what: it sees, for people.
        period: steps between two datagrams.

    Attributes:
        where: they go, to follow the vehicle's own address.
    """

    def __init__(self, see: See, station: Peer | None, what: str = "objects", period: int = PERIOD) -> None:
        self.where = "" if station is None else f", {what} to udp://{station[0]}:{station[1]}"
        self._see = see
        self._station = station
        self._period = period
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._steps = 0

    def send(self) -> None:
        """Send what is seen, in every step that `period` divides."""
        self._steps += 1
        if self._station is not None and self._steps % self._period == 0:
            with contextlib.suppress(OSError):
                self._sender.sendto(tracker.pack(self._see()), self._station)

    def close(self) -> None:
        """Free the port."""
        self._sender.close()
