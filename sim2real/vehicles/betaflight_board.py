"""A flight-controller board with Betaflight as far as MSP and its receiver show it, around one of our simulated drones.

Arming by a switch and its refusals, rate curves, ANGLE mode, deadbands, throttle with motors that idle, failsafe. Behavior and
layouts of messages: Betaflight 4.5 (rc.c, core.c, msp.c), interface 1.46. Its own rate loop is the simulated drone's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rookery.sim2real.links import msp
from rookery.sim2real.links.betaflight_rates import ACTUAL, BETAFLIGHT, LONG, QUICK, STICK, RateCurve, RcTuning
from rookery.sim2real.links.crtp import thrust_of
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.msp import MspMessage
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.drone import DroneVehicle

SILENCE_S = 0.06
"""s without RC after which its failsafe begins. The firmware needs 0.15 s to notice, and failsafe_delay after that."""
ROLL, PITCH, YAW, THROTTLE = range(4)
PLACES = (0, 1, 3, 2)  # of these among the channels: AETR, as most transmitters send them
LOW, MIDDLE, HIGH = 1050, 1500, 2000  # us: min_check, mid_rc, the upper end
CHANNELS = 18
ARM, ANGLE, FAILSAFE = 0, 1, 27  # permanent numbers of modes
BOXES = {ARM: "ARM", ANGLE: "ANGLE", FAILSAFE: "FAILSAFE"}
RANGES = {ARM: (0, 1700, 2100), ANGLE: (1, 1700, 2100), FAILSAFE: (2, 1700, 2100)}
"""AUX channel of each mode, counted from 0, and the us between which it is on."""
ROWS = 20  # of the table of ranges
ANGLE_LIMIT = math.radians(60.0)
SMALL_ANGLE = math.radians(25.0)
IDLE = 550  # motor_idle, 0.01 %
LOST_S = 0.15  # s without RC that keep it from arming
RX_LOSS, THROTTLE_UP, TILTED, FAILED, SWITCHED, FLAGS = 2, 7, 8, 1, 26, 27
"""Bits of what keeps it from arming, the last of which is an arm switch that was on too early, and how many there are."""
LAND, DROP = 0, 1  # failsafe procedures
KILL, STAGE_2 = 1, 2  # of the FAILSAFE switch; stage 1 waits for the delay
SENSORS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5  # accelerometer, barometer, compass, gyro
CAPACITY_MAH, VOLTS_FULL, VOLTS_EMPTY = 240, 4.2, 3.3
G = 2048  # of the accelerometer, per 9.81 m/s^2
ACTUAL_RATES = RcTuning((RateCurve(ACTUAL, 7, 67, 0), RateCurve(ACTUAL, 7, 67, 0), RateCurve(ACTUAL, 7, 67, 0)))
"""Betaflight's own: 70 deg/s about the middle, 670 at the end."""


@dataclass
class _Failsafe:
    delay: int = 1  # 0.1 s
    landing_s: int = 60
    throttle: int = 1450
    switch: int = STAGE_2
    low_delay: int = 100
    procedure: int = LAND


