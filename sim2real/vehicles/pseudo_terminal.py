"""A serial port of this machine behind which a simulated robot is: a pseudo terminal, with a link to it at a path."""

from __future__ import annotations

import contextlib
import os
import tty
from pathlib import Path

from rookery.sim.errors import RookeryError

LONGEST = 4096  # bytes that are taken at once


class PseudoTerminal:
    """See the module.

    Args:
        path: of a link to it, which is replaced where it is a link; "" for none.

    Attributes:
        name: path of the terminal itself.

    Raises:
        RookeryError: something else than a link has that path.
    """

    def __init__(self, path: str = "") -> None:
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.name = os.ttyname(self._slave)
        self._link = Path(path) if path else None
        if self._link is None:
            return
        try:
            if self._link.is_symlink():
                self._link.unlink()
            self._link.symlink_to(self.name)
        except OSError as error:
            os.close(self._master)
            os.close(self._slave)
            raise RookeryError(
                f"cannot make the link {self._link} to the serial port ({error.strerror}): choose another --bus."
            ) from None

    def receive(self) -> bytes:
        """The bytes that have arrived, b"" for none."""
        with contextlib.suppress(OSError):
            return os.read(self._master, LONGEST)
        return b""

    def send(self, data: bytes) -> None:
        """Send bytes; lost where nobody reads."""
        with contextlib.suppress(OSError):
            os.write(self._master, data)

    def close(self) -> None:
        """Free it, and take the link away."""
        if self._link is not None and self._link.is_symlink():
            self._link.unlink()
        os.close(self._master)
        os.close(self._slave)
