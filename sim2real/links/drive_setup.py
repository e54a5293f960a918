"""Setting up a servo drive on CANopen by its object dictionary: who it is, its units and limits, its PDOs, its watch over the
master."""

from __future__ import annotations

import math
import struct
from typing import Any

from rookery.sim.errors import RookeryError
from rookery.sim2real.links import cia402
from rookery.sim2real.links.cia402 import DriveUnits
from rookery.sim2real.links.drive_link import within

NO_OBJECT = (0x06020000, 0x06090011, 0x060A0023)
"""Abort codes of objects that a drive does not have."""
SYNCED = 1  # transmission type: at each SYNC
ANSWER_S = 1.0  # s, to wait for an answer: drives that store what they are told take longer than canopen's 0.3 s
TRIES = 3  # of a request: its frame or the answer's may be lost


class DriveSetup:
    """Speaks to one drive.

    Args:
        network: canopen's, connected.
        node: number of the drive.
        name: of what it drives, for people.
        url: of the link, for people.
    """

    def __init__(self, network: Any, node: int, name: str, url: str) -> None:
        import canopen

        self._error: type[Exception] = canopen.SdoCommunicationError
        self._abort: type[Exception] = canopen.SdoAbortedError
        self._sdo = network.add_node(canopen.RemoteNode(node, canopen.ObjectDictionary())).sdo
        self._sdo.RESPONSE_TIMEOUT = ANSWER_S
        self._sdo.MAX_RETRIES = TRIES
        self.node, self.name = node, name
        self._who = f"{url}: node {node} ({name})"

    def _refuse(self, why: str) -> RookeryError:
        return RookeryError(f"{self._who} {why}.")

    # -- objects -----------------------------------------------------------------------------------------------

    def read(self, index: int, subindex: int, kind: str, default: int | None = None) -> int:
        """An object's value, `default` where the drive does not have it.

        Raises:
            RookeryError: it does not answer, or something else, or has no such object.
        """
        try:
            data = self._sdo.upload(index, subindex)
        except self._abort as refusal:
            if default is not None and getattr(refusal, "code", 0) in NO_OBJECT:
                return default
            raise self._refuse(f"does not tell the object 0x{index:04X}:{subindex} ({refusal})") from None
        except self._error as error:
            raise self._refuse(f"does not answer ({error})") from None
        if len(data) != struct.calcsize(kind):
            raise self._refuse(f"tells 0x{index:04X}:{subindex} in {len(data)} bytes, and CiA 402 has other ones")
        return int(struct.unpack("<" + kind, data)[0])

    def write(self, index: int, subindex: int, kind: str, value: int, needed: bool = True) -> bool:
        """Set an object; False where the drive refuses and it is not needed.

        Raises:
            RookeryError: it does not answer, or refuses what is needed.
        """
        try:
            self._sdo.download(index, subindex, struct.pack("<" + kind, value))
        except self._abort as refusal:
            if needed:
                raise self._refuse(f"refuses {value} for the object 0x{index:04X}:{subindex} ({refusal})") from None
            return False
        except self._error as error:
            raise self._refuse(f"does not answer ({error})") from None
        return True

    # -- who it is ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse what is no drive, or cannot follow positions.

        Raises:
            RookeryError: saying why.
        """
        kind = self.read(cia402.DEVICE_TYPE, 0, "I")
        if kind & 0xFFFF != cia402.DRIVE_PROFILE:
            raise self._refuse(f"is no servo drive: its device profile is {kind & 0xFFFF}, and that of drives 402")
        modes = self.read(cia402.SUPPORTED_MODES, 0, "I")
        if not modes >> (cia402.CYCLIC_SYNCHRONOUS_POSITION - 1) & 1:
            raise self._refuse(
                "has no mode of cyclic synchronous positions (bit 7 of 0x6502), which this link commands"
            )

    def units(self) -> DriveUnits:
        """Its units and limits.

        Raises:
            RookeryError: they make no sense.
        """
        increments = self._ratio(cia402.ENCODER)
        gear = self._ratio(cia402.GEAR, default=1)
        position_code, velocity_code = (
            self.read(index, 0, "I", default=0) for index in (cia402.SI_POSITION, cia402.SI_VELOCITY)
        )
        try:
            position = cia402.position_scale(position_code, increments * gear)
            velocity = cia402.velocity_scale(velocity_code, increments * gear)
        except ValueError as error:
            raise self._refuse(f"has units that this link does not know ({error})") from None
        turns = gear  # rad of the motor per rad, or per m
        if cia402.unit(position_code)[0] == cia402.METERS:
            turns = gear * 2.0 * math.pi * position / self._ratio(cia402.FEED)
        lower, upper = (self.read(cia402.POSITION_LIMIT, k, "i") / position for k in (1, 2))
        speed = self.read(cia402.MAX_MOTOR_SPEED, 0, "I") * cia402.RPM / turns
        if not (lower < upper and speed > 0.0):
            raise self._refuse(
                f"has no limits that a joint can move in: {lower:.3g} to {upper:.3g} at {speed:.3g} a second"
            )
        torque = self.read(cia402.RATED_TORQUE, 0, "I") * 1e-6 * turns
        out = DriveUnits(position, velocity, torque, lower, upper, speed)
        at = self.position(out)
        if not within(at, lower, upper):
            raise self._refuse(f"is at {at:.3f}, outside of its own limits ({lower:.3f} to {upper:.3f})")
        return out

    def position(self, units: DriveUnits) -> float:
        """rad or m, its position now."""
        return self.read(cia402.POSITION, 0, "i") / units.position

    def _ratio(self, index: int, default: int | None = None) -> float:
        numerator, denominator = (self.read(index, k, "I", default) for k in (1, 2))
        if not numerator or not denominator:
            raise self._refuse(f"tells no ratio in the object 0x{index:04X}")
        return numerator / denominator

    # -- its PDOs and its watch --------------------------------------------------------------------------------

    def prepare(self, master: int, silence_ms: int, period_us: int) -> None:
        """Map its PDOs, choose its mode, and have it stop where the master is silent.

        Args:
            master: node number of the master, whose heartbeat it watches.
            silence_ms: ms without heartbeat or set-points.
            period_us: us between two targets.

        Raises:
            RookeryError: it refuses what is needed.
        """
        self._map(cia402.RPDO_SETTINGS, cia402.RPDO_MAPPING, cia402.RPDO[0] + self.node, cia402.TARGET_MAP, silence_ms)
        self._map(cia402.TPDO_SETTINGS, cia402.TPDO_MAPPING, cia402.TPDO[0] + self.node, cia402.MOTION_MAP)
        self._map(cia402.TPDO_SETTINGS + 1, cia402.TPDO_MAPPING + 1, cia402.TPDO[1] + self.node, cia402.SPEED_MAP)
        for k in range(1, 4):  # others would speak besides
            off = cia402.PDO_OFF
            self.write(cia402.RPDO_SETTINGS + k, 1, "I", off | (cia402.RPDO[k] + self.node), needed=False)
            if k > 1:
                self.write(cia402.TPDO_SETTINGS + k, 1, "I", off | (cia402.TPDO[k] + self.node), needed=False)
        self.write(cia402.MODE, 0, "b", cia402.CYCLIC_SYNCHRONOUS_POSITION)
        power = -4 if period_us % 1000 else -3
        self.write(cia402.INTERPOLATION_PERIOD, 2, "b", power, needed=power != -3)
        self.write(cia402.INTERPOLATION_PERIOD, 1, "B", round(period_us * 1e-6 / 10.0**power))
        self.write(cia402.ABORT_CONNECTION_OPTION, 0, "h", 1, needed=False)
        self.write(cia402.PRODUCER_HEARTBEAT, 0, "H", silence_ms // 2, needed=False)
        self.write(cia402.CONSUMER_HEARTBEAT, 1, "I", master << 16 | silence_ms)

    def _map(self, settings: int, maps: int, cob: int, entries: list[int], timer_ms: int | None = None) -> None:
        self.write(settings, 1, "I", cia402.PDO_OFF | cob)
        self.write(settings, 2, "B", SYNCED)
        if timer_ms is not None:
            self.write(settings, 5, "H", timer_ms, needed=False)
        self.write(maps, 0, "B", 0)
        for k, entry in enumerate(entries):
            self.write(maps, k + 1, "I", entry)
        self.write(maps, 0, "B", len(entries))
        self.write(settings, 1, "I", cob)
