"""EntryMotion and exit: how a vehicle comes to where a policy can begin, and safely down again.

A multirotor takes off to a height over where it stands and comes down by position set-points of its own controller. A jointed
robot stiffens and moves to its home pose, and goes back to the pose in which it was found, where it is let go. An arm goes to
where a policy's episodes begin, and back there at the end.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.arm_drive import check_arm
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.joints import JointTargets
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.reading import Array, Reading

TAKE_OFF_M = 1.0  # m, height over the start; within a policy's starts, out of the ground effect of small drones
CLIMB_M_S = 0.5  # m/s, at which position set-points move
NEAR_M = 0.1  # m, from the set-point that counts as there
SLOW_M_S = 0.2  # m/s
SETTLED_S = 0.5  # s, that it must hold
STAND_S = 2.0  # s, from the pose in which a robot is found to its home pose
STAND_STILL_S = 0.6  # s, from a policy's last targets to its home pose
STIFFEN_S = 0.5  # s, in which the servos' stiffness rises or falls
NEAR_RAD = 0.4  # rad, of every joint from home that counts as standing: soft servos give way under the weight
SPEED_SHARE = 0.2  # of the joints' limits of speed, at most, on an arm's way home
LEAST_S = 1.0  # s, of that way
PEAK = 1.5  # greatest speed of a smooth step by its mean
HOME_RAD = 0.02  # rad, of every joint from its goal that counts as home
FAR_RAD = 6.0  # rad, beyond which a way is no arm's


class EntryMotion(abc.ABC):
    """Takes a vehicle to a policy's beginning and down again.

    Attributes:
        disarms: whether a vehicle may disarm by itself on its way down, as autopilots do on the ground.
    """

    disarms: ClassVar[bool] = True

    @abc.abstractmethod
    def begin(self, reading: Reading, now: float) -> None:
        """Motors may turn."""

    @abc.abstractmethod
    def enter(self, link: Link, reading: Reading, now: float) -> None:
        """A step on the way in."""

    @abc.abstractmethod
    def entered(self, reading: Reading, now: float) -> bool:
        """True when the policy can begin."""

    @abc.abstractmethod
    def begin_exit(self, reading: Reading, now: float, command: Array | None = None) -> None:
        """The policy has ended, `command` is its last one; None where it has given none since the entry."""

    @abc.abstractmethod
    def leave(self, link: Link, reading: Reading, now: float) -> bool:
        """A step on the way down; True when motors may stop."""

    def commands(self, reading: Reading) -> Mapping[str, Array]:
        """Values of commands where the operator gives none."""
        return {}


class TakeOff(EntryMotion):
    """A multirotor's.

    Args:
        height: m, over where it stands.
        target: whether the policy wants a target.
    """

    def __init__(self, height: float = TAKE_OFF_M, target: bool = True) -> None:
        self.height = height
        self._target = target
        self._from = np.zeros(3)
        self._goal = np.zeros(3)
        self._yaw = 0.0
        self._began = 0.0
        self._settled: float | None = None

    def begin(self, reading: Reading, now: float) -> None:
        position = reading.values["position"].astype(float)
        self._yaw = euler(reading.values["rotation"])[2]
        self._from = position
        self._goal = position + np.array((0.0, 0.0, self.height))
        self._began = now
        self._settled = None

    def enter(self, link: Link, reading: Reading, now: float) -> None:
        climbed = min(1.0, CLIMB_M_S * (now - self._began) / self.height)
        link.go_to(self._from + climbed * (self._goal - self._from), self._yaw)

    def entered(self, reading: Reading, now: float) -> bool:
        away = np.linalg.norm(reading.values["position"] - self._goal)
        speed = np.linalg.norm(reading.values["velocity"])
        if away > NEAR_M or speed > SLOW_M_S:
            self._settled = None
            return False
        if self._settled is None:
            self._settled = now
        return now - self._settled >= SETTLED_S

    def begin_exit(self, reading: Reading, now: float, command: Array | None = None) -> None:
        self._goal = reading.values["position"].astype(float)
        self._began = now

    def leave(self, link: Link, reading: Reading, now: float) -> bool:
        if reading.landed:
            return True
        down = CLIMB_M_S * (now - self._began)
        # past the ground, until the vehicle itself says that it stands
        link.go_to(self._goal - np.array((0.0, 0.0, down)), self._yaw)
        return False

    def commands(self, reading: Reading) -> Mapping[str, Array]:
        return {"target": self._goal.astype(np.float32)} if self._target else {}


class StandUp(EntryMotion):
    """A jointed robot's: stiffness rises where it was found, then it moves to its home pose. On the way out it stands on all
    legs first, moves to the pose in which it was found, and lets stiffness fall.

    Args:
        joints: of the contract.
    """

    def __init__(self, joints: JointTargets) -> None:
        self._joints = joints
        self._found = joints.home.copy()
        self._sent = self._from = joints.home.copy()
        self._began = 0.0
        self._moves: list[_Move] = []

    def begin(self, reading: Reading, now: float) -> None:
        self._found = self._sent = reading.values["joint angles"].copy()
        self._start(now, _Move(STIFFEN_S, self._found, gain=(0.0, 1.0)), _Move(STAND_S, self._joints.home))

    def _start(self, now: float, *moves: _Move) -> None:
        self._moves = list(moves)
        self._from = self._sent
        self._began = now

    def _move(self, link: Link, now: float) -> bool:
        """A step of the moves; True when they are over."""
        start, time = self._from, now - self._began
        for move in self._moves:
            share = min(1.0, time / move.seconds)
            smooth = share * share * (3.0 - 2.0 * share)
            self._sent = start + np.float32(smooth) * (move.end - start)
            gain = move.gain[0] + smooth * (move.gain[1] - move.gain[0])
            if share < 1.0:
                break
            start, time = move.end, time - move.seconds
        else:
            time = math.inf
        link.hold_joints(self._sent, gain * self._joints.kp, self._joints.kd)
        return time == math.inf

    def enter(self, link: Link, reading: Reading, now: float) -> None:
        self._move(link, now)

    def entered(self, reading: Reading, now: float) -> bool:
        over = now - self._began >= sum(move.seconds for move in self._moves) + SETTLED_S
        return over and bool(np.abs(reading.values["joint angles"] - self._joints.home).max() < NEAR_RAD)

    def begin_exit(self, reading: Reading, now: float, command: Array | None = None) -> None:
        # from its targets: from the measured angles, soft servos would let go of the weight at once
        if command is not None:
            self._sent = self._joints.targets(command)
        out = _Move(STAND_STILL_S, self._joints.home), _Move(STAND_S, self._found)
        self._start(now, *out, _Move(STIFFEN_S, self._found, gain=(1.0, 0.0)))

    def leave(self, link: Link, reading: Reading, now: float) -> bool:
        return self._move(link, now)


@dataclass(frozen=True)
class _Move:
    """A smooth move to joint angles `end` [J] rad, while the share of the servos' stiffness goes from one value to another."""

    seconds: float
    end: Array
    gain: tuple[float, float] = (1.0, 1.0)


