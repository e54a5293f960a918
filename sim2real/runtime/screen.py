"""A few lines at the bottom of a terminal that are drawn again and again, with messages that scroll away above them.

A picture is one write without a line that is cleared first, so that nothing flickers, and no line is longer than the terminal
is wide. What was on the terminal before stays.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Sequence

COLUMNS, ROWS = 80, 24
"""Of a terminal that does not say its size."""
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""Around a picture that terminals show as a whole; those that do not know it ignore it."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
REST_OF_LINE, ALL_BELOW = "\x1b[K", "\x1b[J"
RED, BOLD, PLAIN = "\x1b[31m", "\x1b[1m", "\x1b[0m"


class Screen:
    """See the module. `say` may be called by any thread, and never waits; `draw` and `close` by one.

    Args:
        descriptor: of the terminal.
        color: whether lines that begin with a style keep it.
    """

    def __init__(self, descriptor: int, color: bool = True) -> None:
        self._out = descriptor
        self._color = color
        self._said: deque[str] = deque()
        self._drawn = 0  # lines of the last picture, at whose end the cursor is
        self._hidden = False

    def say(self, text: str) -> None:
        """Show a message above the lines at the next picture."""
        self._said.append(text)

    def draw(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show lines, each with its style (RED, BOLD or PLAIN), in place of the last ones."""
        width, height = self._size()
        shown = list(lines)[: max(height - 1, 1)]
        out = [BEGIN]
        if not self._hidden:
            out.append(HIDE_CURSOR)
            self._hidden = True
        out.append("\r" if self._drawn < 2 else f"\x1b[{min(self._drawn, height) - 1}A\r")
        while self._said:
            text = self._said.popleft()
            # the terminal breaks messages that are longer than a line
            out.append(f"{text}{REST_OF_LINE if len(text) % width else ''}\r\n")
        out.append(("\r\n").join(self._styled(text[:width], style, width) for text, style in shown))
        out.append(ALL_BELOW if len(shown) < self._drawn else "")
        out.append(END)
        self._drawn = len(shown)
        _write(self._out, "".join(out))

    def _styled(self, text: str, style: str, width: int) -> str:
        rest = "" if len(text) == width else REST_OF_LINE  # behind a full line it would clear the last letter
        return f"{style}{text}{PLAIN}{rest}" if self._color and style != PLAIN else f"{text}{rest}"

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._out)
        except OSError:
            size = os.terminal_size(shutil.get_terminal_size((COLUMNS, ROWS)))
        return size.columns or COLUMNS, size.lines or ROWS

    def close(self) -> None:
        """Leave the last picture, the cursor below it."""
        if self._hidden:
            _write(self._out, f"{SHOW_CURSOR}\r\n")
            self._hidden = False
            self._drawn = 0


def _write(descriptor: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError:  # the terminal is gone; the flight goes on
            return
