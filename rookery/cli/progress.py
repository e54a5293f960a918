"""Progress of a command on standard error, so that standard output stays a program's input."""

from __future__ import annotations

import sys
import time

PLAIN_LINE_EVERY_S = 5.0
"""Wall time between two lines where standard error is not a terminal, s."""
TERMINAL_EVERY_S = 0.2
"""Wall time between two updates of the line on a terminal, s."""


class Progress:
    """One line that is kept up to date on a terminal, and a plain line every few seconds elsewhere. Nothing is printed
    for work that takes less than that.

    Use as a context manager: the terminal's line is erased at the end.

    Args:
        unit: what is counted, in the plural, such as "episodes".
        total: how many there are.
    """

    def __init__(self, unit: str, total: int) -> None:
        self.unit = unit
        self.total = total
        self._terminal = sys.stderr.isatty()
        self._begin = time.monotonic()
        self._shown = self._begin
        self._first: tuple[float, float] | None = None
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def __call__(self, done: int, share: float) -> None:
        """Show how far the work is.

        Args:
            done: units that are finished.
            share: of all work, 0 to 1, units in progress included.
        """
        now = time.monotonic()
        begin, before = self._first or (self._begin, 0.0)
        if self._first is None:  # what was before, such as starting processes, is not done for every unit
            self._first = now, share
        if now - self._shown < (TERMINAL_EVERY_S if self._terminal else PLAIN_LINE_EVERY_S):
            return
        self._shown = now
        line = self.line(done, share, share - before, now - begin)
        if self._terminal:
            sys.stderr.write("\r" + line.ljust(self._width))
            self._width = max(self._width, len(line))
            sys.stderr.flush()
        else:
            print(line, file=sys.stderr, flush=True)

    def line(self, done: int, share: float, lately: float, elapsed: float) -> str:
        """The text: what is done, and the time left at the rate of a share `lately` in `elapsed` s."""
        left = f", {_duration(elapsed * (1.0 - share) / lately)} left" if lately > 0.0 else ""
        return f"{done} of {self.total} {self.unit}, {share:.0%} of the work{left}"


def _duration(seconds: float) -> str:
    """ "40 s" or "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
