"""A simulated X-series servo: its control table and its answers by DYNAMIXEL protocol 2.0, around an axis.

ROBOTIS e-manual, "XM430-W350" and "DYNAMIXEL Protocol 2.0". Position and current-based position modes; profiles by time; limits
of position, velocity and current; the bus watchdog; overload, which takes the torque off until a reboot.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from rookery.sim2real.links import cia402
from rookery.sim2real.links import dynamixel_protocol as dxl
from rookery.sim2real.links.dynamixel_protocol import ServoPacket
from rookery.sim2real.vehicles.axis import Axis

EEPROM_END = 64
READ_ONLY = ((0, 7), (70, 71), (122, dxl.TABLE_SIZE))  # addresses from, to
FIRMWARE, RETURN_DELAY = 48, 250  # as they are delivered; the delay is not simulated
MOST_CURRENT = 1193  # of CURRENT_LIMIT: an XM430's
VOLTAGE, TEMPERATURE = 120, 35  # 0.1 V, degrees C


class DynamixelServo:
    """See the module.

    Args:
        number: its ID.
        model: number of its model.
        axis: that it drives; its torque limit is that of MOST_CURRENT.
        encoder: position, velocity and torque of the axis now, SI.
        travel: rad or m of the axis per rad of the servo; its center is `middle`.
        middle: rad or m.
        period: s, of `tick`.
    """

    def __init__(
        self, number: int, model: int, axis: Axis, encoder: Callable[[], tuple[float, float, float]], travel: float = 1.0,
        middle: float = 0.0,
    ) -> None:  # fmt: skip
        self.number, self.axis = number, axis
        self._encoder, self._travel, self._middle = encoder, travel, middle
        self._table = bytearray(dxl.TABLE_SIZE)
        self._now = self._heard = 0.0
        self._registered: tuple[int, bytes] | None = None
        limits = axis.limits
        for place, value in (
            (dxl.MODEL, model), (dxl.FIRMWARE, FIRMWARE), (dxl.ID, number), (dxl.RETURN_DELAY, RETURN_DELAY),
            (dxl.OPERATING_MODE, dxl.POSITION_MODE),
            (dxl.CURRENT_LIMIT, MOST_CURRENT), (dxl.VELOCITY_LIMIT, int(limits.speed / abs(travel) / dxl.RAD_S)),
            (dxl.LOWEST_POSITION, max(0, self._ticks(limits.lower))),
            (dxl.HIGHEST_POSITION, min(dxl.TICKS - 1, self._ticks(limits.upper))),
            (dxl.RETURN_LEVEL, 2), (dxl.GOAL_CURRENT, MOST_CURRENT), (dxl.VOLTAGE, VOLTAGE),
            (dxl.TEMPERATURE, TEMPERATURE),
        ):  # fmt: skip
            self._put(place, value)
        axis.mode = cia402.CYCLIC_SYNCHRONOUS_POSITION
        axis.stays = True  # where it stops it holds

    # -- the table ---------------------------------------------------------------------------------------------

    def _put(self, place: tuple[int, int], value: int) -> None:
        address, size = place
        self._table[address : address + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def _get(self, place: tuple[int, int], signed: bool = False) -> int:
        address, size = place
        return int.from_bytes(self._table[address : address + size], "little", signed=signed)

    def _ticks(self, value: float) -> int:
        return round((value - self._middle) / self._travel / dxl.RAD) + dxl.CENTER

    def _value(self, ticks: int) -> float:
        return (ticks - dxl.CENTER) * dxl.RAD * self._travel + self._middle

    @property
    def _on(self) -> bool:
        return self._table[dxl.TORQUE_ENABLE[0]] == 1

    def _measure(self) -> None:
        at, speed, torque = self._encoder()
        current = MOST_CURRENT * torque / self.axis.limits.torque * (1.0 if self._travel > 0.0 else -1.0)
        self._put(dxl.CURRENT, max(-32768, min(32767, round(current))))
        self._put(dxl.VELOCITY, round(speed / self._travel / dxl.RAD_S))
        self._put(dxl.POSITION, self._ticks(at))
        self._put(dxl.MOVING, int(abs(self.axis.velocity) > 0.0))
        self._put(dxl.HARDWARE_ERROR, dxl.OVERLOAD if self.axis.error else 0)

    def read(self, address: int, size: int) -> bytes | int:
        """Bytes of the table, or an error."""
        if size <= 0 or address + size > dxl.TABLE_SIZE:
            return dxl.DATA_RANGE
        self._measure()
        return bytes(self._table[address : address + size])

    def write(self, address: int, data: bytes) -> int:
        """Take bytes for the table; an error, or 0."""
        end = address + len(data)
        if not data or end > dxl.TABLE_SIZE:
            return dxl.DATA_LENGTH
        if any(address < last and end > first for first, last in READ_ONLY) or (address < EEPROM_END and self._on):
            return dxl.ACCESS
        before = bytes(self._table)
        self._table[address:end] = data
        error = self._judge(address, end)
        if error:
            self._table[:] = before
        else:
            self._act(address, end)
        return error

    def _judge(self, address: int, end: int) -> int:
        """Judge what was written; an error, or 0."""

        def has(place: tuple[int, int]) -> bool:
            return address < place[0] + place[1] and end > place[0]

        goal = self._get(dxl.GOAL_POSITION, signed=True)
        if has(dxl.GOAL_POSITION):
            if self._table[dxl.WATCHDOG[0]] == dxl.WATCHDOG_ERROR:
                return dxl.DATA_RANGE
            if not self._get(dxl.LOWEST_POSITION) <= goal <= self._get(dxl.HIGHEST_POSITION):
                return dxl.DATA_LIMIT
        if has(dxl.GOAL_CURRENT) and abs(self._get(dxl.GOAL_CURRENT, signed=True)) > self._get(dxl.CURRENT_LIMIT):
            return dxl.DATA_LIMIT
        if has(dxl.CURRENT_LIMIT) and self._get(dxl.CURRENT_LIMIT) > MOST_CURRENT:
            return dxl.DATA_LIMIT
        if has(dxl.OPERATING_MODE) and self._table[11] not in (dxl.POSITION_MODE, dxl.CURRENT_POSITION_MODE):
            return dxl.DATA_RANGE
        if has(dxl.TORQUE_ENABLE) and (self._table[64] > 1 or (self.axis.error and self._table[64])):
            return dxl.DATA_RANGE
        if has(dxl.HIGHEST_POSITION) or has(dxl.LOWEST_POSITION):
            low, high = self._get(dxl.LOWEST_POSITION), self._get(dxl.HIGHEST_POSITION)
            if not 0 <= low < high < dxl.TICKS:
                return dxl.DATA_LIMIT
        if has(dxl.ID) and not 0 <= self._table[7] <= dxl.HIGHEST_ID:
            return dxl.DATA_LIMIT
        return 0

    def _act(self, address: int, end: int) -> None:
        """Do what was written."""
        places = range(address, end)
        if dxl.ID[0] in places:
            self.number = self._table[7]
        if dxl.TORQUE_ENABLE[0] in places:
            for word in (
                (cia402.TO_SHUT_DOWN, cia402.TO_SWITCH_ON, cia402.TO_ENABLE) if self._on else (cia402.TO_DISABLE,)
            ):
                self.axis.control(word)
        if dxl.WATCHDOG[0] in places and self._table[98] == 0 and self._on:
            self.axis.control(cia402.TO_ENABLE)  # out of the stop of an error
        current = self._get(dxl.CURRENT_LIMIT)
        if self._table[11] == dxl.CURRENT_POSITION_MODE:
            current = min(current, abs(self._get(dxl.GOAL_CURRENT, signed=True)))
        self.axis.share = current / MOST_CURRENT
        if dxl.GOAL_POSITION[0] in places:
            timed = self._table[dxl.DRIVE_MODE[0]] & dxl.TIME_BASED
            seconds = self._get(dxl.PROFILE_VELOCITY) / 1e3 if timed else 0.0
            self.axis.take(self._value(self._get(dxl.GOAL_POSITION, signed=True)), min(seconds, 30.0))

    def tick(self, now: float) -> None:
        """After a step of the axis: judge the bus's silence and its load."""
        self._now = now
        unit = self._table[dxl.WATCHDOG[0]]
        if 0 < unit < 128 and self._on and now - self._heard > unit * dxl.WATCHDOG_S:
            self._table[dxl.WATCHDOG[0]] = dxl.WATCHDOG_ERROR
            self.axis.quick_stop()
        if self.axis.error:
            self._table[dxl.TORQUE_ENABLE[0]] = 0

    # -- packets -----------------------------------------------------------------------------------------------

    def take(self, packet: ServoPacket) -> ServoPacket | None:
        """The answer to an instruction; None where it gives none."""
        self._heard = self._now
        mine = packet.id == self.number
        kind, data = packet.instruction, packet.data
        if kind in (dxl.SYNC_READ, dxl.BULK_READ) and packet.id == dxl.BROADCAST:
            return self._asked(kind, data)
        if kind in (dxl.SYNC_WRITE, dxl.BULK_WRITE) and packet.id == dxl.BROADCAST:
            self._given(kind, data)
            return None
        if not mine and packet.id != dxl.BROADCAST:
            return None
        answer = self._do(kind, data)
        if answer is None or (not mine and kind != dxl.PING):
            return None
        if self._table[dxl.RETURN_LEVEL[0]] < 2 and kind not in (dxl.PING, dxl.READ):
            return None
        return answer

    def _do(self, kind: int, data: bytes) -> ServoPacket | None:
        if kind == dxl.PING:
            return self._answer(0, bytes(self._table[0:2]) + bytes(self._table[6:7]))
        if kind == dxl.READ:
            got = self.read(*struct.unpack("<HH", data)) if len(data) == 4 else dxl.DATA_LENGTH
            return self._answer(got) if isinstance(got, int) else self._answer(0, got)
        if kind in (dxl.WRITE, dxl.REG_WRITE):
            if len(data) < 3:
                return self._answer(dxl.DATA_LENGTH)
            (address,) = struct.unpack_from("<H", data)
            if kind == dxl.REG_WRITE:
                self._registered = address, data[2:]
                return self._answer(0)
            return self._answer(self.write(address, data[2:]))
        if kind == dxl.ACTION:
            if self._registered is None:
                return self._answer(dxl.RESULT_FAIL)
            registered, self._registered = self._registered, None
            return self._answer(self.write(*registered))
        if kind == dxl.REBOOT:
            self._reboot()
            return self._answer(0)
        return self._answer(dxl.BAD_INSTRUCTION) if kind != dxl.STATUS else None

    def _reboot(self) -> None:
        axis = self.axis
        axis.control(cia402.TO_DISABLE)
        axis.control(cia402.TO_RESET)
        axis.control(cia402.TO_DISABLE)
        for place, value in (
            (dxl.TORQUE_ENABLE, 0), (dxl.WATCHDOG, 0), (dxl.PROFILE_VELOCITY, 0), (dxl.PROFILE_ACCELERATION, 0),
            (dxl.GOAL_CURRENT, self._get(dxl.CURRENT_LIMIT)),
        ):  # fmt: skip
            self._put(place, value)
        self._registered = None

    def _answer(self, error: int, data: bytes = b"") -> ServoPacket:
        alert = dxl.ALERT if self.axis.error else 0
        return ServoPacket(self.number, dxl.STATUS, bytes([error | alert]) + data)

    def _asked(self, kind: int, data: bytes) -> ServoPacket | None:
        """The answer to a read of several servos."""
        for number, address, size in _reads(kind, data):
            if number == self.number:
                got = self.read(address, size)
                return self._answer(got) if isinstance(got, int) else self._answer(0, got)
        return None

    def _given(self, kind: int, data: bytes) -> None:
        for number, address, values in _writes(kind, data):
            if number == self.number:
                self.write(address, values)


