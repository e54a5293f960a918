"""Ctrl-C and other signals to stop, heard between iterations."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["Interrupted", "Interruption"]


class Interrupted(Exception):
    """Ctrl-C, SIGTERM or SIGHUP during training; everything is saved in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"interrupted; saved {folder}")
        self.folder = folder


class Interruption:
    """While active, the first SIGINT, SIGTERM or SIGHUP only sets `wanted` and says so; a second one raises KeyboardInterrupt.

    SIGHUP stays ignored under nohup. `timeout` and batch systems send SIGTERM to a process and to its group: what comes within
    SAME_S is one.
    """

    wanted = False
    _heard = 0.0  # s, when the first signal came
    NOTICE = b"rookery: stopping after this iteration and saving; Ctrl-C again stops at once without saving.\n"
    SAME_S = 1.0
    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __enter__(self) -> Interruption:
        self._previous: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            heard = [n for n in self.SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.wanted and (signum == signal.SIGINT or time.monotonic() - self._heard > self.SAME_S):
            raise KeyboardInterrupt
        if self.wanted:
            return
        self.wanted = True
        self._heard = time.monotonic()
        with contextlib.suppress(OSError):
            os.write(2, self.NOTICE)  # not print: a signal may come amid another one
