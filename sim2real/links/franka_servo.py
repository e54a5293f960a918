"""The 1 kHz loop of a Franka arm, in a process of its own: the runtime's loop at 20 to 100 Hz may be late, this one may not.

It takes orders from a mailbox and gives news to another. Between two orders it runs the contract's references at 1 kHz
(`ArmDrive`), so that positions keep the limits of speed, acceleration and jerk of contract and arm. Where orders stay away it
brakes along its way, ends the motion and leaves the arm to its own controller: after a runtime that hangs or was killed, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.arm_drive import ArmDrive, MotionLimits, SpeedEnvelope
from rookery.sim2real.links.mailbox import ProcessMailbox
from rookery.sim2real.runtime.priority import PRIORITY, real_time

PERIOD_S = 0.001
JOINTS = tuple(f"joint{i}" for i in range(1, 8))
SHARE = 0.95  # of the arm's limits of speed and acceleration
JERK_SHARE = 0.85  # of its limit of jerk: what it says of its references is rounded (`arm_drive.TAKEN`)
MARGIN = 0.15  # rad/s, below the speeds near the ends of joints: the arm is judged by its measured speed, which swings
ENVELOPE = SpeedEnvelope(
    (-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196),
    (2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196),
    tuple(v + MARGIN for v in (0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35)),
    (6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0),
)
FR3 = MotionLimits(
    (-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
    (2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159),
    tuple(SHARE * v for v in (2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26)),
    (SHARE * 10.0,) * 7,
    (JERK_SHARE * 5000.0,) * 7,
    ENVELOPE,
)
"""Franka Control Interface documentation, "Robot and interface specifications", FR3, the robot that FCI 10 is for. Its speeds
near the ends of joints are the `position_based_velocity_limits` of franka_description's FR3, as libfranka 0.21 has them."""
SILENT_S = 0.1  # s without an order after which the arm brakes
REST_RAD_S = 1e-3  # rad/s, of references that may end a motion
MOST = 16  # numbers of a command

IDLE, GO, COMMAND, STOP, RELEASE, QUIT = range(6)
"""Kinds of orders: nothing; to joint angles; a policy's command; brake, then release; end the motion now; brake, then end the
process."""
ORDER = ("stamp", "kind", "number", "arm", "begin")
"""Numbers of an order before its values: s; kind; counts that rise with each command, request to arm and episode."""
READY, MOVING, STOPPED, GONE = range(4)
"""States: held by its own controller; moving by orders; stopped by itself, or refusing; the link is lost."""
NEWS = ("stamp", "time", "state", "rate", "opening", "cycles", "lost")
"""Numbers of news before the arrays: s of the runtime's clock and of the arm's; state; share of packets that arrived; m asked
of the gripper; control cycles of motions, and those of them of which no state came."""
ARRAYS = (("q", 7), ("dq", 7), ("tau", 7), ("external", 7), ("goal", 3))
NEWS_SIZE = len(NEWS) + sum(n for _, n in ARRAYS)


@dataclass
class Shared:
    """Memory that all processes have: orders, news, the gripper's width, and texts of the last error of arm and gripper."""

    orders: ProcessMailbox
    news: ProcessMailbox
    hand: ProcessMailbox
    error: Any
    hand_error: Any

    @classmethod
    def make(cls) -> Shared:
        """New ones."""
        return cls(ProcessMailbox(len(ORDER) + MOST), ProcessMailbox(NEWS_SIZE), ProcessMailbox(2), _text(), _text())

    def say(self, error: object, hand: bool = False) -> None:
        """Put the text of an error."""
        to = self.hand_error if hand else self.error
        to.value = str(error).strip().replace("libfranka: ", "").rstrip(".")[:255].encode("ascii", "replace")

    def said(self, hand: bool = False) -> str:
        """The text of the last error."""
        return bytes((self.hand_error if hand else self.error).value).decode("ascii", "replace")


def _text() -> Any:
    return RawArray(ctypes.c_char, 256)


