"""``ros2://INTERFACE`` for multirotors whose policy gives velocities: geometry_msgs/Twist out, nav_msgs/Odometry and, where a
topic is named, sensor_msgs/Imu in.

Twists go out at 100 Hz from a thread of its own, which repeats the newest one; liveness is judged by the stamp that the loop's
own step sets. Where it is older than `hold`, the thread sends a descent for a second, and then nothing: the robot's own
fail-safe has it. ROS 2 has no common message to arm or to land a robot: a twist that goes up takes off, and landing is a slow
descent.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.dds import DOMAINS, Participant, cyclone
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.links.periodic import repeat
from rookery.sim2real.links.ros2_messages import (
    dds_topic,
    header,
    read_imu,
    read_odometry,
    ros_types,
    twist,
)
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Array, Reading

ODOMETRY, COMMANDS = "/odom", "/cmd_vel"
KINDS = ("velocity",)
QUANTITIES = ("position", "velocity", "rotation", "angular velocity")
AXES = ("body", "world")
PERIOD_S = 0.01
HOLD_S, DESCENT_S = 0.06, 1.0
LAND_M_S = 0.4
PLACE, FASTEST, YAW = 1.0, 0.8, 1.0  # 1/s, m/s, 1/s: towards places, for take-off and landing
LANDED_M, LANDED_M_S, LANDED_S = 0.06, 0.15, 0.3  # of the height where it took off, for so long: it stands
OPEN_S, OTHERS_S = 5.0, 0.3
TAKEN = 8


class Ros2TwistLink(Link):
    """See the module.

    Args:
        address: the network interface. Options: `domain`, ROS_DOMAIN_ID; `odometry`, `imu` and `commands`, topics; `stamped`, 1
            for TwistStamped; `axes`, body or world, of the twists' linear part (body: turned by the heading alone); `hold`, s.
        group: of the contract.
        clock: of the runtime.

    Raises:
        RookeryError: an option is wrong, the policy gives no velocities, or cyclonedds is not installed.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("domain", "odometry", "imu", "commands", "stamped", "axes", "hold")
        if not address.host or address.port is not None or address.path:
            raise RookeryError(
                f"{address.url} must name the network interface that the robot is at, such as ros2://eth0."
            )
        cyclone("ros2")
        if group.spec.action.kind not in KINDS:
            raise RookeryError(
                f"ros2:// flies multirotors by twists, and the policy's action kind is {group.spec.action.kind}, not velocity."
            )
        self.url = address.url
        self._clock = clock
        self._interface = address.host
        self._domain = address.whole("domain", 0, DOMAINS - 1)
        self._hold_s = address.option("hold", HOLD_S)
        self._axes = address.options.get("axes", AXES[0])
        if self._axes not in AXES:
            raise RookeryError(f"axes must be one of {', '.join(AXES)} in {address.url}, got {self._axes!r}.")
        self._stamped = bool(address.whole("stamped", 0, 1))
        self._topics = {name: address.options.get(name, default) for name, default in (
            ("odometry", ODOMETRY), ("imu", ""), ("commands", COMMANDS)
        )}  # fmt: skip
        self._dds_topics = {name: dds_topic(topic) for name, topic in self._topics.items() if topic}
        self._odometry: Any = None
        self._imu: Any = None
        self._commands: Any = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._turning: tuple[float, Array] | None = None  # s, and angular velocity of an IMU
        self._wanted = np.zeros(4)  # m/s, world, and rad/s
        self._active = False
        self._stamp = -math.inf
        self._start: Array | None = None
        self._still_since: float | None = None

    # -- before motors turn ------------------------------------------------------------------------------------

    def open(self, timeout_s: float = OPEN_S) -> Identity:
        k = ros_types()
        participant = Participant(self._interface, self._domain)
        kind = k.TwistStamped if self._stamped else k.Twist
        self._odometry = participant.objects(self._dds_topics["odometry"], k.Odometry)
        if "imu" in self._dds_topics:
            self._imu = participant.objects(self._dds_topics["imu"], k.Imu)
        where = f"on {self._interface}, domain {self._domain}"
        self._wait(
            self._has_reading, timeout_s,
            f"nobody publishes nav_msgs/Odometry to {self._topics['odometry']} {where}"
            + (f", or no sensor_msgs/Imu to {self._topics['imu']}" if self._imu is not None else ""),
        )  # fmt: skip
        self._check_alone(participant, kind)
        self._commands = participant.objects_writer(self._dds_topics["commands"], kind)
        name = "TwistStamped" if self._stamped else "Twist"
        self._wait(
            self._commands.get_matched_subscriptions, timeout_s,
            f"nobody listens to geometry_msgs/{name} on {self._topics['commands']} {where}",
        )  # fmt: skip
        self._reading = None  # the first has grown old meanwhile
        self._wait(self._has_reading, timeout_s, f"{self._topics['odometry']} has gone silent {where}")
        self._thread = threading.Thread(target=self._run, name="rookery-ros2", daemon=True)
        self._thread.start()
        return Identity("multirotor", f"{self._topics['odometry']} {where}", KINDS, QUANTITIES, 1.0 / PERIOD_S)

    def _has_reading(self) -> bool:
        self._receive()
        return self._reading is not None

    def _check_alone(self, participant: Participant, kind: Any) -> None:
        others = participant.objects(self._dds_topics["commands"], kind)
        end = time.monotonic() + OTHERS_S
        while time.monotonic() < end:
            if others.take(TAKEN):
                raise RookeryError(
                    f"{self.url}: another program publishes to {self._topics['commands']}: end it first."
                )
            self._pause()

    def _pause(self) -> None:
        time.sleep(0.005)

    def _wait(self, condition: Any, timeout_s: float, otherwise: str) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise RookeryError(f"{self.url}: {otherwise} ({timeout_s:g} s waited).")
            self._pause()

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        repeat(lambda: self._cycle(), PERIOD_S, self._over)

    def _cycle(self) -> None:
        """Take what has arrived; send a twist."""
        self._receive()
        self._send()

    def _receive(self) -> None:
        now = self._clock.now()
        for sample in [] if self._imu is None else self._imu.take(TAKEN):
            turning = read_imu(sample)
            if turning is not None:
                self._turning, self.heard = (now, turning), now
        for sample in self._odometry.take(TAKEN):
            told = read_odometry(sample)
            if told is None:
                continue
            self.heard = now
            measured, values = told
            received = now
            if self._imu is not None:
                if self._turning is None:
                    continue
                received = min(now, self._turning[0])
                values["angular velocity"] = self._turning[1]
            self._reading = Reading(received, measured, values, armed=self._active, landed=self._landed(values, now))

    def _landed(self, values: dict[str, Array], now: float) -> bool | None:
        if self._start is None:
            return None
        low = abs(float(values["position"][2] - self._start[2])) < LANDED_M
        if not (low and float(np.linalg.norm(values["velocity"])) < LANDED_M_S):
            self._still_since = None
        elif self._still_since is None:
            self._still_since = now
        return self._still_since is not None and now - self._still_since >= LANDED_S

    def _send(self) -> None:
        with self._lock:
            wanted, active = self._wanted.copy(), self._active and self._commands is not None
            age = self._clock.now() - self._stamp
        if not active or age > self._hold_s + DESCENT_S:
            return
        if age > self._hold_s:
            wanted = np.array((0.0, 0.0, -LAND_M_S, 0.0))
        reading = self._reading
        if self._axes == "body" and reading is not None:
            yaw = euler(reading.values["rotation"])[2]
            if math.isfinite(yaw):
                c, s = math.cos(yaw), math.sin(yaw)
                wanted[:2] = c * wanted[0] + s * wanted[1], c * wanted[1] - s * wanted[0]
        message = twist(wanted[:3], wanted[3])
        if self._stamped:
            frame = "base_link" if self._axes == "body" else "odom"
            message = ros_types().TwistStamped(header(self._clock.now(), frame), message)
        self._commands.write(message)

    # -- what the loop asks ------------------------------------------------------------------------------------

    def read(self) -> Reading | None:
        return self._reading

    def _set(self, values: ArrayLike) -> None:
        with self._lock:
            self._wanted, self._active = np.array(values, float), True
            self._stamp = self._clock.now()

    def arm(self) -> None:
        if self._reading is not None:
            self._start = self._reading.values["position"]
        self._set(np.zeros(4))

    def disarm(self) -> None:
        """Silence: the robot stops its motors by itself."""
        with self._lock:
            self._active = False

    def engage(self) -> None:
        """Its twists are enough."""

    @property
    def engaged(self) -> bool:
        return self._active

    def write(self, kind: str, command: ArrayLike) -> None:
        self._set(command)

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        reading = self._reading
        if reading is None:
            return
        wanted = PLACE * (np.asarray(position, float) - reading.values["position"])
        wanted *= min(1.0, FASTEST / max(float(np.linalg.norm(wanted)), 1e-9))
        heading = euler(reading.values["rotation"])[2]
        self._set([*wanted, YAW * math.remainder(yaw - heading, 2.0 * math.pi)])

    def react(self, reaction: str) -> None:
        landed = self._reading is not None and self._reading.landed
        if reaction == "stop" or landed:  # a watchdog asks again and again, and nobody else may be left to end it
            self.disarm()
        else:
            self._set((0.0, 0.0, -LAND_M_S, 0.0))
            self._send()  # not a period later

    def close(self) -> None:
        """A descent for a vehicle that flies, and silence."""
        if self._active:
            self.react("land")
        self._over.set()
        if self._thread is not None:
            self._thread.join(1.0)
            if self._active:
                for _ in range(3):
                    self._send()
                    self._pause()
        self._thread = None
        self._odometry = self._imu = self._commands = None
