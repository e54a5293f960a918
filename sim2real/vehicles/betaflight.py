"""Our simulated drones as boards with Betaflight, by MSP: TCP ports from 5761 on as its own simulation has them, UDP ports of
the same numbers, and a serial port where a path is given. What boards do not tell, place and velocity, goes out by UDP as a
tracker's (sim2real/links/tracker.py).
"""

from __future__ import annotations

import contextlib
import socket

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.betaflight import PORT
from rookery.sim2real.links.msp import MspReader
from rookery.sim2real.vehicles.betaflight_board import SILENCE_S, BetaflightBoard
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.network import NetworkConfig
from rookery.sim2real.vehicles.object_tracker import ObjectTracker
from rookery.sim2real.vehicles.port import Peer, Port
from rookery.sim2real.vehicles.pseudo_terminal import PseudoTerminal

LONGEST = 4096  # bytes that are taken at once
MOST_CLIENTS = 8


class BetaflightDrone:
    """One drone of a vehicle behind its ports.

    Args:
        vehicle: the simulated drones.
        number: which of them.
        station: where the tracker's datagrams go; None for none.
        port: to listen on, by TCP and by UDP.
        network: faults of the network, which UDP alone has.
        seed: of them.
        path: at which its serial port is found; "" for none.
        silence_s: s without RC after which its failsafe begins.

    Raises:
        RookeryError: a port or the path is taken.
    """

    def __init__(
        self, vehicle: DroneVehicle, number: int = 0, station: Peer | None = None, port: int | None = None,
        network: NetworkConfig | None = None, seed: int = 0, path: str = "", silence_s: float = SILENCE_S,
    ) -> None:  # fmt: skip
        self.board = BetaflightBoard(vehicle, number, silence_s)
        self.vehicle, self.number = vehicle, number
        here = PORT + number if port is None else port
        self.port = Port(here, network, seed)
        try:
            self._listener = _listen(here)
        except RookeryError:
            self.port.close()
            raise
        try:
            self._terminal = PseudoTerminal(path) if path else None
        except RookeryError:
            self.port.close()
            self._listener.close()
            raise
        self._clients: dict[socket.socket, MspReader] = {}
        self._serial = MspReader()
        self._tracker = ObjectTracker(self.board.place, station, "place and velocity", 1)
        self.where = (
            f"drone {number} at port {here} by TCP and UDP" + (f" and {path}" if path else "") + self._tracker.where
        )

    def receive(self) -> None:
        """Take what has arrived, and answer."""
        for data, peer in self.port.receive(self.vehicle.now):
            for answer in self._answers(MspReader(), data):  # a message never spans datagrams
                self.port.leaving.put(self.vehicle.now, (answer, peer))
        if self._terminal is not None:
            self._terminal.send(b"".join(self._answers(self._serial, self._terminal.receive())))
        self._accept()
        for client, reader in list(self._clients.items()):
            self._serve(client, reader)
        self.board.before()

    def _answers(self, reader: MspReader, data: bytes) -> list[bytes]:
        found = [self.board.answer(message) for message in reader.feed(data)]
        return [message.pack() for message in found if message is not None]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setblocking(False)
            if len(self._clients) >= MOST_CLIENTS:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._clients[client] = MspReader()

    def _serve(self, client: socket.socket, reader: MspReader) -> None:
        try:
            data = client.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            del self._clients[client]
            client.close()
            return
        with contextlib.suppress(OSError):  # who does not read loses replies
            client.send(b"".join(self._answers(reader, data)))

    def send(self) -> None:
        """Measure, and send what the tracker sees."""
        self.board.after()
        self._tracker.send()
        self.port.flush(self.vehicle.now)

    def close(self) -> None:
        """Free the ports."""
        for client in self._clients:
            client.close()
        self._listener.close()
        self.port.close()
        if self._terminal is not None:
            self._terminal.close()
        self._tracker.close()


def _listen(port: int) -> socket.socket:
    out = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        out.bind(("0.0.0.0", port))
        out.listen()
    except OSError as error:
        out.close()
        raise RookeryError(
            f"the vehicle cannot listen on TCP port {port} ({error.strerror or error}): is another program using it? Choose "
            "another port."
        ) from error
    out.setblocking(False)
    return out
