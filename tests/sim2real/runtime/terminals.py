"""A pseudo terminal, and the little of a terminal that a live panel needs: what stands on its lines in the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

PIECE = re.compile(r"\x1b\[\??(\d*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


class Terminal:
    """A pseudo terminal of some size; the program has `theirs`, a test `ours`."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.ours, self.theirs = pty.openpty()
        self.columns = columns
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text = ""

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def read(self, seconds: float = 0.05) -> str:
        """All that was written so far, after a silence; of a panel that goes on being drawn, of a second."""
        end = time.monotonic() + 1.0
        while time.monotonic() < end and select.select([self.ours], [], [], seconds)[0]:
            try:
                data = os.read(self.ours, 1 << 16)
            except OSError:
                break
            if not data:
                break
            self.text += data.decode()
        return self.text

    def await_text(self, wanted: str, seconds: float = 120.0) -> None:
        """Read until a text has come."""
        end = time.monotonic() + seconds
        while wanted not in self.text:
            assert time.monotonic() < end, f"no {wanted!r} in {self.text[-3000:]!r}"
            self.read(0.1)

    def lines(self) -> list[str]:
        """The text as a terminal shows it: lines that are longer than it is wide are broken."""
        return shown(self.read(), self.columns)

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


def shown(text: str, columns: int) -> list[str]:
    """Lines of a terminal of endless height."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for number, letter, back, down, words in PIECE.findall(text):
        if back:
            column = 0
        elif down:
            row += 1
        elif letter == "A":
            row = max(0, row - int(number or 1))
        elif letter == "K":
            del lines[row][column:]
        elif letter == "J":
            del lines[row][column:], lines[row + 1 :]
        for sign in words:
            if column == columns:
                row, column = row + 1, 0
            while len(lines) <= row:
                lines.append([])
            lines[row] += [" "] * (column + 1 - len(lines[row]))
            lines[row][column] = sign
            column += 1
        while len(lines) <= row:
            lines.append([])
    return ["".join(line).rstrip() for line in lines]
