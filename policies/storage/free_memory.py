"""Bytes of memory that a device has left."""

from __future__ import annotations

import math
from pathlib import Path

import torch

__all__ = ["free_bytes"]

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
"""Of the Linux kernel: Documentation/filesystems/proc.rst and Documentation/admin-guide/cgroup-v2.rst."""


def free_bytes(device: torch.device | str = "cpu") -> float:
    """Bytes that can be allocated without swapping; without end where nothing tells.

    On Linux what the kernel calls available, and no more than is left of a container's limit.
    """
    if torch.device(device).type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return min(_of_machine(), _of_container())


def _of_machine() -> float:
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return 1024.0 * float(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return math.inf


def _of_container() -> float:
    """The rest of the limit; files in the cache give way."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = float((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return math.inf if limit == "max" else float(limit) - used + float(stat["inactive_file"])
    except (OSError, KeyError, ValueError):
        return math.inf
