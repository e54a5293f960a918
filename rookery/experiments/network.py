"""Network interfaces of this machine."""

from __future__ import annotations

import fcntl
import socket
import struct

__all__ = ["interface_of"]

ADDRESS_OF_INTERFACE = 0x8915
"""SIOCGIFADDR of Linux, see netdevice(7)."""


def interface_of(address: str) -> str | None:
    """Name of the interface that has an IPv4 address, such as "eth0"; None where none has it, or the system does not say."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(s.fileno(), ADDRESS_OF_INTERFACE, struct.pack("40s", name.encode()[:15]))
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(found[20:24]) == address:  # sockaddr_in after the name: family, port, address
                return name
    return None