class Homing(EntryMotion):
    """An arm's: straight in joint angles, at limited speed.

    Args:
        group: of the contract.
    """

    disarms: ClassVar[bool] = False

    def __init__(self, group: ContractGroup) -> None:
        actuation = check_arm(group)
        assert actuation.chain is not None and actuation.references is not None
        self._home = np.array(actuation.chain.start, np.float32)
        self._top = np.array(actuation.references.speed, np.float32)
        self._kp, self._kd = np.array([(j.kp, j.kd) for j in actuation.joints], np.float32).T
        self._from = self._home
        self._began = self._seconds = 0.0

    def _begin(self, reading: Reading, now: float) -> None:
        self._from = reading.values["joint angles"].copy()
        way = np.abs(self._home - self._from)
        if not way.max() < FAR_RAD:
            raise RookeryError(
                f"the arm is {way.max():.1f} rad from where the policy begins: its joints are not the contract's."
            )
        self._began = now
        self._seconds = max(LEAST_S, PEAK * float((way / (SPEED_SHARE * self._top)).max()))

    def _move(self, link: Link, now: float) -> float:
        """A step of the way; s since its end."""
        share = float(np.clip((now - self._began) / self._seconds, 0.0, 1.0))
        smooth = np.float32(share * share * (3.0 - 2.0 * share))
        link.hold_joints(self._from + smooth * (self._home - self._from), self._kp, self._kd)
        return now - self._began - self._seconds

    def _there(self, reading: Reading) -> bool:
        return bool(np.abs(reading.values["joint angles"] - self._home).max() < HOME_RAD)

    def begin(self, reading: Reading, now: float) -> None:
        self._begin(reading, now)

    def enter(self, link: Link, reading: Reading, now: float) -> None:
        self._move(link, now)

    def entered(self, reading: Reading, now: float) -> bool:
        return now - self._began - self._seconds >= SETTLED_S and self._there(reading)

    def begin_exit(self, reading: Reading, now: float, command: Array | None = None) -> None:
        self._begin(reading, now)

    def leave(self, link: Link, reading: Reading, now: float) -> bool:
        return self._move(link, now) >= SETTLED_S and self._there(reading)


def entry_of(controller: Controller, identity: Identity) -> EntryMotion:
    """The entry for a policy and a vehicle."""
    if identity.family == "multirotor":
        return TakeOff(target=any(q.name == "target" for q in controller.wanted))
    if identity.family == "arm":
        return Homing(controller.spec)
    return StandUp(JointTargets(controller.spec))
