"""Arms and hands of DYNAMIXEL servos of the X series on a serial port: ``dynamixel:///dev/ttyUSB0?ids=1-6&gripper=7``.

In each period the link's thread sends all servos their positions in one packet (sync write), as moves that take a period, and
asks all of them for current, velocity and position in another (sync read). Where the whole program is gone the servos' bus
watchdog stops them. Servos have no brakes: whatever happens the link leaves them holding where they are, and never takes their
torque off.
"""

from __future__ import annotations

import struct
import time
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import dynamixel_protocol as dxl
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.byte_wires import open_serial
from rookery.sim2real.links.drive_link import ARMING, MOVING, QUICK, STOPPING, DriveLink, within
from rookery.sim2real.links.dynamixel_protocol import PacketReader, ServoModel, ServoPacket
from rookery.sim2real.runtime.clock import TimeSource

BAUD = 1_000_000  # bit/s
ANSWER_S, TRIES = 0.1, 3  # s that an answer may take before the link moves
AGAIN_S = 0.2  # s between two requests for torque
STATE = (dxl.TORQUE_ENABLE[0], dxl.WATCHDOG[0] + 1 - dxl.TORQUE_ENABLE[0])
"""From torque to watchdog."""
LONGEST = 4096  # bytes that are taken in a cycle


