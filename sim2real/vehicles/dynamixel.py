"""Our simulated arm as X-series servos on a serial port, a pseudo terminal: IDs 1 to 7 for the joints, 8 for the gripper.

The servos are as strong as the arm's joints, which no servo of that series is. What they do not measure, the places of objects,
goes out by UDP as a tracker's (sim2real/links/tracker.py).
"""

from __future__ import annotations

import functools

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.dynamixel_protocol import PacketReader, ServoPacket
from rookery.sim2real.vehicles.drive_arm import DriveArm
from rookery.sim2real.vehicles.dynamixel_servo import DynamixelServo, answers
from rookery.sim2real.vehicles.network import NetworkConfig
from rookery.sim2real.vehicles.object_tracker import ObjectTracker, objects_of
from rookery.sim2real.vehicles.port import Peer
from rookery.sim2real.vehicles.pseudo_terminal import PseudoTerminal

MODEL = 1020  # an XM430-W350
TRAVEL_RAD = 2.0  # of the gripper's servo from closed to open


class DynamixelArm:
    """An arm's servos on a port.

    Args:
        vehicle: the simulated arm.
        station: where the tracker's datagrams go; None for none.
        path: of a link to the pseudo terminal, which is replaced where it is a link; "" for none.
        network: must be without faults.

    Attributes:
        port: path of the pseudo terminal.

    Raises:
        RookeryError: faults of a network are asked for, or something else than a link has that path.
    """

    def __init__(
        self, vehicle: DriveArm, station: Peer | None = None, path: str = "", network: NetworkConfig | None = None
    ) -> None:  # fmt: skip
        if network is not None and network != NetworkConfig():
            raise RookeryError("a serial port has no latency, jitter or loss: leave them out with dynamixel.")
        self.vehicle = vehicle
        count = len(vehicle.joints)
        self.servos = []
        for i, axis in enumerate(vehicle.axes):
            width = axis.limits.upper - axis.limits.lower
            travel, middle = (1.0, 0.0) if i < count else (width / TRAVEL_RAD, axis.limits.lower + 0.5 * width)
            self.servos.append(
                DynamixelServo(i + 1, MODEL, axis, functools.partial(vehicle.encoder, i), travel, middle)
            )
        self._terminal = PseudoTerminal(path)
        self.port = self._terminal.name
        self.where = f"serial port {path or self.port}, servos 1 to {len(self.servos)}"
        self._tracker = ObjectTracker(objects_of(vehicle), station)
        self.where += self._tracker.where
        self._reader = PacketReader()

    def receive(self) -> None:
        """Take the bytes that have arrived, and answer."""
        for packet in self._reader.feed(self._terminal.receive()):
            self.take_packet(packet)

    def take_packet(self, packet: ServoPacket) -> None:
        """Give a packet to the servos."""
        for answer in answers(self.servos, packet):
            self._terminal.send(answer.pack())

    def send(self) -> None:
        """Let the servos judge the bus's silence after a step, and send what the tracker sees."""
        for servo in self.servos:
            servo.tick(self.vehicle.now)
        self._tracker.send()

    def close(self) -> None:
        """Free the port."""
        self._terminal.close()
        self._tracker.close()
