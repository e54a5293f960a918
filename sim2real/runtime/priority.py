"""Priority over other programs, without which a busy machine stops a loop for tens of milliseconds."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

SWITCH_S = 2e-4  # s, after which a thread of ours that computes lets the loop go on; Python's own is 5 ms
PRIORITY = 20  # of 1 to 99: over all usual programs, below the kernel's own threads


@contextlib.contextmanager
def real_time(priority: int = PRIORITY) -> Iterator[bool]:
    """Real-time scheduling of this thread and of those that it starts, quick turns between threads, and no collection of
    garbage, while it lasts.

    Args:
        priority: of 1 to 99.

    Yields:
        Whether the system allows it; it needs root, CAP_SYS_NICE or an `rtprio` limit (/etc/security/limits.conf).
    """
    allowed = sys.platform == "linux"
    if allowed:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
        except OSError:
            allowed = False
    switch = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield allowed
    finally:
        sys.setswitchinterval(switch)
        gc.enable()
        gc.unfreeze()
        if allowed:
            os.sched_setscheduler(0, *before)
