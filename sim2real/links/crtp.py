"""CRTP, the Crazyflie's protocol: packets, numbers and types that the link and the vehicle share.

A packet is a byte with port and channel, and up to 30 bytes of data. Ports, commands and types: Bitcraze, "Crazyflie client
communication protocols" (crtp, parameters, logging, generic set-points, high-level commander) and crazyflie-firmware's
crtp_commander_generic.c. Signs were read there and tried on no hardware: test them at low thrust.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from rookery.sim2real.runtime.reading import Array

PORT = 19850
"""UDP port of the first simulated Crazyflie; cflib scans it and the nine after it."""
PARAM, COMMANDER, MEM, LOG, GENERIC, HIGH_LEVEL, SUPERVISOR, PLATFORM, LINK = 2, 3, 4, 5, 7, 8, 9, 13, 15
TOC, LOG_CONTROL, LOG_DATA = 0, 1, 2
GET_ITEM, GET_INFO = 2, 3  # of tables of contents, version 2
CREATE_BLOCK, APPEND_BLOCK, START_BLOCK, STOP_BLOCK, DELETE_BLOCK, RESET_BLOCKS = 6, 7, 3, 4, 2, 5
STOP, FULL_STATE, POSITION, VELOCITY_WORLD, Z_DISTANCE, HOVER, MANUAL = 0, 6, 7, 8, 9, 10, 11
"""Types of generic set-points."""
HIGH_STOP, GO_TO, TAKE_OFF_2, LAND_2, GO_TO_2 = 3, 4, 7, 8, 12
"""Commands of the high-level commander."""
NULL = b"\xff"
FULL = 65535
"""Thrust of a set-point that stands for full motor commands."""
LOG_TYPES = {1: "B", 2: "H", 3: "I", 4: "b", 5: "h", 6: "i", 7: "f", 8: "e"}
PARAM_TYPES = {0x08: "B", 0x09: "H", 0x0A: "I", 0x00: "b", 0x01: "h", 0x02: "i", 0x06: "f"}


@dataclass(frozen=True)
class Packet:
    """A packet.

    Args:
        port, channel: 0 to 15, 0 to 3.
        data: at most 30 bytes.
    """

    port: int
    channel: int
    data: bytes = b""

    def pack(self) -> bytes:
        """As it goes on the wire."""
        return bytes([self.port << 4 | 0x0C | self.channel]) + self.data


def parse(wire: bytes) -> Packet | None:
    """The packet of what arrived; None for a null packet or nothing."""
    if not wire or wire[0] & 0xF3 == 0xF3 or len(wire) > 31:
        return None
    return Packet(wire[0] >> 4, wire[0] & 3, wire[1:])


def compress(q: Array) -> int:
    """A quaternion (w, x, y, z) in 32 bits: which of x, y, z, w is largest, and the others by sign and 9 bits."""
    v = [float(c) for c in (q[1], q[2], q[3], q[0])]
    largest = max(range(4), key=lambda i: abs(v[i]))
    negate = v[largest] < 0
    out = largest
    for i, c in enumerate(v):
        if i != largest:
            size = min(511, int(511 * abs(c) / math.sqrt(0.5) + 0.5))
            out = out << 10 | ((c < 0) ^ negate) << 9 | size
    return out


def decompress(bits: int) -> Array:
    """The inverse of `compress`, within 0.002 rad."""
    largest = bits >> 30
    v = [0.0] * 4
    total = 0.0
    for i in (3, 2, 1, 0):
        if i != largest:
            size = (bits & 511) / 511 * math.sqrt(0.5)
            v[i] = -size if bits >> 9 & 1 else size
            total += size * size
            bits >>= 10
    v[largest] = math.sqrt(max(0.0, 1.0 - total))
    return np.array([v[3], v[0], v[1], v[2]], np.float32)


def motor_share(thrust: float, curve: tuple[float, float, float]) -> float:
    """The motor command in [0, 1] at which a rotor with this thrust curve (N) pushes with `thrust` N."""
    t0, t1, t2 = curve
    if thrust <= t0:
        return 0.0
    if t2 == 0.0:
        return min(1.0, (thrust - t0) / t1)
    return float(min(1.0, (-t1 + math.sqrt(t1 * t1 + 4.0 * t2 * (thrust - t0))) / (2.0 * t2)))


def thrust_of(share: float, curve: tuple[float, float, float]) -> float:
    """N of a rotor at a motor command in [0, 1]; none at 0."""
    return curve[0] + share * (curve[1] + share * curve[2]) if share > 0.0 else 0.0


def unpack(layout: str, data: bytes) -> tuple[float, ...]:
    """Numbers at the beginning of data.

    Raises:
        ValueError: there are too few bytes.
    """
    size = struct.calcsize("<" + layout)
    if len(data) < size:
        raise ValueError(f"{len(data)} bytes where {size} are needed")
    return struct.unpack("<" + layout, data[:size])