def _reads(kind: int, data: bytes) -> list[tuple[int, int, int]]:
    """Servo, address and bytes of a read of several servos."""
    if kind == dxl.BULK_READ:
        return [struct.unpack_from("<BHH", data, at) for at in range(0, len(data) - 4, 5)]
    if len(data) < 5:
        return []
    address, size = struct.unpack_from("<HH", data)
    return [(number, address, size) for number in data[4:]]


def _writes(kind: int, data: bytes) -> list[tuple[int, int, bytes]]:
    """Servo, address and bytes of a write to several servos."""
    out = []
    if kind == dxl.SYNC_WRITE and len(data) >= 4:
        address, size = struct.unpack_from("<HH", data)
        for at in range(4, len(data) - size, size + 1):
            out.append((data[at], address, data[at + 1 : at + 1 + size]))
    elif kind == dxl.BULK_WRITE:
        at = 0
        while at + 5 <= len(data):
            number, address, size = struct.unpack_from("<BHH", data, at)
            out.append((number, address, data[at + 5 : at + 5 + size]))
            at += 5 + size
    return out


def answers(servos: Sequence[DynamixelServo], packet: ServoPacket) -> list[ServoPacket]:
    """Answers of the servos of a bus, in the order in which a read names them, and by number otherwise."""
    found = {servo.number: answer for servo in servos if (answer := servo.take(packet)) is not None}
    order = [number for number, _, _ in _reads(packet.instruction, packet.data)]
    if packet.instruction not in (dxl.SYNC_READ, dxl.BULK_READ):
        order = sorted(found)
    return [found[number] for number in dict.fromkeys(order) if number in found]
