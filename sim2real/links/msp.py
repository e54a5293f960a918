"""MSP, the MultiWii Serial Protocol of Betaflight: messages in their frames, and the reader of a stream of them.

A request has a code and data, its reply the same code. Version 1 has codes up to 254 and an XOR checksum, version 2 codes of
16 bits and a CRC-8; there is version 2 in a frame of version 1, too. Frames and codes: Betaflight's msp_serial.c and
msp_protocol.h; layouts of data: its msp.c.
"""

from __future__ import annotations

import functools
import operator
import struct
from dataclasses import dataclass

API_VERSION, FC_VARIANT, FC_VERSION, BOARD_INFO, NAME = 1, 2, 3, 4, 10
MODE_RANGES, FEATURE_CONFIG, RX_CONFIG, RX_MAP = 34, 36, 44, 64
FAILSAFE_CONFIG, SET_FAILSAFE_CONFIG, ADVANCED_CONFIG = 75, 76, 90
STATUS, RAW_IMU, MOTOR, RC, ATTITUDE, ALTITUDE, ANALOG, RC_TUNING = 101, 102, 104, 105, 108, 109, 110, 111
BOXNAMES, BOXIDS, RC_DEADBAND, BATTERY_STATE, STATUS_EX, ATTITUDE_QUATERNION = 116, 119, 125, 130, 150, 167
SET_RAW_RC, SET_RC_TUNING = 200, 204

REQUEST, REPLY, ERROR = b"<", b">", b"!"
V1, V2, V2_IN_V1 = 1, 2, 3
MOST = 512  # bytes of data: Betaflight's buffers hold no more
_JUMBO = 255  # length in a frame of version 1 after which one of 16 bits follows
_WRAPPED = 255  # code of a frame of version 1 that holds one of version 2
_WRAPPING = 6  # bytes of that besides its data


def _table() -> bytes:
    out = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc << 1 ^ (0xD5 if crc & 0x80 else 0)) & 0xFF
        out.append(crc)
    return bytes(out)


_CRC = _table()


def crc8(data: bytes) -> int:
    """CRC-8/DVB-S2: polynomial 0xD5, from 0."""
    crc = 0
    for byte in data:
        crc = _CRC[crc ^ byte]
    return crc


def _xor(data: bytes) -> int:
    return functools.reduce(operator.xor, data, 0)


@dataclass(frozen=True)
class MspMessage:
    """A request or a reply.

    Args:
        code: its kind.
        data: at most MOST bytes.
        direction: REQUEST, REPLY or ERROR, the reply to what is not known or not taken.
        version: of its frame: V1, V2 or V2_IN_V1.
    """

    code: int
    data: bytes = b""
    direction: bytes = REQUEST
    version: int = V2

    def pack(self) -> bytes:
        """Its frame."""
        if self.version == V1:
            return b"$M" + self.direction + _sealed_v1(self.code, self.data)
        body = struct.pack("<BHH", 0, self.code, len(self.data)) + self.data
        body += bytes([crc8(body)])
        if self.version == V2:
            return b"$X" + self.direction + body
        return b"$M" + self.direction + _sealed_v1(_WRAPPED, body)


def _sealed_v1(code: int, data: bytes) -> bytes:
    if len(data) < _JUMBO:
        body = bytes([len(data), code]) + data
    else:
        body = struct.pack("<BBH", _JUMBO, code, len(data)) + data
    return body + bytes([_xor(body)])


class MspReader:
    """Finds messages in a stream of bytes, whatever stands between them."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[MspMessage]:
        """The messages that are whole with these bytes."""
        waiting = self._waiting
        waiting += data
        out: list[MspMessage] = []
        while True:
            start = waiting.find(b"$")
            if start < 0:
                waiting.clear()
                return out
            del waiting[:start]
            length, message = _first(bytes(waiting))
            if length == 0:
                return out
            if message is not None:
                out.append(message)
            del waiting[:length]


def _first(data: bytes) -> tuple[int, MspMessage | None]:
    """Bytes of the frame at the beginning, and its message; 0 where it is not all there, 1 and None where it is none."""
    none = 1, None
    if len(data) < 3:
        return 0, None
    kind, direction = data[1:2], data[2:3]
    if kind not in (b"M", b"X") or direction not in (REQUEST, REPLY, ERROR):
        return none
    if kind == b"X":
        return _first_v2(data, direction)
    if len(data) < 5:
        return 0, None
    size, code = data[3], data[4]
    start = 5
    if size == _JUMBO:
        if len(data) < 7:
            return 0, None
        size, start = int.from_bytes(data[5:7], "little"), 7
    if size > MOST + _WRAPPING:
        return none
    if len(data) <= start + size:
        return 0, None
    if _xor(data[3 : start + size]) != data[start + size]:
        return none
    body = data[start : start + size]
    if code != _WRAPPED:
        return start + size + 1, MspMessage(code, body, direction, V1)
    length, inner = _first_v2(b"$X" + direction + body, direction)
    if inner is None or length != size + 3:
        return none
    return start + size + 1, MspMessage(inner.code, inner.data, direction, V2_IN_V1)


def _first_v2(data: bytes, direction: bytes) -> tuple[int, MspMessage | None]:
    if len(data) < 8:
        return 0, None
    _, code, size = struct.unpack("<BHH", data[3:8])
    if size > MOST:
        return 1, None
    if len(data) <= 8 + size:
        return 0, None
    if crc8(data[3 : 8 + size]) != data[8 + size]:
        return 1, None
    return 9 + size, MspMessage(code, data[8 : 8 + size], direction, V2)
