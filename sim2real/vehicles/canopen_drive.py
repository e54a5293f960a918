"""A simulated servo drive as a node on CANopen: object dictionary, NMT, heartbeats, PDOs and emergencies (CiA 301) around an
axis by CiA 402.

Its PDOs carry what a master maps to them. Where the master's heartbeat or set-points that have a deadline stay away, or the
master takes it out of "operational", it does what its abort connection option says: a fault, unless told otherwise.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from rookery.sim2real.links import cia402
from rookery.sim2real.vehicles import sdo
from rookery.sim2real.vehicles.axis import Axis

Send = Callable[[int, bytes], None]
NO_HEARTBEAT, NO_SETPOINT = 0x8130, 0x8250
INCREMENTS, GEAR = 131072, 100  # per turn of the motor (17 bits), turns of it per turn of a joint: our choice
FEED = 0.01  # m per turn of a linear axis's motor, which has no gear: our choice
LONGEST_S = 0.1  # s between two targets
EVENT = 254  # transmission types from here on are not tied to SYNC
DEFAULT_MAPS = {
    cia402.RPDO_MAPPING: (
        ((cia402.CONTROLWORD, 16),),
        ((cia402.CONTROLWORD, 16), (cia402.MODE, 8)),
        ((cia402.CONTROLWORD, 16), (cia402.TARGET_POSITION, 32)),
        (),
    ),
    cia402.TPDO_MAPPING: (
        ((cia402.STATUSWORD, 16),),
        ((cia402.STATUSWORD, 16), (cia402.MODE_DISPLAY, 8)),
        ((cia402.STATUSWORD, 16), (cia402.POSITION, 32)),
        ((cia402.STATUSWORD, 16), (cia402.VELOCITY, 32)),
    ),
}  # fmt: skip
"""As CiA 402-3 has them."""
SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4}


@dataclass(frozen=True)
class CanObject:
    """An entry of the object dictionary.

    Args:
        kind: struct's letter; "s" for text.
        read: its value; None where it cannot be read.
        write: takes a value, and raises SdoAbort; None where it cannot be written.
        mappable: whether PDOs may carry it.
    """

    kind: str
    read: Callable[[], int | str] | None
    write: Callable[[int], None] | None = None
    mappable: bool = False


class Pdo:
    """One process data object.

    Args:
        cob: its COB-ID.
        kind: transmission type.
        entries: of its mapping.

    Attributes:
        objects: index, subindex and bytes of what it carries.
        size: bytes of a frame.
    """

    def __init__(self, cob: int, kind: int, entries: list[int]) -> None:
        self.cob, self.kind, self.timer_ms = cob, kind, 0
        self.entries = entries  # 8 places, of which `count` are used
        self.syncs = 0
        self.use(sum(entry != 0 for entry in entries))
        self.waiting: bytes | None = None
        self.last = b""
        self.stamp = -math.inf

    @property
    def on(self) -> bool:
        """True while it may be sent or taken."""
        return not self.cob & cia402.PDO_OFF and self.count > 0

    def use(self, count: int) -> None:
        """Carry the first `count` entries."""
        self.count = count
        self.objects = [(e >> 16, e >> 8 & 0xFF, (e & 0xFF) // 8) for e in self.entries[:count]]
        self.size = sum(size for _, _, size in self.objects)


class CanopenDrive:
    """See the module.

    Args:
        node: its number, 1 to 126.
        name: of the device, for people.
        axis: that it drives.
        encoder: position, velocity and torque of the axis now, SI.
        send: puts a frame on the bus.
        linear: whether the axis is in m, told in micrometers; joints are told in increments of the encoder.

    Attributes:
        state: of NMT.
    """

    def __init__(
        self, node: int, name: str, axis: Axis, encoder: Callable[[], tuple[float, float, float]], send: Send,
        linear: bool = False,
    ) -> None:  # fmt: skip
        self.node, self.axis = node, axis
        self._encoder, self._send, self._name = encoder, send, name
        self._prefix = 0xFA if linear else 0
        unit = cia402.METERS if linear else cia402.INCREMENTS
        si = self._prefix << 24 | unit << 16
        self._gear = 1 if linear else GEAR
        self._turns = 2.0 * math.pi / FEED if linear else float(GEAR)  # rad of the motor per m, or per rad
        self._scale = cia402.position_scale(si, INCREMENTS * GEAR)
        self._si = si, si | cia402.SECONDS << 8
        self._least_deceleration = self._units(axis.limits.deceleration)
        self._rated = max(1, round(1e3 * axis.limits.torque / self._turns))  # mN m of the motor
        self._quick_option = 2
        self.state = cia402.BOOT_STATE
        self._now = 0.0
        self._beat = -math.inf
        self._told = 0  # error code of the last emergency
        self._target: float | None = None
        self._master: float | None = None  # s, its last heartbeat
        self._targeted = False
        self._reset()
        self._sdo = sdo.SdoAnswers(self.read, self.write)

    def _reset(self) -> None:
        """Parameters of communication as when it is switched on."""
        self._consumer, self._master = 0, None
        self._producer_ms = 0
        self._abort_option = 1
        self._period_value, self._period_power = 4, -3
        self._make_pdos()
        self._objects = self._dictionary()

    # -- the object dictionary ---------------------------------------------------------------------------------

    def _make_pdos(self) -> None:
        self._pdos: dict[int, list[Pdo]] = {}
        for settings, maps, cobs in (
            (cia402.RPDO_SETTINGS, cia402.RPDO_MAPPING, cia402.RPDO), (cia402.TPDO_SETTINGS, cia402.TPDO_MAPPING, cia402.TPDO)
        ):  # fmt: skip
            self._pdos[settings] = [
                Pdo((cob + self.node) | (0 if entries else cia402.PDO_OFF), 255, [
                    *cia402.mapping(*entries), *[0] * (8 - len(entries))
                ]) for cob, entries in zip(cobs, DEFAULT_MAPS[maps], strict=True)
            ]  # fmt: skip
        self._received, self._sent = self._pdos[cia402.RPDO_SETTINGS], self._pdos[cia402.TPDO_SETTINGS]

    def _dictionary(self) -> dict[tuple[int, int], CanObject]:
        a, lim = self.axis, self.axis.limits
        out: dict[tuple[int, int], CanObject] = {
            (cia402.DEVICE_TYPE, 0): _fixed("I", 0x20000 | cia402.DRIVE_PROFILE),  # a servo drive
            (cia402.ERROR_REGISTER, 0): CanObject("B", lambda: int(a.error != 0)),
            (cia402.DEVICE_NAME, 0): CanObject("s", lambda: self._name),
            (cia402.CONSUMER_HEARTBEAT, 0): _fixed("B", 1),
            (cia402.CONSUMER_HEARTBEAT, 1): CanObject("I", lambda: self._consumer, self._set_consumer),
            (cia402.PRODUCER_HEARTBEAT, 0): self._own("H", "_producer_ms", 0, 0xFFFF),
            (cia402.IDENTITY, 0): _fixed("B", 4),
            **{(cia402.IDENTITY, k): _fixed("I", value) for k, value in ((1, 0), (2, 0x402), (3, 1), (4, self.node))},
            (cia402.ABORT_CONNECTION_OPTION, 0): self._own("h", "_abort_option", 0, 3),
            (cia402.ERROR_CODE, 0): CanObject("H", lambda: a.error, mappable=True),
            (cia402.CONTROLWORD, 0): CanObject("H", lambda: 0, self.axis.control, True),
            (cia402.STATUSWORD, 0): CanObject("H", lambda: a.status, mappable=True),
            (cia402.QUICK_STOP_OPTION, 0): CanObject("h", lambda: self._quick_option, self._set_quick_option),
            (cia402.MODE, 0): CanObject("b", lambda: a.mode, self._set_mode, True),
            (cia402.MODE_DISPLAY, 0): CanObject("b", lambda: a.mode, mappable=True),
            (cia402.POSITION_DEMAND, 0): CanObject("i", lambda: self._units(a.demand), mappable=True),
            (cia402.POSITION, 0): CanObject("i", lambda: self._units(self._encoder()[0]), mappable=True),
            (cia402.FOLLOWING_WINDOW, 0): CanObject(
                "I", lambda: 0xFFFFFFFF if math.isinf(lim.window) else self._units(lim.window), self._set_window
            ),
            (cia402.FOLLOWING_TIMEOUT, 0): CanObject(
                "H", lambda: round(1e3 * lim.patience), lambda v: setattr(lim, "patience", v / 1e3)
            ),
            (cia402.VELOCITY, 0): CanObject("i", lambda: self._units(self._encoder()[1]), mappable=True),
            (cia402.MAX_TORQUE, 0): CanObject("H", lambda: round(1e3 * a.share), self._set_torque, True),
            (cia402.RATED_TORQUE, 0): _fixed("I", self._rated),
            (cia402.TORQUE, 0): CanObject("h", self._thousandths, mappable=True),
            (cia402.TARGET_POSITION, 0): CanObject(
                "i", lambda: self._units(a.demand if self._target is None else self._target), self._set_target, True
            ),
            (cia402.POSITION_LIMIT, 0): _fixed("B", 2),
            (cia402.POSITION_LIMIT, 1): _fixed("i", self._units(lim.lower)),
            (cia402.POSITION_LIMIT, 2): _fixed("i", self._units(lim.upper)),
            (cia402.MAX_MOTOR_SPEED, 0): _fixed("I", round(lim.speed * self._turns / cia402.RPM)),
            (cia402.QUICK_STOP_DECELERATION, 0): CanObject(
                "I", lambda: self._units(lim.deceleration), self._set_deceleration
            ),
            (cia402.SI_POSITION, 0): _fixed("I", self._si[0]),
            (cia402.SI_VELOCITY, 0): _fixed("I", self._si[1]),
            (cia402.INTERPOLATION_PERIOD, 0): _fixed("B", 2),
            (cia402.INTERPOLATION_PERIOD, 1): self._own("B", "_period_value", 1, 255),
            (cia402.INTERPOLATION_PERIOD, 2): self._own("b", "_period_power", -6, 0),
            (cia402.SUPPORTED_MODES, 0): _fixed("I", 1 << cia402.CYCLIC_SYNCHRONOUS_POSITION - 1),
        }  # fmt: skip
        for index, values in (
            (cia402.ENCODER, (INCREMENTS, 1)), (cia402.GEAR, (self._gear, 1)),
            (cia402.FEED, (self._units(FEED) if self._prefix else self._units(2.0 * math.pi), 1)),
        ):  # fmt: skip
            out |= {(index, 0): _fixed("B", 2), **{(index, k + 1): _fixed("I", v) for k, v in enumerate(values)}}
        for settings, maps in (
            (cia402.RPDO_SETTINGS, cia402.RPDO_MAPPING), (cia402.TPDO_SETTINGS, cia402.TPDO_MAPPING)
        ):  # fmt: skip
            for k, pdo in enumerate(self._pdos[settings]):
                out |= self._pdo_objects(settings + k, maps + k, pdo)
        return out

    def _pdo_objects(self, settings: int, maps: int, pdo: Pdo) -> dict[tuple[int, int], CanObject]:
        def set_cob(value: int) -> None:
            if not value & cia402.PDO_OFF and not 0x180 <= value & 0x7FF < 0x600:
                raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
            pdo.cob = value & ~(1 << 30)  # whether remote frames may ask for it
            pdo.waiting = None
            pdo.stamp = -math.inf

        def set_kind(value: int) -> None:
            if 240 < value < EVENT:
                raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
            pdo.kind = value

        out = {
            (settings, 0): _fixed("B", 5),
            (settings, 1): CanObject("I", lambda: pdo.cob, set_cob),
            (settings, 2): CanObject("B", lambda: pdo.kind, set_kind),
            (settings, 5): CanObject("H", lambda: pdo.timer_ms, lambda v: setattr(pdo, "timer_ms", v)),
            (maps, 0): CanObject("B", lambda: pdo.count, lambda v: self._set_count(pdo, v)),
        }
        for place in range(8):
            out[maps, place + 1] = self._entry(pdo, place)
        return out

    def _entry(self, pdo: Pdo, place: int) -> CanObject:
        return CanObject("I", lambda: pdo.entries[place], lambda v: self._set_entry(pdo, place, v))

    def _set_entry(self, pdo: Pdo, place: int, value: int) -> None:
        if pdo.count or pdo.on:
            raise sdo.SdoAbort(sdo.UNSUPPORTED)
        found = self._objects.get((value >> 16, value >> 8 & 0xFF))
        receives = pdo in self._received
        usable = found is not None and found.mappable and (found.write if receives else found.read) is not None
        if not usable or found is None or SIZES[found.kind] * 8 != value & 0xFF:
            raise sdo.SdoAbort(sdo.NOT_MAPPABLE)
        pdo.entries[place] = value

    def _set_count(self, pdo: Pdo, value: int) -> None:
        if not pdo.cob & cia402.PDO_OFF:
            raise sdo.SdoAbort(sdo.UNSUPPORTED)
        if value > 8 or any(entry == 0 for entry in pdo.entries[:value]):
            raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
        if sum(entry & 0xFF for entry in pdo.entries[:value]) > 64:
            raise sdo.SdoAbort(sdo.TOO_LONG)
        pdo.use(value)

    def _own(self, kind: str, name: str, low: int, high: int) -> CanObject:
        """A parameter that is kept in an attribute."""

        def write(value: int) -> None:
            if not low <= value <= high:
                raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
            setattr(self, name, value)

        return CanObject(kind, lambda: int(getattr(self, name)), write)

    # -- values ------------------------------------------------------------------------------------------------

    def _units(self, value: float) -> int:
        return max(-(1 << 31), min((1 << 31) - 1, round(value * self._scale)))

    def _thousandths(self) -> int:
        return max(-32768, min(32767, round(1e6 * self._encoder()[2] / self._turns / self._rated)))

    def _set_consumer(self, value: int) -> None:
        if not value & 0xFFFF or not 0 < value >> 16 & 0xFF < 128:
            value = 0
        self._consumer, self._master = value, None

    def _set_quick_option(self, value: int) -> None:
        if value not in (2, 6):
            raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
        self._quick_option, self.axis.stays = value, value == 6

    def _set_mode(self, value: int) -> None:
        if value not in (0, cia402.CYCLIC_SYNCHRONOUS_POSITION):
            raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
        self.axis.mode = value

    def _set_window(self, value: int) -> None:
        self.axis.limits.window = math.inf if value == 0xFFFFFFFF else value / self._scale

    def _set_torque(self, value: int) -> None:
        if value > 1000:
            raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
        self.axis.share = value / 1e3

    def _set_deceleration(self, value: int) -> None:
        if value < self._least_deceleration:  # braking would end far behind the limits
            raise sdo.SdoAbort(sdo.OUT_OF_RANGE)
        self.axis.limits.deceleration = value / self._scale

    def _set_target(self, value: int) -> None:
        self._target, self._targeted = value / self._scale, True

    def read(self, index: int, subindex: int) -> bytes:
        """The bytes of an object.

        Raises:
            SdoAbort: there is none, or it cannot be read.
        """
        found = self._find(index, subindex)
        if found.read is None:
            raise sdo.SdoAbort(sdo.WRITE_ONLY)
        value = found.read()
        return value.encode() if isinstance(value, str) else struct.pack("<" + found.kind, value)

    def write(self, index: int, subindex: int, data: bytes) -> None:
        """Take the bytes for an object.

        Raises:
            SdoAbort: there is none, it cannot be written, or the value is none of its.
        """
        found = self._find(index, subindex)
        if found.write is None:
            raise sdo.SdoAbort(sdo.READ_ONLY)
        if len(data) != SIZES[found.kind]:
            raise sdo.SdoAbort(sdo.WRONG_LENGTH)
        found.write(struct.unpack("<" + found.kind, data)[0])
        self._apply()

    def _find(self, index: int, subindex: int) -> CanObject:
        found = self._objects.get((index, subindex))
        if found is None:
            raise sdo.SdoAbort(sdo.NO_SUBINDEX if (index, 0) in self._objects else sdo.NO_OBJECT)
        return found

    # -- the bus -----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Begin: tell that it is there, and wait for the master."""
        self.axis.abort_connection(self._abort_option, NO_HEARTBEAT)
        self.state = cia402.PRE_OPERATIONAL_STATE
        self._reset()
        self._send(cia402.HEARTBEAT_OF + self.node, bytes([cia402.BOOT_STATE]))

    def on_nmt(self, data: bytes) -> None:
        """A command of the NMT master."""
        if len(data) != 2 or data[1] not in (0, self.node):
            return
        command = data[0]
        if command in (cia402.RESET, cia402.RESET_COMMUNICATION):
            self.boot()
            return
        states = {
            cia402.START: cia402.OPERATIONAL_STATE, cia402.STOP: cia402.STOPPED_STATE,
            cia402.PRE_OPERATIONAL: cia402.PRE_OPERATIONAL_STATE,
        }  # fmt: skip
        if command not in states:
            return
        if self.state == cia402.OPERATIONAL_STATE != states[command]:
            self.axis.abort_connection(self._abort_option, NO_HEARTBEAT)
        self.state = states[command]
        for pdo in (*self._received, *self._sent):
            pdo.waiting, pdo.last, pdo.stamp = None, b"", -math.inf

    def on_frame(self, cob: int, data: bytes) -> None:
        """A frame that is not NMT's nor SYNC."""
        if cob == cia402.SDO_REQUEST + self.node:
            if self.state != cia402.STOPPED_STATE and (answer := self._sdo.answer(data)) is not None:
                self._send(cia402.SDO_ANSWER + self.node, answer)
        elif cob == cia402.HEARTBEAT_OF + (self._consumer >> 16 & 0x7F) and self._consumer and len(data) == 1:
            self._master = self._now
        elif self.state == cia402.OPERATIONAL_STATE:
            for pdo in self._received:
                if pdo.on and pdo.cob == cob:
                    self._take(pdo, data)

    def _take(self, pdo: Pdo, data: bytes) -> None:
        if len(data) < pdo.size:
            return
        pdo.stamp = self._now
        if pdo.kind >= EVENT:
            self._unpack(pdo, data)
        else:
            pdo.waiting = data

    def _unpack(self, pdo: Pdo, data: bytes) -> None:
        at = 0
        for index, subindex, size in pdo.objects:
            found = self._objects[index, subindex]
            assert found.write is not None
            with contextlib.suppress(sdo.SdoAbort):  # a value that it does not take over SDO either
                found.write(struct.unpack_from("<" + found.kind, data, at)[0])
            at += size
        self._apply()

    def _apply(self) -> None:
        """After the words of a frame: the target counts once the state does."""
        if self._targeted and self._target is not None:
            self.axis.take(self._target, min(LONGEST_S, self._period_value * 10.0**self._period_power))
        self._targeted = False

    def on_sync(self) -> None:
        """Take the targets that wait for it, and tell what is measured now."""
        if self.state != cia402.OPERATIONAL_STATE:
            return
        for pdo in self._received:
            if pdo.waiting is not None:
                self._unpack(pdo, pdo.waiting)
                pdo.waiting = None
        for pdo in self._sent:
            if pdo.on and 0 < pdo.kind < EVENT:
                pdo.syncs += 1
                if pdo.syncs % pdo.kind == 0:
                    self._tell(pdo, self._pack(pdo))

    def _pack(self, pdo: Pdo) -> bytes:
        return b"".join(self.read(index, subindex) for index, subindex, _ in pdo.objects)

    def _tell(self, pdo: Pdo, data: bytes) -> None:
        pdo.last, pdo.stamp = data, self._now
        self._send(pdo.cob & 0x7FF, data)

    def tick(self, now: float) -> None:
        """After a step of the axis: measure, tell faults, heartbeats and events, and judge the master's silence."""
        self._now = now
        if self.axis.error != self._told:
            self._told = self.axis.error
            self._send(cia402.EMERGENCY + self.node, struct.pack("<HB5x", self._told, self._told != 0))
        if self._producer_ms and now - self._beat >= self._producer_ms / 1e3 - 1e-9:
            self._beat = now
            self._send(cia402.HEARTBEAT_OF + self.node, bytes([self.state]))
        if self._master is not None and now - self._master > (self._consumer & 0xFFFF) / 1e3:
            self._master = None
            self.axis.abort_connection(self._abort_option, NO_HEARTBEAT)
        if self.state != cia402.OPERATIONAL_STATE:
            return
        for pdo in self._received:
            heard = pdo.on and math.isfinite(pdo.stamp)
            if heard and 0.0 < pdo.timer_ms / 1e3 < now - pdo.stamp:
                pdo.stamp = -math.inf
                self.axis.abort_connection(self._abort_option, NO_SETPOINT)
        for pdo in self._sent:
            if pdo.on and pdo.kind >= EVENT:
                self._event(pdo)

    def _event(self, pdo: Pdo) -> None:
        """Tell what is not tied to SYNC, where its timer has run out or the statusword has changed."""
        data = self._pack(pdo)
        due = pdo.timer_ms and self._now - pdo.stamp >= pdo.timer_ms / 1e3 - 1e-9
        if due or data[:2] != pdo.last[:2]:
            self._tell(pdo, data)


def _fixed(kind: str, value: int) -> CanObject:
    return CanObject(kind, lambda: value)
