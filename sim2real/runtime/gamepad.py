"""A gamepad that steers and stops a flight, by Linux's joystick interface (Documentation/input/joydev/joystick-api.rst in its
source): events of 8 bytes from /dev/input/js0."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.controls import Controls
from rookery.sim2real.runtime.steering import CommandSteering

EVENT = struct.Struct("=IhBB")
"""ms, value, kind, number."""
BUTTON, AXIS, FIRST = 0x01, 0x02, 0x80
"""Kinds; FIRST marks those that tell how things are when a device is opened."""
MOST = 32767  # of an axis
PERIOD_S = 0.02  # s, between two moves of a place by a stick that is held


class Gamepad:
    """Reads a gamepad while it lasts, in a thread of its own; a context manager. One that is gone ends the policies, as a lost
    radio does.

    Args:
        steering: that it moves.
        device: its file.
        controls: what its axes and buttons mean.
        say: told where it is gone.

    Raises:
        RookeryError: there is no such device, or it may not be read.
    """

    def __init__(self, steering: CommandSteering, device: Path, controls: Controls, say: Callable[[str], None]) -> None:
        self._steering = steering
        self._device = device
        self._controls = controls
        self._say = say
        try:
            self._in = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise RookeryError(
                f"cannot read the gamepad {device} ({error.strerror}): plug it in, name its file with --gamepad, such as "
                "/dev/input/js0, or join the group `input`."
            ) from None
        self._shares = dict.fromkeys(controls.axes, 0.0)  # of the way, by label
        self._rest = b""
        self._thread = threading.Thread(target=self._run, name="rookery-gamepad", daemon=True)

    def _run(self) -> None:
        moved = time.monotonic()
        while True:
            # only places, which a stick moves on and on, need the time
            moving = [x for x in self._steering.places & self._shares.keys() if self._shares[x]]
            ready, _, _ = select.select([self._in, self._wake], [], [], PERIOD_S if moving else None)
            if self._wake in ready:
                return
            if self._in in ready and not self._read():
                self._gone()
                return
            passed = time.monotonic() - moved
            if passed >= PERIOD_S:
                moved += passed
                for label in moving:
                    self._steering.drift(label, self._shares[label], min(passed, 2.0 * PERIOD_S))

    def _read(self) -> bool:
        """Take what has come; False where the device is gone."""
        try:
            data = os.read(self._in, 64 * EVENT.size)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._rest += data
        whole = len(self._rest) - len(self._rest) % EVENT.size
        for _, value, kind, number in EVENT.iter_unpack(self._rest[:whole]):
            self._take(value, kind, number)
        self._rest = self._rest[whole:]
        return bool(data)

    def _take(self, value: int, kind: int, number: int) -> None:
        if kind == BUTTON and value:
            if number == self._controls.stop:
                self._steering.stop()
            elif number == self._controls.land:
                self._steering.land()
        elif kind == AXIS:  # the first ones would take back what --command says
            for label, axis in self._controls.axes.items():
                if axis.axis == number:
                    share = self._controls.share(value / MOST, axis.reversed)
                    if share != self._shares[label]:
                        self._shares[label] = share
                        self._steering.hold(label, share)

    def _gone(self) -> None:
        self._steering.land()
        self._say(f"the gamepad {self._device} is gone: the policy ends")

    def __enter__(self) -> Gamepad:
        self._wake, self._end = os.pipe()
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        for descriptor in (self._wake, self._end, self._in):
            with contextlib.suppress(OSError):
                os.close(descriptor)
