"""The base of links to arms whose joints each have a drive of their own: a thread sends positions at a fixed rate.

Between two commands of the policy the thread runs the contract's references (`ArmDrive`), so that positions keep their limits
of speed, acceleration and jerk. Where the runtime's loop is silent it brakes the arm along its way and ends the motion. What
drives do not measure, such as places of objects, comes from a tracker by UDP (`tracker`).
"""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.arm_drive import DERIVED, KINDS, QUANTITIES, ArmDrive, MotionLimits
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.links.periodic import repeat
from rookery.sim2real.links.tracker import Tracker
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading

HOLD_S = 0.06  # s without a word of the runtime, or of this program, after which the arm stops
SHARE = 0.95  # of the drives' limits of speed
MARGIN = 0.005  # rad, kept from the ends of the drives' ranges
NOISE_SHARE = 0.01  # of a drive's range, that a measured position may be outside of it
REST_RAD_S = 1e-3  # rad/s, of references at rest
OFF, ARMING, MOVING, STOPPING, QUICK = "off", "arming", "moving", "stopping", "quick stop"
MEASURED = tuple(name for name in QUANTITIES if name not in ("external torques", OPENING.name))


def id_numbers(text: str, most: int, url: str) -> list[int]:
    """Numbers of drives of "1-7" or "3,4,8".

    Raises:
        RookeryError: it says something else.
    """
    out: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) > most:
            raise RookeryError(f"drives must be numbers up to {most}, such as 1-7 or 3,4,8, in {url}, got {text!r}.")
        out += range(int(first), int(last or first) + 1)
    if len(set(out)) != len(out) or not out or min(out) < 1:
        raise RookeryError(f"drives must be different numbers from 1 to {most} in {url}, got {text!r}.")
    return out


def within(value: float, low: float, high: float) -> bool:
    """True where a measured position is within a range, but for noise."""
    margin = NOISE_SHARE * (high - low)
    return bool(low - margin <= value <= high + margin)


