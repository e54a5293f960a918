"""Our simulated drones as Crazyflies on CRTP: tables of log variables and parameters, log blocks, every kind of set-point and
the high-level commander, a packet a datagram, on UDP ports from 19850 on, where cflib scans.

Brushed Crazyflies arm by themselves, and so do these: the first set-point arms. Where set-points stop they land; the firmware
levels after 0.5 s and stops its motors after 2 s (COMMANDER_WDT_TIMEOUT_*). As the firmware's supervisor has it they say that
they fly until 2 s after their motors have last turned; motors turn on the ground, too, while set-points are valid.
"""

from __future__ import annotations

import contextlib
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.links import crtp
from rookery.sim2real.links.crtp import Packet
from rookery.sim2real.links.frames import euler
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.network import NetworkConfig
from rookery.sim2real.vehicles.port import Peer, Port

PROTOCOL = 10
"""Version of CRTP that it speaks: of cflib's messages up to linear go-to and version 2 tables."""
FIRMWARE = b"Rookery vehicle"
ARMED, FLYING = 1 << 1, 1 << 4
CAN_BE_ARMED, AUTO_ARMED, CAN_FLY = 1 << 0, 1 << 2, 1 << 3
HEIGHT_GAIN = 2.0  # 1/s, from an error of height to a climb rate
FLYING_S = 2.0  # s, IS_FLYING_HYSTERESIS_THRESHOLD of the firmware's supervisor
THRUST_GAIN = 4.0  # 1/s, from an error of the climb rate to an acceleration

Value = Callable[[Reading], float]


def _vector(name: str, index: int, factor: float = 1.0) -> Value:
    return lambda reading: factor * float(reading.values[name][index])


def _euler(reading: Reading) -> tuple[float, float, float]:
    """deg, roll, pitch (with the firmware's sign) and yaw."""
    roll, pitch, yaw = (math.degrees(a) for a in euler(reading.values["rotation"]))
    return roll, -pitch, yaw


def _info(reading: Reading) -> float:
    return CAN_BE_ARMED | CAN_FLY | AUTO_ARMED | ARMED * bool(reading.armed) | FLYING * (not reading.landed)


MILLI = 1e3
LOGGED: dict[str, tuple[int, Value]] = {
    **{f"stateEstimate.{a}": (7, _vector("position", i)) for i, a in enumerate("xyz")},
    **{f"stateEstimate.v{a}": (7, _vector("velocity", i)) for i, a in enumerate("xyz")},
    **{f"stateEstimate.q{a}": (7, _vector("rotation", i)) for i, a in enumerate("wxyz")},
    **{f"stateEstimate.{a}": (7, lambda r, i=i: _euler(r)[i]) for i, a in enumerate(("roll", "pitch", "yaw"))},  # type: ignore[misc]
    **{f"stateEstimateZ.{a}": (5, _vector("position", i, MILLI)) for i, a in enumerate("xyz")},
    **{f"stateEstimateZ.v{a}": (5, _vector("velocity", i, MILLI)) for i, a in enumerate("xyz")},
    "stateEstimateZ.quat": (3, lambda r: crtp.compress(r.values["rotation"])),
    "stateEstimateZ.rateRoll": (5, _vector("angular velocity", 0, MILLI)),
    "stateEstimateZ.ratePitch": (5, _vector("angular velocity", 1, -MILLI)),
    "stateEstimateZ.rateYaw": (5, _vector("angular velocity", 2, MILLI)),
    **{f"gyro.{a}": (7, _vector("angular velocity", i, math.degrees(1.0))) for i, a in enumerate("xyz")},
    "pm.vbat": (7, lambda r: 3.0 + 1.2 * (r.battery or 0.0)),
    "pm.batteryLevel": (1, lambda r: round(100 * (r.battery or 0.0))),
    "supervisor.info": (2, _info),
}
"""Log variables: type in crtp.LOG_TYPES, and the value."""
PARAMETERS = {
    "flightmode.stabModeRoll": (0x08, 1), "flightmode.stabModePitch": (0x08, 1), "flightmode.stabModeYaw": (0x08, 0),
    "stabilizer.estimator": (0x08, 2), "stabilizer.controller": (0x08, 1), "commander.enHighLevel": (0x08, 1),
    "kalman.resetEstimation": (0x08, 0), "locSrv.extPosStdDev": (0x06, 0.01),
}  # fmt: skip
"""Parameters: type in crtp.PARAM_TYPES, and the value at the start."""


