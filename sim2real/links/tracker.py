"""Measurements from elsewhere, such as cameras that see where objects are: JSON in UDP datagrams.

{"cube's position": [0.5, 0.1, 0.025], ...}         one datagram has all of them, SI, in the contract's frames
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping

import numpy as np

from rookery.sim2real.links.addresses import bind_udp
from rookery.sim2real.runtime.reading import Array

LONGEST = 8192  # bytes of a datagram
MOST = 64  # quantities, and numbers of each


def pack(values: Mapping[str, Array]) -> bytes:
    """The datagram of measurements."""
    return json.dumps({name: [float(v) for v in value] for name, value in values.items()}).encode()


def parse(data: bytes) -> dict[str, Array] | None:
    """The measurements of a datagram; None where it is none."""
    try:
        values = json.loads(data)
        if not isinstance(values, dict) or not 0 < len(values) <= MOST:
            return None
        out = {}
        for name, numbers in values.items():
            if not isinstance(numbers, list) or not 0 < len(numbers) <= MOST:
                return None
            if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers):
                return None
            out[name] = np.array(numbers, np.float32)
    except (ValueError, OverflowError, RecursionError):
        return None
    return out


class Tracker:
    """Takes the newest measurements.

    Args:
        port: to listen on.

    Attributes:
        values: the newest, {} before the first.
        heard: s, when they came.

    Raises:
        RookeryError: the port is taken.
    """

    def __init__(self, port: int) -> None:
        self._socket: socket.socket = bind_udp("", port, "the tracker")
        self.port = port
        self.values: dict[str, Array] = {}
        self.heard = -np.inf

    def receive(self, now: float) -> None:
        """Take what has arrived at `now`, s."""
        while True:
            try:
                data = self._socket.recv(LONGEST)
            except (BlockingIOError, ConnectionError):
                return
            seen = parse(data)
            if seen is not None:
                self.values, self.heard = seen, now

    def close(self) -> None:
        """Free the port."""
        self._socket.close()
