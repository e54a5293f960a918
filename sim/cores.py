"""The number of processors that this process may use."""

from __future__ import annotations

import os

__all__ = ["limit_cores", "usable_cores"]

_limit = 0


def usable_cores() -> int:
    """Processors that this process may run on; where the system does not tell, as macOS, all that there are."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _limit) if _limit else cores


def limit_cores(count: int) -> int:
    """Let this process use no more processors than `count`, for one of several that share a machine; 0 for as many as it may.

    Returns:
        the limit before.
    """
    global _limit
    before = _limit
    _limit = count
    return before
