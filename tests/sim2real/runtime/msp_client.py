"""A client of MSP written from its published description alone: its frames, messages and rate formulas are its own."""

from __future__ import annotations

import math
import socket
import struct
from collections.abc import Callable


def crc8_dvb_s2(data: bytes) -> int:
    """Bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = ((crc << 1) ^ 0xD5) & 0xFF if crc & 0x80 else crc << 1
    return crc


def frame_v1(code: int, data: bytes) -> bytes:
    body = struct.pack("<BB", len(data), code) + data
    check = 0
    for byte in body:
        check ^= byte
    return b"$M<" + body + bytes([check])


def frame_v2(code: int, data: bytes) -> bytes:
    body = struct.pack("<BHH", 0, code, len(data)) + data
    return b"$X<" + body + bytes([crc8_dvb_s2(body)])


def actual_rate(stick: float, center: float, most: float, expo: float) -> float:
    """Of Betaflight's documentation: center sensitivity and maximum in deg/s, expo from 0 to 1."""
    bend = abs(stick) * (stick**5 * expo + stick * (1 - expo))
    return stick * center + (most - center) * bend


def betaflight_rate(stick: float, rc_rate: float, super_rate: float, expo: float) -> float:
    if rc_rate > 2:
        rc_rate = rc_rate + (rc_rate - 2) * 14.54
    stick_bent = stick * abs(stick) ** 3 * expo + stick * (1 - expo)
    return 200 * rc_rate * stick_bent / (1 - abs(stick) * super_rate)


def quick_rate(stick: float, rc_rate: float, most: float, expo: float) -> float:
    """rc_rate in 200 deg/s."""
    middle = 200 * rc_rate
    bend = abs(stick) ** 3 * expo + abs(stick) * (1 - expo)
    return stick * middle / (1 - bend * (1 - middle / most))


class MspClient:
    """One connection by TCP.

    Args:
        port: of the board, on this machine.
        turn: lets the board's world go on while a reply is waited for.
    """

    def __init__(self, port: int, turn: Callable[[], None]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=2.0)
        self._socket.setblocking(False)
        self._turn = turn
        self._bytes = b""

    def ask(self, code: int, data: bytes = b"", version: int = 1) -> tuple[str, bytes]:
        """The sign and the data of a reply, which must be of the same version."""
        frame = frame_v1(code, data) if version == 1 else frame_v2(code, data)
        if version == 3:  # in a frame of version 1
            frame = frame_v1(255, frame_v2(code, data)[3:])
        self._socket.sendall(frame)
        for _ in range(50):
            self._turn()
            try:
                self._bytes += self._socket.recv(4096)
            except BlockingIOError:
                continue
            found = self._take(code, version)
            if found is not None:
                return found
        raise AssertionError(f"no reply to {code}")

    def _take(self, code: int, version: int) -> tuple[str, bytes] | None:
        b = self._bytes
        if version == 2:
            if len(b) < 9 or len(b) < 9 + b[6]:
                return None
            assert b[:2] == b"$X" and b[4] | b[5] << 8 == code
            size = b[6] | b[7] << 8
            assert b[8 + size] == crc8_dvb_s2(b[3 : 8 + size])
            self._bytes = b[9 + size :]
            return chr(b[2]), b[8 : 8 + size]
        if len(b) < 6 or len(b) < 6 + b[3]:
            return None
        assert b[:2] == b"$M"
        body, check = b[3 : 5 + b[3]], b[5 + b[3]]
        for byte in body:
            check ^= byte
        assert check == 0
        self._bytes = b[6 + b[3] :]
        if version == 1:
            assert body[1] == code
            return chr(b[2]), body[2:]
        assert body[1] == 255 and body[3] | body[4] << 8 == code
        assert body[-1] == crc8_dvb_s2(body[2:-1])
        return chr(b[2]), body[7:-1]

    def channels(self, roll: int, pitch: int, yaw: int, throttle: int, *aux: int) -> None:
        """MSP_SET_RAW_RC in the order AETR."""
        sign, _ = self.ask(200, struct.pack(f"<{4 + len(aux)}H", roll, pitch, throttle, yaw, *aux))
        assert sign == ">"

    def flags(self) -> int:
        """Arming-disable flags of MSP_STATUS."""
        _, data = self.ask(101)
        (out,) = struct.unpack_from("<I", data, 17 + (data[15] & 15))
        return int(out)

    def armed(self) -> bool:
        """By the status's mode flags, in the order of MSP_BOXIDS, where ARM is 0."""
        _, ids = self.ask(119)
        _, data = self.ask(101)
        return bool(int.from_bytes(data[6:10], "little") >> ids.index(0) & 1)

    def attitude(self) -> tuple[float, float, float]:
        """deg: roll to the right, pitch nose down, heading with the clock."""
        roll, pitch, yaw = struct.unpack("<hhh", self.ask(108)[1])
        return roll / 10, pitch / 10, float(yaw)

    def gyro(self) -> tuple[int, ...]:
        """deg/s of MSP_RAW_IMU."""
        return struct.unpack("<9h", self.ask(102)[1])[3:6]

    def altitude(self) -> tuple[float, float]:
        """m and m/s."""
        height, climb = struct.unpack("<ih", self.ask(109)[1])
        return height / 100, climb / 100

    def set_rates(self, kind: int, rc_rate: int, rate: int, expo: int) -> None:
        """MSP_SET_RC_TUNING, the same for all axes."""
        data = struct.pack(
            "<BBBBBBBBHBBBBBBHHHB", rc_rate, expo, rate, rate, rate, 0, 50, 0, 0, expo, rc_rate, rc_rate, expo, 0, 100,
            1998, 1998, 1998, kind,
        )  # fmt: skip
        assert self.ask(204, data)[0] == ">"

    def close(self) -> None:
        self._socket.close()


def spin(value: int, rate: Callable[[float], float]) -> float:
    """rad/s against the clock for a yaw channel's us."""
    return -math.radians(rate((value - 1500) / 500))
