"""Messages of Unitree's low level as its C structs have them, and the numbers around them: motors, CRC, modes.

    command = LOW_CMD.new()
    command["motor_cmd"]["kp"][:12] = 40.0
    seal(command)                                   # its CRC

Fields, types and topics: unitree_sdk2 and unitree_sdk2_python, IDL `unitree_go`. A message is a NumPy record with the padding
of its C struct, over which the CRC goes; on the wire it has the alignment of CDR (`to_wire`, `from_wire`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Record = NDArray[Any]

MOTORS = tuple(f"{leg}_{part}" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
"""Joints in the order of a Go2's motors; 8 more places of the messages are empty."""
FEET = ("FR", "FL", "RR", "RL")
"""Order of its foot sensors."""
LOW_LEVEL = 0xFF
SERVO = 1  # a motor's mode that follows set-points; 0: it is off
POSITION_OFF = 2.146e9  # rad, a set-point that switches the position loop of a motor off
VELOCITY_OFF = 16000.0  # rad/s, likewise

_MODULE = "unitree_go.msg.dds_"
_U32_2, _F32_3 = ("<u4", (2,)), ("<f4", (3,))
_HEAD = [
    ("head", "u1", (2,)), ("level_flag", "u1"), ("frame_reserve", "u1"), ("sn", *_U32_2), ("version", *_U32_2),
    ("bandwidth", "<u2"),
]  # fmt: skip
_MOTOR_CMD = [("mode", "u1"), *((name, "<f4") for name in ("q", "dq", "tau", "kp", "kd")), ("reserve", "<u4", (3,))]
_MOTOR_STATE = [
    ("mode", "u1"), *((name, "<f4") for name in ("q", "dq", "ddq", "tau_est", "q_raw", "dq_raw", "ddq_raw")),
    ("temperature", "u1"), ("lost", "<u4"), ("reserve", *_U32_2),
]  # fmt: skip
_IMU = [
    ("quaternion", "<f4", (4,)), ("gyroscope", *_F32_3), ("accelerometer", *_F32_3), ("rpy", *_F32_3),
    ("temperature", "u1"),
]  # fmt: skip
_BATTERY = [
    *((name, "u1") for name in ("version_high", "version_low", "status", "soc")), ("current", "<i4"), ("cycle", "<u2"),
    ("bq_ntc", "u1", (2,)), ("mcu_ntc", "u1", (2,)), ("cell_vol", "<u2", (15,)),
]  # fmt: skip
_PATH_POINT = [(name, "<f4") for name in ("t_from_start", "x", "y", "yaw", "vx", "vy", "vyaw")]


def _struct(fields: list[Any]) -> np.dtype[Any]:
    return np.dtype(fields, align=True)


class Message:
    """A message of a fixed size.

    Args:
        name: of its type, without the module.
        dtype: of its C struct.
        parts: names of the types of fields that are structs themselves.

    Attributes:
        size: bytes on the wire, without the header.
    """

    def __init__(self, name: str, dtype: np.dtype[Any], parts: Mapping[str, str]) -> None:
        self.name = name
        self.dtype = dtype
        self.parts = parts
        places: list[int] = []
        _walk(dtype, 0, places, dtype.itemsize)
        self._places = np.array(places)
        self.size = len(places)

    @property
    def typename(self) -> str:
        """Name of its type in IDL, with dots."""
        return f"{_MODULE}.{self.name}"

    def declare(self, dds: Any) -> Any:
        """A class of cyclonedds of its type."""
        return _declare(dds, self.dtype, self.typename, self.parts)

    def new(self) -> Record:
        """A message of zeros: a 0-d record."""
        return np.zeros((), self.dtype)

    def to_wire(self, record: Record) -> bytes:
        """Its bytes in CDR, little-endian."""
        raw = np.zeros(self.dtype.itemsize + 1, np.uint8)  # the last one is CDR's padding
        raw[:-1] = np.frombuffer(record.tobytes(), np.uint8)
        return raw[self._places].tobytes()

    def from_wire(self, data: bytes) -> Record | None:
        """The message that bytes hold; None where they are too few."""
        if len(data) < self.size:
            return None
        raw = np.zeros(self.dtype.itemsize + 1, np.uint8)
        raw[self._places] = np.frombuffer(data, np.uint8, self.size)
        return raw[:-1].view(self.dtype)[0:1].reshape(())


def _declare(dds: Any, dtype: np.dtype[Any], typename: str, parts: Mapping[str, str]) -> Any:
    """An IDL struct of a record's dtype."""
    types = dds.idl.types
    plain = {
        "uint8": types.byte, "uint16": types.uint16, "int16": types.int16, "int32": types.int32, "uint32": types.uint32,
        "float32": types.float32,
    }  # fmt: skip
    module = typename.rpartition(".")[0]
    fields = {}
    assert dtype.names is not None
    for name in dtype.names:
        inner: Any = dtype[name]
        base, shape = inner.subdtype or (inner, ())
        if base.names is None:
            kind = plain[base.name]
        else:
            kind = _declare(dds, base, f"{module}.{parts[name]}", {})
        fields[name] = types.array[kind, shape[0]] if shape else kind
    return dds.idl.make_idl_struct(typename.rpartition(".")[2], typename, fields)


