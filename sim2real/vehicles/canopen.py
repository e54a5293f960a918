"""Our simulated arm on a CAN bus: a servo drive by CiA 402 for each joint, nodes 1 to 7, and one for the gripper, node 8.

What no drive measures, the places of objects, goes out by UDP as a tracker's (sim2real/links/tracker.py).
"""

from __future__ import annotations

import contextlib
import functools

from rookery.sim2real.links import cia402
from rookery.sim2real.links.can_bus import GROUP, open_bus
from rookery.sim2real.vehicles.canopen_drive import CanopenDrive
from rookery.sim2real.vehicles.drive_arm import DriveArm
from rookery.sim2real.vehicles.network import NetworkConfig, PacketChannel
from rookery.sim2real.vehicles.object_tracker import ObjectTracker, objects_of
from rookery.sim2real.vehicles.port import Peer

MOST = 256  # frames that are taken in a step

Frame = tuple[int, bytes]


class CanopenArm:
    """An arm's drives on a bus.

    Args:
        vehicle: the simulated arm.
        station: where the tracker's datagrams go; None for none.
        channel, port, interface: of the bus, see `open_bus`; "" for the multicast group of python-can.
        network: faults of the bus.
        seed: of them.

    Raises:
        RookeryError: there is no such bus.
    """

    def __init__(
        self, vehicle: DriveArm, station: Peer | None = None, channel: str = "", port: int | None = None,
        interface: str = "", network: NetworkConfig | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        import can

        channel = channel or GROUP
        self.vehicle = vehicle
        self.channel = channel
        self.bus = open_bus(channel, port, interface)
        self._error: type[Exception] = can.CanError
        self._message = can.Message
        config = NetworkConfig() if network is None else network
        self._faulty = config != NetworkConfig()
        self._sent: set[int] = set()  # COB-IDs of frames that the drives sent
        self._leaving: PacketChannel[Frame] = PacketChannel(config, 2 * seed)
        self._arriving: PacketChannel[Frame] = PacketChannel(config, 2 * seed + 1)
        names = [*vehicle.joints, *["gripper"] * (len(vehicle.axes) - len(vehicle.joints))]
        self.drives = [self._drive(i, name) for i, name in enumerate(names)]
        self.where = f"CAN bus {channel}{'' if port is None else f':{port}'}, nodes 1 to {len(self.drives)}"
        self._tracker = ObjectTracker(objects_of(vehicle), station)
        self.where += self._tracker.where
        for drive in self.drives:
            drive.boot()

    def _drive(self, i: int, name: str) -> CanopenDrive:
        v = self.vehicle
        title = f"rookery {v.kind.name} {name}"
        return CanopenDrive(
            i + 1, title, v.axes[i], functools.partial(v.encoder, i), self._put, linear=i >= len(v.joints)
        )

    def _put(self, cob: int, data: bytes) -> None:
        if self._faulty:
            self._leaving.put(self.vehicle.now, (cob, data))
        else:
            self._send(cob, data)

    def _send(self, cob: int, data: bytes) -> None:
        self._sent.add(cob)
        with contextlib.suppress(self._error, OSError):  # a bus without listeners is none of a drive's business
            self.bus.send(self._message(arbitration_id=cob, data=data, is_extended_id=False))

    def receive(self) -> None:
        """Take the frames that have arrived."""
        now = self.vehicle.now
        for _ in range(MOST):
            try:
                message = self.bus.recv(0)
            except self._error:
                continue  # a datagram that is no frame
            if message is None:
                break
            if message.is_extended_id or message.is_remote_frame or message.is_error_frame:
                continue
            cob = message.arbitration_id
            if cob in self._sent and cob < cia402.SDO_REQUEST:
                continue  # a multicast group hands it back; heartbeats are for all
            if cia402.SDO_REQUEST <= cob < cia402.HEARTBEAT_OF:
                self._sent.clear()  # it may give the COB-IDs to others
            frame = cob, bytes(message.data)
            if self._faulty:
                self._arriving.put(now, frame)
            else:
                self.take_frame(*frame)
        for frame in self._arriving.take(now):
            self.take_frame(*frame)

    def take_frame(self, cob: int, data: bytes) -> None:
        """Give a frame to the drives."""
        for drive in self.drives:
            if cob == cia402.NMT:
                drive.on_nmt(data)
            elif cob == cia402.SYNC:
                drive.on_sync()
            else:
                drive.on_frame(cob, data)

    def send(self) -> None:
        """Let the drives speak after a step, and send what the tracker sees."""
        now = self.vehicle.now
        for drive in self.drives:
            drive.tick(now)
        if self._faulty:
            for frame in self._leaving.take(now):
                self._send(*frame)
        self._tracker.send()

    def close(self) -> None:
        """Free the bus."""
        self.bus.shutdown()
        self._tracker.close()
