"""``betaflight://HOST:PORT`` or ``betaflight:///dev/ttyACM0``: boards with Betaflight, by MSP over TCP, UDP or a serial port.

A policy's body rates and thrust become RC channels (MSP_SET_RAW_RC), Betaflight's rate curve turned round. They go out at
200 Hz from a thread of its own, which repeats the newest ones; liveness is judged by the stamp that the loop's own step sets.
Where it is older than `hold`, the thread throws the FAILSAFE switch for a second, and then is silent: Betaflight's failsafe has
it. Attitude and gyro come back at 100 Hz. Place and velocity Betaflight does not tell: a tracker sends them by UDP (`tracker`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import msp
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.betaflight_setup import ARM, FAILSAFE, BetaflightSetup, flag_names, read_setup
from rookery.sim2real.links.byte_wires import ByteWire, SerialWire, SocketWire
from rookery.sim2real.links.crtp import unpack
from rookery.sim2real.links.frames import multiply, rotation_of_euler
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.links.msp import MspMessage, MspReader
from rookery.sim2real.links.periodic import repeat
from rookery.sim2real.links.place_controller import PlaceController
from rookery.sim2real.links.tracker import Tracker
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Array, Reading

PORT = 5761  # of the first UART of Betaflight's own simulation
BAUD = 115_200  # bit/s; USB takes no notice
KINDS = ("ctbr",)
TRACKED = ("position", "velocity")
QUANTITIES = (*TRACKED, "rotation", "angular velocity")
PERIOD_S = 0.005
HOLD_S = 0.06  # s that a set-point is repeated; the vehicle must be safe 80 ms after the loop's last step
FAILSAFE_S = 1.0  # s of the switch, before silence
LOSS_S = 0.5  # s, the longest failsafe_delay that is accepted unless it is asked for
ANSWER_S, TRIES = 0.2, 5
IN_FLIGHT = 8  # requests of a kind that wait for their replies at once
GIVEN_UP_S = 1.0  # s after which a reply is no longer waited for
LATE_S = 0.06  # s from a request to its reply, past which that is no measurement: boards stamp nothing
PACE, PACE_S = 80, 0.4  # requests as fast as in flight that must be answered in that time
EVERY = {msp.RAW_IMU: 2, msp.ATTITUDE: 2, msp.STATUS: 10, msp.BATTERY_STATE: 100}
"""Cycles between two requests."""
CRITICAL = 2  # state of a battery
STATUS_BYTES = 16  # of a status that tells its modes
COMPASS = 1 << 2  # of the sensors in the status
LANDED_M, LANDED_M_S, LANDED_S = 0.06, 0.15, 0.3  # of the place where it was armed, for so long: it stands
_NORTH_FIRST = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # from axes north, west, up to east, north, up


class BetaflightLink(Link):
    """See the module.

    Args:
        address: of the board; options: `tracker`, UDP port for place and velocity; `hover`, share of the throttle at which it
            hovers; `baud`; `udp`, 1 for datagrams; `hold`, s; `loss`, s; `drop`, see betaflight_setup.read_setup.
        group: of the contract, for mass and thrust curve.
        clock: of the runtime.

    Raises:
        RookeryError: an option is wrong, no tracker is given, or the contract is for another robot.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("tracker", "hover", "baud", "udp", "hold", "loss", "drop")
        self.url = address.url
        if bool(address.host) == bool(address.path):
            raise RookeryError(
                f"{address.url} must name a board: betaflight://127.0.0.1:{PORT} or betaflight:///dev/ttyACM0."
            )
        multirotor = None if group.actuation is None else group.actuation.multirotor
        if multirotor is None or group.spec.action.kind not in KINDS:
            raise RookeryError(
                "betaflight:// flies multirotors by body rates and thrust, and the contract has another action."
            )
        self._address, self._clock = address, clock
        self._curve = multirotor.thrust_curve
        self._mass = multirotor.mass
        action = group.spec.action
        self._rates = [max(abs(a), abs(b)) for a, b in zip(action.low[:3], action.high[:3], strict=True)]
        self._hold_s = address.option("hold", HOLD_S)
        if not 2.0 * PERIOD_S <= self._hold_s <= 10.0:
            raise RookeryError(f"hold must be from {2 * PERIOD_S:g} to 10 s in {address.url}.")
        self._hover = address.hover_share()
        port = address.whole("tracker", 0, 65535)
        if port == 0:
            raise RookeryError(
                f"{address.url}: Betaflight tells neither position nor velocity: let motion capture or an estimator send them, "
                "and say where by ?tracker=PORT (docs/fly.md)."
            )
        self._tracker: Tracker = self._listen(port)
        self._wire: ByteWire | None = None
        self._reader = MspReader()
        self._setup: BetaflightSetup | None = None
        self._places = PlaceController(self._mass, 4.0 * sum(self._curve))
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._answers: dict[int, MspMessage] = {}
        self._told: dict[int, tuple[float, bytes]] = {}
        self._waiting: deque[tuple[int, float]] = deque()  # code and s of messages that wait for their replies
        self._turn = 0
        self._reading: Reading | None = None
        self._flying = self._failed = False
        self._setpoint: tuple[list[float], float | None] = ([0.0, 0.0, 0.0], None)
        self._stamp = -math.inf
        self._start: Array | None = None  # place where it was armed
        self._still_since: float | None = None

    def _listen(self, port: int) -> Tracker:
        return Tracker(port)

    # -- before motors turn ------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 10.0) -> Identity:
        try:
            self._wire = self._connect()
            setup = self._setup = self._configuration()
            self._check_pace()
            self._thread = threading.Thread(target=self._run, name="rookery-betaflight", daemon=True)
            self._thread.start()
            self._wait(lambda: self._tracker.values, timeout_s, f"no tracker sends to port {self._tracker.port}")
            missing = [name for name in TRACKED if name not in self._tracker.values]
            if missing:
                raise RookeryError(f"{self.url}: the tracker's datagrams have no {' and no '.join(missing)}.")
            self._wait(lambda: self._reading is not None, timeout_s, "the board tells no attitude, rates or status")
            self._check_heading()
            self._check_arming(timeout_s)
        except RookeryError:
            self.close()
            raise
        name = f"{setup.name}, failsafe {setup.failsafe_text}"
        return Identity("multirotor", name, KINDS, QUANTITIES, 1.0 / PERIOD_S, firmware=setup.version)

    def _connect(self) -> ByteWire:
        a = self._address
        if a.path:
            return SerialWire("/" + a.path, a.whole("baud", BAUD, 10_000_000), "betaflight")
        return SocketWire(self.url, a.host, a.port or PORT, bool(a.whole("udp", 0, 1)))

    def _pause(self) -> None:
        time.sleep(0.002)

    def _wait(self, condition: Callable[[], object], timeout_s: float, otherwise: str) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise RookeryError(f"{self.url}: {otherwise} ({timeout_s:g} s waited).")
            self._pause()

    def _ask(self, code: int) -> bytes:
        """The data of a reply.

        Raises:
            LookupError: the board does not know the request.
            RookeryError: nothing answers.
        """
        for _ in range(TRIES):
            self._answers.pop(code, None)
            self._send(MspMessage(code))
            end = time.monotonic() + ANSWER_S
            while time.monotonic() < end:
                self._receive()
                if code in self._answers:
                    answer = self._answers[code]
                    if answer.direction == msp.ERROR:
                        raise LookupError(code)
                    return answer.data
                self._pause()
        raise RookeryError(f"{self.url}: no board answers by MSP ({TRIES * ANSWER_S:g} s waited).")

    def _configuration(self) -> BetaflightSetup:
        a = self._address
        weight = self._mass * GRAVITY
        try:
            return read_setup(
                self._ask,
                self._curve,
                weight,
                self._rates,
                self._hover,
                a.option("loss", LOSS_S),
                bool(a.whole("drop", 0, 1)),
            )
        except ValueError as error:
            raise RookeryError(
                f"{self.url}: the board answers in another form than Betaflight's MSP ({error})."
            ) from None
        except LookupError as error:
            raise RookeryError(
                f"{self.url}: the board does not know the request {error} of Betaflight's MSP."
            ) from None
        except RookeryError as error:
            said = str(error)
            raise RookeryError(said if self.url in said else f"{self.url}: {said}") from None

    def _check_pace(self) -> None:
        """As many requests as in flight: where they pile up, set-points would come late."""
        began = time.monotonic()
        count = 0
        self._answers.clear()
        for k in range(PACE):
            self._send(MspMessage(msp.ATTITUDE))
            while time.monotonic() < began + (k + 1) * PERIOD_S * 0.5:
                count += self._receive(msp.ATTITUDE)
                time.sleep(0.001)
        while count < 0.9 * PACE and time.monotonic() < began + PACE_S:
            count += self._receive(msp.ATTITUDE)
            time.sleep(0.001)
        if count < 0.9 * PACE:
            raise RookeryError(
                f"{self.url}: the board answered {count} of {PACE} requests in {PACE_S:g} s: set serial_update_rate_hz to "
                "1000, or choose a faster port."
            )

    def _check_heading(self) -> None:
        _, data = self._told[msp.STATUS]
        sensors = int.from_bytes(data[4:6], "little")
        if not sensors & COMPASS and "rotation" not in self._tracker.values:
            raise RookeryError(
                f"{self.url}: the board has no compass, so that its heading is not the tracker's: let the tracker send "
                "rotation, too."
            )

    def _check_arming(self, timeout_s: float) -> None:
        """RC without an arm switch must clear all flags that keep it from arming."""
        end = time.monotonic() + timeout_s
        while True:
            flags, count, armed = self._flags()
            if armed:
                raise RookeryError(f"{self.url}: the board is armed already: disarm it first.")
            if not flags:
                return
            if time.monotonic() > end:
                raise RookeryError(f"{self.url}: the board will not arm ({flag_names(flags, count)}).")
            self._pause()

    def _flags(self) -> tuple[int, int, bool]:
        """Arming-disable flags, how many there are, and whether it is armed."""
        status = self._told.get(msp.STATUS)
        if status is None or self._setup is None:
            return 0, 32, False
        data = status[1]
        try:
            more = data[15] & 0x0F
            count, flags = (int(v) for v in unpack("BI", data[16 + more :]))
        except (ValueError, IndexError):
            return 0, 32, False
        return flags, count, self._mode(data, ARM)

    def _mode(self, status: bytes, number: int) -> bool:
        assert self._setup is not None
        boxes = self._setup.boxes
        if number not in boxes or len(status) < STATUS_BYTES:
            return False
        flags = (
            int.from_bytes(status[6:10], "little")
            | int.from_bytes(status[16 : 16 + (status[15] & 0x0F)], "little") << 32
        )
        return bool(flags >> boxes.index(number) & 1)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        repeat(lambda: self._cycle(), PERIOD_S, self._over)

    def _cycle(self) -> None:
        """Take what has arrived; send channels and requests."""
        self._receive()
        self._tracker.receive(self._clock.now())
        self._compose()
        self._send_channels()
        assert self._setup is not None
        for code, cycles in EVERY.items():
            wanted = msp.ATTITUDE_QUATERNION if code == msp.ATTITUDE and self._setup.quaternion else code
            if self._turn % cycles == 0:
                self._request(wanted)
        self._turn += 1

    def _request(self, code: int) -> None:
        if sum(waiting == code for waiting, _ in self._waiting) < IN_FLIGHT:
            self._send(MspMessage(code))

    def _send(self, message: MspMessage) -> None:
        if self._wire is None:
            return
        now = self._clock.now()
        while self._waiting and now - self._waiting[0][1] > GIVEN_UP_S:
            self._waiting.popleft()
        self._waiting.append((message.code, now))
        self._wire.send(message.pack())

    def _asked(self, code: int) -> float:
        """s at which a reply was asked for; -inf where it was not.

        Boards answer in order, also set-points: what was sent before has had its reply, or has lost it.
        """
        for k, (waiting, moment) in enumerate(self._waiting):
            if waiting == code:
                for _ in range(k + 1):
                    self._waiting.popleft()
                return moment
        return -math.inf

    def _receive(self, counted: int = -1) -> int:
        """Take what has arrived; how many replies of a code were among it."""
        return 0 if self._wire is None else self.take_bytes(self._wire.receive(), counted)

    def take_bytes(self, data: bytes, counted: int = -1) -> int:
        """Take bytes, whatever they are; how many replies of a code were among them."""
        count = 0
        for message in self._reader.feed(data):
            if message.direction == msp.REQUEST:
                continue
            now = self.heard = self._clock.now()
            self._answers[message.code] = message
            late = now - self._asked(message.code) > LATE_S
            count += message.code == counted
            if message.direction == msp.REPLY and not late:
                self._told[message.code] = now, message.data
        return count

    def _send_channels(self) -> None:
        assert self._setup is not None
        with self._lock:
            (rates, thrust), flying, failed = self._setpoint, self._flying, self._failed
            age = self._clock.now() - self._stamp
        if flying:
            if age > self._hold_s + FAILSAFE_S:
                return
            failed |= age > self._hold_s
        values = self._setup.channels(rates, thrust if flying else None, flying, flying and failed)
        self._send(MspMessage(msp.SET_RAW_RC, b"".join(v.to_bytes(2, "little") for v in values)))

    # -- measurements ------------------------------------------------------------------------------------------

    def _compose(self) -> None:
        assert self._setup is not None
        attitude = self._told.get(msp.ATTITUDE_QUATERNION if self._setup.quaternion else msp.ATTITUDE)
        imu, status = self._told.get(msp.RAW_IMU), self._told.get(msp.STATUS)
        if attitude is None or imu is None or status is None or not self._tracker.values:
            return
        # the oldest, so that any of them is noticed when it stops
        moment = min(attitude[0], imu[0], self._tracker.heard)
        if (
            self._reading is not None
            and moment <= self._reading.received
            and self._tells(status) == self._reading.armed
        ):
            return
        try:
            values = self._values(attitude[1], imu[1])
            armed = self._tells(status)
        except (ValueError, IndexError):  # shorter than they should be
            return
        self._reading = Reading(
            moment, moment, values, battery=self._battery(), armed=armed, landed=self._landed(values),
            mode="failsafe" if self._mode(status[1], FAILSAFE) else "",
        )  # fmt: skip

    def _tells(self, status: tuple[float, bytes]) -> bool:
        return self._mode(status[1], ARM)

    def _values(self, attitude: bytes, imu: bytes) -> dict[str, Array]:
        turning = np.radians(np.array(unpack("hhh", imu[6:]), np.float32))
        values = {name: np.asarray(value, np.float32) for name, value in self._tracker.values.items()}
        for name in TRACKED:
            if len(values.get(name, ())) != 3:
                raise ValueError(name)
        if len(values.get("rotation", ())) != 4:
            values["rotation"] = self._rotation(attitude)
        return {
            **{name: values[name] for name in (*TRACKED, "rotation")},
            "angular velocity": turning.astype(np.float32),
        }

    def _rotation(self, data: bytes) -> Array:
        assert self._setup is not None
        if self._setup.quaternion:
            q = np.array(unpack("hhhh", data)) / 32767.0
            length = float(np.linalg.norm(q))
            if abs(length - 1.0) > 0.1:
                return np.full(4, np.nan, np.float32)
            return multiply(_NORTH_FIRST, q / length)
        roll, pitch, heading = unpack("hhh", data)
        return rotation_of_euler(math.radians(roll / 10.0), math.radians(pitch / 10.0), math.radians(90.0 - heading))

    def _battery(self) -> float | None:
        told = self._told.get(msp.BATTERY_STATE)
        if told is None:
            return None
        try:
            cells, capacity, _, drawn, _, state = unpack("BHBHhB", told[1])
        except ValueError:
            return None
        if cells == 0:
            return None
        if state >= CRITICAL:
            return 0.0
        return max(0.0, 1.0 - drawn / capacity) if capacity else None

    def _landed(self, values: Mapping[str, Array]) -> bool | None:
        """Betaflight does not tell: it stands where it was armed."""
        if self._start is None:
            return None
        now = self._clock.now()
        low = abs(float(values["position"][2] - self._start[2])) < LANDED_M
        slow = float(np.linalg.norm(values["velocity"])) < LANDED_M_S
        if not (low and slow):
            self._still_since = None
        elif self._still_since is None:
            self._still_since = now
        return self._still_since is not None and now - self._still_since >= LANDED_S

    def read(self) -> Reading | None:
        return self._reading

    # -- what the loop asks ------------------------------------------------------------------------------------

    def _set(self, rates: list[float], thrust: float | None, failed: bool = False) -> None:
        with self._lock:
            self._setpoint, self._flying, self._failed = (rates, thrust), True, failed
            self._stamp = self._clock.now()

    def arm(self) -> None:
        if self._reading is not None:
            self._start = self._reading.values["position"]
        self._set([0.0, 0.0, 0.0], None)

    def disarm(self) -> None:
        with self._lock:
            self._flying = self._failed = False

    def engage(self) -> None:
        """Its channels are enough."""

    @property
    def engaged(self) -> bool:
        return self._flying and not self._failed and self._reading is not None and self._reading.armed is True

    def write(self, kind: str, command: ArrayLike) -> None:
        values = np.asarray(command, float).tolist()
        self._set(values[:3], values[3])

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        reading = self._reading
        if reading is not None:
            self.write("ctbr", self._places.step(reading.values, position, yaw, self._clock.now()))

    def react(self, reaction: str) -> None:
        if reaction == "stop":
            self.disarm()
        elif self._flying:
            self._set(*self._setpoint, failed=True)

    def close(self) -> None:
        """Let the thread send the end, the FAILSAFE switch for a vehicle in flight, and stop it."""
        self.react("land")
        if self._thread is not None:
            time.sleep(10 * PERIOD_S)
        self._over.set()
        if self._thread is not None:
            self._thread.join(1.0)
        self._thread = None
        if self._wire is not None:
            self._wire.close()
        self._tracker.close()
