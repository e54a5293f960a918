"""``unitree://INTERFACE``: a Unitree Go2 at its low level, by DDS on a network interface.

Reads `rt/lowstate` and writes `rt/lowcmd` at 500 Hz from a thread of its own, which repeats the newest set-point between the
steps of a slower policy. Liveness is judged by the stamp that the loop's own step sets: where it is older than `hold`, the
thread sends damping for a second, and then nothing. Units, order of motors and modes: unitree_sdk2, `go2_stand_example`.

The robot's own controller (sport mode) must be off, or both would pull at the motors: `open` asks the motion switcher, and
listens for set-points of anybody else.

For a policy that sees the ground it also reads the lidar's map and the trunk's place in it, see height_map.py.
"""

from __future__ import annotations

import threading
import time

import numpy as np
from numpy.typing import ArrayLike

from rookery.robots.quadrupeds.go2 import GO2
from rookery.robots.quadrupeds.model import LEGS
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.dds import Participant, TopicReader, TopicWriter, cyclone
from rookery.sim2real.links.height_map import (
    HEIGHT_MAP,
    MAPS,
    POSES,
    SEEN,
    TRUNK_POSE,
    GroundSampler,
    HeightMap,
    TrunkPose,
    ground_scan,
)
from rookery.sim2real.links.joints import KINDS, JointOrder, JointTargets
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.links.motion_switcher import check_mode
from rookery.sim2real.links.periodic import repeat
from rookery.sim2real.links.unitree_messages import (
    FEET,
    LOW_CMD,
    LOW_LEVEL,
    LOW_STATE,
    MOTORS,
    POSITION_OFF,
    SERVO,
    VELOCITY_OFF,
    Record,
    intact,
    seal,
)
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.estimators import EstimatorChoice
from rookery.sim2real.runtime.reading import FOOT_FORCES, SPECIFIC_FORCE, Array, Reading

STATES, COMMANDS = "rt/lowstate", "rt/lowcmd"
PERIOD_S = 0.002
HOLD_S = 0.06  # s that a set-point is repeated; the robot must be safe 80 ms after the last step of the loop
DAMP_S = 1.0  # s of damping after that, so that lost messages do not matter, before silence
OTHERS_S = 0.3  # s in which set-points of others would be heard
SWITCHER_S = 0.5  # s for the motion switcher to answer
GROUND_S = 3.0  # s for a map of the ground to arrive
OVERTAKEN_S = (
    1.0  # s; a state that is older than the newest by less was overtaken on its way, by more: the clock went back
)
DAMPING = 5.0  # of the fail-safe, by that of the servos; as that of simulated legs
STILL_RAD_S, STILL_S = 0.3, 0.5  # joints that only damp and are so slow for so long: it lies
MARGIN_RAD = 0.3  # outside of a joint's range that encoders may tell
MEASURED = (
    "joint angles",
    "joint velocities",
    "joint torques",
    "rotation",
    "angular velocity",
    SPECIFIC_FORCE,
    FOOT_FORCES,
)
N = len(MOTORS)
_FEET = [FEET.index(leg) for leg in LEGS]


def _attitude(state: Record) -> Array:
    """[4] w, x, y, z; NaN where it is no rotation: zeros would look like a robot that stands upright."""
    q: Array = state["imu_state"]["quaternion"]
    return q.copy() if abs(float(q @ q) - 1.0) < 0.1 else np.full(4, np.nan, np.float32)


