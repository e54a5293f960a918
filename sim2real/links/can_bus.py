"""CAN buses: SocketCAN interfaces of Linux, adapters that python-can knows, and a bus by UDP multicast between programs."""

from __future__ import annotations

import importlib.util
import ipaddress
from typing import Any

from rookery.sim.errors import RookeryError

GROUP = "239.74.163.2"
"""python-can's own multicast group (interfaces/udp_multicast/bus.py)."""
PORT = 43113  # python-can's own
BITRATE = 1_000_000  # bit/s


def open_bus(channel: str, port: int | None = None, interface: str = "", bitrate: int = BITRATE) -> Any:
    """A python-can bus.

    Args:
        channel: name of an interface (can0), or the address of a multicast group.
        port: of the multicast group; None for PORT.
        interface: python-can's name for the kind of bus; "" for udp_multicast where the channel is an address, and for
            socketcan otherwise.
        bitrate: bit/s, of adapters that set it; SocketCAN's is set by `ip link`.

    Raises:
        RookeryError: python-can is not installed, or there is no such bus.
    """
    if importlib.util.find_spec("can") is None or importlib.util.find_spec("canopen") is None:
        raise RookeryError("CANopen needs canopen and python-can: pip install 'rookery[canopen]'.")
    import can

    options: dict[str, Any] = {}
    kind = interface or ("udp_multicast" if _is_address(channel) else "socketcan")
    if kind == "udp_multicast":
        options = {"port": PORT if port is None else port, "fd": False}
    elif kind not in ("socketcan", "virtual"):
        options = {"bitrate": bitrate}
    try:
        return can.Bus(channel=channel, interface=kind, **options)
    except (can.CanError, OSError, ValueError, ImportError, NotImplementedError, TypeError) as error:
        raise RookeryError(f"cannot open the CAN bus {channel} ({kind}): {str(error).rstrip('.')}.") from error


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
