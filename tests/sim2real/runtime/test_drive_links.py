"""The end of a link to drives: they are told before their bus is left."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from rookery.sim2real.links import drive_link
from rookery.sim2real.links.drive_link import MOVING, OFF, STOPPING, DriveLink


class Told(DriveLink):
    """A link without a bus, whose arm takes five cycles to brake."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._lock, self._over, self._tracker = threading.RLock(), threading.Event(), None
        self._mode = MOVING
        self.told: list[str] = []
        self.left_after = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _brake(self) -> None:
        self._mode = STOPPING

    def _cycle(self) -> None:
        if self.told[-5:] == [STOPPING] * 5:
            self._mode = OFF
        self.told.append(self._mode)

    def _leave(self) -> None:
        self.left_after = len(self.told)

    def _nothing(self, *_: object) -> None:
        raise NotImplementedError

    _connect = _receive = _enabled = _trouble = _send = _nothing


@pytest.mark.parametrize("period", [0.002, 0.02])
def test_drives_are_told_that_they_are_off_before_the_bus_is_left(
    period: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(min(seconds, 0.2))

    link = Told(period)
    monkeypatch.setattr(drive_link, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    link.close()
    assert link.told[-2:] == [OFF, OFF], "twice, as one may be lost"
    assert link.left_after == len(link.told)
    assert slept[-1] < 10 * period
