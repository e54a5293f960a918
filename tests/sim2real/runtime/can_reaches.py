"""An arm on a CAN bus in lock-step: drives, link and pilot on a bus in this process, by a clock that a test turns."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import can
import pytest

import rookery
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.canopen import CanopenLink
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles.canopen import CanopenArm
from rookery.sim2real.vehicles.drive_arm import DriveArm
from tests.sim2real.runtime.reaches import Reach

SYNC_S = 0.004
_numbers = itertools.count()


def drives(task: str = "table-reach", seed: int = 0, channel: str = "", **options: Any) -> CanopenArm:
    """A served arm on a bus of its own in this process."""
    arm = DriveArm(rookery.make(task, num_envs=1, seed=seed), seed=seed, **options)
    return CanopenArm(arm, channel=channel or f"test-{next(_numbers)}", interface="virtual")


def step(server: CanopenArm, count: int = 1) -> None:
    """Periods of drives and physics."""
    for _ in range(count):
        server.receive()
        server.vehicle.step()
        server.send()


@contextmanager
def running(server: CanopenArm) -> Iterator[None]:
    """The drives run in a thread, as fast as they can: for clients that wait for answers."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step(server)
            time.sleep(1e-4)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class CanReach(Reach):
    """`run` takes control steps of the policy; the master's thread is stepped, too.

    Attributes:
        spoil: takes a frame that a drive has sent, and gives what arrives; None for nothing.
    """

    def __init__(self, bundle: Path, **options: Any) -> None:
        self.spoil = lambda cob, data: data
        self._substeps = 0
        self._safe_at = math.nan
        super().__init__(bundle, **options)

    def connect(self, seed: int) -> Any:
        self.server = drives(self.controller.contract.task_id, seed, noise=self._noise)
        channel = self.server.channel
        url = f"canopen://{channel}?bus=virtual&gripper=8"
        link = CanopenLink(parse_address(url), self.controller.spec, self.clock)
        link._run = lambda: None  # type: ignore[method-assign]
        link.vehicle = self.server.vehicle  # type: ignore[attr-defined]
        link.receive = lambda: None  # type: ignore[attr-defined]
        self._take, link.take_frame = link.take_frame, self.take  # type: ignore[method-assign]
        self._open, link.open = link.open, self.open  # type: ignore[method-assign]
        return link

    def take(self, cob: int, data: bytes, now: float) -> None:
        """A frame on its way to the link, and what the tracker sees."""
        arrived = self.spoil(cob, data)
        if arrived is not None:
            self._take(cob, arrived, now)

    def open(self, timeout_s: float = 10.0) -> Any:
        with pytest.MonkeyPatch.context() as patch, running(self.server):
            patch.setattr("rookery.sim2real.links.canopen.OTHERS_S", 0.0)
            self.link._tracker = Cameras(self.server)
            return self._open(timeout_s)

    def world(self) -> None:
        """A period of the drives."""
        step(self.server)
        self.clock.moment += self.vehicle.period
        self.seen()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.runtime_alive:
                self.record = self.pilot.step()
                self.watchdog.look()
                self._look()
            self._due += self.controller.control_dt
            while self.clock.moment < self._due - 1e-9:
                self.world()
                self._substeps += 1
                if self.runtime_alive and self._substeps % round(SYNC_S / self.vehicle.period) == 0:
                    self.link._cycle()
                self._look()

    def _look(self) -> None:
        if math.isnan(self._safe_at) and self.safe:
            self._safe_at = self.clock.moment

    def seconds_to_safety(self, limit: float = 0.5) -> float:
        began, self._safe_at = self.clock.moment, math.nan
        while math.isnan(self._safe_at) and self.clock.moment - began < limit:
            self.run(1)
        return math.inf if math.isnan(self._safe_at) else self._safe_at - began

    @property
    def safe(self) -> bool:
        """Whether no drive follows the policy any more."""
        return not any(a.enabled for a in self.vehicle.axes[:7]) or self.link._mode == "stopping"

    def close(self) -> None:
        self.server.close()
        self.link._bus.shutdown()


class Cameras:
    """Takes the place of the tracker: sees what the drives' vehicle sees."""

    port = 0

    def __init__(self, server: CanopenArm) -> None:
        self._vehicle = server.vehicle
        self.values: dict[str, Any] = {}
        self.heard = -math.inf
        self.cut = False

    def receive(self, now: float) -> None:
        """Look."""
        if not self.cut:
            seen = self._vehicle.sense().values
            self.values = {name: seen[name] for name in self._vehicle.objects}
            self.heard = now

    def close(self) -> None:
        """Nothing to free."""


def policy(flight: CanReach) -> None:
    """Until the policy acts."""
    flight.begin()
    assert flight.pilot.phase is Phase.POLICY


def channel_of(server: CanopenArm) -> can.BusABC:
    """Another program's place on the bus."""
    return can.Bus(channel=server.channel, interface="virtual")
