"""Arms with a servo drive for each joint on a CAN bus, by CiA 402: ``canopen://can0?nodes=1-7&gripper=8&tracker=PORT``.

A thread is the bus's master: at each SYNC it sends every drive its controlword and its position on the contract's references
(`ArmDrive`), and takes what the drives measured at the one before. Where the runtime's loop is silent it brakes the arm along
its way and takes the power off; where the whole program is gone the drives stop by themselves, by its heartbeat and by the
deadline of set-points. What drives do not measure, such as places of objects, comes from a tracker by UDP (`tracker`).
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import cia402
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.arm_drive import DERIVED, KINDS, QUANTITIES, ArmDrive, MotionLimits
from rookery.sim2real.links.can_bus import BITRATE, open_bus
from rookery.sim2real.links.cia402 import DriveUnits
from rookery.sim2real.links.drive_setup import DriveSetup
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.links.tracker import Tracker
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading

MASTER = 127
HOLD_S = 0.06  # s without a word of the runtime, or of the master, after which the arm stops
BEAT_S = 0.02  # s between two heartbeats
OTHERS_S = 0.15  # s, to listen for another master
SHARE = 0.95  # of the drives' limits of speed
MARGIN = 0.005  # rad or m, kept from the ends of the drives' ranges
REST_RAD_S = 1e-3  # rad/s, of references at rest
MOST = 256  # frames that are taken in a cycle
OFF, ARMING, MOVING, STOPPING, QUICK = "off", "arming", "moving", "stopping", "quick stop"
MEASURED = tuple(name for name in QUANTITIES if name not in ("external torques", OPENING.name))


def node_numbers(text: str, url: str) -> list[int]:
    """Numbers of nodes of "1-7" or "3,4,8".

    Raises:
        RookeryError: it says something else.
    """
    out: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise RookeryError(f"nodes must be numbers such as 1-7 or 3,4,8 in {url}, got {text!r}.")
        out += range(int(first), int(last if dash else first) + 1)
    if len(set(out)) != len(out) or not out or not all(0 < node < MASTER for node in out):
        raise RookeryError(f"nodes must be different numbers from 1 to {MASTER - 1} in {url}, got {text!r}.")
    return out


class CanopenLink(Link):
    """See the module.

    Args:
        address: of the bus: an interface or a multicast group. Options: `nodes`, of the joints in the contract's order;
            `gripper`, its node; `tracker`, UDP port; `sync`, ms between two SYNCs; `hold`, s; `bus`, python-can's name of
            another kind of adapter, and its `bitrate`.
        group: of the contract.
        clock: of the runtime.

    Raises:
        RookeryError: an option is wrong, or the contract's commands lead to no joint positions.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("nodes", "gripper", "tracker", "sync", "hold", "bus", "bitrate")
        if not address.host or address.path:
            raise RookeryError(f"{address.url} must name a CAN bus: write canopen://can0, or the address of a group.")
        self.url = address.url
        self._address, self._group, self._clock = address, group, clock
        self._period = address.option("sync", 4) / 1e3
        self._hold = address.option("hold", HOLD_S)
        if not (0.001 <= self._period <= 0.025 and abs(self._period * 1e4 - round(self._period * 1e4)) < 1e-6):
            raise RookeryError(f"sync must be from 1 to 25 ms, in steps of 0.1, in {address.url}.")
        if not 2.0 * self._period <= self._hold <= 10.0:
            raise RookeryError(f"hold must be at least two SYNCs, and at most 10 s, in {address.url}.")
        self.drive = ArmDrive(group, self._period)  # of its kinematics until the drives have told their limits
        count = len(self.drive.names)
        self._nodes = node_numbers(address.options.get("nodes", f"1-{count}"), address.url)
        if len(self._nodes) != count:
            raise RookeryError(
                f"the policy moves {count} joints ({', '.join(self.drive.names)}), and {address.url} names "
                f"{len(self._nodes)} nodes."
            )
        gripper = int(address.option("gripper", 0))
        self._grips = self.drive.grips and gripper > 0
        if self._grips:
            self._nodes += [node for node in node_numbers(str(gripper), address.url) if node not in self._nodes]
            if len(self._nodes) == count:
                raise RookeryError(f"the gripper's node {gripper} is a joint's in {address.url}.")
        port = address.option("tracker", 0)
        self._tracker = Tracker(int(port)) if port else None
        self._units: list[DriveUnits] = []
        self._bus: Any = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._lock = threading.RLock()
        self._begin_cycles()

    def _begin_cycles(self) -> None:
        n = len(self._nodes)
        self._place = {node: i for i, node in enumerate(self._nodes)}
        self._state = [""] * n
        self._error = [0] * n
        self._words = [0] * n
        self._measured = np.zeros((3, n))  # position, velocity, torque
        self._stamps = np.full((2, n), -np.inf)  # s, of the two PDOs of each drive
        self._mode = OFF
        self._stamp = -np.inf  # s, of the runtime's last word
        self._beaten = -np.inf
        self._targets = np.zeros(n)
        self._cycles = self._lost = 0
        self._why = ""

    # -- who is there ------------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 10.0) -> Identity:
        bitrate = int(self._address.option("bitrate", BITRATE))
        a = self._address
        self._bus = open_bus(a.host, a.port, a.options.get("bus", ""), bitrate)
        try:
            self._listen()
            self._set_up()
            self._wait(timeout_s)
        except RookeryError:
            self._shut()
            raise
        self._thread = threading.Thread(target=self._run, name="rookery-canopen", daemon=True)
        self._thread.start()
        seen = () if self._tracker is None else tuple(self._tracker.values)
        names = (*MEASURED, OPENING.name, *(q.name for q in DERIVED), *seen)
        return Identity("arm", "CiA 402 drives", KINDS, names, 1.0 / self._period, self.drive.names)

    def _listen(self) -> None:
        """Refuse a bus that has a master."""
        end = time.monotonic() + OTHERS_S
        targets = {cia402.RPDO[0] + node for node in self._nodes}
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

        network = canopen.Network(self._bus)
        network.NOTIFIER_CYCLE = 0.02  # s, that its thread goes on after it is stopped
        network.connect()
        try:
            names = [*self.drive.names, "gripper"]
            drives = [DriveSetup(network, node, names[i], self.url) for i, node in enumerate(self._nodes)]
            for drive in drives:
                drive.check()
            self._units = [drive.units() for drive in drives]
            self._check_joints()
            for drive in drives:
                network.send_message(cia402.NMT, bytes([cia402.PRE_OPERATIONAL, drive.node]))
                drive.prepare(MASTER, round(1e3 * self._hold), round(1e6 * self._period))
                network.send_message(cia402.NMT, bytes([cia402.START, drive.node]))
        finally:
            if network.notifier is not None:
                network.notifier.stop()
        count = len(self.drive.names)
        units = self._units[:count]
        unlimited = (np.inf,) * count
        limits = MotionLimits(
            tuple(u.lower + MARGIN for u in units), tuple(u.upper - MARGIN for u in units),
            tuple(SHARE * u.speed for u in units), unlimited, unlimited,
        )  # fmt: skip
        self.drive = ArmDrive(self._group, self._period, limits)

    def _check_joints(self) -> None:
        """Nodes tell no names of joints: a drive whose range does not hold where the policy begins is another joint's."""
        for i, (name, start) in enumerate(zip(self.drive.names, self.drive.start_angles, strict=True)):
            u = self._units[i]
            if not u.lower <= start <= u.upper:
                raise RookeryError(
                    f"{self.url}: node {self._nodes[i]} should drive {name}, which begins at {start:.2f} rad, and has a range "
                    f"of {u.lower:.2f} to {u.upper:.2f}: give ?nodes= in the contract's order of joints."
                )

    def _wait(self, timeout_s: float) -> None:
        """Until all drives and the tracker have spoken."""
        end = time.monotonic() + timeout_s
        while True:
            self._cycle()
            if self._tracker is not None:
                self._tracker.receive(self._clock.now())
            silent = [node for node, stamp in zip(self._nodes, self._stamps.min(0), strict=True) if np.isinf(stamp)]
            unseen = self._tracker is not None and not self._tracker.values
            if not silent and not unseen:
                return
            if time.monotonic() > end:
                who = f"nodes {silent} send no measurements" if silent else "nobody sends it what a tracker sees"
                raise RookeryError(f"{self.url}: {who}.")
            time.sleep(self._period)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            self._cycle()
            due = max(due + self._period, time.monotonic() - self._period)
            time.sleep(max(0.0, due - time.monotonic()))

    def _cycle(self) -> None:
        """Take what has arrived; send set-points, SYNC and heartbeat."""
        bus = self._bus
        if bus is None:
            return
        now = self._clock.now()
        for _ in range(MOST):
            message = self._receive()
            if message is None:
                break
            self.take_frame(message.arbitration_id, bytes(message.data), now)
        with self._lock:
            self._cycles += 1
            self._lost += self._cycles > 2 and bool((self._stamps < now).any())
            self._advance(now)
            frames = self._setpoints()
        for cob, data in frames:
            self._put(cob, data)
        self._put(cia402.SYNC, b"")
        if now - self._beaten >= BEAT_S - 1e-9:
            self._beaten = now
            self._put(cia402.HEARTBEAT_OF + MASTER, bytes([cia402.OPERATIONAL_STATE]))

    def _receive(self) -> Any:
        import can

        try:
            message = self._bus.recv(0)
        except can.CanError:
            return self._bus.recv(0)  # what came was no frame
        plain = message is None or not (message.is_error_frame or message.is_remote_frame or message.is_extended_id)
        return message if plain else self._receive()

    def _put(self, cob: int, data: bytes) -> None:
        import can

        try:
            self._bus.send(can.Message(arbitration_id=cob, data=data, is_extended_id=False))
        except (can.CanError, OSError):
            return  # the drives' own watch has them where nothing can be sent

    def take_frame(self, cob: int, data: bytes, now: float) -> None:
        """Take a frame that arrived at `now`, s; one that is no drive's, or has another length, counts as none."""
        place = self._place.get(cob & 0x7F)
        kind = cob & ~0x7F
        if place is None:
            return
        with self._lock:
            if kind == cia402.TPDO[0] and len(data) == cia402.MOTION.size:
                word, position, torque = cia402.MOTION.unpack(data)
                self._state[place] = cia402.state_of(word)
                self._measured[0, place], self._measured[2, place] = position, torque
                self._stamps[0, place] = self.heard = now
            elif kind == cia402.TPDO[1] and len(data) == cia402.SPEED.size:
                self._measured[1, place], error = cia402.SPEED.unpack(data)
                self._error[place] = error
                self._stamps[1, place] = self.heard = now
            elif kind == cia402.EMERGENCY and len(data) == 8 and cob != cia402.SYNC:
                (self._error[place],) = struct.unpack_from("<H", data)
                self.heard = now

    def _advance(self, now: float) -> None:
        """The state of the arm, and its references."""
        enabled = [state == cia402.ENABLED for state in self._state]
        if self._mode == ARMING and all(enabled):
            self._mode = MOVING
        elif self._mode in (MOVING, STOPPING) and not all(enabled):
            self._why = self._trouble()
            self._mode = QUICK  # a drive has stopped: the others must not go on
        if self._mode in (ARMING, MOVING) and now - self._stamp > self._hold:
            self._brake()
        if self._mode in (MOVING, STOPPING):
            count = len(self.drive.names)
            self._targets[:count] = self.drive.tick()
            self._targets[count:] = self.drive.opening
            if self._mode == STOPPING and np.abs(self.drive.speed).max() < REST_RAD_S:
                self._mode = OFF

    def _trouble(self) -> str:
        """The first drive that is not enabled, and why."""
        names = [*self.drive.names, "gripper"]
        for i, state in enumerate(self._state):
            if state != cia402.ENABLED:
                error = self._error[i]
                why = f", 0x{error:04X}, {cia402.ERRORS.get(error, 'see its manual')}" if error else ""
                return f"{names[i]}: {state or 'no state'}{why}"
        return ""

    def _brake(self) -> None:
        if self._mode == MOVING:
            self.drive.stop()
            self._mode = STOPPING
        elif self._mode == ARMING:
            self._mode = OFF

    def _setpoints(self) -> list[tuple[int, bytes]]:
        """RPDOs of this cycle; none before the first wish to arm."""
        if self._mode == OFF and not any(self._words):
            return []
        out = []
        for i, node in enumerate(self._nodes):
            if self._mode == ARMING:
                word = cia402.word_towards_enabled(self._state[i], self._words[i])
            elif self._mode in (MOVING, STOPPING):
                word = cia402.TO_ENABLE
            else:
                word = cia402.TO_STOP_QUICKLY if self._mode == QUICK else cia402.TO_SHUT_DOWN
            self._words[i] = word
            if self._mode not in (MOVING, STOPPING):
                self._targets[i] = self._measured[0, i] / self._units[i].position
            target = self._units[i].target(float(self._targets[i]))
            out.append((cia402.RPDO[0] + node, cia402.TARGET.pack(word, target)))
        return out

    # -- what the loop asks ------------------------------------------------------------------------------------

    def read(self) -> Reading | None:
        now = self._clock.now()
        with self._lock:
            received = float(self._stamps.min())
            if np.isinf(received):
                return None
            if self._mode not in (MOVING, STOPPING):
                self._stamp = now  # the runtime waits, and is alive
            raw, armed, goal = self._measured.copy(), self._mode in (MOVING, STOPPING), self.drive.goal
            opening = self.drive.opening
            mode = self._why or self._mode
        count, units = len(self.drive.names), self._units
        q, dq, tau = (
            np.array([raw[k, i] / getattr(u, of) if k < 2 else raw[k, i] * u.torque for i, u in enumerate(units)])
            for k, of in enumerate(("position", "velocity", "torque"))
        )
        values = dict(zip(MEASURED, (x[:count].astype(np.float32) for x in (q, dq, tau)), strict=True))
        values[OPENING.name] = np.array([q[count] if self._grips else opening], np.float32)
        derived = self.drive.derived(values["joint angles"], goal)
        if self._tracker is not None:
            self._tracker.receive(now)
            values |= self._tracker.values
            received = min(received, self._tracker.heard)
        return Reading(received, received, values, armed=armed, mode=mode, estimates=derived)

    def statistics(self) -> Mapping[str, float]:
        return {"cycles": self._cycles, "lost_cycles": self._lost}

    def arm(self) -> None:
        with self._lock:
            self._stamp = self._clock.now()
            if self._mode in (MOVING, STOPPING):
                return
            angles = self._measured[0] / np.array([u.position for u in self._units])
            names = [*self.drive.names, "gripper"]
            out = next((i for i, u in enumerate(self._units) if not u.holds(float(angles[i]))), None)
            if out is not None:
                self._why = f"{names[out]} is at {angles[out]:.3g}, outside of its drive's limits"
                return
            count = len(self.drive.names)
            self.drive.start(angles[:count])
            self._targets[:] = angles
            if self._grips:
                self.drive.opening = float(angles[count])
            self._why = ""
            self._mode = ARMING

    def disarm(self) -> None:
        with self._lock:
            self._brake()

    def engage(self) -> None:
        """Its joint positions are enough."""

    @property
    def engaged(self) -> bool:
        return self._mode == MOVING

    def begin(self) -> None:
        reading = self.read()
        assert reading is not None
        with self._lock:
            self.drive.begin_policy(reading.values["joint angles"])

    def write(self, kind: str, command: ArrayLike) -> None:
        reading = self.read()
        if reading is None:
            return
        with self._lock:
            if self._mode == MOVING:
                self.drive.command(command, reading.values["joint angles"], reading.values["joint velocities"])
                self._stamp = self._clock.now()

    def hold_joints(self, position: ArrayLike, stiffness: ArrayLike, damping: ArrayLike) -> None:
        with self._lock:
            if self._mode == MOVING:
                self.drive.go(position)
                self._stamp = self._clock.now()

    def react(self, reaction: str) -> None:
        with self._lock:
            if reaction == "hold":
                self._brake()
            elif self._mode in (ARMING, MOVING, STOPPING):
                self._mode = QUICK

    def close(self) -> None:
        """Brake, take the power off, and leave the bus."""
        if self._thread is not None:
            with self._lock:
                self._brake()
            end = time.monotonic() + 2.0
            while self._mode == STOPPING and time.monotonic() < end:
                time.sleep(self._period)
            time.sleep(3.0 * self._period)  # the last words go out
            self._over.set()
            self._thread.join(1.0)
            self._thread = None
            for node in self._nodes:
                self._put(cia402.NMT, bytes([cia402.PRE_OPERATIONAL, node]))
        self._shut()

    def _shut(self) -> None:
        if self._bus is not None:
            self._bus.shutdown()
            self._bus = None
        if self._tracker is not None:
            self._tracker.close()
