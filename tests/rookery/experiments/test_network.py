"""Network interfaces of this machine, by their addresses."""

from __future__ import annotations

import socket

import psutil

from rookery.experiments.network import interface_of


def test_interfaces_are_found_by_their_addresses() -> None:
    """As psutil has them."""
    first = {
        name: each.address
        for name, addresses in psutil.net_if_addrs().items()
        for each in reversed(addresses)
        if each.family == socket.AF_INET
    }
    assert first
    for address in first.values():
        assert interface_of(address) in [name for name, own in first.items() if own == address]
    assert interface_of("192.0.2.1") is None, "an address of documentation, RFC 5737"
