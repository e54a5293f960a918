"""The power section of a simulated servo drive: its state machine, and the demand that its position loop follows.

States and transitions are those of CiA 402-2 (IEC 61800-7-201, "Power drive system finite state automaton"). In the mode
"cyclic synchronous position" the demand goes straight to each target within the period of the set-points, at no more than the
drive's speed. Where the joint leaves the demand by more than the window for longer than the drive's patience, that is a fault.
Whenever it is not enabled the demand brakes, and the joint is held where that ends, as a brake holds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rookery.sim2real.links import cia402

FOLLOWING = 0x8611
"""Code of a following error (CiA 402-2)."""


@dataclass
class AxisLimits:
    """Limits that a drive enforces, SI: rad, or m of a linear axis.

    Args:
        lower, upper: of the target position.
        speed: of the demand.
        torque: N m, or N, of the motor at the joint.
        deceleration: rad/s^2, of quick stops and after faults.
        window: rad, allowed between demand and joint; infinity for drives that are stopped by what they grip.
        patience: s, that the joint may be outside of it.
    """

    lower: float
    upper: float
    speed: float
    torque: float
    deceleration: float
    window: float
    patience: float


class Axis:
    """See the module.

    Args:
        limits: its own; changed in place by its parameters.
        start: rad, of the joint.
        period: s, of `tick`.

    Attributes:
        state: of cia402.STATES.
        error: code of the last fault, 0 for none.
        mode: of operation; targets count in cia402.CYCLIC_SYNCHRONOUS_POSITION alone.
        demand, velocity: rad, rad/s, of the position loop.
        limited: whether a limit of the drive holds the demand back.
        following: whether the joint is outside of the window.
        share: of the torque limit that the motor may give, 0 to 1.
        stays: whether it stays in "quick stop active" after a quick stop.
    """

    def __init__(self, limits: AxisLimits, start: float, period: float) -> None:
        self.limits = limits
        self.state = cia402.SWITCH_ON_DISABLED
        self.error = 0
        self.mode = 0
        self.demand, self.velocity = start, 0.0
        self.limited = self.following = False
        self.share = 1.0
        self.stays = False
        self._dt = period
        self._target = start
        self._left = 0  # ticks until the target is due
        self._outside = 0.0
        self._word = 0

    @property
    def enabled(self) -> bool:
        """True while it follows targets."""
        return self.state == cia402.ENABLED

    @property
    def status(self) -> int:
        """The statusword."""
        word = cia402.STATES[self.state][1] | cia402.REMOTE
        if self.state in (cia402.READY, cia402.SWITCHED_ON, cia402.ENABLED, cia402.QUICK_STOP, cia402.FAULT_REACTION):
            word |= cia402.VOLTAGE
        if self.limited:
            word |= cia402.LIMITED
        if self.following:
            word |= cia402.FOLLOWING_ERROR
        if self.enabled and self.mode == cia402.CYCLIC_SYNCHRONOUS_POSITION:
            word |= cia402.FOLLOWS
        return word

    def control(self, word: int) -> None:
        """Take a controlword."""
        reset = bool(word & ~self._word & cia402.TO_RESET)
        self._word = word
        if self.state == cia402.FAULT:
            if reset:
                self.state, self.error = cia402.SWITCH_ON_DISABLED, 0
            return
        if self.state == cia402.FAULT_REACTION:
            return
        if not word & 0x02:
            self._to(cia402.SWITCH_ON_DISABLED)
        elif not word & 0x04:
            self.quick_stop()
        elif not word & 0x01:
            if self.state != cia402.QUICK_STOP:
                self._to(cia402.READY)
        elif self.state in (cia402.READY, cia402.SWITCHED_ON, cia402.ENABLED):
            self._to(cia402.ENABLED if word & 0x08 and self.state != cia402.READY else cia402.SWITCHED_ON)
        elif self.state == cia402.QUICK_STOP and word & 0x08 and self.stays:
            self._to(cia402.ENABLED)

    def _to(self, state: str) -> None:
        if state == cia402.ENABLED and self.state != state:
            self._target, self._left, self._outside = self.demand, 0, 0.0
        self.state = state

    def quick_stop(self) -> None:
        """Brake; from states without power it leaves for "switch on disabled" at once."""
        if self.state == cia402.ENABLED:
            self.state = cia402.QUICK_STOP
        elif self.state in (cia402.READY, cia402.SWITCHED_ON):
            self.state = cia402.SWITCH_ON_DISABLED

    def fail(self, error: int) -> None:
        """Brake for a fault."""
        if self.state not in (cia402.FAULT, cia402.FAULT_REACTION):
            self.state, self.error = cia402.FAULT_REACTION, error

    def abort_connection(self, option: int, error: int) -> None:
        """The master is gone: by the abort connection option code 1 is a fault, 2 no voltage, 3 a quick stop, 0 nothing."""
        if not self.enabled and self.state != cia402.QUICK_STOP:
            return
        if option == 1:
            self.fail(error)
        elif option == 2:
            self._to(cia402.SWITCH_ON_DISABLED)
        elif option == 3:
            self.quick_stop()

    def take(self, target: float, period: float) -> None:
        """A target, rad, that is due in `period`, s; another mode than cyclic positions takes none."""
        if not self.enabled or self.mode != cia402.CYCLIC_SYNCHRONOUS_POSITION or not math.isfinite(target):
            return
        self._target = min(max(target, self.limits.lower), self.limits.upper)
        self.limited = self._target != target
        self._left = max(1, round(period / self._dt))

    def tick(self, actual: float) -> None:
        """A period of the drive, whose joint is at `actual`, rad."""
        if self.enabled:
            self._go()
            self._watch(actual)
        else:
            self._brake()

    def _go(self) -> None:
        most = self.limits.speed * self._dt
        step = (self._target - self.demand) / max(1, self._left)
        self._left = max(0, self._left - 1)
        if not -most <= step <= most:
            step = math.copysign(most, step)
            self.limited = True
        self.demand += step
        self.velocity = step / self._dt

    def _watch(self, actual: float) -> None:
        self.following = abs(self.demand - actual) > self.limits.window
        self._outside = self._outside + self._dt if self.following else 0.0
        if self._outside > self.limits.patience:
            self.fail(FOLLOWING)

    def _brake(self) -> None:
        change = self.limits.deceleration * self._dt
        self.velocity = math.copysign(max(0.0, abs(self.velocity) - change), self.velocity)
        self.demand += self.velocity * self._dt
        if self.velocity == 0.0:
            if self.state == cia402.QUICK_STOP and not self.stays:
                self.state = cia402.SWITCH_ON_DISABLED
            elif self.state == cia402.FAULT_REACTION:
                self.state = cia402.FAULT
