"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def end_with(parent: int) -> None:
    """Have this process killed when its parent ends, even while it computes or is stopped, where the system can do that."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of sys/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
