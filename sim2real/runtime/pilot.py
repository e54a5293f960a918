"""The pilot of one vehicle: a state, and what happens in it at every control step.

    idle -> checked -> armed -> entry -> policy -> exit -> idle
                                   \\        |       /
                                    +-- emergency --+

`step` is called once a control period and never blocks. The safety filter is asked first, in every state in which motors may
turn; what it finds leads to `emergency`, which is left only for `idle`, when the vehicle is down. A watchdog in another thread
(`rookery.sim2real.runtime.watchdog`) judges whether the policy's own step returns.
"""

from __future__ import annotations

import ctypes
import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.checks import check_vehicle, complete, estimated
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.command_limits import CommandLimits, range_text
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.entry import EntryMotion, entry_of
from rookery.sim2real.runtime.reading import Array, Reading
from rookery.sim2real.runtime.safety import Fault, SafetyFilter
from rookery.sim2real.runtime.settings import SafetySettings

ARM_S = 5.0  # s, most time for a vehicle to arm and to follow set-points
ENTRY_S = 15.0  # s, most time for a take-off or to stand up
LOST_S = 10.0  # s without measurements in an emergency after which nobody can tell what became of the vehicle
COMMANDED_VELOCITY = "commanded velocity forward, velocity left"
"""Beginning of the name of a command that says how to walk, in heading axes."""
HALT_S = 1.0  # s, for a robot that can walk to stand before it leaves: held in mid-stride, its joints tip it over
EXIT_S = 15.0  # s, most time to come down before the reaction to a fault does it


class Phase(enum.Enum):
    """States of a pilot."""

    IDLE = "idle"
    CHECKED = "checked"
    ARMED = "armed"
    ENTRY = "entry"
    POLICY = "policy"
    EXIT = "exit"
    EMERGENCY = "emergency"


@dataclass
class Commands:
    """An operator's wishes: values of quantities that no vehicle measures, such as a target.

    Attributes:
        values: by name of the quantity; written by the operator's thread, an entry at once.
        stop: land now.
        finish: end the policy, and leave by the exit.
    """

    values: dict[str, Array] = field(default_factory=dict)
    stop: bool = False
    finish: bool = False


@dataclass(frozen=True)
class StepRecord:
    """Record of a control step, for the log and the panel.

    Args:
        now: s, the runtime's clock.
        phase: at its end.
        reading: the newest.
        command: of the policy, in physical units; None in other phases.
        fault: that the safety filter found.
        distance: m, to the target; nan where there is none.
        velocity_error: m/s, of a walking robot's estimated velocity from the commanded one, both along the ground; nan where
            there is none.
        limited: components of the command that the safety filter has changed.
        commands: what the operator asked, by name of the quantity; no velocity while a robot stands before it leaves.
    """

    now: float
    phase: Phase
    reading: Reading | None
    command: Array | None = None
    fault: Fault | None = None
    distance: float = math.nan
    velocity_error: float = math.nan
    limited: tuple[int, ...] = ()
    commands: Mapping[str, Array] = field(default_factory=dict)


