"""Flights in lock-step over MSP: a simulated board, the link and a wire between them in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.sim2real.links import betaflight, msp
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.betaflight import PERIOD_S, BetaflightLink
from rookery.sim2real.links.link import Identity
from rookery.sim2real.links.msp import MspMessage, MspReader
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.vehicles.betaflight_board import BetaflightBoard
from rookery.sim2real.vehicles.drone import DroneVehicle
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.reaches import controller
from tests.sim2real.runtime.turned_time import turning


class BoardWire:
    """A wire to a board, which answers at once.

    Attributes:
        cut: nothing passes any more; `deaf`: no set-points.
        spoil: turns an answer into another one, or none.
        sent: channels, newest last.
    """

    def __init__(self, board: BetaflightBoard) -> None:
        self._board = board
        self._reader = MspReader()
        self._waiting = b""
        self.cut = self.deaf = False
        self.spoil: Callable[[MspMessage], MspMessage | None] = lambda answer: answer
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            if message.code == msp.SET_RAW_RC:
                self.sent = [*self.sent[-99:], message.data]
            if self.cut or (self.deaf and message.code == msp.SET_RAW_RC):
                continue
            answer = self._board.answer(message)
            answer = None if answer is None else self.spoil(answer)
            self._waiting += b"" if answer is None else answer.pack()

    def receive(self) -> bytes:
        out, self._waiting = self._waiting, b""
        return b"" if self.cut else out

    def close(self) -> None:
        self.cut = True


class Mocap:
    """The place of the tracker: sees what the board's drone does."""

    port = 0

    def __init__(self, board: BetaflightBoard) -> None:
        self._board = board
        self.values: dict[str, np.ndarray] = {}
        self.heard = -math.inf
        self.cut = False
        self.more: Callable[[], dict[str, np.ndarray]] = dict

    def receive(self, now: float) -> None:
        if not self.cut:
            self.values, self.heard = {**self._board.place(), **self.more()}, now

    def close(self) -> None:
        self.cut = True


class SteppedBetaflight(BetaflightLink):
    """The link without its thread and sockets."""

    def __init__(self, options: str, group: Any, clock: Any, flight: BoardFlight) -> None:
        self.flight = flight
        super().__init__(parse_address(f"betaflight://board?tracker=1{options}"), group, clock)

    def _listen(self, port: int) -> Any:
        return self.flight.mocap

    def _connect(self) -> Any:
        return self.flight.wire

    def _check_pace(self) -> None:
        pass

    def _run(self) -> None:
        pass

    def open(self, timeout_s: float = 10.0) -> Identity:
        with turning(self.flight.substep, PERIOD_S, betaflight):
            return super().open(timeout_s)


class BoardFlight(Flight):
    """A drone behind MSP; the link's thread is stepped, too."""

    def __init__(self, bundle: Path, options: str = "", **others: Any) -> None:
        self._substeps = 0
        self._options = options
        self.opened = False
        super().__init__(bundle, **others)

    def load(self, bundle: Path) -> Controller:
        return controller(bundle)

    def connect(self, seed: int) -> Any:
        vehicle = DroneVehicle(rookery.make("drone-hover", num_envs=1, seed=seed), seed=seed)
        self.board = BetaflightBoard(vehicle)
        self.wire = BoardWire(self.board)
        self.mocap = Mocap(self.board)
        link: Any = SteppedBetaflight(self._options, self.controller.spec, self.clock, self)
        link.vehicle = vehicle
        return link

    def begin(self) -> None:
        self.link.receive = lambda: None
        super().begin()

    def substep(self) -> None:
        """5 ms: the link's thread, and in every second one the pilot and the board."""
        self.clock.moment += PERIOD_S
        if self.runtime_alive and self.link._setup is not None:
            self.link._cycle()
        self._substeps += 1
        if self._substeps % 2:
            return
        if self.runtime_alive and self.link.read() is not None:
            self.record = self.pilot.step()
        if self.runtime_alive:
            self.watchdog.look()
        self.board.before()
        self.link.vehicle.step()
        self.board.after()

    def run(self, steps: int) -> None:
        for _ in range(2 * steps):
            self.substep()
