"""A link's thread: the same again and again, on time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def repeat(cycle: Callable[[], None], period_s: float, over: threading.Event) -> None:
    """Call `cycle` every `period_s` until `over` is set. Of a delay at most one period is caught up with."""
    due = time.monotonic()
    while not over.is_set():
        cycle()
        due = max(due + period_s, time.monotonic() - period_s)
        time.sleep(max(0.0, due - time.monotonic()))
