"""Processes that do not compute: how long one that is asked for something may be idle before it counts as lost."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable
from pathlib import Path

from rookery.sim.errors import RookeryError

__all__ = ["IDLE", "IDLE_S", "LOOK_S", "IdleWatch", "idle_limit", "processor_time", "started_at", "stat_of"]

IDLE = "ROOKERY_SHARD_TIMEOUT_S"
"""Environment variable: time that a process which is asked for something may spend without computing, s."""
IDLE_S = 60.0
"""Its default. A process that compiles or simulates computes; one that is stopped or waits for ever does not."""
LOOK_S = 1.0
"""Time between two looks at processes that have not answered, s."""


class IdleWatch:
    """Tells which processes have not computed for some time. Time is counted in looks, so that the sleep of the computer or of
    the whole job does not count.

    Args:
        limit_s: the time, s.
        look_s: time between two looks, s.
    """

    def __init__(self, limit_s: float, look_s: float = LOOK_S) -> None:
        self._limit_s = limit_s
        self._look_s = look_s
        self._computed: dict[Hashable, float | None] = {}
        self._idle_s: dict[Hashable, float] = {}

    def is_idle(self, process: Hashable, computed: float | None) -> bool:
        """True once a process's limit is over; to be called at each look.

        Args:
            process: its id, or anything else that names it.
            computed: time that it has computed, in any unit; None where that is not known, and it counts as computing.
        """
        if computed is None or computed != self._computed.get(process):
            self._idle_s[process] = 0.0
        else:
            self._idle_s[process] += self._look_s
        self._computed[process] = computed
        return self._idle_s[process] >= self._limit_s

    def forget(self, process: Hashable) -> None:
        """Count a process's time anew."""
        self._idle_s.pop(process, None)
        self._computed.pop(process, None)


def idle_limit() -> float:
    """`IDLE` of the environment, or its default, s.

    Raises:
        RookeryError: it is no number above 0.
    """
    text = os.environ.get(IDLE, str(IDLE_S))
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0.0:
        raise RookeryError(
            f"the environment variable {IDLE} must be a time in s above 0, or inf for no limit, got {text!r}."
        )
    return limit


def processor_time(pid: int) -> float | None:
    """Time that a process has computed, in the system's own unit; None where the system does not tell."""
    fields = stat_of(pid)
    return None if fields is None else float(fields[11]) + float(fields[12])  # utime and stime, the 14th and 15th


def started_at(pid: int) -> int | None:
    """Time at which a process began, in the system's own unit; None where there is none, or the system does not tell."""
    fields = stat_of(pid)
    return None if fields is None else int(fields[19])  # starttime, the 22nd


def stat_of(pid: int) -> list[str] | None:
    """The fields of a process from the third on, as in proc_pid_stat(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
