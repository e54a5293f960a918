"""Wires for streams of bytes: TCP, UDP and serial ports behind the same three methods, none of which waits."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Protocol

from rookery.sim.errors import RookeryError

LONGEST = 4096  # bytes that are taken at once
MOST = 64  # pieces of that
CONNECT_S = 3.0


class ByteWire(Protocol):
    """A connection that is open."""

    def send(self, data: bytes) -> None:
        """Send bytes; lost where nobody takes them."""

    def receive(self) -> bytes:
        """The bytes that have arrived, b"" for none."""

    def close(self) -> None:
        """End the connection."""


class SocketWire:
    """To a host's TCP or UDP port.

    Args:
        url: for messages.
        host, port: of the other end.
        udp: datagrams instead of a stream.

    Raises:
        RookeryError: nobody listens there.
    """

    def __init__(self, url: str, host: str, port: int, udp: bool) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        self._socket.settimeout(CONNECT_S)
        try:
            self._socket.connect((host, port))
        except OSError as error:
            self._socket.close()
            raise RookeryError(f"{url}: cannot connect ({error.strerror or error}): is the vehicle on?") from error
        if not udp:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)

    def send(self, data: bytes) -> None:
        """See ByteWire."""
        with contextlib.suppress(OSError):  # its silence is what the filter judges
            self._socket.send(data)

    def receive(self) -> bytes:
        """See ByteWire; all datagrams that wait, of which the socket gives one at a time."""
        pieces: list[bytes] = []
        with contextlib.suppress(OSError):  # none waits any more
            while len(pieces) < MOST and (piece := self._socket.recv(LONGEST)):
                pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """See ByteWire."""
        self._socket.close()


def open_serial(path: str, baud: int, extra: str) -> Any:
    """A serial port of pyserial that does not wait.

    Args:
        path: of its device.
        baud: bit/s.
        extra: of this package, that installs pyserial.

    Raises:
        RookeryError: pyserial is not installed, or the port cannot be opened.
    """
    try:
        import serial
    except ImportError:
        raise RookeryError(f"serial ports need pyserial: pip install 'rookery[{extra}]'.") from None
    try:
        return serial.Serial(path, baud, timeout=0, exclusive=True)
    except (serial.SerialException, OSError, ValueError) as error:
        raise RookeryError(
            f"cannot open the serial port {path} ({str(error).rstrip('.')}): is it there, and is no other program using it?"
        ) from error


class SerialWire:
    """A serial port, see `open_serial`."""

    def __init__(self, path: str, baud: int, extra: str) -> None:
        self._port = open_serial(path, baud, extra)

    def send(self, data: bytes) -> None:
        """See ByteWire."""
        with contextlib.suppress(OSError):  # pyserial's own errors are such, too
            self._port.write(data)

    def receive(self) -> bytes:
        """See ByteWire."""
        try:
            return bytes(self._port.read(LONGEST))
        except OSError:
            return b""

    def close(self) -> None:
        """See ByteWire."""
        self._port.close()
