"""The UDP port of a served vehicle, behind a network with faults."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rookery.sim2real.links.addresses import bind_udp
from rookery.sim2real.vehicles.network import NetworkConfig, PacketChannel

Peer = tuple[str, int]
LONGEST = 4096  # bytes of a datagram


class Port:
    """A UDP port whose packets pass a network both ways.

    Args:
        number: to listen on.
        network: its faults; None for none.
        seed: of them.

    Attributes:
        socket: its own, which does not wait.
        arriving, leaving: packets with their peers that are still on the way.

    Raises:
        RookeryError: the port is taken.
    """

    def __init__(self, number: int, network: NetworkConfig | None = None, seed: int = 0) -> None:
        config = NetworkConfig() if network is None else network
        self.socket = bind_udp("0.0.0.0", number, "the vehicle")
        self.leaving: PacketChannel[tuple[bytes, Peer]] = PacketChannel(config, 2 * seed)
        self.arriving: PacketChannel[tuple[bytes, Peer]] = PacketChannel(config, 2 * seed + 1)

    def receive(self, now: float) -> Iterator[tuple[bytes, Peer]]:
        """All packets that have arrived at `now`, s."""
        while True:
            try:
                self.arriving.put(now, self.socket.recvfrom(LONGEST))
            except (BlockingIOError, ConnectionError):
                break
        return self.arriving.take(now)

    def flush(self, now: float) -> None:
        """Send the packets that have passed the network at `now`, s."""
        for packet, peer in self.leaving.take(now):
            with contextlib.suppress(OSError):
                self.socket.sendto(packet, peer)

    def close(self) -> None:
        """Free it."""
        self.socket.close()