class DriveLink(Link):
    """See the module.

    Args:
        address: of the drives; its options `gripper`, the number of the gripper's drive, `tracker`, a UDP port, and `hold`, s.
        group: of the contract.
        clock: of the runtime.
        period: s, between two positions.
        numbers: of the joints' drives in the contract's order of joints; "" for 1, 2, ...
        most: the highest number of a drive.
        gripper: number of the gripper's drive, 0 for none; None for the address's option.

    Raises:
        RookeryError: an option is wrong, or the contract's commands lead to no joint positions.
    """

    name = "drives"
    """Of the kind of drives, for people."""

    def __init__(
        self, address: Address, group: ContractGroup, clock: TimeSource, period: float, numbers: str, most: int,
        gripper: int | None = None,
    ) -> None:  # fmt: skip
        self.url = address.url
        self._address, self._group, self._clock = address, group, clock
        self._period = period
        self._hold = address.option("hold", HOLD_S)
        if not 2.0 * period <= self._hold <= 10.0:
            raise RookeryError(f"hold must be at least two periods, and at most 10 s, in {address.url}.")
        self.drive = ArmDrive(group, period)  # of its kinematics until the drives have told their limits
        count = len(self.drive.names)
        self._ids = id_numbers(numbers or f"1-{count}", most, address.url)
        if len(self._ids) != count:
            raise RookeryError(
                f"the policy moves {count} joints ({', '.join(self.drive.names)}), and {address.url} names "
                f"{len(self._ids)} drives."
            )
        gripper = address.whole("gripper", 0, most) if gripper is None else gripper
        self._grips = self.drive.grips and gripper > 0
        if self._grips:
            if gripper in self._ids:
                raise RookeryError(f"the gripper's drive {gripper} is a joint's in {address.url}.")
            self._ids += id_numbers(str(gripper), most, address.url)
        self._names = (*self.drive.names, "gripper")[: len(self._ids)]
        port = address.whole("tracker", 0, 65535)
        self._tracker = Tracker(port) if port else None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._lock = threading.RLock()
        n = len(self._ids)
        self._place = {number: i for i, number in enumerate(self._ids)}
        self._ranges = [(-np.inf, np.inf)] * n  # of the drives: rad, or m of the gripper
        self._measured = np.zeros((3, n))  # position, velocity, torque, SI
        self._stamps = np.full((1, n), -np.inf)  # s, when each part of them came
        self._targets = np.zeros(n)
        self._mode = OFF
        self._stamp = -np.inf  # s, of the runtime's last word
        self._cycles = self._lost = 0
        self._why = ""

    # -- what a bus does ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _connect(self) -> list[float]:
        """Find the drives, fill `_ranges`, and have them watch this program; the joints' limits of speed, rad/s.

        Raises:
            RookeryError: saying what does not fit.
        """

    @abc.abstractmethod
    def _receive(self, now: float) -> None:
        """Take the measurements that have arrived at `now`, s."""

    @abc.abstractmethod
    def _enabled(self) -> list[bool]:
        """True for each drive that follows targets."""

    @abc.abstractmethod
    def _trouble(self) -> str:
        """The first drive that does not follow targets, and why."""

    @abc.abstractmethod
    def _send(self, now: float) -> None:
        """Send `_targets`, and what brings the drives to `_mode`."""

    @abc.abstractmethod
    def _leave(self) -> None:
        """Free the bus."""

    # -- who is there ------------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 10.0) -> Identity:
        try:
            self._limit(self._connect())
            self._wait(timeout_s)
        except RookeryError:
            self._shut()
            raise
        self._thread = threading.Thread(target=self._run, name="rookery-drives", daemon=True)
        self._thread.start()
        seen = () if self._tracker is None else tuple(self._tracker.values)
        names = (*MEASURED, OPENING.name, *(q.name for q in DERIVED), *seen)
        return Identity("arm", self.name, KINDS, names, 1.0 / self._period, self.drive.names)

    def _limit(self, speeds: list[float]) -> None:
        """References within the drives' limits; numbers tell no joints, so that a range may tell of a wrong one."""
        names, ranges = self.drive.names, self._ranges
        for i, (name, start) in enumerate(zip(names, self.drive.start_angles, strict=True)):
            low, high = ranges[i]
            if not low <= start <= high:
                raise RookeryError(
                    f"{self.url}: drive {self._ids[i]} should be that of {name}, which begins at {start:.2f} rad, and has a "
                    f"range of {low:.2f} to {high:.2f}: name the drives in the contract's order of joints."
                )
        unlimited = (np.inf,) * len(names)
        limits = MotionLimits(
            tuple(low + MARGIN for low, _ in ranges[: len(names)]), tuple(high - MARGIN for _, high in ranges[: len(names)]),
            tuple(SHARE * v for v in speeds), unlimited, unlimited,
        )  # fmt: skip
        self.drive = ArmDrive(self._group, self._period, limits)

    def _wait(self, timeout_s: float) -> None:
        """Until all drives and the tracker have spoken."""
        end = time.monotonic() + timeout_s
        while True:
            self._cycle()
            if self._tracker is not None:
                self._tracker.receive(self._clock.now())
            silent = [number for number, stamp in zip(self._ids, self._stamps.min(0), strict=True) if np.isinf(stamp)]
            unseen = self._tracker is not None and not self._tracker.values
            if not silent and not unseen:
                return
            if time.monotonic() > end:
                who = f"drives {silent} send no measurements" if silent else "nobody sends it what a tracker sees"
                raise RookeryError(f"{self.url}: {who}.")
            time.sleep(self._period)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        repeat(lambda: self._cycle(), self._period, self._over)

    def _cycle(self) -> None:
        """Take what has arrived; move on; send."""
        now = self._clock.now()
        self._receive(now)
        with self._lock:
            self._cycles += 1
            self._lost += self._cycles > 2 and bool((self._stamps < now).any())
            self._advance(now)
        self._send(now)

    def _advance(self, now: float) -> None:
        """The state of the arm, and its references."""
        enabled = self._enabled()
        count = len(self.drive.names)
        if self._mode == ARMING and all(enabled):
            self._mode = MOVING
        elif self._mode in (MOVING, STOPPING) and not all(enabled):
            self._why = self._trouble()
            self._mode = QUICK  # a drive has stopped: the others must not go on
        if self._mode in (ARMING, MOVING) and now - self._stamp > self._hold:
            self._brake()
        if self._mode in (MOVING, STOPPING):
            self._targets[:count] = self.drive.tick()
            self._targets[count:] = self.drive.opening
            if self._mode == STOPPING and np.abs(self.drive.speed).max() < REST_RAD_S:
                self._mode = OFF
        else:
            self._targets[:] = self._measured[0]
        for i, (low, high) in enumerate(self._ranges):
            self._targets[i] = min(max(self._targets[i], low), high)

    def _brake(self) -> None:
        if self._mode == MOVING:
            self.drive.stop()
            self._mode = STOPPING
        elif self._mode == ARMING:
            self._mode = OFF

    # -- what the loop asks ------------------------------------------------------------------------------------

    def read(self) -> Reading | None:
        now = self._clock.now()
        with self._lock:
            received = float(self._stamps.min())
            if np.isinf(received):
                return None
            if self._mode not in (MOVING, STOPPING):
                self._stamp = now  # the runtime waits, and is alive
            seen, armed, goal = self._measured.copy(), self._mode in (MOVING, STOPPING), self.drive.goal
            opening = self.drive.opening
            mode = self._why or self._mode
        count = len(self.drive.names)
        values = dict(zip(MEASURED, seen[:, :count].astype(np.float32), strict=True))
        values[OPENING.name] = np.array([seen[0, count] if self._grips else opening], np.float32)
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
            angles = self._measured[0].copy()
            out = next((i for i, at in enumerate(angles) if not within(at, *self._ranges[i])), None)
            if out is not None:
                self._why = f"{self._names[out]} is at {angles[out]:.3g}, outside of its drive's limits"
                return
            count = len(self.drive.names)
            self.drive.start(angles[:count])
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
        self._shut()

    def _shut(self) -> None:
        self._leave()
        if self._tracker is not None:
            self._tracker.close()