def _walk(dtype: np.dtype[Any], at: int, places: list[int], padding: int) -> None:
    """Append the place in the C struct of each byte in CDR: members in order, each primitive aligned to its size."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        for i in range(int(np.prod(shape))):
            _walk(base, at + i * base.itemsize, places, padding)
    elif dtype.names is not None:
        for name in dtype.names:
            inner, offset = dtype.fields[name][:2]  # type: ignore[index]
            _walk(inner, at + offset, places, padding)
    else:
        places.extend([padding] * (-len(places) % dtype.itemsize))
        places.extend(range(at, at + dtype.itemsize))


LOW_CMD = Message(
    "LowCmd_",
    _struct([
        *_HEAD, ("motor_cmd", _struct(_MOTOR_CMD), (20,)), ("bms_cmd", _struct([("off", "u1"), ("reserve", "u1", (3,))])),
        ("wireless_remote", "u1", (40,)), ("led", "u1", (12,)), ("fan", "u1", (2,)), ("gpio", "u1"), ("reserve", "<u4"),
        ("crc", "<u4"),
    ]),
    {"motor_cmd": "MotorCmd_", "bms_cmd": "BmsCmd_"},
)  # fmt: skip
LOW_STATE = Message(
    "LowState_",
    _struct([
        *_HEAD, ("imu_state", _struct(_IMU)), ("motor_state", _struct(_MOTOR_STATE), (20,)), ("bms_state", _struct(_BATTERY)),
        ("foot_force", "<i2", (4,)), ("foot_force_est", "<i2", (4,)), ("tick", "<u4"), ("wireless_remote", "u1", (40,)),
        ("bit_flag", "u1"), ("adc_reel", "<f4"), ("temperature_ntc1", "u1"), ("temperature_ntc2", "u1"), ("power_v", "<f4"),
        ("power_a", "<f4"), ("fan_frequency", "<u2", (4,)), ("reserve", "<u4"), ("crc", "<u4"),
    ]),
    {"imu_state": "IMUState_", "motor_state": "MotorState_", "bms_state": "BmsState_"},
)  # fmt: skip
SPORT_MODE_STATE = Message(
    "SportModeState_",
    _struct([
        ("stamp", _struct([("sec", "<i4"), ("nanosec", "<u4")])), ("error_code", "<u4"), ("imu_state", _struct(_IMU)),
        ("mode", "u1"), ("progress", "<f4"), ("gait_type", "u1"), ("foot_raise_height", "<f4"), ("position", *_F32_3),
        ("body_height", "<f4"), ("velocity", *_F32_3), ("yaw_speed", "<f4"), ("range_obstacle", "<f4", (4,)),
        ("foot_force", "<i2", (4,)), ("foot_position_body", "<f4", (12,)), ("foot_speed_body", "<f4", (12,)),
        ("path_point", _struct(_PATH_POINT), (10,)),
    ]),
    {"stamp": "TimeSpec_", "imu_state": "IMUState_", "path_point": "PathPoint_"},
)  # fmt: skip

_REVERSED = bytes(int(f"{b:08b}"[::-1], 2) for b in range(256))


def crc32(words: bytes) -> int:
    """Unitree's CRC of little-endian words of 32 bits: CRC-32/MPEG-2 of the words' bytes from the highest on.

    zlib's CRC-32 has the same polynomial, with the bits of each byte and of the result the other way round.
    """
    backwards = np.frombuffer(words, "<u4").astype(">u4").tobytes().translate(_REVERSED)
    turned = zlib.crc32(backwards) ^ 0xFFFFFFFF
    return int.from_bytes(turned.to_bytes(4, "little").translate(_REVERSED), "big")


@cache
def _members(dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """255 at the bytes of a C struct that belong to members, 0 at padding."""
    places: list[int] = []
    _walk(dtype, 0, places, dtype.itemsize)
    out = np.zeros(dtype.itemsize + 1, np.uint8)
    out[places] = 255
    return out[:-1]


def _crc_of(record: Record) -> int:
    raw = np.frombuffer(record.tobytes(), np.uint8) & _members(record.dtype)  # NumPy's copies leave padding as it was
    return crc32(raw.tobytes()[:-4])


def seal(record: Record) -> Record:
    """Write a LowCmd's or LowState's CRC, its last field, in place; returns it."""
    record["crc"] = _crc_of(record)
    return record


def intact(record: Record) -> bool:
    """True where the CRC is that of the fields before."""
    return int(record["crc"]) == _crc_of(record)
