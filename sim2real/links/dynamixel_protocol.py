"""Packets of DYNAMIXEL protocol 2.0 and the control table of X-series servos.

ROBOTIS e-manual, "DYNAMIXEL Protocol 2.0" (packets, CRC, byte stuffing, instructions, errors) and the control tables of the X
series, such as "XM430-W350".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = b"\xff\xff\xfd\x00"
BROADCAST = 0xFE
HIGHEST_ID = 252
LONGEST = 1024  # bytes of a packet
(PING, READ, WRITE, REG_WRITE, ACTION, REBOOT, STATUS, SYNC_READ, SYNC_WRITE, BULK_READ, BULK_WRITE) = (
    0x01, 0x02, 0x03, 0x04, 0x05, 0x08, 0x55, 0x82, 0x83, 0x92, 0x93,
)  # fmt: skip
"""Instructions; a status is an answer."""
RESULT_FAIL, BAD_INSTRUCTION, BAD_CRC, DATA_RANGE, DATA_LENGTH, DATA_LIMIT, ACCESS, ALERT = 1, 2, 3, 4, 5, 6, 7, 0x80
"""Errors of a status; the last is a bit that tells of a hardware error."""

MODEL, FIRMWARE, ID, RETURN_DELAY, DRIVE_MODE, OPERATING_MODE = (0, 2), (6, 1), (7, 1), (9, 1), (10, 1), (11, 1)
CURRENT_LIMIT, VELOCITY_LIMIT, HIGHEST_POSITION, LOWEST_POSITION = (38, 2), (44, 4), (48, 4), (52, 4)
TORQUE_ENABLE, RETURN_LEVEL, HARDWARE_ERROR, WATCHDOG = (64, 1), (68, 1), (70, 1), (98, 1)
GOAL_CURRENT, PROFILE_ACCELERATION, PROFILE_VELOCITY, GOAL_POSITION = (102, 2), (108, 4), (112, 4), (116, 4)
MOVING, CURRENT, VELOCITY, POSITION, VOLTAGE, TEMPERATURE = (122, 1), (126, 2), (128, 4), (132, 4), (144, 2), (146, 1)
"""Addresses of the control table, and their bytes. Those below 64 change only while torque is off."""
MEASURED = (126, 10)
"""Current, velocity and position together."""
TABLE_SIZE = 147
TIME_BASED = 0x04  # of DRIVE_MODE: PROFILE_VELOCITY is the ms that a move takes
POSITION_MODE, CURRENT_POSITION_MODE = 3, 5
WATCHDOG_S = 0.02  # s, unit of WATCHDOG
WATCHDOG_ERROR = 0xFF  # of WATCHDOG: set-points stayed away
OVERLOAD = 0x20  # of HARDWARE_ERROR
HARDWARE_ERRORS = {
    0x01: "input voltage",
    0x04: "overheating",
    0x08: "encoder",
    0x10: "electrical shock",
    0x20: "overload",
}

TICKS, CENTER = 4096, 2048  # of POSITION in a turn, and of 0 rad
RAD = 2.0 * math.pi / TICKS
RAD_S = 0.229 * 2.0 * math.pi / 60.0  # rad/s, unit of VELOCITY
MEASUREMENT = struct.Struct("<hii")
"""Current, velocity and position of MEASURED."""


@dataclass(frozen=True)
class ServoModel:
    """A kind of servo of the X series.

    Args:
        name: ROBOTIS's.
        ampere: A, unit of currents.
        torque: N m per A: stall torque by stall current at 12 V (5 V of the XL330), from its e-manual.
    """

    name: str
    ampere: float
    torque: float


MODELS = {
    1020: ServoModel("XM430-W350", 2.69e-3, 4.1 / 2.3), 1030: ServoModel("XM430-W210", 2.69e-3, 3.0 / 2.3),
    1120: ServoModel("XM540-W270", 2.69e-3, 10.6 / 4.4), 1130: ServoModel("XM540-W150", 2.69e-3, 7.3 / 4.4),
    1190: ServoModel("XL330-M077", 1e-3, 0.228 / 1.47), 1200: ServoModel("XL330-M288", 1e-3, 0.52 / 1.47),
}  # fmt: skip
"""By model number."""


def _table() -> tuple[int, ...]:
    """CRC of each byte, by the polynomial x^16 + x^15 + x^2 + 1, highest bit first."""
    out = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = crc << 1 ^ (0x8005 if crc & 0x8000 else 0)
        out.append(crc & 0xFFFF)
    return tuple(out)


_CRC = _table()


def crc16(data: bytes) -> int:
    """The CRC of a packet without its last two bytes."""
    crc = 0
    for byte in data:
        crc = (crc << 8 & 0xFFFF) ^ _CRC[crc >> 8 ^ byte]
    return crc


@dataclass(frozen=True)
class ServoPacket:
    """A packet.

    Args:
        id: of the servo, or BROADCAST.
        instruction: STATUS in answers.
        data: parameters; an answer's begin with its error.
    """

    id: int
    instruction: int
    data: bytes = b""

    def pack(self) -> bytes:
        """Its bytes on the wire."""
        body = (bytes([self.instruction]) + self.data).replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")
        out = HEADER + struct.pack("<BH", self.id, len(body) + 2) + body
        return out + struct.pack("<H", crc16(out))


class PacketReader:
    """Finds packets among the bytes of a port.

    Attributes:
        damaged: packets whose CRC was wrong, or whose length cannot be.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self.damaged = 0

    def feed(self, data: bytes) -> list[ServoPacket]:
        """The packets that are whole with these bytes."""
        self._bytes += data
        out: list[ServoPacket] = []
        while True:
            start = self._bytes.find(HEADER)
            if start < 0:
                self._bytes = self._bytes[-3:]  # a header may have begun
                return out
            self._bytes = self._bytes[start:]
            if len(self._bytes) < 7:
                return out
            number, length = struct.unpack_from("<BH", self._bytes, 4)
            if not 3 <= length <= LONGEST:
                self._skip()
                continue
            if len(self._bytes) < 7 + length:
                return out
            packet, crc = self._bytes[: 5 + length], self._bytes[5 + length : 7 + length]
            if crc != struct.pack("<H", crc16(packet)):
                self._skip()
                continue
            self._bytes = self._bytes[7 + length :]
            body = packet[7:].replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")
            out.append(ServoPacket(number, body[0], body[1:]))

    def _skip(self) -> None:
        self.damaged += 1
        self._bytes = self._bytes[1:]


def sync_write(place: tuple[int, int], values: Sequence[tuple[int, int]]) -> ServoPacket:
    """One value for the same place of several servos, by number."""
    address, size = place
    data = struct.pack("<HH", address, size)
    for number, value in values:
        data += bytes([number]) + value.to_bytes(size, "little", signed=value < 0)
    return ServoPacket(BROADCAST, SYNC_WRITE, data)


def sync_read(place: tuple[int, int], numbers: Sequence[int]) -> ServoPacket:
    """Ask several servos for the same place."""
    return ServoPacket(BROADCAST, SYNC_READ, struct.pack("<HH", *place) + bytes(numbers))


def read(number: int, place: tuple[int, int]) -> ServoPacket:
    """Ask one servo for a place."""
    return ServoPacket(number, READ, struct.pack("<HH", *place))


def write(number: int, place: tuple[int, int], value: int) -> ServoPacket:
    """Set a place of one servo."""
    address, size = place
    return ServoPacket(number, WRITE, struct.pack("<H", address) + value.to_bytes(size, "little", signed=value < 0))