class UnitreeLink(Link):
    """See the module.

    Args:
        address: the interface; options: `domain`, DDS's number, 0 unless asked; `hold`, s that a set-point is repeated.
        group: of the contract, for its joints.
        clock: of the runtime.

    Raises:
        RookeryError: the address has no interface, the contract's commands are no angles, or cyclonedds is not installed.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("domain", "hold")
        if not address.host or address.port is not None or address.path:
            raise RookeryError(
                f"{address.url} must name the network interface that the robot is at, such as unitree://eth0."
            )
        self.url = address.url
        cyclone()
        self._clock = clock
        self._interface = address.host
        self._domain = address.whole("domain", 0, 232)
        self._hold_s = address.option("hold", HOLD_S)
        self._contract = JointTargets(group)
        self._order: JointOrder | None = None
        self.estimate_by(EstimatorChoice())
        self._states: TopicReader[Record] | None = None
        self._commands: TopicWriter[Record] | None = None
        scan = ground_scan(group)
        self._ground = None if scan is None else GroundSampler(scan)
        self._maps: TopicReader[HeightMap] | None = None
        self._poses: TopicReader[TrunkPose] | None = None
        self._heights: Array | None = None  # the newest of the ground
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._refused = 0  # states whose CRC was wrong
        self._setpoint: Record | None = None
        self._held: tuple[Array, Array, Array] | None = None
        self._stamp = -np.inf
        self._tells_mode = False  # simulators leave it at 0
        self._still_since: float | None = None

    # -- before motors turn ------------------------------------------------------------------------------------

    def estimate_by(self, choice: EstimatorChoice) -> None:
        self._estimator = choice.made(GO2, MOTORS)

    def open(self, timeout_s: float = 10.0) -> Identity:
        participant = Participant(self._interface, self._domain)
        if self._ground is not None:
            self._maps, self._poses = participant.reader(MAPS, HEIGHT_MAP), participant.reader(POSES, TRUNK_POSE)
        self._states = participant.reader(STATES, LOW_STATE)
        others = participant.reader(COMMANDS, LOW_CMD)
        first = self._first(timeout_s)
        self._check_joints(first)
        if np.isnan(_attitude(first)).any():
            raise RookeryError(f"{self.url}: the robot's IMU tells no attitude, whose quaternion has length 1.")
        if self._ground is not None:
            self._find_ground(self._ground, _attitude(first))
        mode = check_mode(participant, SWITCHER_S)
        if mode:
            raise RookeryError(
                f"{self.url}: the robot's own controller {mode!r} is on: lay the robot down and switch it off (docs/fly.md)."
            )
        others.take()
        time.sleep(OTHERS_S)
        if others.take():
            raise RookeryError(
                f"{self.url}: another program sends set-points to this robot: its sport mode (docs/fly.md), or another runtime."
            )
        self._commands = participant.writer(COMMANDS, LOW_CMD)
        if set(self._contract.names) <= set(MOTORS):  # others are refused by the check of the contract
            self._order = JointOrder(self._contract.names, MOTORS)
        self._thread = threading.Thread(target=self._run, name="rookery-unitree", daemon=True)
        self._thread.start()
        version = ".".join(str(v) for v in first["version"].tolist())
        estimated = dict(self._estimator.quantities) | ({} if self._ground is None else {self._ground.name: SEEN})
        quantities = (*MEASURED, *estimated)
        by = self._estimator.name
        return Identity("joints", "Go2", KINDS, quantities, 1.0 / PERIOD_S, MOTORS, version, estimated, by)

    def _first(self, timeout_s: float) -> Record:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            record = self._newest()
            if record is not None:
                return record
            time.sleep(0.01)
        where = f"{self.url} (domain {self._domain})"
        if self._refused:
            raise RookeryError(f"{where}: all {self._refused} messages of the robot have a wrong CRC: is it a Go2?")
        raise RookeryError(f"no robot sends {STATES} at {where}: is it on, and this machine in its network?")

    def _check_joints(self, state: Record) -> None:
        """The protocol tells no names: angles that the joint of a motor cannot have tell of another order or robot."""
        for i, name in enumerate(MOTORS):
            k = GO2.joints.index(name)
            low, high = GO2.lower[k], GO2.upper[k]
            angle = float(state["motor_state"]["q"][i])
            if not low - MARGIN_RAD <= angle <= high + MARGIN_RAD:
                raise RookeryError(
                    f"{self.url}: motor {i} should be {name} and is at {angle:.2f} rad, outside its range ({low:.2f} to "
                    f"{high:.2f}): another order of joints, or no Go2."
                )

    def _find_ground(self, ground: GroundSampler, rotation: Array) -> None:
        """Wait for a map and a place in it."""
        end = time.monotonic() + GROUND_S
        while self._look(ground, rotation) is None:
            if time.monotonic() > end:
                raise RookeryError(
                    f"{self.url}: the policy sees the ground, and the robot sends no map of it ({MAPS}) or not its place "
                    f"there ({POSES}): is its lidar on (docs/fly.md)?"
                )
            time.sleep(0.01)

    def _look(self, ground: GroundSampler, rotation: Array) -> float | None:
        """s, the runtime's clock when what is known of the ground had arrived; None where nothing is known."""
        assert self._maps is not None and self._poses is not None
        now = self._clock.now()
        for pose in self._poses.take():
            ground.take_pose(pose, now, rotation)
        for new in self._maps.take():
            ground.take_map(new, now)
        found = ground.heights(rotation)
        if found is None:
            return None
        self._heights = found
        return ground.received

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        repeat(lambda: self._cycle(), PERIOD_S, self._over)

    def _cycle(self) -> None:
        """The newest state in, a set-point out."""
        record = self._newest()
        if record is not None:
            self._receive(record)
        self._send()

    def _newest(self) -> Record | None:
        """The newest state that has arrived and is whole."""
        assert self._states is not None
        newest = None
        for record in self._states.take():
            if intact(record):
                newest = record
            else:
                self._refused += 1
        return newest

    def _receive(self, record: Record) -> None:
        now = self._clock.now()
        self.heard = now
        measured = int(record["tick"]) / 1e3
        if self._reading is not None and 0.0 < self._reading.measured - measured < OVERTAKEN_S:
            return
        motors, imu, battery = record["motor_state"][:N], record["imu_state"], record["bms_state"]
        joints = {"joint angles": "q", "joint velocities": "dq", "joint torques": "tau_est"}
        values = {name: motors[field].copy() for name, field in joints.items()}
        values |= {
            "rotation": _attitude(record), "angular velocity": imu["gyroscope"].copy(),
            SPECIFIC_FORCE: imu["accelerometer"].copy(), FOOT_FORCES: record["foot_force"][_FEET].astype(np.float32),
        }  # fmt: skip
        estimates = self._estimator.update(values, measured)
        ground = None if self._ground is None else self._see(self._ground, values["rotation"], estimates, measured)
        slow = float(np.abs(values["joint velocities"]).max()) < STILL_RAD_S
        if self._order is not None:
            values |= {name: self._order.from_vehicle(values[name]) for name in joints}
        with self._lock:
            soft = self._setpoint is None or not self._setpoint["motor_cmd"]["kp"].any()
        if not (slow and soft):
            self._still_since = None
        elif self._still_since is None:
            self._still_since = now
        self._reading = Reading(
            now, measured, values,
            battery=int(battery["soc"]) / 100.0 if battery["soc"] or battery["cell_vol"].any() else None,
            armed=self._armed(bool((motors["mode"] == SERVO).all())),
            landed=self._still_since is not None and now - self._still_since >= STILL_S, estimates=estimates,
            ground=ground,
        )  # fmt: skip

    def _see(self, ground: GroundSampler, rotation: Array, estimates: dict[str, Array], measured: float) -> float:
        """Add the heights of the ground to the estimates; see `Reading.ground`."""
        dt = 0.0 if self._reading is None else measured - self._reading.measured
        if 0.0 < dt < OVERTAKEN_S and "velocity" in estimates:
            ground.move(estimates["velocity"], dt)
        arrived = self._look(ground, rotation)
        assert self._heights is not None  # `open` has waited for the first
        estimates[ground.name] = self._heights
        return -np.inf if arrived is None else arrived

    def _armed(self, servo: bool) -> bool | None:
        """True where the motors' mode says so; of a robot that does not tell it, only that it was asked to be off."""
        self._tells_mode |= servo
        asked = self._setpoint is not None and bool(self._setpoint["motor_cmd"]["mode"].any())
        return True if servo else None if asked and not self._tells_mode else False

    def _send(self) -> None:
        assert self._commands is not None
        with self._lock:
            setpoint = self._setpoint
            age = self._clock.now() - self._stamp
        if setpoint is None or age > self._hold_s + DAMP_S:
            return
        off = not setpoint["motor_cmd"]["mode"].any()
        if age > self._hold_s and not off:
            setpoint = self._soft()
        self._commands.write(setpoint)

    # -- what the loop asks ------------------------------------------------------------------------------------

    def read(self) -> Reading | None:
        return self._reading

    def _set(self, setpoint: Record) -> None:
        with self._lock:
            self._setpoint = setpoint
            self._stamp = self._clock.now()

    def _command(self, q: ArrayLike, kp: ArrayLike, kd: ArrayLike, mode: int = SERVO) -> Record:
        out = LOW_CMD.new()
        out["head"] = (0xFE, 0xEF)
        out["level_flag"] = LOW_LEVEL
        motors = out["motor_cmd"]
        motors["q"], motors["dq"] = POSITION_OFF, VELOCITY_OFF  # the 8 places without motors
        motors["q"][:N], motors["dq"][:N], motors["kp"][:N], motors["kd"][:N] = q, 0.0, kp, kd
        motors["mode"][:N] = mode
        return seal(out)

    def _soft(self) -> Record:
        assert self._order is not None
        return self._command(0.0, 0.0, self._order.to_vehicle(DAMPING * self._contract.kd))

    def arm(self) -> None:
        self._set(self._soft())

    def disarm(self) -> None:
        self._set(self._command(0.0, 0.0, 0.0, mode=0))

    def engage(self) -> None:
        """Its set-points are enough."""

    @property
    def engaged(self) -> bool:
        return self._setpoint is not None and self._reading is not None and self._reading.armed is not False

    def write(self, kind: str, command: ArrayLike) -> None:
        c = self._contract
        self.hold_joints(c.targets(np.asarray(command, np.float32)), c.kp, c.kd)

    def hold_joints(self, position: ArrayLike, stiffness: ArrayLike, damping: ArrayLike) -> None:
        if self._order is None:
            return
        q, kp, kd = (np.array(values, np.float32) for values in (position, stiffness, damping))
        self._held = (q, kp, kd)
        turned = self._order.to_vehicle
        self._set(self._command(turned(q), turned(kp), turned(kd)))

    def react(self, reaction: str) -> None:
        if reaction == "hold" and self._held is not None:
            self.hold_joints(*self._held)
        else:
            self._set(self._soft())

    def close(self) -> None:
        """Let the thread send the end, off where it was asked to be, damping otherwise, and stop it."""
        self._over.set()
        if self._thread is None or self._commands is None:
            return
        self._thread.join(1.0)
        last = self._setpoint
        if last is not None:
            off = not last["motor_cmd"]["mode"].any()
            for _ in range(25):
                self._commands.write(last if off else self._soft())
                time.sleep(PERIOD_S)
        self._states = self._commands = self._thread = None