class DynamixelLink(DriveLink):
    """See the module.

    Args:
        address: of the port. Options: those of DriveLink; `ids`, of the joints in the contract's order; `baud`; `period`, ms;
            `closed` and `open`, positions of the gripper's servo, its limits where left out.
        group: of the contract.
        clock: of the runtime.

    Raises:
        RookeryError: an option is wrong, or the contract's commands lead to no joint positions.
    """

    name = "DYNAMIXEL servos"

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("ids", "gripper", "tracker", "hold", "baud", "period", "closed", "open")
        if address.host or not address.path:
            raise RookeryError(f"{address.url} must name a serial port: write dynamixel:///dev/ttyUSB0.")
        period = address.option("period", 10) / 1e3
        if not 0.002 <= period <= 0.025:
            raise RookeryError(f"period must be from 2 to 25 ms in {address.url}.")
        super().__init__(address, group, clock, period, address.options.get("ids", ""), dxl.HIGHEST_ID)
        n = len(self._ids)
        self._port: Any = None
        self._reader = PacketReader()
        self._models: list[ServoModel] = []
        self._units = np.ones((2, n))  # rad or m per tick, and at CENTER
        self._units[1] = 0.0
        self._torque = [False] * n  # as the servos tell
        self._alert = [False] * n
        self._errors = [0] * n  # HARDWARE_ERROR
        self._watchdog = max(1, min(127, int(self._hold / dxl.WATCHDOG_S + 1e-9)))
        self._asked = -np.inf  # s, for torque
        self._turn = 0
        self._held = False

    # -- who is there ------------------------------------------------------------------------------------------

    def _connect(self) -> list[float]:
        self._port = self._open_port()
        speeds = []
        for i, number in enumerate(self._ids):
            low, high, speed = self._set_up(number, self._names[i])
            if i < len(self.drive.names):
                self._units[:, i] = dxl.RAD, 0.0
                self._ranges[i] = ((low - dxl.CENTER) * dxl.RAD, (high - dxl.CENTER) * dxl.RAD)
                speeds.append(speed * dxl.RAD_S)
            else:
                closed, opened = (self._address.option(k, v) for k, v in (("closed", low), ("open", high)))
                if closed == opened or not all(low <= v <= high for v in (closed, opened)):
                    raise RookeryError(
                        f"{self.url}: the gripper's servo moves from {low} to {high}: give it two positions within, closed and "
                        "open."
                    )
                each = self.drive.opened / (opened - closed)
                self._units[:, i] = each, (dxl.CENTER - closed) * each
                self._ranges[i] = (0.0, self.drive.opened)
        for i, number in enumerate(self._ids):
            at = self._value(i, struct.unpack("<i", self._ask(dxl.read(number, dxl.POSITION), self._names[i], 4))[0])
            if not within(at, *self._ranges[i]):
                raise RookeryError(
                    f"{self.url}: servo {number} ({self._names[i]}) is at {at:.3g}, outside of its own limits "
                    f"({self._ranges[i][0]:.3g} to {self._ranges[i][1]:.3g})."
                )
        return speeds

    def _open_port(self) -> Any:
        return open_serial("/" + self._address.path, self._address.whole("baud", BAUD, 10_000_000), "dynamixel")

    def _set_up(self, number: int, name: str) -> tuple[int, int, int]:
        """Ask a servo who it is, and choose its modes; limits of position and speed in its units."""
        (model,) = struct.unpack("<H", self._ask(ServoPacket(number, dxl.PING), name, 3)[:2])
        if model not in dxl.MODELS:
            known = ", ".join(m.name for m in dxl.MODELS.values())
            raise RookeryError(f"{self.url}: servo {number} ({name}) is of model {model}; this link knows {known}.")
        self._models.append(dxl.MODELS[model])
        error = self._number(number, dxl.HARDWARE_ERROR, name)
        if error:
            raise RookeryError(
                f"{self.url}: servo {number} ({name}) tells a hardware error ({_words(error)}): mend it, and reboot the servo."
            )
        grips = number not in self._ids[: len(self.drive.names)]
        wanted = {
            dxl.OPERATING_MODE: dxl.CURRENT_POSITION_MODE if grips else dxl.POSITION_MODE,
            dxl.RETURN_DELAY: 0,
            dxl.DRIVE_MODE: self._number(number, dxl.DRIVE_MODE, name) | dxl.TIME_BASED,
        }
        for place, value in wanted.items():
            if self._number(number, place, name) == value:
                continue
            if self._number(number, dxl.TORQUE_ENABLE, name):
                raise RookeryError(
                    f"{self.url}: servo {number} ({name}) holds in another mode: support the arm, switch its torque off, and "
                    "try again."
                )
            self._write(number, place, value, name)
        self._write(number, dxl.RETURN_LEVEL, 2, name)
        self._write(number, dxl.PROFILE_ACCELERATION, 0, name)
        self._write(number, dxl.PROFILE_VELOCITY, round(1e3 * self._period), name)
        places = (dxl.LOWEST_POSITION, dxl.HIGHEST_POSITION, dxl.VELOCITY_LIMIT)
        low, high, speed = (self._number(number, place, name) for place in places)
        if not (0 <= low < high < dxl.TICKS and speed > 0):
            raise RookeryError(
                f"{self.url}: servo {number} ({name}) has no range to move in ({low} to {high} at {speed})."
            )
        return low, high, speed

    def _ask(self, packet: ServoPacket, name: str, size: int) -> bytes:
        """The parameters of the answer of one servo, asked again where none comes."""
        for _ in range(TRIES):
            self._port.write(packet.pack())
            end = time.monotonic() + ANSWER_S
            while time.monotonic() < end:
                for answer in self._reader.feed(self._port.read(LONGEST)):
                    if answer.id != packet.id or answer.instruction != dxl.STATUS or not answer.data:
                        continue
                    error = answer.data[0] & ~dxl.ALERT
                    if error:
                        raise RookeryError(
                            f"{self.url}: servo {packet.id} ({name}) refuses an instruction (error {error})."
                        )
                    if len(answer.data) == 1 + size:
                        return answer.data[1:]
                time.sleep(0.0005)
        raise RookeryError(f"{self.url}: servo {packet.id} ({name}) does not answer.")

    def _number(self, number: int, place: tuple[int, int], name: str) -> int:
        return int.from_bytes(self._ask(dxl.read(number, place), name, place[1]), "little")

    def _write(self, number: int, place: tuple[int, int], value: int, name: str) -> None:
        self._ask(dxl.write(number, place, value), name, 0)

    # -- the thread --------------------------------------------------------------------------------------------

    def _value(self, i: int, ticks: int) -> float:
        each, center = self._units[:, i]
        return float((ticks - dxl.CENTER) * each + center)

    def _ticks(self, i: int, value: float) -> int:
        each, center = self._units[:, i]
        return round((value - center) / each) + dxl.CENTER

    def _receive(self, now: float) -> None:
        try:
            data = self._port.read(LONGEST)
        except OSError:  # it was pulled out
            return
        for packet in self._reader.feed(data):
            self.take_packet(packet, now)

    def take_packet(self, packet: ServoPacket, now: float) -> None:
        """Take an answer that arrived at `now`, s; one that is none counts as none."""
        place = self._place.get(packet.id)
        if place is None or packet.instruction != dxl.STATUS or not packet.data:
            return
        error, data = packet.data[0], packet.data[1:]
        with self._lock:
            self.heard = now
            self._alert[place] = bool(error & dxl.ALERT)
            if error & ~dxl.ALERT:
                return
            if len(data) == dxl.MEASURED[1]:
                current, velocity, position = dxl.MEASUREMENT.unpack(data)
                model, each = self._models[place], float(self._units[0, place])
                self._measured[:, place] = (
                    self._value(place, position), velocity * dxl.RAD_S * each / dxl.RAD, current * model.ampere * model.torque,
                )  # fmt: skip
                self._stamps[0, place] = now
            elif len(data) == STATE[1]:
                self._torque[place] = data[0] == 1 and data[-1] != dxl.WATCHDOG_ERROR
                self._errors[place] = data[dxl.HARDWARE_ERROR[0] - STATE[0]]

    def _enabled(self) -> list[bool]:
        return [on and not alert for on, alert in zip(self._torque, self._alert, strict=True)]

    def _trouble(self) -> str:
        for name, on, alert, error in zip(self._names, self._torque, self._alert, self._errors, strict=True):
            if alert:
                return f"{name}: hardware error{f', {_words(error)}' if error else ''}"
            if not on:
                return f"{name}: no torque, or stopped by its bus watchdog"
        return ""

    def _send(self, now: float) -> None:
        with self._lock:
            packets = self._packets(now)
        try:
            self._port.write(b"".join(packet.pack() for packet in packets))
        except OSError:
            return  # the servos' own watchdog has them

    def _packets(self, now: float) -> list[ServoPacket]:
        """Instructions of this cycle."""
        ids = self._ids
        out: list[ServoPacket] = []
        goals = [(number, self._ticks(i, self._targets[i])) for i, number in enumerate(ids)]
        if self._mode in (MOVING, STOPPING):
            out.append(dxl.sync_write(dxl.GOAL_POSITION, goals))
        elif self._mode == QUICK and not self._held:
            out.append(dxl.sync_write(dxl.GOAL_POSITION, goals))  # where they are
        elif self._mode == ARMING and now - self._asked >= AGAIN_S - 1e-9:
            self._asked = now
            out = [
                dxl.sync_write(dxl.WATCHDOG, [(number, 0) for number in ids]),
                dxl.sync_write(dxl.GOAL_POSITION, goals),
                dxl.sync_write(dxl.TORQUE_ENABLE, [(number, 1) for number in ids]),
                dxl.sync_write(dxl.WATCHDOG, [(number, self._watchdog) for number in ids]),
            ]
        self._held = self._mode == QUICK
        if self._mode == ARMING:
            out.append(dxl.sync_read(STATE, ids))
        else:
            self._turn = (self._turn + 1) % len(ids)
            out.append(dxl.sync_read(STATE, ids[self._turn : self._turn + 1]))
        out.append(dxl.sync_read(dxl.MEASURED, ids))
        return out

    def arm(self) -> None:
        with self._lock:
            if self._mode not in (ARMING, MOVING, STOPPING):
                self._torque = [False] * len(self._ids)  # until they tell anew
                self._asked = -np.inf
            super().arm()

    def _leave(self) -> None:
        if self._port is None:
            return
        self._port.write(dxl.sync_write(dxl.WATCHDOG, [(number, 0) for number in self._ids]).pack())  # they hold
        self._port.close()
        self._port = None


def _words(error: int) -> str:
    """Names of hardware errors."""
    return ", ".join(name for bit, name in dxl.HARDWARE_ERRORS.items() if error & bit) or f"0x{error:02X}"
