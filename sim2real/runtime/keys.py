"""Keys of a terminal that steer and stop a flight."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import threading
from collections.abc import Iterator

from rookery.sim2real.runtime.steering import FORWARD, LEFT, TURN, UP, CommandSteering

HELP = "keys  w s a d r f q e, arrows: move   x: still   l: land   space: STOP"
HELP_OF_SEVERAL = "      1 to 9: one vehicle, 0: all   now: "
MOVES = {
    "w": ((FORWARD,), 1.0), "s": ((FORWARD,), -1.0), "a": ((LEFT,), 1.0), "d": ((LEFT,), -1.0), "r": ((UP,), 1.0),
    "f": ((UP,), -1.0), "q": ((TURN,), 1.0), "e": ((TURN,), -1.0), "up": ((FORWARD,), 1.0), "down": ((FORWARD,), -1.0),
    "left": ((TURN, LEFT), 1.0), "right": ((TURN, LEFT), -1.0), "page up": ((UP,), 1.0), "page down": ((UP,), -1.0),
}  # fmt: skip
"""Labels of values, the first of them that can be moved, and the direction."""
SEQUENCES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "[5~": "page up", "[6~": "page down",
}  # fmt: skip
"""Keys by what terminals send for them after an escape."""
LONGEST = 16
"""Bytes of a sequence after which it counts as none."""


class KeyDecoder:
    """Names of keys from a terminal's bytes, which may come in any pieces."""

    def __init__(self) -> None:
        self._sequence: str | None = None

    def feed(self, data: bytes) -> list[str]:
        """Keys that are complete; those of unknown sequences are left out."""
        out = []
        for sign in data.decode("latin-1"):
            # the operator's stop is no part of anything; an escape may be a key of its own, or Alt
            alone = self._sequence is None or sign == " " or (self._sequence == "" and sign not in "[O")
            if sign == "\x1b":
                self._sequence = ""
            elif alone or self._sequence is None:
                self._sequence = None
                out.append(sign)
            else:
                self._sequence += sign
                ended = len(self._sequence) > 1 and (sign.isalpha() or sign == "~")
                if ended or len(self._sequence) > LONGEST:
                    out += [SEQUENCES[self._sequence]] if self._sequence in SEQUENCES else []
                    self._sequence = None
        return out


def press(steering: CommandSteering, key: str) -> None:
    """Do what a key means; others mean nothing."""
    if key == " ":
        steering.stop()
    elif key in ("l", "L"):
        steering.land()
    elif key in ("x", "X"):
        steering.still()
    elif key.isascii() and key.isdigit():
        steering.choose(int(key) - 1 if key != "0" else None)
    elif (move := MOVES.get(key if len(key) > 1 else key.lower())) is not None:
        labels, direction = move
        label = next((x for x in labels if x in steering.labels), labels[0])
        steering.push(label, direction)


@contextlib.contextmanager
def raw_terminal(descriptor: int) -> Iterator[None]:
    """Keys come one by one and unseen; as it was before at the end. Ctrl-C stays what it is; keys that stop the program or its
    output (Ctrl-Z, Ctrl-\\, Ctrl-S) come as keys, since a vehicle would be left to itself."""
    before = termios.tcgetattr(descriptor)
    raw = termios.tcgetattr(descriptor)
    raw[0] &= ~termios.IXON
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    raw[3] |= termios.ISIG
    disabled = os.fpathconf(descriptor, "PC_VDISABLE")
    for place in (termios.VSUSP, termios.VQUIT):
        raw[6][place] = bytes([disabled])
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, raw)
        yield
    finally:
        with contextlib.suppress(termios.error, OSError):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


class Keys:
    """Reads keys while it lasts, in a thread of its own; a context manager.

    Args:
        steering: that they move.
        descriptor: of a terminal, which this process may read.
    """

    def __init__(self, steering: CommandSteering, descriptor: int) -> None:
        self._steering = steering
        self._in = descriptor
        self._stack = contextlib.ExitStack()
        self._thread = threading.Thread(target=self._run, name="rookery-keys", daemon=True)

    def _run(self) -> None:
        decoder = KeyDecoder()
        while True:
            ready, _, _ = select.select([self._in, self._wake], [], [])
            if self._wake in ready:
                return
            try:
                data = os.read(self._in, 1024)
            except OSError:  # the terminal is gone, of which SIGHUP tells
                return
            if not data:
                return
            for key in decoder.feed(data):
                press(self._steering, key)

    def __enter__(self) -> Keys:
        self._wake, self._end = os.pipe()
        self._stack.callback(os.close, self._wake)
        self._stack.callback(os.close, self._end)
        self._stack.enter_context(raw_terminal(self._in))
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        self._stack.close()


def in_foreground(descriptor: int) -> bool:
    """True where a terminal's keys come to this process: a program in the background would be stopped."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
