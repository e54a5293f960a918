"""CiA 402, the profile of servo drives on CANopen: objects, states, words and units.

Numbers are those of CiA 301 (communication) and of CiA 402-2 and -3 (drives; IEC 61800-7-201 and -301). Codes of units are
those of CiA 303-2, as manufacturers print them (Nanotec's manual of the PD4-C, "User-defined units").
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

NMT, SYNC = 0x000, 0x080
EMERGENCY, HEARTBEAT_OF = 0x080, 0x700
TPDO = (0x180, 0x280, 0x380, 0x480)
RPDO = (0x200, 0x300, 0x400, 0x500)
SDO_ANSWER, SDO_REQUEST = 0x580, 0x600
"""COB-IDs: whole ones of NMT and SYNC, of the others what a node's number is added to."""
START, STOP, PRE_OPERATIONAL, RESET, RESET_COMMUNICATION = 0x01, 0x02, 0x80, 0x81, 0x82
"""NMT commands."""
BOOT_STATE, STOPPED_STATE, OPERATIONAL_STATE, PRE_OPERATIONAL_STATE = 0, 4, 5, 127
"""NMT states, as heartbeats tell them."""

DEVICE_TYPE, ERROR_REGISTER, DEVICE_NAME, IDENTITY = 0x1000, 0x1001, 0x1008, 0x1018
CONSUMER_HEARTBEAT, PRODUCER_HEARTBEAT = 0x1016, 0x1017
RPDO_SETTINGS, RPDO_MAPPING, TPDO_SETTINGS, TPDO_MAPPING = 0x1400, 0x1600, 0x1800, 0x1A00
ABORT_CONNECTION_OPTION, ERROR_CODE, CONTROLWORD, STATUSWORD, QUICK_STOP_OPTION = 0x6007, 0x603F, 0x6040, 0x6041, 0x605A
MODE, MODE_DISPLAY, POSITION_DEMAND, POSITION, FOLLOWING_WINDOW, FOLLOWING_TIMEOUT = (
    0x6060, 0x6061, 0x6062, 0x6064, 0x6065, 0x6066,
)  # fmt: skip
VELOCITY, MAX_TORQUE, RATED_TORQUE, TORQUE, TARGET_POSITION, POSITION_LIMIT, MAX_MOTOR_SPEED = (
    0x606C, 0x6072, 0x6076, 0x6077, 0x607A, 0x607D, 0x6080,
)  # fmt: skip
QUICK_STOP_DECELERATION, ENCODER, GEAR, FEED, SI_POSITION, SI_VELOCITY, INTERPOLATION_PERIOD, SUPPORTED_MODES = (
    0x6085, 0x608F, 0x6091, 0x6092, 0x60A8, 0x60A9, 0x60C2, 0x6502,
)  # fmt: skip
"""Objects. Torques are thousandths of the motor's rated one, which is in mN m; speeds of the motor are in 1/min; the feed is in
position units per turn of the axis behind the gear."""
DRIVE_PROFILE = 402
CYCLIC_SYNCHRONOUS_POSITION = 8
PDO_OFF = 1 << 31

NOT_READY, SWITCH_ON_DISABLED, READY, SWITCHED_ON, ENABLED, QUICK_STOP, FAULT_REACTION, FAULT = (
    "not ready to switch on", "switch on disabled", "ready to switch on", "switched on", "operation enabled",
    "quick stop active", "fault reaction active", "fault",
)  # fmt: skip
STATES = {
    NOT_READY: (0x4F, 0x00), SWITCH_ON_DISABLED: (0x4F, 0x40), READY: (0x6F, 0x21), SWITCHED_ON: (0x6F, 0x23),
    ENABLED: (0x6F, 0x27), QUICK_STOP: (0x6F, 0x07), FAULT_REACTION: (0x4F, 0x0F), FAULT: (0x4F, 0x08),
}  # fmt: skip
"""States of a drive, with the bits of its statusword that tell them and their values."""
VOLTAGE, WARNING, REMOTE, LIMITED, FOLLOWS, FOLLOWING_ERROR = 1 << 4, 1 << 7, 1 << 9, 1 << 11, 1 << 12, 1 << 13
"""Other bits of the statusword; the last two in cyclic synchronous position mode."""
TO_SHUT_DOWN, TO_SWITCH_ON, TO_ENABLE, TO_STOP_QUICKLY, TO_DISABLE, TO_RESET = 0x06, 0x07, 0x0F, 0x02, 0x00, 0x80
"""Controlwords."""
ERRORS = {
    0x0000: "none", 0x8130: "no heartbeat of the master", 0x8250: "set-points stayed away", 0x8311: "torque limit",
    0x8611: "following error", 0x8700: "no SYNC",
}  # fmt: skip
"""Error codes (CiA 301 and 402-2), for people."""