class CrtpDrone:
    """One drone of a vehicle behind a UDP port.

    Args:
        vehicle: the simulated drones.
        number: which of them.
        station: not used: a Crazyflie answers who speaks to it.
        port: to listen on.
        network: faults of the network.
        seed: of them.
    """

    def __init__(
        self, vehicle: DroneVehicle, number: int = 0, station: Peer | None = None, port: int | None = None,
        network: NetworkConfig | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.vehicle = vehicle
        self.number = number
        here = crtp.PORT + number if port is None else port
        self.port = Port(here, network, seed)
        self.where = f"drone {number} at udp://127.0.0.1:{here}"
        self._peer: Peer | None = None
        self._log_names = list(LOGGED)
        self._parameter_names = list(PARAMETERS)
        self._parameters: dict[str, float] = {name: value for name, (_, value) in PARAMETERS.items()}
        self._blocks: dict[int, list[int]] = {}
        self._running: dict[int, int] = {}  # block: period in control steps
        self._unlocked = False
        self._hold: Callable[[Reading], None] | None = None  # set-points that need feedback in every step
        self._ticks = 0
        self._turned = -math.inf  # s, when its motors last turned
        self._curve = vehicle.drones.drone.thrust_curve
        self._weight = vehicle.drones.drone.mass * GRAVITY

    # -- every control step ------------------------------------------------------------------------------------

    def receive(self) -> None:
        """Take all packets that have arrived."""
        for wire, peer in self.port.receive(self.vehicle.now):
            self._peer = peer
            packet = crtp.parse(wire)
            if packet is None:
                self._put_wire(crtp.NULL)
                continue
            with contextlib.suppress(ValueError, IndexError, struct.error, OverflowError):  # damaged
                self._handle(packet)

    def send(self) -> None:
        """Log blocks that are due."""
        reading = self.vehicle.sense(self.number)
        self._ticks += 1
        if self._hold is not None and reading.mode == "offboard":
            self._hold(reading)
        if reading.armed and not (reading.landed and reading.mode == "hold"):
            self._turned = self.vehicle.now
        reading = replace(reading, landed=self.vehicle.now - self._turned >= FLYING_S)
        for block, period in self._running.items():
            if self._ticks % period == 0:
                self._log(block, reading)
        self.port.flush(self.vehicle.now)

    def close(self) -> None:
        """Free the port."""
        self.port.close()

    def _put(self, port: int, channel: int, data: bytes) -> None:
        self._put_wire(Packet(port, channel, data).pack())

    def _put_wire(self, wire: bytes) -> None:
        if self._peer is not None:
            self.port.leaving.put(self.vehicle.now, (wire, self._peer))

    def _log(self, block: int, reading: Reading) -> None:
        stamp = round(1e3 * self.vehicle.now) & 0xFFFFFF
        data = bytes([block, stamp & 255, stamp >> 8 & 255, stamp >> 16])
        for number in self._blocks[block]:
            kind, value = LOGGED[self._log_names[number]]
            layout = crtp.LOG_TYPES[kind]
            v = value(reading)
            if layout in "fe":
                data += struct.pack("<" + layout, v)
            else:
                size = 8 * struct.calcsize(layout)
                low, high = (-(1 << size - 1), (1 << size - 1) - 1) if layout.islower() else (0, (1 << size) - 1)
                data += struct.pack("<" + layout, max(low, min(high, round(v))))
        self._put(crtp.LOG, crtp.LOG_DATA, data)

    # -- what arrives ------------------------------------------------------------------------------------------

    def _handle(self, packet: Packet) -> None:
        handlers = {
            crtp.LINK: self._on_link, crtp.PLATFORM: self._on_platform, crtp.LOG: self._on_log, crtp.PARAM: self._on_param,
            crtp.MEM: self._on_mem, crtp.COMMANDER: self._on_commander, crtp.GENERIC: self._on_generic,
            crtp.HIGH_LEVEL: self._on_high_level,
        }  # fmt: skip
        if packet.port in handlers:
            handlers[packet.port](packet)

    def _on_link(self, packet: Packet) -> None:
        if packet.channel == 1:  # source: who it is
            self._put(crtp.LINK, 1, b"Bitcraze Crazyflie".ljust(30, b"\0"))
        elif packet.channel == 0:  # echo
            self._put(crtp.LINK, 0, packet.data)

    def _on_platform(self, packet: Packet) -> None:
        if packet.channel == 0 and packet.data[0] == 1:  # arming
            if packet.data[1]:
                self.vehicle.arm(self.number)
            else:
                self.vehicle.disarm(self.number)
            self._put(crtp.PLATFORM, 0, packet.data[:2])
        elif packet.channel == 1:
            told = {0: bytes([PROTOCOL]), 1: FIRMWARE}.get(packet.data[0])
            if told is not None:
                self._put(crtp.PLATFORM, 1, packet.data[:1] + told)

    def _table(self, packet: Packet, names: list[str], kinds: list[int]) -> None:
        if packet.data[0] == crtp.GET_INFO:
            check = zlib.crc32("\n".join(f"{n} {k}" for n, k in zip(names, kinds, strict=True)).encode())
            self._put(packet.port, crtp.TOC, struct.pack("<BHI", crtp.GET_INFO, len(names), check) + b"\x10\x80")
        elif packet.data[0] == crtp.GET_ITEM:
            (number,) = (int(v) for v in crtp.unpack("H", packet.data[1:]))
            if number < len(names):
                group, name = names[number].split(".")
                item = bytes([kinds[number]]) + f"{group}\0{name}\0".encode()
                self._put(packet.port, crtp.TOC, packet.data[:3] + item)

    def _on_log(self, packet: Packet) -> None:
        if packet.channel == crtp.TOC:
            self._table(packet, self._log_names, [kind for kind, _ in LOGGED.values()])
        elif packet.channel == crtp.LOG_CONTROL:
            done = self._control_log(packet.data)
            self._put(crtp.LOG, crtp.LOG_CONTROL, packet.data[:2].ljust(2, b"\0") + bytes([done]))

    def _control_log(self, data: bytes) -> int:
        """Do it; 0 or an errno of the firmware."""
        no_such, too_big = 2, 7
        command = data[0]
        if command == crtp.RESET_BLOCKS:
            self._blocks, self._running = {}, {}
            return 0
        block = data[1]
        if command in (crtp.CREATE_BLOCK, crtp.APPEND_BLOCK):
            rows = [data[i : i + 3] for i in range(2, len(data) - 2, 3)]
            numbers = [row[1] | row[2] << 8 for row in rows]
            if any(n >= len(self._log_names) for n in numbers):
                return no_such
            if command == crtp.APPEND_BLOCK:
                if block not in self._blocks:
                    return no_such
                numbers = self._blocks[block] + numbers
            size = sum(struct.calcsize(crtp.LOG_TYPES[LOGGED[self._log_names[n]][0]]) for n in numbers)
            if size > 26:
                return too_big
            self._blocks[block] = numbers
        elif block not in self._blocks:
            return no_such
        elif command == crtp.START_BLOCK:
            self._running[block] = max(1, round(data[2] * 0.01 / self.vehicle.period))
        elif command == crtp.STOP_BLOCK:
            self._running.pop(block, None)
        elif command == crtp.DELETE_BLOCK:
            self._running.pop(block, None)
            del self._blocks[block]
        return 0

    def _on_param(self, packet: Packet) -> None:
        if packet.channel == crtp.TOC:
            self._table(packet, self._parameter_names, [kind for kind, _ in PARAMETERS.values()])
            return
        if packet.channel not in (1, 2):
            return
        (number,) = (int(v) for v in crtp.unpack("H", packet.data))
        name = self._parameter_names[number]
        layout = "<" + crtp.PARAM_TYPES[PARAMETERS[name][0]]
        if packet.channel == 2:
            (self._parameters[name],) = struct.unpack(layout, packet.data[2 : 2 + struct.calcsize(layout)])
        value = struct.pack(layout, self._parameters[name])
        self._put(crtp.PARAM, packet.channel, packet.data[:2] + b"\0" * (packet.channel == 1) + value)

    def _on_mem(self, packet: Packet) -> None:
        if packet.channel == 0 and packet.data[0] == 1:  # how many memories: none
            self._put(crtp.MEM, 0, bytes([1, 0]))

    # -- set-points --------------------------------------------------------------------------------------------

    def _set(self, kind: str, values: tuple[float, ...], hold: Callable[[Reading], None] | None = None) -> None:
        if not all(math.isfinite(v) for v in values):
            return
        self._hold = hold
        self.vehicle.arm(self.number)
        self.vehicle.setpoint(self.number, kind, values)
        self.vehicle.offboard(self.number)

    def _leaning(self, roll: float, pitch: float, yaw_rate: float, thrust: float, rate: bool) -> None:
        """rad or rad/s, with this package's signs; thrust of 0 to FULL."""
        share = 0.0 if thrust < 1000 else min(thrust, 60000.0) / crtp.FULL
        newton = 4.0 * crtp.thrust_of(share, self._curve)
        self._set("ctbr" if rate else "attitude", (roll, pitch, yaw_rate, newton))

    def _on_commander(self, packet: Packet) -> None:
        roll, pitch, yaw_rate, thrust = crtp.unpack("fffH", packet.data)
        if thrust == 0:
            self._unlocked = True
        if not self._unlocked:  # the firmware wants to see a thrust of 0 first
            return
        rate = self._parameters["flightmode.stabModeRoll"] == 0
        if thrust == 0 and not self.vehicle.armed(self.number):
            return
        # the packet's pitch and yaw rate have the other sign than turns about y to the left and z up
        self._leaning(math.radians(roll), -math.radians(pitch), -math.radians(yaw_rate), thrust, rate)

    def _on_generic(self, packet: Packet) -> None:
        if packet.channel == 1:  # no set-point is valid any more
            self._hold = None
            if self.vehicle.sense(self.number).landed:
                self.vehicle.hold(self.number)  # its motors stop
            return
        kind, data = packet.data[0], packet.data[1:]
        if kind == crtp.STOP:
            self._hold = None
            self.vehicle.disarm(self.number)
        elif kind == crtp.POSITION:
            x, y, z, yaw = crtp.unpack("ffff", data)
            self._set("position", (x, y, z, math.radians(yaw)))
        elif kind == crtp.VELOCITY_WORLD:
            vx, vy, vz, yaw_rate = crtp.unpack("ffff", data)
            self._set("velocity", (vx, vy, vz, math.radians(yaw_rate)))
        elif kind == crtp.MANUAL:
            roll, pitch, yaw_rate, thrust, rate = crtp.unpack("fffHB", data)
            self._leaning(math.radians(roll), -math.radians(pitch), math.radians(yaw_rate), thrust, bool(rate))
        elif kind == crtp.FULL_STATE:
            values = crtp.unpack("hhhhhhhhhI", data)
            yaw = euler(crtp.decompress(int(values[9])))[2]
            self._set("position", (*(v / 1e3 for v in values[:3]), yaw))
        elif kind in (crtp.Z_DISTANCE, crtp.HOVER):
            a, b, yaw_rate, height = crtp.unpack("ffff", data)
            self._at_height(kind, a, b, math.radians(yaw_rate), height)

    def _at_height(self, kind: int, a: float, b: float, yaw_rate: float, height: float) -> None:
        """Fly at a height: by roll and pitch, deg, or by velocities ahead and to the left, m/s."""

        def follow(reading: Reading) -> None:
            climb = HEIGHT_GAIN * (height - float(reading.values["position"][2]))
            if kind == crtp.HOVER:
                yaw = math.radians(_euler(reading)[2])
                vx = a * math.cos(yaw) - b * math.sin(yaw)
                vy = a * math.sin(yaw) + b * math.cos(yaw)
                self.vehicle.correct(self.number, "velocity", (vx, vy, climb, yaw_rate))
                return
            roll, pitch = math.radians(a), -math.radians(b)
            error = climb - float(reading.values["velocity"][2])
            newton = self._weight * (1.0 + THRUST_GAIN * error / GRAVITY) / max(0.3, math.cos(roll) * math.cos(pitch))
            self.vehicle.correct(self.number, "attitude", (roll, pitch, yaw_rate, max(0.0, newton)))

        if all(math.isfinite(v) for v in (a, b, yaw_rate, height)):
            self._set("velocity", (0.0, 0.0, 0.0, yaw_rate), follow)
            follow(self.vehicle.sense(self.number))

    def _on_high_level(self, packet: Packet) -> None:
        data = packet.data
        command = data[0]
        here = self.vehicle.truth(self.number)["position"]
        self._hold = None
        if command == crtp.TAKE_OFF_2:
            (height,) = crtp.unpack("f", data[2:])
            self.vehicle.arm(self.number)
            self._guide((float(here[0]), float(here[1]), height))
        elif command == crtp.LAND_2:
            self.vehicle.land(self.number)
        elif command in (crtp.GO_TO, crtp.GO_TO_2):
            relative = bool(data[2])
            x, y, z, yaw = crtp.unpack("ffff", data[3 + (command == crtp.GO_TO_2) :])
            base = np.asarray(here, float) if relative else np.zeros(3)
            self._guide((base[0] + x, base[1] + y, base[2] + z), None if relative else yaw)
        elif command == crtp.HIGH_STOP:
            self.vehicle.disarm(self.number)

    def _guide(self, place: tuple[float, ...], yaw: Any = None) -> None:
        if all(math.isfinite(v) for v in place):
            self.vehicle.guide(self.number, place, yaw)
