"""EntryMotion and exit: how a vehicle comes to where a policy can begin, and safely down again.

A multirotor takes off to a height over where it stands and comes down by position set-points of its own controller. A jointed
robot moves to its home pose with rising stiffness, and back to the pose in which it was found.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.reading import Array, Reading

TAKE_OFF_M = 1.0  # m, height over the start; within a policy's starts, out of the ground effect of small drones
CLIMB_M_S = 0.5  # m/s, at which position set-points move
NEAR_M = 0.1  # m, from the set-point that counts as there
SLOW_M_S = 0.2  # m/s
SETTLED_S = 0.5  # s, that it must hold
STAND_S = 2.0  # s, from the pose in which a robot is found to its home pose


class EntryMotion(abc.ABC):
    """Takes a vehicle to a policy's beginning and down again."""

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
    def begin_exit(self, reading: Reading, now: float) -> None:
        """The policy has ended."""

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
        w, x, y, z = reading.values["rotation"].astype(float)
        self._yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
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

    def begin_exit(self, reading: Reading, now: float) -> None:
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
    """A jointed robot's.

    Args:
        home, kp, kd: of the joints, in the contract's order.
        order: for each of them its place among the vehicle's joints.
    """

    def __init__(self, home: Array, kp: Array, kd: Array, order: list[int]) -> None:
        self._home, self._kp, self._kd, self._order = home, kp, kd, order
        self._from = self._home.copy()
        self._back = self._home.copy()
        self._began = 0.0

    def begin(self, reading: Reading, now: float) -> None:
        self._from = reading.values["joint angles"].copy()
        self._back = self._from.copy()
        self._began = now

    def _move(self, link: Link, start: Array, end: Array, now: float, soft: bool) -> float:
        share = min(1.0, (now - self._began) / STAND_S)
        smooth = share * share * (3.0 - 2.0 * share)
        gain = smooth if soft else 1.0
        link.hold_joints(start + smooth * (end - start), gain * self._kp, self._kd)
        return share

    def enter(self, link: Link, reading: Reading, now: float) -> None:
        self._move(link, self._from, self._home, now, soft=True)

    def entered(self, reading: Reading, now: float) -> bool:
        return now - self._began >= STAND_S + SETTLED_S

    def begin_exit(self, reading: Reading, now: float) -> None:
        self._from = reading.values["joint angles"].copy()
        self._began = now

    def leave(self, link: Link, reading: Reading, now: float) -> bool:
        return self._move(link, self._from, self._back, now, soft=False) >= 1.0


def entry_of(controller: Controller, identity: Identity) -> EntryMotion:
    """The entry for a policy and a vehicle."""
    if identity.family == "multirotor":
        return TakeOff(target=any(q.name == "target" for q in controller.wanted))
    actuation = controller.spec.actuation
    if actuation is None:
        raise RookeryError("the contract does not say what lies between actions and joints: export the policy again.")
    names = [joint.name for joint in actuation.joints]
    columns = np.array([(j.home, j.kp, j.kd) for j in actuation.joints], np.float32)
    return StandUp(columns[:, 0], columns[:, 1], columns[:, 2], [identity.joints.index(n) for n in names])
