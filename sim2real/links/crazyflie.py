"""``crazyflie://HOST:PORT``: Crazyflies over CRTP, by UDP; ``crazyflie://radio/0/80/2M/E7E7E7E7E7`` by cflib's radio driver.

Reads the compressed state (``stateEstimateZ``: position, velocity, attitude and rates in one packet) at 100 Hz, and flies by
body rates and thrust (``flightmode.stabMode*`` = rate), by velocity or by position. The firmware levels and stops by itself
where set-points stop (COMMANDER_WDT_TIMEOUT_*). Its thrust is a share of the motors' full command, to which the contract's
thrust curve leads.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import crtp
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.crtp import Packet
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading

KINDS = ("ctbr", "velocity", "position")
QUANTITIES = ("position", "velocity", "rotation", "angular velocity")
STATE = ("x", "y", "z", "vx", "vy", "vz", "quat", "rateRoll", "ratePitch", "rateYaw")
STATE_BLOCK, STATUS_BLOCK = 1, 2
PER_PACKET = 9  # variables of a log block that fit into one packet
TRIES, REPLY_S = 5, 0.3
LOWEST_THRUST, HIGHEST_THRUST = 1000, 60000  # of a set-point that the firmware takes as such
ARMED, FLYING, TUMBLED = 1 << 1, 1 << 4, 1 << 5  # of supervisor.info
AGAIN_S = 0.1  # s, between requests that are not yet carried out
UNLOCKS = 5  # set-points without thrust, the first of which to arrive unlocks the thrust: nothing tells whether one has
BELOW_M, STILL_M_S, STANDS_S = 0.3, 0.1, 0.5
"""A Crazyflie that is asked to go so far down and moves slower for so long stands on something."""
MOST_REPLIES = 256  # that are kept for whoever asked


class CrazyflieLink(Link):
    """See the module.

    Args:
        address: of the vehicle.
        group: of the contract, for the thrust curve.
        clock: of the runtime.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow()
        self.url = address.url
        self._address = address
        self._clock = clock
        multirotor = None if group.actuation is None else group.actuation.multirotor
        if multirotor is None:
            raise RookeryError("crazyflie:// flies multirotors, and the contract is for another robot.")
        self._curve = multirotor.thrust_curve
        self._wire: _Udp | _Radio | None = None
        self._over = threading.Event()
        self._replies: dict[tuple[int, int, bytes], bytes] = {}
        self._arrived = threading.Condition()
        self._reading: Reading | None = None
        self._status: tuple[int, float] | None = None
        self._milliseconds = 0
        self._turns = 0
        self._asked: dict[str, float] = {}
        self._sent = False
        self._resting: float | None = None  # s, since when it stays where it is though it is asked to go down
        self._stands = False

    # -- opening -----------------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 10.0) -> Identity:
        self._wire = _Radio(self._address) if self._address.host == "radio" else _Udp(self._address)
        threading.Thread(target=self._receive, name="rookery-crtp", daemon=True).start()
        try:
            self._open(time.monotonic() + timeout_s)
        except RookeryError:
            self.close()
            raise
        name = self._wire.name
        return Identity("multirotor", f"Crazyflie at {name}", KINDS, QUANTITIES, 500.0, firmware=self._firmware())

    def _open(self, end: float) -> None:
        self._send(crtp.LINK, 1, b"\x00")
        source = self._ask(crtp.LINK, 1, b"\x00", b"", "no Crazyflie answers there")
        if not source.startswith(b"Bitcraze Crazyflie"):
            raise RookeryError(f"{self.url}: what answers there is no Crazyflie.")
        log = self._table(crtp.LOG, end)
        parameters = self._table(crtp.PARAM, end)
        self._log(log)
        for axis in ("Roll", "Pitch", "Yaw"):
            self._set(parameters, f"flightmode.stabMode{axis}", 0)
        while self._reading is None or self._status is None:
            if time.monotonic() > end:
                raise RookeryError(f"{self.url}: the vehicle answers, and sends no state estimate.")
            time.sleep(0.01)

    def _firmware(self) -> str:
        with contextlib.suppress(RookeryError):
            return self._ask(crtp.PLATFORM, 1, b"\x01", b"\x01", "").split(b"\0")[0].decode("ascii", "replace")
        return ""

    def _table(self, port: int, end: float) -> dict[str, tuple[int, int]]:
        """Number and type of each variable by its name."""
        info = self._ask(
            port, crtp.TOC, bytes([crtp.GET_INFO]), bytes([crtp.GET_INFO]), "the vehicle tells no variables"
        )
        (count,) = self._numbers("H", info)
        out = {}
        for i in range(int(count)):
            if time.monotonic() > end + 20.0:
                raise RookeryError(f"{self.url}: reading the {int(count)} variables of the vehicle takes too long.")
            ask = struct.pack("<BH", crtp.GET_ITEM, i)
            item = self._ask(port, crtp.TOC, ask, ask, "the vehicle stopped to tell its variables")
            names = item[1:].split(b"\0")
            if len(names) >= 2:
                out[f"{names[0].decode('ascii', 'replace')}.{names[1].decode('ascii', 'replace')}"] = (i, item[0])
        return out

    def _numbers(self, layout: str, data: bytes) -> tuple[float, ...]:
        try:
            return crtp.unpack(layout, data)
        except ValueError as error:
            raise RookeryError(f"{self.url}: the vehicle answers in another form than CRTP's ({error}).") from None

    def _log(self, table: dict[str, tuple[int, int]]) -> None:
        """Two blocks: the state every 10 ms, battery and status every 100 ms."""
        self._ask(
            crtp.LOG,
            crtp.LOG_CONTROL,
            bytes([crtp.RESET_BLOCKS]),
            bytes([crtp.RESET_BLOCKS]),
            "its log cannot be reset",
        )
        blocks = {
            STATE_BLOCK: ([f"stateEstimateZ.{name}" for name in STATE], 1),
            STATUS_BLOCK: (["supervisor.info", "pm.batteryLevel"], 10),
        }
        for block, (names, period) in blocks.items():
            variables = []
            for name in names:
                if name not in table:
                    raise RookeryError(f"{self.url}: the vehicle's firmware has no log variable {name}: upgrade it.")
                number, kind = table[name]
                variables.append(struct.pack("<BH", kind & 0x0F, number))
            for first in range(0, len(variables), PER_PACKET):
                start = bytes([crtp.CREATE_BLOCK if first == 0 else crtp.APPEND_BLOCK, block])
                some = b"".join(variables[first : first + PER_PACKET])
                self._ask(crtp.LOG, crtp.LOG_CONTROL, start + some, start, f"it cannot log {names[first]}")
            begin = bytes([crtp.START_BLOCK, block])
            self._ask(crtp.LOG, crtp.LOG_CONTROL, begin + bytes([period]), begin, f"it cannot log {names[0]}")

    def _set(self, table: dict[str, tuple[int, int]], name: str, value: float) -> None:
        if name not in table:
            raise RookeryError(f"{self.url}: the vehicle's firmware has no parameter {name}: upgrade it.")
        number, kind = table[name]
        data = struct.pack("<H" + crtp.PARAM_TYPES.get(kind & 0x0F, "B"), number, value)
        self._ask(crtp.PARAM, 2, data, data[:2], f"it does not take {name}")

    # -- packets -----------------------------------------------------------------------------------------------

    def _send(self, port: int, channel: int, data: bytes) -> None:
        if self._wire is not None and not self._over.is_set():
            self._wire.send(Packet(port, channel, data).pack())

    def _ask(self, port: int, channel: int, data: bytes, begins: bytes, otherwise: str) -> bytes:
        """The reply after `begins`; asked again where none comes."""
        key = (port, channel, begins)
        for _ in range(TRIES):
            with self._arrived:
                self._replies.pop(key, None)
            self._send(port, channel, data)
            with self._arrived:
                if self._arrived.wait_for(lambda: self._match(port, channel, begins) is not None, REPLY_S):
                    reply = self._match(port, channel, begins)
                    assert reply is not None
                    return reply
        raise RookeryError(f"{self.url}: {otherwise} ({TRIES * REPLY_S:g} s waited).")

    def _match(self, port: int, channel: int, begins: bytes) -> bytes | None:
        for (p, c, _), data in self._replies.items():
            if (p, c) == (port, channel) and data.startswith(begins):
                return data[len(begins) :]
        return None

    def _receive(self) -> None:
        assert self._wire is not None
        while not self._over.is_set():
            self.take_packet(self._wire.receive())

    def take_packet(self, wire: bytes) -> None:
        """Take what has arrived, whatever it is."""
        packet = crtp.parse(wire)
        if packet is None:
            return
        self.heard = self._clock.now()
        if (packet.port, packet.channel) == (crtp.LOG, crtp.LOG_DATA):
            with contextlib.suppress(ValueError):  # shorter than its block
                self._logged(packet.data)
            return
        with self._arrived:
            if len(self._replies) >= MOST_REPLIES:  # nobody asked for them
                self._replies.clear()
            self._replies[packet.port, packet.channel, packet.data[:3]] = packet.data
            self._arrived.notify_all()

    def _logged(self, data: bytes) -> None:
        block, low, middle, high = crtp.unpack("BBBB", data)
        stamp = self._stamp(int(low) | int(middle) << 8 | int(high) << 16)
        if block == STATUS_BLOCK:
            info, level = crtp.unpack("HB", data[4:])
            self._status = int(info), level / 100.0
            return
        if block != STATE_BLOCK:
            return
        x, y, z, vx, vy, vz, quat, roll, pitch, yaw = crtp.unpack("hhhhhhIhhh", data[4:])
        info, battery = (0, None) if self._status is None else self._status
        values = {
            "position": np.array([x, y, z], np.float32) / 1e3,
            "velocity": np.array([vx, vy, vz], np.float32) / 1e3,
            "rotation": crtp.decompress(int(quat)),
            # the firmware's pitch has the other sign than a turn about y to the left
            "angular velocity": np.array([roll, -pitch, yaw], np.float32) / 1e3,
        }
        self._reading = Reading(
            self._clock.now(), stamp, values, battery=battery, armed=bool(info & ARMED),
            landed=None if self._status is None else not info & FLYING, mode="tumbled" if info & TUMBLED else "",
        )  # fmt: skip

    def _stamp(self, milliseconds: int) -> float:
        """s, of a clock of 24 bits that turns over every 4.7 hours."""
        if milliseconds < self._milliseconds - (1 << 23):
            self._turns += 1
        self._milliseconds = milliseconds
        return (milliseconds + (self._turns << 24)) / 1e3

    def read(self) -> Reading | None:
        return self._reading

    # -- commands ----------------------------------------------------------------------------------------------

    def arm(self) -> None:
        self._stands = False
        self._send(crtp.PLATFORM, 0, bytes([1, 1]))
        for _ in range(UNLOCKS):
            self._send(crtp.COMMANDER, 0, struct.pack("<fffH", 0.0, 0.0, 0.0, 0))

    def disarm(self) -> None:
        if self._due("disarm"):
            self._send(crtp.GENERIC, 0, bytes([crtp.STOP]))
            self._send(crtp.PLATFORM, 0, bytes([1, 0]))

    def engage(self) -> None:
        """Nothing to ask: a Crazyflie follows whoever sends set-points."""

    @property
    def engaged(self) -> bool:
        return self._sent

    def _due(self, what: str) -> bool:
        now = self._clock.now()
        if now - self._asked.get(what, -math.inf) < AGAIN_S:
            return False
        self._asked[what] = now
        return True

    def write(self, kind: str, command: ArrayLike) -> None:
        values = np.asarray(command, float).tolist()
        self._sent = True
        if kind == "ctbr":
            roll, pitch, yaw = (math.degrees(v) for v in values[:3])
            share = crtp.motor_share(values[3] / 4.0, self._curve)
            thrust = min(max(round(crtp.FULL * share), LOWEST_THRUST), HIGHEST_THRUST)
            self._send(crtp.COMMANDER, 0, struct.pack("<fffH", roll, -pitch, -yaw, thrust))
        elif kind == "velocity":
            data = struct.pack("<Bffff", crtp.VELOCITY_WORLD, *values[:3], math.degrees(values[3]))
            self._send(crtp.GENERIC, 0, data)
        else:
            self._send(crtp.GENERIC, 0, struct.pack("<Bffff", crtp.POSITION, *values[:3], math.degrees(values[3])))

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        x, y, z = np.asarray(position, float).tolist()
        self._stands = self._stands or self._rests(z)
        if not self._stands:
            self.write("position", [x, y, z, yaw])
        elif self._due("relax"):  # its motors turn, so that it says it flies, until no set-point is valid any more
            self._relax()

    def _rests(self, height: float) -> bool:
        """True where it has been asked to go down to a height, m, and does not."""
        now, reading = self._clock.now(), self._reading
        rests = (
            reading is not None
            and height < float(reading.values["position"][2]) - BELOW_M
            and float(np.linalg.norm(reading.values["velocity"])) < STILL_M_S
        )
        if not rests:
            self._resting = None
        elif self._resting is None:
            self._resting = now
        return self._resting is not None and now - self._resting >= STANDS_S

    def _relax(self) -> None:
        """Leave it to the high-level commander, which stops the motors where nobody asks it for a flight."""
        self._send(crtp.GENERIC, 1, struct.pack("<BI", 0, 0))

    def react(self, reaction: str) -> None:
        if reaction == "stop":
            self.disarm()
        elif self._due("land"):
            self._relax()
            self._send(crtp.HIGH_LEVEL, 0, struct.pack("<BBff?f", crtp.LAND_2, 0, 0.0, 0.0, True, 2.0))

    def close(self) -> None:
        self._over.set()
        if self._wire is not None:
            self._wire.close()


