"""Addresses of links: ``protocol://host:port?option=value``."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from rookery.sim.errors import RookeryError, unknown


@dataclass(frozen=True)
class Address:
    """A parsed URL.

    Args:
        url: as it was given.
        protocol: before "://".
        host, port: "" and None where left out.
        path: after the port, without the first slash.
        options: after "?".
    """

    url: str
    protocol: str
    host: str
    port: int | None
    path: str
    options: Mapping[str, str]

    def option(self, name: str, default: float) -> float:
        """A finite number among the options."""
        value = self._number(name, default)
        if not math.isfinite(value):
            raise RookeryError(f"{name} must be a number in {self.url}, got {self.options[name]!r}.")
        return value

    def _number(self, name: str, default: float) -> float:
        """An option's number; not a number where it is none."""
        try:
            return float(self.options.get(name, default))
        except ValueError:
            return math.nan

    def hover_share(self) -> float:
        """The option `hover`: the share of the thrust at which a multirotor hovers, 0 where it is not known."""
        share = self.option("hover", 0.0)
        if not 0.0 <= share < 1.0:
            raise RookeryError(f"hover must be a share from 0 to below 1 in {self.url}.")
        return share

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 0 to `most` among the options."""
        value = self._number(name, default)
        if not 0 <= value <= most or value != int(value):
            raise RookeryError(
                f"{name} must be a whole number from 0 to {most} in {self.url}, got {self.options[name]!r}."
            )
        return int(value)

    def allow(self, *names: str) -> None:
        """Refuse options that the protocol does not have."""
        for name in self.options:
            if name not in names:
                raise unknown(f"option of {self.protocol}://", name, names)


def parse_address(url: str) -> Address:
    """The parts of a URL.

    Raises:
        RookeryError: it is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise RookeryError(f"{url!r} is no address ({error}): write protocol://host:port.") from None
    if not parts.scheme or "://" not in url:
        raise RookeryError(f"{url!r} is no address: write protocol://host:port, such as mavlink://:14540.")
    return Address(
        url,
        parts.scheme,
        parts.hostname or "",
        port,
        parts.path.lstrip("/"),
        dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def bind_udp(host: str, port: int, what: str) -> socket.socket:
    """A UDP socket that listens, without waiting.

    Raises:
        RookeryError: the port is taken, or the host is not this machine.
    """
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        out.bind((host, port))
    except OSError as error:
        out.close()
        raise RookeryError(
            f"{what} cannot listen on {host or '*'}:{port} ({error.strerror or error}): is another program using it? "
            "Choose another port."
        ) from error
    out.setblocking(False)
    return out
