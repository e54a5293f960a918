"""Arms with a servo drive for each joint on a CAN bus, by CiA 402: ``canopen://can0?nodes=1-7&gripper=8&tracker=PORT``.

The link's thread is the bus's master: at each SYNC it sends every drive its controlword and its position, and takes what the
drives measured at the one before. Where the whole program is gone the drives stop by themselves, by its heartbeat and by the
deadline of set-points.
"""

from __future__ import annotations

import logging
import struct
import time
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import cia402
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.can_bus import BITRATE, open_bus
from rookery.sim2real.links.cia402 import DriveUnits
from rookery.sim2real.links.drive_link import ARMING, MOVING, OFF, QUICK, STOPPING, DriveLink
from rookery.sim2real.links.drive_setup import DriveSetup
from rookery.sim2real.runtime.clock import TimeSource

MASTER = 127
BEAT_S = 0.02  # s between two heartbeats
OTHERS_S = 0.15  # s, to listen for another master
MOST = 256  # frames that are taken in a cycle


class CanopenLink(DriveLink):
    """See the module.

    Args:
        address: of the bus: an interface or a multicast group. Options: those of DriveLink; `nodes`, of the joints in the
            contract's order; `sync`, ms between two SYNCs; `bus`, python-can's name of another kind of adapter, and its
            `bitrate`.
        group: of the contract.
        clock: of the runtime.

    Raises:
        RookeryError: an option is wrong, or the contract's commands lead to no joint positions.
    """

    name = "CiA 402 drives"

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("nodes", "gripper", "tracker", "sync", "hold", "bus", "bitrate")
        if not address.host or address.path:
            raise RookeryError(f"{address.url} must name a CAN bus: write canopen://can0, or the address of a group.")
        period = address.option("sync", 4) / 1e3
        if not (0.001 <= period <= 0.025 and abs(period * 1e4 - round(period * 1e4)) < 1e-6):
            raise RookeryError(f"sync must be from 1 to 25 ms, in steps of 0.1, in {address.url}.")
        super().__init__(address, group, clock, period, address.options.get("nodes", ""), MASTER - 1)
        n = len(self._ids)
        self._units: list[DriveUnits] = []
        self._bus: Any = None
        self._state = [""] * n
        self._error = [0] * n
        self._words = [0] * n
        self._stamps = np.full((2, n), -np.inf)  # of the two PDOs of each drive
        self._beaten = -np.inf

    # -- who is there ------------------------------------------------------------------------------------------

    def _connect(self) -> list[float]:
        a = self._address
        self._bus = open_bus(a.host, a.port, a.options.get("bus", ""), a.whole("bitrate", BITRATE, 8_000_000))
        self._listen()
        self._set_up()
        self._ranges = [(u.lower, u.upper) for u in self._units]
        return [u.speed for u in self._units[: len(self.drive.names)]]

    def _listen(self) -> None:
        """Refuse a bus that has a master."""
        end = time.monotonic() + OTHERS_S
        targets = {cia402.RPDO[0] + node for node in self._ids}
        while (left := end - time.monotonic()) > 0.0:
            message = self._bus.recv(left)
            if message is not None and message.arbitration_id in {cia402.SYNC, cia402.HEARTBEAT_OF + MASTER, *targets}:
                raise RookeryError(
                    f"{self.url}: another master speaks on this bus (COB-ID 0x{message.arbitration_id:X}): end that program "
                    "first."
                )

    def _set_up(self) -> None:
        """Ask and configure every drive."""
        import canopen

        logging.getLogger("canopen").setLevel(logging.CRITICAL)  # it prints each try; the last one is told in our words
        network = canopen.Network(self._bus)
        network.NOTIFIER_CYCLE = 0.02  # s, that its thread goes on after it is stopped
        network.connect()
        try:
            drives = [DriveSetup(network, node, self._names[i], self.url) for i, node in enumerate(self._ids)]
            for drive in drives:
                drive.check()
            self._units = [drive.units() for drive in drives]
            for drive in drives:
                network.send_message(cia402.NMT, bytes([cia402.PRE_OPERATIONAL, drive.node]))
                drive.prepare(MASTER, round(1e3 * self._hold), round(1e6 * self._period))
                network.send_message(cia402.NMT, bytes([cia402.START, drive.node]))
        finally:
            if network.notifier is not None:
                network.notifier.stop()

    # -- the thread --------------------------------------------------------------------------------------------

    def _receive(self, now: float) -> None:
        import can

        for _ in range(MOST):
            try:
                message = self._bus.recv(0)
            except can.CanError:
                continue  # what came was no frame
            if message is None:
                return
            if not (message.is_error_frame or message.is_remote_frame or message.is_extended_id):
                self.take_frame(message.arbitration_id, bytes(message.data), now)

    def take_frame(self, cob: int, data: bytes, now: float) -> None:
        """Take a frame that arrived at `now`, s; one that is no drive's, or has another length, counts as none."""
        place = self._place.get(cob & 0x7F)
        kind = cob & ~0x7F
        if place is None:
            return
        with self._lock:
            u = self._units[place]
            if kind == cia402.TPDO[0] and len(data) == cia402.MOTION.size:
                word, position, torque = cia402.MOTION.unpack(data)
                self._state[place] = cia402.state_of(word)
                self._measured[0, place], self._measured[2, place] = position / u.position, torque * u.torque
                self._stamps[0, place] = self.heard = now
            elif kind == cia402.TPDO[1] and len(data) == cia402.SPEED.size:
                velocity, self._error[place] = cia402.SPEED.unpack(data)
                self._measured[1, place] = velocity / u.velocity
                self._stamps[1, place] = self.heard = now
            elif kind == cia402.EMERGENCY and len(data) == 8:
                (self._error[place],) = struct.unpack_from("<H", data)
                self.heard = now

    def _enabled(self) -> list[bool]:
        return [state == cia402.ENABLED for state in self._state]

    def _trouble(self) -> str:
        for name, state, error in zip(self._names, self._state, self._error, strict=True):
            if state != cia402.ENABLED:
                why = f", 0x{error:04X}, {cia402.ERRORS.get(error, 'see its manual')}" if error else ""
                return f"{name}: {state or 'no state'}{why}"
        return ""

    def _send(self, now: float) -> None:
        with self._lock:
            frames = self._setpoints()
        for cob, data in frames:
            self._put(cob, data)
        self._put(cia402.SYNC, b"")
        if now - self._beaten >= BEAT_S - 1e-9:
            self._beaten = now
            self._put(cia402.HEARTBEAT_OF + MASTER, bytes([cia402.OPERATIONAL_STATE]))

    def _put(self, cob: int, data: bytes) -> None:
        import can

        try:
            self._bus.send(can.Message(arbitration_id=cob, data=data, is_extended_id=False))
        except (can.CanError, OSError):
            return  # the drives' own watch has them where nothing can be sent

    def _setpoints(self) -> list[tuple[int, bytes]]:
        """RPDOs of this cycle; none before the first wish to arm."""
        if self._mode == OFF and not any(self._words):
            return []
        out = []
        for i, node in enumerate(self._ids):
            if self._mode == ARMING:
                word = cia402.word_towards_enabled(self._state[i], self._words[i])
            elif self._mode in (MOVING, STOPPING):
                word = cia402.TO_ENABLE
            else:
                word = cia402.TO_STOP_QUICKLY if self._mode == QUICK else cia402.TO_SHUT_DOWN
            self._words[i] = word
            target = round(self._targets[i] * self._units[i].position)
            out.append((cia402.RPDO[0] + node, cia402.TARGET.pack(word, target)))
        return out

    def _leave(self) -> None:
        if self._bus is None:
            return
        if self._units:
            for node in self._ids:
                self._put(cia402.NMT, bytes([cia402.PRE_OPERATIONAL, node]))
        self._bus.shutdown()
        self._bus = None