class BetaflightBoard:
    """See the module.

    Args:
        vehicle: the simulated drones.
        number: which of them is its own.
        silence_s: s without RC after which its failsafe begins, until a client sets the delay.

    Attributes:
        tuning: the rate profile.
        failed: its failsafe has begun, until it is disarmed.
    """

    def __init__(self, vehicle: DroneVehicle, number: int = 0, silence_s: float = SILENCE_S) -> None:
        self.vehicle, self.number = vehicle, number
        self.tuning = ACTUAL_RATES
        self.failed = False
        self._silence_s = silence_s
        self._failsafe = _Failsafe(delay=max(1, math.ceil(10.0 * silence_s)))
        self._channels = [0] * CHANNELS
        self._heard = -math.inf
        self._early = False
        self._deadbands = [0, 0]
        self._curve = vehicle.drones.drone.thrust_curve
        self._reading: Reading = vehicle.sense(number)
        vehicle.timeout_s = math.inf  # its own failsafe is what counts
        self._replies: dict[int, Callable[[], bytes]] = {
            msp.API_VERSION: lambda: bytes([0, 1, 46]), msp.FC_VARIANT: lambda: b"BTFL",
            msp.FC_VERSION: lambda: bytes([4, 5, 1]),
            msp.BOARD_INFO: lambda: b"RKRY" + bytes(5), msp.NAME: lambda: f"rookery {number}".encode(),
            msp.FEATURE_CONFIG: lambda: struct.pack("<I", 1 << 14), msp.RX_MAP: lambda: bytes([*PLACES, 4, 5, 6, 7]),
            msp.RX_CONFIG: lambda: struct.pack("<BHHHBHH", 0, 1900, MIDDLE, LOW, 0, 885, 2115) + bytes(25),
            msp.MODE_RANGES: self._ranges, msp.BOXIDS: lambda: bytes(BOXES),
            msp.BOXNAMES: lambda: "".join(f"{name};" for name in BOXES.values()).encode(),
            msp.ADVANCED_CONFIG: lambda: struct.pack("<BBBBHH", 1, 1, 0, 7, 480, IDLE) + bytes(12),
            msp.RC_DEADBAND: lambda: struct.pack("<BBBH", *self._deadbands, 0, 50), msp.FAILSAFE_CONFIG: self._tell_failsafe,
            msp.RC_TUNING: self._tell_tuning, msp.STATUS: self._status, msp.STATUS_EX: self._status, msp.RAW_IMU: self._imu,
            msp.ATTITUDE: self._attitude, msp.ALTITUDE: self._altitude, msp.ANALOG: self._analog,
            msp.BATTERY_STATE: self._battery, msp.RC: lambda: struct.pack(f"<{CHANNELS}H", *self._in_order()),
        }  # fmt: skip
        self._orders: dict[int, Callable[[bytes], None]] = {
            msp.SET_RAW_RC: self._take_channels, msp.SET_RC_TUNING: self._take_tuning,
            msp.SET_FAILSAFE_CONFIG: self._take_failsafe,
        }  # fmt: skip

    # -- messages ----------------------------------------------------------------------------------------------

    def answer(self, message: MspMessage) -> MspMessage | None:
        """The reply to a request; None to what is none."""
        if message.direction != msp.REQUEST:
            return None
        try:
            if message.code in self._orders:
                self._orders[message.code](message.data)
                return MspMessage(message.code, b"", msp.REPLY, message.version)
            data = self._replies[message.code]()
        except (KeyError, ValueError, struct.error):  # not known, or damaged
            return MspMessage(message.code, b"", msp.ERROR, message.version)
        return MspMessage(message.code, data, msp.REPLY, message.version)

    def _ranges(self) -> bytes:
        rows = [bytes([mode, aux, (on - 900) // 25, (off - 900) // 25]) for mode, (aux, on, off) in RANGES.items()]
        return b"".join(rows) + bytes(4) * (ROWS - len(rows))

    def _tell_tuning(self) -> bytes:
        roll, pitch, yaw = self.tuning.curves
        return struct.pack(
            "<BBBBBBBBHBBBBBBHHHB", roll.rc_rate, roll.expo, roll.rate, pitch.rate, yaw.rate, 0, 50, 0, 0, yaw.expo,
            yaw.rc_rate, pitch.rc_rate, pitch.expo, 0, 100, roll.limit, pitch.limit, yaw.limit, roll.kind,
        )  # fmt: skip

    def _take_tuning(self, data: bytes) -> None:
        tuning = RcTuning.unpack(data[:LONG])
        if tuning.curves[0].kind not in (BETAFLIGHT, ACTUAL, QUICK) or tuning.throttle_expo:
            raise ValueError("rates that the simulated board has not")
        self.tuning = tuning

    def _tell_failsafe(self) -> bytes:
        f = self._failsafe
        return struct.pack("<BBHBHB", f.delay, f.landing_s, f.throttle, f.switch, f.low_delay, f.procedure)

    def _take_failsafe(self, data: bytes) -> None:
        delay, landing, throttle, switch, low, procedure = struct.unpack("<BBHBHB", data[:8])
        if procedure not in (LAND, DROP) or switch > STAGE_2 or delay == 0:
            raise ValueError("a failsafe that the simulated board has not")
        self._failsafe = _Failsafe(delay, landing, throttle, switch, low, procedure)
        self._silence_s = delay / 10.0

    def _status(self) -> bytes:
        active = self.vehicle.armed(self.number), self._on(ANGLE), self.failed
        modes = sum(on << i for i, on in enumerate(active))
        period = round(1e6 * self.vehicle.period)
        out = struct.pack("<HHHIBHHB", min(period, 0xFFFF), 0, SENSORS, modes, 0, 10, 0, 0)
        return out + struct.pack("<BIBHB", FLAGS, self._flags(), 0, 30, 4)

    def _imu(self) -> bytes:
        turning = np.degrees(self._reading.values["angular velocity"])
        acceleration = self._specific_force()
        return struct.pack("<9h", *(_short(v) for v in (*(G * acceleration / 9.81), *turning, 0, 0, 0)))

    def _specific_force(self) -> np.ndarray:
        """m/s^2, body axes, of a body that does not accelerate: the board's own use of it is no part of this."""
        w, x, y, z = self._reading.values["rotation"].tolist()
        return 9.81 * np.array((2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)))

    def _attitude(self) -> bytes:
        roll, pitch, yaw = (math.degrees(a) for a in euler(self._reading.values["rotation"]))
        return struct.pack("<hhh", _short(10 * roll), _short(10 * pitch), round(90.0 - yaw) % 360)

    def _altitude(self) -> bytes:
        height, climb = (float(self._reading.values[name][2]) for name in ("position", "velocity"))
        return struct.pack("<ih", round(100 * height), _short(100 * climb))

    def _volts(self) -> float:
        return VOLTS_EMPTY + (self._reading.battery or 0.0) * (VOLTS_FULL - VOLTS_EMPTY)

    def _drawn(self) -> int:
        return round((1.0 - (self._reading.battery or 0.0)) * CAPACITY_MAH)

    def _analog(self) -> bytes:
        return struct.pack("<BHHhH", round(10 * self._volts()), self._drawn(), 1023, 0, round(100 * self._volts()))

    def _battery(self) -> bytes:
        volts = self._volts()
        return struct.pack("<BHBHhBH", 1, CAPACITY_MAH, round(10 * volts), self._drawn(), 0, 0, round(100 * volts))

    # -- its receiver ------------------------------------------------------------------------------------------

    def _take_channels(self, data: bytes) -> None:
        count = min(len(data) // 2, CHANNELS)
        if count < len(PLACES):
            raise ValueError("too few channels")
        self._channels = [*struct.unpack(f"<{count}H", data[: 2 * count]), *[0] * (CHANNELS - count)]
        self._heard = self.vehicle.now
        self._fly()

    def _in_order(self) -> list[int]:
        """Channels by their meaning: roll, pitch, yaw, throttle, AUX 1 ..."""
        return [self._channels[place] for place in PLACES] + self._channels[len(PLACES) :]

    def _on(self, mode: int) -> bool:
        aux, low, high = RANGES[mode]
        return low <= self._channels[len(PLACES) + aux] < high

    def _value(self, stick: int) -> int:
        """us of a stick; a pulse that is none is the stick let go."""
        value = self._channels[PLACES[stick]]
        if not 885 <= value <= 2115:
            return 1000 if stick == THROTTLE else MIDDLE
        return value

    def _stick(self, stick: int) -> float:
        """From -1 to 1, yaw against the clock as seen from above."""
        off = max(-STICK, min(STICK, self._value(stick) - MIDDLE))
        deadband = self._deadbands[stick == YAW]
        size = max(0, abs(off) - deadband) / (STICK - deadband)
        return math.copysign(size, off) * (-1.0 if stick == YAW else 1.0)

    def _thrust(self) -> float:
        """N: the motors of an armed drone never stand."""
        throttle = (max(LOW, min(HIGH, self._value(THROTTLE))) - LOW) / (HIGH - LOW)
        idle = IDLE / 1e4
        return 4.0 * thrust_of(idle + (1.0 - idle) * throttle, self._curve)

    def _flags(self) -> int:
        """Bits that keep it from arming."""
        roll, pitch, _ = euler(self._reading.values["rotation"])
        armed = self.vehicle.armed(self.number)
        flags = {
            RX_LOSS: self.vehicle.now - self._heard > LOST_S, THROTTLE_UP: self._value(THROTTLE) >= LOW and not armed,
            TILTED: max(abs(roll), abs(pitch)) > SMALL_ANGLE and not armed, FAILED: self.failed, SWITCHED: self._early,
        }  # fmt: skip
        return sum(1 << bit for bit, on in flags.items() if on)

    def _fly(self) -> None:
        """Follow the channels."""
        vehicle, i = self.vehicle, self.number
        if not self._on(ARM):
            vehicle.disarm(i)
            self.failed = self._early = False
            return
        if not vehicle.armed(i):
            if self._flags():
                self._early = True
                return
            vehicle.arm(i)
        if self._on(FAILSAFE) and self._failsafe.switch in (KILL, STAGE_2):
            self._fail()
        if self.failed:
            return
        roll, pitch, yaw = (self._stick(s) for s in (ROLL, PITCH, YAW))
        curves = self.tuning.curves
        turn = math.radians(curves[YAW].degrees(yaw))
        if self._on(ANGLE):
            self._set("attitude", (roll * ANGLE_LIMIT, pitch * ANGLE_LIMIT, turn, self._thrust()))
        else:
            rates = (math.radians(curves[axis].degrees(stick)) for axis, stick in ((ROLL, roll), (PITCH, pitch)))
            self._set("ctbr", (*rates, turn, self._thrust()))

    def _set(self, kind: str, values: tuple[float, ...]) -> None:
        self.vehicle.setpoint(self.number, kind, values)
        self.vehicle.offboard(self.number)

    def _fail(self) -> None:
        """Begin the failsafe: come down level, or stop the motors."""
        if self.failed or not self.vehicle.armed(self.number):
            return
        self.failed = True
        if self._failsafe.procedure == DROP or (self._failsafe.switch == KILL and self._on(FAILSAFE)):
            self.vehicle.disarm(self.number)
        else:
            self.vehicle.land(self.number)

    # -- every control step ------------------------------------------------------------------------------------

    def before(self) -> None:
        """Judge the silence of its receiver, before a step."""
        if self.vehicle.armed(self.number) and self.vehicle.now + self.vehicle.period - self._heard > self._silence_s:
            self._fail()

    def after(self) -> None:
        """Measure, after a step."""
        self._reading = self.vehicle.sense(self.number)

    def place(self) -> dict[str, np.ndarray]:
        """Place and velocity as motion capture has them; the board itself does not know them."""
        return {name: self._reading.values[name] for name in ("position", "velocity")}


def _short(value: float) -> int:
    return max(-32768, min(32767, round(float(value))))
