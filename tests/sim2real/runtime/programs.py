"""The C++ program of `--target linux` in tests: built once, and stepped in lock-step as the pilot of a simulated vehicle."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim2real.export.linux_target import FILTER, OBJECTS, SOURCES
from rookery.sim2real.links.simulated import SimulatedLink
from rookery.sim2real.runtime.pilot import Phase, StepRecord
from rookery.sim2real.runtime.safety import Fault
from rookery.sim2real.runtime.settings import FAULTS, REACTIONS
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.processes import free_port
from tests.sim2real.runtime.walks import SPEED, Walk

STRICT = "WARNINGS=-Wall -Wextra -Wpedantic -Werror -Wshadow"
TO_US, FROM_US, LOOK = 0x31524B52, 0x31434B52, 0x314C4B52
ARM, DISARM, ENGAGE, COMMAND, ACTUATORS, GO_TO, JOINTS, REACT, STEP_DONE, LOOK_DONE = range(1, 11)
PHASES = list(Phase)


def build(bundle: Path, *words: str) -> Path:
    """The folder of a bundle's program, built; objects that are the same for all bundles are compiled once on this machine."""
    folder = bundle / "linux"
    sources = [*sorted(SOURCES.iterdir()), FILTER / "safety.c", FILTER / "safety.h", folder / "Makefile"]
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in sources[:-1])).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"rookery-test-objects-{os.getuid()}-{digest}"
    kept.mkdir(exist_ok=True)
    names = [Path(name).with_suffix(".o").name for name in (*OBJECTS, "safety.c")]
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names:
            if (kept / name).exists():
                shutil.copyfile(kept / name, folder / name)
        subprocess.run(["make", "-s", STRICT, *words], check=True, cwd=folder)
        for name in names:
            if not (kept / name).exists():
                shutil.copyfile(folder / name, kept / name)
    return folder


class _Operator:
    """What an operator asks of the program, by signals."""

    def __init__(self, pilot: NativePilot) -> None:
        self._pilot = pilot

    @property
    def stop(self) -> bool:
        """Come down now."""
        return False

    @stop.setter
    def stop(self, value: bool) -> None:
        if value:
            self._pilot.process.send_signal(signal.SIGTERM)

    @property
    def finish(self) -> bool:
        """End the policy, and leave by the exit."""
        return False

    @finish.setter
    def finish(self, value: bool) -> None:
        if value:
            self._pilot.process.send_signal(signal.SIGINT)