class Pilot:
    """See the module.

    Args:
        controller: the policy.
        link: to the vehicle, not yet open.
        library: of `safety.load_filter`.
        settings: of the safety filter.
        clock: of the runtime.
        commands: what the operator asks.
        seconds: s, that the policy flies; infinity until `Commands.finish`.
        say: told every change in one sentence.
    """

    def __init__(
        self, controller: Controller, link: Link, library: ctypes.CDLL, settings: SafetySettings, clock: TimeSource,
        commands: Commands | None = None, seconds: float = math.inf, say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.controller = controller
        self.link = link
        self.clock = clock
        self.commands = Commands() if commands is None else commands
        self.settings = settings
        self.filter = SafetyFilter(library, settings.limits, controller.spec)
        self.command_limits = CommandLimits(library, controller.spec.commands)
        self.seconds = seconds
        self.phase = Phase.IDLE
        self.fault: Fault | None = None
        self.fault_text: str | None = None
        self.entry_failed = False  # it took too long, so that the policy has not acted
        self.on_ground: bool | None = (
            None  # when the policy last acted: a drone stood, a jointed robot lay; None if not told
        )
        self.policy_stamp = -1.0  # s, when the policy's step last returned; the watchdog reads it
        self.step_stamp = -math.inf  # s, when a control step last began; likewise
        self.late = 0  # control steps in a row that began late; the loop writes it
        self.identity: Identity | None = None
        self.armed_at: Array | None = None  # [3] m, where motors were first let turn, of vehicles that know
        self._say = say
        self._entry: EntryMotion | None = None
        self._since = clock.now()
        self._steps = 0
        self._command: Array | None = None  # the policy's last, until the exit has begun
        self._limited: tuple[int, ...] = ()
        self._begun = False  # the entry has, so that there is a way back
        self._sitting = False
        self._halted = math.nan  # s, when the operator's velocity was taken back for the exit
        self._held: set[str] = set()  # commands that were out of their ranges, and were told

    # -- before motors turn ------------------------------------------------------------------------------------

    def check(self) -> Identity:
        """Open the link and hold the contract against the vehicle.

        Raises:
            RookeryError: nobody answers; or a line of the contract that the vehicle cannot honor.
        """
        self.identity = self.link.open()
        complete(self.controller, self.commands.values)
        check_vehicle(self.controller, self.identity, self.link.url, self.commands.values)
        self._entry = entry_of(self.controller, self.identity)
        for sentence in estimated(self.controller, self.identity):
            self._say(f"{self.link.url}: {sentence}")
        self._to(Phase.CHECKED)
        return self.identity

    def start(self) -> None:
        """Ask the vehicle to arm; the steps that follow take it through entry to the policy."""
        if self.phase is not Phase.CHECKED:
            raise RookeryError(f"the vehicle is {self.phase.value}: check it before it is armed.")
        self.filter.reset()
        self.fault = self.fault_text = None
        self.entry_failed = False
        self.on_ground = None
        self._command = None
        self._begun = self._sitting = False
        self._halted = math.nan
        self._held.clear()
        self._to(Phase.ARMED)
        self.link.arm()

    @property
    def phase_s(self) -> float:
        """s since the present phase began."""
        return self.clock.now() - self._since

    @property
    def done(self) -> bool:
        """True when the vehicle is down and its motors stand."""
        return self.phase is Phase.IDLE

    # -- once a control period ---------------------------------------------------------------------------------

    def step(self) -> StepRecord:
        """One control step."""
        now = self.step_stamp = self.clock.now()
        reading = self.link.read()
        if reading is None:  # there was none yet
            if self.phase is Phase.EMERGENCY:
                self._react(None, now)
            elif now - self._since > ARM_S and self.phase not in (Phase.IDLE, Phase.CHECKED):
                self._emergency(Fault("silent"))
            return StepRecord(now, self.phase, None, fault=self.fault)
        command = None
        self._limited = ()
        if self.phase in (Phase.ARMED, Phase.ENTRY, Phase.POLICY, Phase.EXIT):
            fault = self._judge(reading, now)
            if fault is not None:
                self._emergency(fault, reading.mode if fault.name == "disarmed" else "")
        if self.phase is Phase.EMERGENCY:
            self._react(reading, now)
        elif self.phase is Phase.ARMED:
            self._armed(reading, now)
        elif self.phase is Phase.ENTRY:
            self._enter(reading, now)
        elif self.phase is Phase.POLICY:
            command = self._fly(reading, now)
        elif self.phase is Phase.EXIT:
            self._leave(reading, now)
        off = self._distance(reading), self._velocity_error(reading)
        return StepRecord(now, self.phase, reading, command, self.fault, *off, self._limited, self._asked())

    def _judge(self, reading: Reading, now: float) -> Fault | None:
        flying = self.phase is Phase.POLICY
        down = self.phase is Phase.EXIT and self._entry is not None and self._entry.disarms
        follows = self.phase is not Phase.ARMED and not down
        return self.filter.check(
            reading, now, self.link.heard, policy=self.policy_stamp if flying else -1.0, misses=self.late,
            target=self.commands.values.get("target") if flying else None, stop=self.commands.stop,
            armed=not (follows and reading.armed is False),
        )  # fmt: skip

    def _armed(self, reading: Reading, now: float) -> None:
        if reading.armed is False:
            if now - self._since > ARM_S:
                self._emergency(Fault("silent"))
            elif self._steps % 50 == 49:
                self.link.arm()
            self._steps += 1
            return
        assert self._entry is not None
        self._entry.begin(reading, now)
        self.armed_at = reading.values.get("position")
        self._begun = True
        self._to(Phase.ENTRY)
        self._enter(reading, now)

    def _enter(self, reading: Reading, now: float) -> None:
        assert self._entry is not None
        self._entry.enter(self.link, reading, now)
        if not self.link.engaged:
            self.link.engage()
        if self._entry.entered(reading, now) and self.link.engaged:
            for name, value in self._entry.commands(reading).items():
                self.commands.values.setdefault(name, value)
            self.controller.begin()
            self.link.begin()
            self._to(Phase.POLICY)
            self.policy_stamp = now
        elif self.commands.finish or now - self._since > ENTRY_S:
            if not self.commands.finish:
                self.entry_failed = True
                self._say(f"{self.link.url}: the entry took more than {ENTRY_S:g} s")
            self._begin_exit(reading, now)
            self._to(Phase.EXIT)

    def _fly(self, reading: Reading, now: float) -> Array | None:
        self.on_ground = reading.landed
        over = now - self._since >= self.seconds or self.commands.finish
        if over and not self._halts(now):
            self._begin_exit(reading, now)
            self._to(Phase.EXIT)
            self._leave(reading, now)
            return None
        values = {**reading.estimates, **reading.values, **self.commands.values}
        for name in self.command_limits.hold(values):
            if name not in self._held:
                self._held.add(name)
                held = range_text(self.command_limits.ranges[name])
                self._say(f"{self.link.url}: {name!r} is held within what the policy was trained with, {held}")
        command = self.controller.step(values | self._standing())
        if self.phase is not Phase.POLICY:  # the watchdog has taken over meanwhile
            return None
        self.policy_stamp = self.clock.now()
        asked = command.copy()
        fault = self.filter.limit(command)
        if fault is not None:
            self._emergency(fault)
            self._react(reading, now)
            return command
        if (asked != command).any():
            self._limited = tuple(np.flatnonzero(asked != command).tolist())
        self.link.write(self.controller.spec.spec.action.kind, command)
        self._command = command
        return command

    def _halts(self, now: float) -> bool:
        """True while a robot that can walk comes to a stand before it leaves.

        Whatever its command is: one taken back a moment ago leaves it in mid-stride, too.
        """
        walks = any(name.startswith(COMMANDED_VELOCITY) for name in self.commands.values)
        if math.isnan(self._halted):
            self._halted = now
        return walks and now - self._halted < HALT_S

    def _asked(self) -> dict[str, Array]:
        """The operator's commands: no velocity for a robot that is about to leave."""
        return self.commands.values | self._standing()

    def _standing(self) -> dict[str, Array]:
        """Replaces the operator's velocity for a robot that is about to leave."""
        if math.isnan(self._halted):
            return {}
        return {n: np.zeros_like(v) for n, v in self.commands.values.items() if n.startswith(COMMANDED_VELOCITY)}

    def _begin_exit(self, reading: Reading, now: float) -> None:
        assert self._entry is not None
        self._entry.begin_exit(reading, now, self._command)
        self._command = None

    def _leave(self, reading: Reading, now: float) -> None:
        assert self._entry is not None
        if self._entry.leave(self.link, reading, now):
            self.link.disarm()
            self._to(Phase.IDLE)
        elif now - self._since > EXIT_S:
            self._emergency(Fault("operator"), f"not down within {EXIT_S:g} s")

    def _emergency(self, fault: Fault, mode: str = "") -> None:
        self.fault = fault
        self.fault_text = f"{fault} ({mode})" if mode else str(fault)
        self._to(Phase.EMERGENCY, f"{self.fault_text}: {self.settings.reactions[fault.name]}")

    def _react(self, reading: Reading | None, now: float) -> None:
        assert self.fault is not None
        reaction = self.settings.reactions[self.fault.name]
        if reaction == "sit" and self._begun and reading is not None:
            if not self._sitting:
                self._begin_exit(reading, now)
                self._sitting = True
            assert self._entry is not None
            if self._entry.leave(self.link, reading, now):
                self.link.react("damp")
        else:  # it would hold for ever: the operator's stop ends it
            self.link.react("damp" if reaction == "hold" and self.commands.stop else reaction)
        heard = self._since if reading is None else reading.received
        fresh = None if now - heard >= 1.0 else reading
        if fresh is not None and fresh.armed is False:
            self._to(Phase.IDLE)
        elif fresh is not None and fresh.landed:
            self.link.disarm()
        elif now - heard > LOST_S:
            self._to(Phase.IDLE, f"lost: no measurement for {LOST_S:g} s, and its own fail-safe has it")

    def hang(self) -> None:
        """The watchdog's word that the policy's step does not return: react from its thread."""
        if self.phase is Phase.POLICY:
            self._emergency(Fault("hung"))
        self.link.react(self.settings.reactions["hung"])

    def _distance(self, reading: Reading) -> float:
        target = self.commands.values.get("target")
        position = reading.values.get("position")
        if target is None or position is None:
            return math.nan
        return float(np.linalg.norm(np.subtract(position, target)))

    def _velocity_error(self, reading: Reading) -> float:
        wanted = next((v for name, v in self.commands.values.items() if name.startswith(COMMANDED_VELOCITY)), None)
        velocity = reading.estimates.get("velocity")
        if wanted is None or velocity is None or not math.isnan(self._halted):
            return math.nan
        yaw = euler(reading.values["rotation"])[2]
        ahead = math.cos(yaw) * velocity[0] + math.sin(yaw) * velocity[1]
        left = math.cos(yaw) * velocity[1] - math.sin(yaw) * velocity[0]
        return math.hypot(ahead - wanted[0], left - wanted[1])

    def _to(self, phase: Phase, why: str = "") -> None:
        if phase is self.phase:
            return
        if self.phase is Phase.POLICY:
            self.link.end()
        self.phase = phase
        self._since = self.clock.now()
        self._steps = 0
        if phase is not Phase.POLICY:
            self.policy_stamp = -1.0
        self._say(f"{self.link.url}: {phase.value}" + (f" ({why})" if why else ""))


def commanded(values: Mapping[str, Array]) -> Commands:
    """Commands of given values."""
    return Commands({name: np.asarray(value, np.float32) for name, value in values.items()})