INCREMENTS, REVOLUTIONS, RADIANS, DEGREES, METERS = 0xB5, 0xB4, 0x10, 0x41, 0x01
SECONDS, MINUTES = 0x03, 0x47
"""Codes of units."""


def state_of(statusword: int) -> str:
    """The state that a statusword tells; "" for none."""
    return next((name for name, (mask, value) in STATES.items() if statusword & mask == value), "")


def word_towards_enabled(state: str, last: int) -> int:
    """The controlword of the next transition on the way to "operation enabled", a reset of a fault included.

    Args:
        state: of the drive.
        last: the controlword before: a reset is a rising edge.
    """
    if state == FAULT:
        return TO_DISABLE if last & TO_RESET else TO_RESET
    return {
        SWITCH_ON_DISABLED: TO_SHUT_DOWN, READY: TO_SWITCH_ON, SWITCHED_ON: TO_ENABLE, ENABLED: TO_ENABLE
    }.get(state, TO_DISABLE)  # fmt: skip


def unit(code: int) -> tuple[int, float]:
    """The unit of position in a code of units, and its power of ten as a factor."""
    prefix = code >> 24
    return code >> 16 & 0xFF, 10.0 ** (prefix - 256 if prefix > 127 else prefix)


def position_scale(code: int, increments: float) -> float:
    """Position units per rad, or per m of a linear axis.

    Args:
        code: SI_POSITION; 0 where the drive has none, which means increments.
        increments: of the encoder per turn of the joint.

    Raises:
        ValueError: a unit that is not known.
    """
    name, power = unit(code)
    turn = 2.0 * math.pi
    each = {
        0: increments / turn, INCREMENTS: increments / turn, REVOLUTIONS: 1.0 / turn, RADIANS: 1.0, DEGREES: 360.0 / turn,
        METERS: 1.0,
    }  # fmt: skip
    if name not in each:
        raise ValueError(f"unit 0x{name:02X}")
    return each[name] / power


def velocity_scale(code: int, increments: float) -> float:
    """Velocity units per rad/s, or per m/s.

    Args:
        code: SI_VELOCITY; 0 where the drive has none, which means increments per second.
        increments: of the encoder per turn of the joint.

    Raises:
        ValueError: a unit that is not known.
    """
    seconds = {0: 1.0, SECONDS: 1.0, MINUTES: 60.0}
    per = code >> 8 & 0xFF
    if per not in seconds:
        raise ValueError(f"unit of time 0x{per:02X}")
    return position_scale(code, increments) * seconds[per]


RPM = 2.0 * math.pi / 60.0  # rad/s

TARGET = struct.Struct("<Hi")
"""What the master sends at each SYNC: controlword, target position."""
MOTION = struct.Struct("<Hih")
"""What a drive answers: statusword, position, torque."""
SPEED = struct.Struct("<iH")
"""And in another PDO: velocity, error code."""


def mapping(*entries: tuple[int, int]) -> list[int]:
    """Entries of a PDO's mapping: objects and their bits."""
    return [index << 16 | bits for index, bits in entries]


TARGET_MAP = mapping((CONTROLWORD, 16), (TARGET_POSITION, 32))
MOTION_MAP = mapping((STATUSWORD, 16), (POSITION, 32), (TORQUE, 16))
SPEED_MAP = mapping((VELOCITY, 32), (ERROR_CODE, 16))


@dataclass(frozen=True)
class DriveUnits:
    """A drive's units and limits.

    Args:
        position, velocity: units per rad and rad/s, m and m/s of a linear axis.
        torque: N m of the joint (N of a linear axis) per thousandth of the rated torque.
        lower, upper: rad or m, its software limits.
        speed: rad/s or m/s, its limit.
    """

    position: float
    velocity: float
    torque: float
    lower: float
    upper: float
    speed: float