class NativePilot:
    """The program as the pilot of a link's vehicle, with the attributes of a Pilot that tests use.

    Args:
        program: its file.
        link: to the vehicle; what arrives there is sent to the program, and what it answers is done by it.
        clock: that the test turns.
        words: more arguments.
    """

    def __init__(self, program: Path, link: SimulatedLink, clock: Any, *words: str) -> None:
        self.link, self._clock = link, clock
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(20.0)
        self._port = free_port(2)
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `close`
        self.process = subprocess.Popen(
            [program, f"udp://:{self._port}?lockstep=1", *words], stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        described = subprocess.run([program, "--describe"], capture_output=True, text=True, check=True).stdout
        lines = [line.rpartition(": ") for line in described.splitlines()[1:]]
        self._measured = [name for name, _, rest in lines if "measured" in rest]
        self.phase: Phase = Phase.IDLE
        self.fault: Fault | None = None
        self.commands = _Operator(self)
        self.policy_stamp = 0.0
        self.command: np.ndarray | None = None
        self._late = 0
        self._count = 0
        self._begun = False

    @property
    def late(self) -> int:
        """Control steps in a row that begin late; a test sets it."""
        return self._late

    @late.setter
    def late(self, steps: int) -> None:
        """From now on every step comes 6 ms late."""
        self._late = steps
        self._clock.moment += 0.006

    def check(self) -> None:
        """The first step, which the program may not yet listen for; the next call of `step` stands for it."""
        self.link.open()
        self.link.receive()
        self._socket.settimeout(0.05)
        for _ in range(1200):  # a minute
            self._tick(1)
            try:
                self._answers(STEP_DONE)
            except TimeoutError:
                assert self.process.poll() is None, self.said
                continue
            self._count = 1
            self._socket.settimeout(20.0)
            return
        raise AssertionError(self.said)

    def start(self) -> None:
        """It has by itself."""

    def step(self) -> StepRecord:
        """One control step."""
        if self._begun and self.process.poll() is None:
            self._count += 1
            self.command = None
            self._tick(self._count)
            self._answers(STEP_DONE)
        self._begun = True
        return StepRecord(self._clock.now(), self.phase, self.link.read(), self.command, self.fault)

    def look(self) -> None:
        """One look of the watchdog."""
        if self.process.poll() is None and self.phase is not Phase.IDLE:
            self._socket.sendto(
                struct.pack("<IId", LOOK, self._count, self._clock.now()), ("127.0.0.1", self._port + 1)
            )
            self._answers(LOOK_DONE)

    def _tick(self, count: int) -> None:
        now = self._clock.now()
        reading = self.link.read()
        what = 0 if self.link.heard != now else 2 if reading is not None and reading.received == now else 1
        head = struct.pack("<IIddfBbbB", TO_US, count, now, 0.0, -1.0, what, -1, -1, 0)
        values = b""
        if what == 2:
            assert reading is not None
            known = [-1 if flag is None else int(flag) for flag in (reading.armed, reading.landed)]
            battery = -1.0 if reading.battery is None else reading.battery
            head = struct.pack(
                "<IIddfBbbB", TO_US, count, now, reading.measured, battery, what, *known, self.link.engaged
            )
            values = b"".join(np.asarray(reading.values[name], "<f4").tobytes() for name in self._measured)
        self._socket.sendto(head + values, ("127.0.0.1", self._port))

    def _answers(self, until: int) -> None:
        """Do all that the program asks until its step or look is done."""
        while True:
            data = self._socket.recv(8192)
            magic, _, what, detail, fault, _ = struct.unpack("<IIBBBB", data[:12])
            assert magic == FROM_US
            if what in (STEP_DONE, LOOK_DONE):
                self.phase = PHASES[detail]
                self.fault = Fault(list(FAULTS)[fault - 1]) if fault else None
                if self.phase is Phase.IDLE and what == STEP_DONE:
                    self.process.wait(20)
                if what == until:
                    return
                continue
            self._do(what, detail, np.frombuffer(data[12:], "<f4"))

    def _do(self, what: int, detail: int, numbers: np.ndarray) -> None:
        link: Any = self.link
        if what == COMMAND:
            self.command = numbers.copy()
            link.write("ctbr" if numbers.size == 4 else "joint_position", numbers)
        elif what == GO_TO:
            link.go_to(numbers[:3], float(numbers[3]))
        elif what == JOINTS:
            link.hold_joints(*numbers.reshape(3, -1))
        elif what == REACT:
            link.react(list(REACTIONS)[detail])
        else:
            {ARM: link.arm, DISARM: link.disarm, ENGAGE: link.engage}[what]()

    @property
    def done(self) -> bool:
        """True when the vehicle is down."""
        return self.phase is Phase.IDLE

    @property
    def said(self) -> str:
        """Its standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()
        self._socket.close()
        self.errors.close()


class _NativeWatchdog:
    def __init__(self, pilot: NativePilot) -> None:
        self._pilot = pilot

    def look(self) -> None:
        self._pilot.look()


class NativeFlight(Flight):
    """A flight whose pilot is the program."""

    words: tuple[str, ...] = ()

    def pilot_of(self, seconds: float, **overrides: Any) -> Any:
        words = () if np.isinf(seconds) else ("--seconds", f"{seconds:g}")
        program = self.bundle / "linux" / "loop"
        return NativePilot(program, self.link, self.clock, *(words or ("--seconds", "1000")), *self.words)

    def watchdog_of(self) -> Any:
        return _NativeWatchdog(self.pilot)

    def close(self) -> None:
        self.pilot.close()


class NativeWalk(NativeFlight, Walk):
    """A walk whose pilot is the program."""

    words = ("--command", f"velocity={SPEED},0,0")
