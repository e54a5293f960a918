"""Franka arms by their control interface (FCI): ``franka://HOST?gripper=1&tracker=PORT``.

Positions of joints at 1 kHz through pylibfranka, Franka's own library, from a process of its own (`franka_servo`); the hand
through another. What the arm does not measure, such as places of objects, comes from a tracker by UDP (`tracker`).
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import franka_servo as servo
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.arm_drive import DERIVED, KINDS, QUANTITIES, ArmDrive
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.links.tracker import Tracker
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading

COLLISION = 0.5  # share of the limits of torque at which the arm stops itself: above the runtime's own
GRIPPER_STALE_S = 0.5  # s: the hand's width comes slowly, and not at all while some commands run
MODES = {servo.READY: "ready", servo.MOVING: "moving", servo.STOPPED: "stopped", servo.GONE: "gone"}


class FrankaLink(Link):
    """See the module.

    Args:
        address: of the arm.
        group: of the contract.
        clock: of the runtime, the machine's monotonic one.

    Raises:
        RookeryError: pylibfranka is not installed, an option is wrong, or the contract's commands lead to no joint positions.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("gripper", "tracker")
        if not address.host:
            raise RookeryError(f"{address.url} names no host: write franka://172.16.0.2.")
        if address.port is not None:
            raise RookeryError(f"{address.url}: FCI has a port of its own, 1337; leave :{address.port} out.")
        if importlib.util.find_spec("pylibfranka") is None:
            raise RookeryError("franka:// needs pylibfranka: pip install 'rookery[franka]'.")
        self.url = address.url
        self._host = address.host
        self._group, self._clock = group, clock
        self.drive = ArmDrive(group, servo.PERIOD_S, servo.FR3)  # of its kinematics alone: the servo has its own
        if set(self.drive.names) != set(servo.JOINTS):
            raise RookeryError(
                f"the contract's joints are {', '.join(self.drive.names)}, and an arm's are {', '.join(servo.JOINTS)}."
            )
        port = address.whole("tracker", 0, 65535)
        self._tracker = Tracker(port) if port else None
        self._grips = self.drive.grips and address.option("gripper", 1) != 0
        self._shared = servo.Shared.make()
        self._processes: list[Any] = []
        self._order = dict.fromkeys(servo.ORDER, 0.0)
        self._values = np.zeros(servo.MOST)
        self._stopping = False

    # -- who is there ------------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 10.0) -> Identity:
        make = multiprocessing.get_context("spawn")
        torque = np.zeros(7)
        torque[[servo.JOINTS.index(n) for n in self.drive.names]] = COLLISION * self.drive.torque
        given: list[tuple[Any, tuple[Any, ...]]] = [(servo.run_servo, (self._host, self._group, torque, self._shared))]
        if self._grips:
            given.append((servo.run_gripper, (self._host, self.drive.opened, self._shared)))
        for target, args in given:
            self._processes.append(make.Process(target=target, args=args, daemon=True))
            self._processes[-1].start()
        self._wait(timeout_s)
        seen = () if self._tracker is None else tuple(self._tracker.values)
        names = (*QUANTITIES, *(q.name for q in DERIVED), *seen)
        return Identity("arm", "Franka arm", KINDS, names, 1.0 / servo.PERIOD_S, servo.JOINTS)

    def _wait(self, timeout_s: float) -> None:
        """Until arm, hand and tracker have spoken."""
        end = time.monotonic() + timeout_s
        while True:
            news = self._shared.news.read()
            hand = self._shared.hand.read()
            if self._tracker is not None:
                self._tracker.receive(self._clock.now())
            lacking = "the arm" if news is None or news[2] == servo.GONE else ""
            lacking = lacking or ("the gripper" if self._grips and hand is None else "")
            lacking = lacking or (f"the tracker on UDP port {self._tracker.port}" if self._unseen else "")  # type: ignore[union-attr]
            if not lacking:
                return
            dead = any(not p.is_alive() for p in self._processes)
            if dead or time.monotonic() > end:
                why = self._shared.said(hand=lacking == "the gripper")
                self.close()
                advice = ": give ?gripper=0 if it has none" if lacking == "the gripper" else ""
                raise RookeryError(f"{self.url}: {lacking} does not answer{f' ({why})' if why else ''}{advice}.")
            time.sleep(0.01)

    @property
    def _unseen(self) -> bool:
        return self._tracker is not None and not self._tracker.values

    # -- news --------------------------------------------------------------------------------------------------

    def read(self) -> Reading | None:
        news = self._shared.news.read()
        if news is None:
            return None
        now = self._clock.now()
        head = dict(zip(servo.NEWS, news, strict=False))
        self.heard = max(self.heard, head["stamp"])
        if head["state"] != servo.MOVING:
            self._send()  # the runtime waits, and is alive
        at = len(servo.NEWS)
        arrays = {}
        for name, count in servo.ARRAYS:
            arrays[name] = news[at : at + count].astype(np.float32)
            at += count
        received = head["stamp"]
        values = dict(zip(QUANTITIES, (arrays[n] for n in ("q", "dq", "tau", "external")), strict=False))
        values[OPENING.name] = np.array([self._width(head["opening"], now)], np.float32)
        derived = self.drive.derived(values["joint angles"], arrays["goal"])
        if self._tracker is not None:
            self._tracker.receive(now)
            values |= self._tracker.values
            received = min(received, self._tracker.heard)
        state = int(head["state"])
        mode = f"{MODES[state]}: {self._shared.said()}" if state in (servo.STOPPED, servo.GONE) else MODES[state]
        return Reading(received, head["time"], values, armed=state == servo.MOVING, mode=mode, estimates=derived)

    def _width(self, wish: float, now: float) -> float:
        """m, of the hand; without one what the policy asks for."""
        hand = self._shared.hand.read() if self._grips else None
        return float(wish) if hand is None or now - hand[0] > GRIPPER_STALE_S else float(hand[1])

    def statistics(self) -> Mapping[str, float]:
        news = self._shared.news.read()
        if news is None:
            return {}
        head = dict(zip(servo.NEWS, news, strict=False))
        return {"cycles": head["cycles"], "lost_cycles": head["lost"], "answered": head["rate"]}

    # -- orders ------------------------------------------------------------------------------------------------

    def _send(self, kind: int | None = None, values: ArrayLike | None = None) -> None:
        if kind is not None:
            self._order["kind"] = kind
        if values is not None:
            given = np.asarray(values, float)
            self._values[: given.size] = given
            self._order["number"] += 1
        self._order["stamp"] = self._clock.now()
        self._shared.orders.write(np.concatenate(([self._order[n] for n in servo.ORDER], self._values)))

    def arm(self) -> None:
        self._stopping = False
        self._order["arm"] += 1
        self._send(servo.IDLE)

    def disarm(self) -> None:
        self._send(servo.STOP)

    def engage(self) -> None:
        """Its joint positions are enough."""

    @property
    def engaged(self) -> bool:
        news = self._shared.news.read()
        return news is not None and news[2] == servo.MOVING

    def begin(self) -> None:
        self._order["begin"] += 1

    def write(self, kind: str, command: ArrayLike) -> None:
        if not self._stopping:
            self._send(servo.COMMAND, command)

    def hold_joints(self, position: ArrayLike, stiffness: ArrayLike, damping: ArrayLike) -> None:
        if not self._stopping:
            self._send(servo.GO, position)

    def react(self, reaction: str) -> None:
        self._stopping = True
        self._send(servo.STOP if reaction == "hold" else servo.RELEASE)

    def close(self) -> None:
        self._send(servo.QUIT)
        for process in self._processes:
            process.join(2.0)
            if process.is_alive():
                process.kill()
        self._processes = []
        if self._tracker is not None:
            self._tracker.close()
