"""Arms with a drive for each joint in lock-step, and their faults: drives, link and pilot in this process, by a clock that a
test turns."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.sim2real.links import drive_link
from rookery.sim2real.links import dynamixel as dynamixel_link
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.canopen import CanopenLink
from rookery.sim2real.links.dynamixel import DynamixelLink
from rookery.sim2real.links.dynamixel_protocol import ServoPacket
from rookery.sim2real.vehicles import dynamixel as dynamixel_vehicle
from rookery.sim2real.vehicles.canopen import CanopenArm
from rookery.sim2real.vehicles.drive_arm import DriveArm
from rookery.sim2real.vehicles.dynamixel import DynamixelArm
from tests.sim2real.runtime.reaches import Reach
from tests.sim2real.runtime.turned_time import turning

_numbers = itertools.count()


def drives(task: str = "table-reach", seed: int = 0, channel: str = "", **options: Any) -> CanopenArm:
    """A served arm on a bus of its own in this process."""
    arm = DriveArm(rookery.make(task, num_envs=1, seed=seed), seed=seed, **options)
    return CanopenArm(arm, channel=channel or f"test-{next(_numbers)}", interface="virtual")


def step(server: Any, count: int = 1) -> None:
    """Periods of drives and physics."""
    for _ in range(count):
        server.receive()
        server.vehicle.step()
        server.send()


@contextmanager
def running(server: Any) -> Iterator[None]:
    """The drives run in a thread, as fast as they can: for clients that wait for answers in threads of their own."""
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


class DriveReach(Reach):
    """`run` takes control steps of the policy; the link's thread is stepped, too.

    Attributes:
        spoil: takes the number of a drive and what it has sent, and gives what arrives; None for nothing.
        cycle_s: s, of the link.
    """

    cycle_s: float

    def __init__(self, bundle: Path, **options: Any) -> None:
        self.spoil: Any = lambda number, sent: sent
        self._substeps = 0
        self._safe_at = math.nan
        super().__init__(bundle, **options)

    def serve(self, task: str, seed: int) -> tuple[Any, Any]:
        """Drives, and a link to them that is not open; what arrives passes `spoil`."""
        raise NotImplementedError

    def connect(self, seed: int) -> Any:
        self.server, link = self.serve(self.controller.contract.task_id, seed)
        link._run = lambda: None
        link.vehicle = self.server.vehicle
        link.receive = lambda: None
        self._open, link.open = link.open, self.open
        return link

    def waiting(self) -> AbstractContextManager[None]:
        """How the drives go on while the link waits for them."""
        return turning(lambda: step(self.server), self.vehicle.period, drive_link)

    def open(self, timeout_s: float = 10.0) -> Any:
        with self.waiting():
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
                if self.runtime_alive and self._substeps % round(self.cycle_s / self.vehicle.period) == 0:
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
        self.link._leave()
        self.server.close()


class Cameras:
    """Takes the place of the tracker: sees what the drives' vehicle sees."""

    port = 0

    def __init__(self, server: Any) -> None:
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


def cut(flight: DriveReach) -> None:
    """Nothing arrives any more."""
    flight.spoil = lambda number, sent: None


def blind(flight: DriveReach) -> None:
    """The tracker is silent, the drives are not."""
    flight.link._tracker.cut = True


def not_a_number(flight: DriveReach) -> None:
    """A camera's; drives tell whole numbers."""
    _see_always(flight, {name: value * np.nan for name, value in flight.link._tracker.values.items()})


def frozen_cameras(flight: DriveReach) -> None:
    """They see the same again and again."""
    _see_always(flight, dict(flight.link._tracker.values))


def _see_always(flight: DriveReach, seen: dict[str, Any]) -> None:
    flight.link._tracker.receive = lambda now: flight.link._tracker.__dict__.update(values=seen, heard=now)


class CanReach(DriveReach):
    """Over CANopen, whose library waits for answers of drives in a thread of its own."""

    cycle_s = 0.004

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch, running(self.server):
            patch.setattr("rookery.sim2real.links.canopen.OTHERS_S", 0.0)
            yield

    def serve(self, task: str, seed: int) -> tuple[CanopenArm, CanopenLink]:
        server = drives(task, seed, noise=self._noise)
        url = f"canopen://{server.channel}?bus=virtual&gripper=8"
        link = CanopenLink(parse_address(url), self.controller.spec, self.clock)
        self.take = take = link.take_frame

        def arrive(cob: int, data: bytes, now: float) -> None:
            arrived = self.spoil(cob, data)
            if arrived is not None:
                take(cob, arrived, now)

        link.take_frame = arrive  # type: ignore[method-assign]
        return server, link


class MemoryPort:
    """An end of a serial line in memory, without the time that a kernel takes for one.

    Attributes:
        other: end.
    """

    name = "/dev/servos"
    most = 65536
    """Bytes that wait; more are lost where nobody reads."""

    def __init__(self, other: MemoryPort | None = None) -> None:
        self._waiting = b""
        self.other: MemoryPort = MemoryPort(self) if other is None else other

    def read(self, size: int) -> bytes:
        """The bytes that wait, at most so many."""
        out, self._waiting = self._waiting[:size], self._waiting[size:]
        return out

    def receive(self) -> bytes:
        """All bytes that wait."""
        return self.read(self.most)

    def send(self, data: bytes) -> None:
        """Let bytes wait at the other end."""
        self.other._waiting = (self.other._waiting + data)[: self.most]

    write = send

    def close(self) -> None:
        """Nothing to free."""


def servos(task: str = "table-reach", seed: int = 0, **options: Any) -> tuple[DynamixelArm, MemoryPort]:
    """A served arm on a serial line in memory, and the line's other end."""
    port = MemoryPort()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamixel_vehicle, "PseudoTerminal", lambda path: port)
        return servos_at("", task, seed, **options), port.other


def servos_at(path: str, task: str = "table-reach", seed: int = 0, **options: Any) -> DynamixelArm:
    """A served arm on a serial port of this machine."""
    return DynamixelArm(DriveArm(rookery.make(task, num_envs=1, seed=seed), seed=seed, **options), path=path)


def servos_wait(server: DynamixelArm) -> AbstractContextManager[None]:
    """Within the block servos go on while a link waits for them."""
    return turning(lambda: step(server), server.vehicle.period, drive_link, dynamixel_link)


class ServoReach(DriveReach):
    """Over a serial port."""

    cycle_s = 0.01

    @property
    def safe(self) -> bool:
        """Whether no servo moves by the policy any more: without brakes they stay on, and hold."""
        return not any(a.enabled for a in self.vehicle.axes[:7]) or self.link._mode != "moving"

    def waiting(self) -> AbstractContextManager[None]:
        return servos_wait(self.server)

    def serve(self, task: str, seed: int) -> tuple[DynamixelArm, DynamixelLink]:
        server, line = servos(task, seed, noise=self._noise)
        link = DynamixelLink(parse_address(f"dynamixel://{server.port}?gripper=8"), self.controller.spec, self.clock)
        link._open_port = lambda: line  # type: ignore[method-assign]
        self.take = take = link.take_packet

        def arrive(packet: ServoPacket, now: float) -> None:
            arrived = self.spoil(packet.id, packet)
            if arrived is not None:
                take(arrived, now)

        link.take_packet = arrive  # type: ignore[method-assign]
        return server, link
