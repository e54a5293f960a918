"""Links to drives: targets within the drives' limits; they are told before their bus is left."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import drive_link
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.drive_link import MARGIN, MOVING, OFF, SHARE, STOPPING, DriveLink
from rookery.sim2real.runtime.clock import ManualClock


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


class Followed(DriveLink):
    """A link whose drives are where they should be at once."""

    def __init__(self, group: ContractGroup, reach: float, speed: float) -> None:
        super().__init__(parse_address("x://y"), group, ManualClock(), 0.004, "", 20)
        self._reach, self._speed = reach, speed
        self.sent: list[np.ndarray] = []
        self._limit(self._connect())
        self._targets[:] = self.drive.start_angles

    def _connect(self) -> list[float]:
        """Ranges that are narrower than the contract's."""
        start = self.drive.start_angles.astype(float)
        self._ranges = list(zip(start - self._reach, start + self._reach, strict=True))
        return [self._speed] * len(start)

    def _receive(self, now: float) -> None:
        self._measured[0] = self._targets
        self._stamps[:] = now

    def _enabled(self) -> list[bool]:
        return [True] * len(self._ids)

    def _trouble(self) -> str:
        return ""

    def _send(self, now: float) -> None:
        self.sent.append(self._targets.copy())

    def _leave(self) -> None:
        """There is no bus."""

    def cycles(self, command: np.ndarray | None, count: int) -> np.ndarray:
        """Give a policy's command all the time, or none; [T, J] rad that were sent."""
        self.sent.clear()
        for _ in range(count):
            self._clock.moment += self._period
            if command is not None:
                self.write(self._group.spec.action.kind, command)
            self._cycle()
        return np.array(self.sent)


@pytest.mark.parametrize(("reach", "speed"), [(0.05, 10.0), (0.04, 0.05)])
def test_targets_stay_within_the_drives_own_limits_by_a_margin(
    reach_group: ContractGroup, reach: float, speed: float
) -> None:
    """Whatever a policy asks for: a drive trips at the end of its range, and at its limit of speed."""
    rng = np.random.default_rng(0)
    link, action = Followed(reach_group, reach, speed), reach_group.spec.action
    start = link.drive.start_angles.astype(float)
    link.cycles(None, 1)
    link.arm()
    link.cycles(None, 1)
    link.begin()
    nearest = np.inf
    for _ in range(20):
        command = np.where(rng.random(action.size) < 0.5, action.low, action.high)
        path = link.cycles(command, 250)
        left = reach - np.abs(path - start)  # to the end of a drive's range
        assert left.min() > MARGIN - 1e-5
        assert np.abs(np.diff(path, axis=0)).max() / 0.004 < SHARE * speed * (1.0 + 1e-3)
        nearest = min(nearest, left.min())
    assert nearest < MARGIN + 1e-3, "joints were moved to the ends"