class _Udp:
    """A packet a datagram."""

    def __init__(self, address: Address) -> None:
        self._to = address.host or "127.0.0.1", address.port or crtp.PORT
        self.name = f"{self._to[0]}:{self._to[1]}"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(0.1)
        try:
            self._socket.connect(self._to)
        except OSError as error:
            raise RookeryError(f"{address.url}: {error.strerror or error}.") from error

    def send(self, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody listens: its silence is what the filter judges
            self._socket.send(packet)

    def receive(self) -> bytes:
        try:
            return self._socket.recv(1024)
        except (TimeoutError, ConnectionError):
            return b""
        except OSError:
            time.sleep(0.01)
            return b""

    def close(self) -> None:
        self._socket.close()


class _Radio:
    """The Crazyradio, through cflib's driver. Not tried on hardware."""

    def __init__(self, address: Address) -> None:
        try:
            import cflib.crtp
        except ImportError:
            raise RookeryError("a Crazyradio needs cflib, which is under the GPL: pip install cflib.") from None
        cflib.crtp.init_drivers()
        self.name = f"radio://{address.path}"
        try:
            self._driver: Any = cflib.crtp.get_link_driver(self.name, None, lambda message: None)
        except Exception:  # its errors share no base class
            self._driver = None
        if self._driver is None:
            raise RookeryError(f"{address.url}: there is no Crazyradio, or {self.name} is none of its addresses.")
        from cflib.crtp.crtpstack import CRTPPacket

        self._packet: Any = CRTPPacket

    def send(self, packet: bytes) -> None:
        made = self._packet()
        made.set_header(packet[0] >> 4, packet[0] & 3)
        made.data = packet[1:]
        self._driver.send_packet(made)

    def receive(self) -> bytes:
        packet = self._driver.receive_packet(0.1)
        return b"" if packet is None else bytes([packet.header, *packet.data])

    def close(self) -> None:
        self._driver.close()