class Order:
    """The newest order, and what is new about it."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._parent = os.getppid()
        self.seen = dict.fromkeys(ORDER, 0.0)
        self.values = np.zeros(MOST)
        self.fresh: set[str] = set()

    def take(self) -> int:
        """Read; its kind, QUIT where the runtime is gone."""
        message = self._shared.orders.read()
        if message is None:
            return IDLE
        now = dict(zip(ORDER, message, strict=False))
        self.fresh = {name for name in ("number", "arm", "begin") if now[name] != self.seen[name]}
        self.seen = now
        self.values = message[len(ORDER) :]
        return QUIT if os.getppid() != self._parent else int(now["kind"])

    @property
    def silent(self) -> bool:
        """True where the runtime has not spoken for SILENT_S."""
        return time.monotonic() - self.seen["stamp"] > SILENT_S


class Servo:
    """See the module.

    Args:
        host: the arm's.
        group: of the contract.
        collision: [7] N m, external torques at which the arm stops itself.
        shared: with the runtime.
    """

    def __init__(self, host: str, group: ContractGroup, collision: NDArray[np.float64], shared: Shared) -> None:
        import pylibfranka

        self._f = pylibfranka
        self._host, self._collision, self._shared = host, [float(v) for v in collision], shared
        self.drive = ArmDrive(group, PERIOD_S, FR3)
        self._order = [JOINTS.index(name) for name in self.drive.names]
        self._orders = Order(shared)
        self._total = self._lost = 0
        self._stopping = False
        self._state = READY

    def run(self) -> None:
        """Until the runtime says so, or is gone, or the arm is."""
        f = self._f
        try:
            # real-time priority is the runtime's to ask for: it works without
            robot = f.Robot(self._host, f.RealtimeConfig.kIgnore)
            robot.set_collision_behavior(self._collision, self._collision, [1e3] * 6, [1e3] * 6)
            while True:
                kind = self._orders.take()
                if kind == QUIT:
                    return
                self._publish(robot.read_once())
                if "arm" in self._orders.fresh:
                    self._move(robot)
        except (f.FrankaException, RuntimeError) as error:
            self._shared.say(error)
            self._state = GONE
            news = np.zeros(NEWS_SIZE)
            news[0], news[2] = time.monotonic(), GONE
            self._shared.news.write(news)

    def _move(self, robot: Any) -> None:
        """One motion, from standstill to standstill."""
        f = self._f
        self._stopping = False
        self._shared.say("")
        try:
            if robot.read_once().robot_mode == f.RobotMode.Reflex:
                robot.automatic_error_recovery()
            control = robot.start_joint_position_control(f.ControllerMode.JointImpedance)
            state, _ = control.readOnce()
            self.drive.start(np.array(state.q_d)[self._order])
            self._state = MOVING
            while True:
                angles = np.empty(7)
                over = self._follow(state)
                angles[self._order] = self.drive.position
                command = f.JointPositions(angles.tolist())
                command.motion_finished = over
                control.writeOnce(command)
                if over:
                    self._state = READY
                    return
                state, passed = control.readOnce()
                cycles = max(1, round(passed.to_sec() / PERIOD_S))
                self._total += cycles
                self._lost += cycles - 1
                self._publish(state)
        except (f.ControlException, f.CommandException) as error:
            self._shared.say(error)
            self._state = STOPPED

    def _follow(self, state: Any) -> bool:
        """The references of this cycle; True where the motion is to end."""
        drive, orders = self.drive, self._orders
        kind = orders.take()
        if kind == RELEASE:
            return True
        if kind in (STOP, QUIT) or orders.silent:
            if not self._stopping:
                drive.stop()
                self._stopping = True
        elif "number" in orders.fresh or "begin" in orders.fresh:
            q, dq = (np.array(x)[self._order] for x in (state.q, state.dq))
            if "begin" in orders.fresh:
                drive.begin_policy(q)
            if kind == GO:
                drive.go(orders.values[: len(q)])
            elif kind == COMMAND:
                drive.command(orders.values[: drive.size], q, dq)
        drive.resume(*(np.array(x)[self._order] for x in (state.q_d, state.dq_d, state.ddq_d)))
        drive.tick()
        return self._stopping and bool(np.abs(drive.speed).max() < REST_RAD_S)

    def _publish(self, state: Any) -> None:
        d, at = self.drive, self._order
        head = (
            time.monotonic(), state.time.to_sec(), self._state, state.control_command_success_rate, d.opening, self._total,
            self._lost,
        )  # fmt: skip
        arrays = (np.array(x)[at] for x in (state.q, state.dq, state.tau_J, state.tau_ext_hat_filtered))
        self._shared.news.write(np.concatenate((head, *arrays, d.goal)))


def run_servo(host: str, group: ContractGroup, collision: NDArray[np.float64], shared: Shared) -> None:
    """The process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the runtime's: it brakes the arm first
    with real_time(PRIORITY + 1):  # above the runtime, which may be late
        Servo(host, group, collision, shared).run()


GRIP_SPEED, GRIP_FORCE = 0.1, 20.0  # m/s, N: as in training
GRIP_CHANGE_M = 0.01  # m, of the wish, from which the hand is told: each command stops it first


def run_gripper(host: str, full: float, shared: Shared) -> None:
    """The process of the hand, whose commands block: follows the wish in the news, and says the width."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import pylibfranka

    parent = os.getppid()
    try:
        hand = pylibfranka.Gripper(host)
        told = hand.read_once().width
        shared.hand.write((time.monotonic(), told))
        while os.getppid() == parent:
            news = shared.news.read()
            wish = told if news is None or news[2] != MOVING else news[NEWS.index("opening")]
            if abs(wish - told) > GRIP_CHANGE_M:
                if wish < told:
                    hand.grasp(float(wish), GRIP_SPEED, GRIP_FORCE, full, full)
                else:
                    hand.move(float(wish), GRIP_SPEED)
                told = wish
            shared.hand.write((time.monotonic(), hand.read_once().width))
    except (pylibfranka.FrankaException, RuntimeError) as error:
        shared.say(error, hand=True)
