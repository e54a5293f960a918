"""The live panel: it fits the terminal, says what is, draws in place, and leaves the loop alone."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.sim2real.runtime.clock import ManualClock, MonotonicClock
from rookery.sim2real.runtime.loop import ControlLoop
from rookery.sim2real.runtime.panel import FlightPanel
from rookery.sim2real.runtime.pilot import Phase, StepRecord
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.safety import Fault
from rookery.sim2real.runtime.screen import BEGIN, BOLD, HIDE_CURSOR, PLAIN, SHOW_CURSOR, Screen
from tests.sim2real.runtime.processes import wait_for
from tests.sim2real.runtime.terminals import Terminal, shown

NAMES = ("roll_rate", "pitch_rate", "yaw_rate", "collective_thrust")


class Steady:
    """A pilot whose every step takes `busy_s` of the loop's time."""

    def __init__(self, clock: Any, number: int = 0, busy_s: float = 0.0) -> None:
        self.clock, self.busy_s = clock, busy_s
        self.phase, self.phase_s, self.fault, self.late, self.done = Phase.POLICY, 12.34, None, 0, False
        self.link = SimpleNamespace(url=f"mavlink://127.0.0.1:1454{number}?hover=0.5&loss=1.0")
        self.settings = SimpleNamespace(reactions={"tilt": "land"})
        action = SimpleNamespace(names=NAMES, size=4)
        self.controller = SimpleNamespace(control_dt=0.01, spec=SimpleNamespace(spec=SimpleNamespace(action=action)))

    def record(self, **changes: Any) -> StepRecord:
        now = self.clock.now()
        given = {
            "limited": (),
            "distance": 0.042,
            "battery": 0.83,
            "mode": "offboard",
            "command": np.zeros(4),
        } | changes
        battery, mode = given.pop("battery"), given.pop("mode")
        return StepRecord(now, self.phase, Reading(now - 0.004, now, {}, battery=battery, mode=mode), **given)

    def step(self) -> StepRecord:
        end = self.clock.now() + self.busy_s
        while self.clock.now() < end:
            pass
        return self.record(limited=(3,))


def panel_of(pilots: list[Steady], screen: Screen | None = None, **options: Any) -> FlightPanel:
    return FlightPanel(pilots, screen, options.pop("say", lambda text: None), **options)  # type: ignore[arg-type]


def test_it_says_what_a_vehicle_does() -> None:
    pilot = Steady(ManualClock())
    panel = panel_of([pilot], operator=lambda: ["keys"])
    for i in range(100):
        panel.seen(0, pilot.record(limited=(3,) if i % 4 == 0 else (), command=np.zeros(4)))
    pilot.clock.moment += 0.1
    lines = [text for text, _ in panel.lines()]
    row = lines[2].split()
    assert row[1:] == ["policy", "12.3", "s", "104", "ms", "83", "%", "0.04", "m"]
    assert row[0].startswith("mavlink://")
    assert lines[3].strip() == "limited: collective_thrust 25 %"
    assert lines[-1] == "keys"
    panel.seen(0, pilot.record(distance=math.nan, velocity_error=0.21, battery=None))
    assert [text for text, _ in panel.lines()][2].split()[-5:] == ["4", "ms", "-", "0.21", "m/s"]


def test_a_fault_is_shown_in_red_with_what_follows() -> None:
    pilot = Steady(ManualClock())
    panel = panel_of([pilot])
    pilot.phase, pilot.fault = Phase.EMERGENCY, Fault("tilt")  # type: ignore[assignment]
    panel.seen(0, pilot.record())
    text, style = panel.lines()[3]
    assert text.strip() == "the body leans too far: land"
    assert "31" in style


@pytest.mark.parametrize("count", [1, 2, 4])
def test_it_fits_80_columns(count: int) -> None:
    pilots = [Steady(ManualClock(), i) for i in range(count)]
    panel = panel_of(pilots)
    for i, pilot in enumerate(pilots):
        panel.seen(i, pilot.record(limited=(0, 1)))
    lines = [text for text, _ in panel.lines()]
    assert len(lines) == 2 + 2 * count
    assert all(len(line) <= 80 for line in lines)
    assert sum("policy" in line for line in lines) == count


@pytest.mark.parametrize("columns", [30, 80])
def test_it_is_drawn_in_place_below_messages(columns: int) -> None:
    terminal = Terminal(columns)
    screen = Screen(terminal.theirs)
    wide = "x" * (columns + 7)
    screen.draw([("head", BOLD), (wide, PLAIN), ("first", PLAIN)])
    screen.say("a message")
    screen.say(wide)  # a message may be longer than a line
    screen.say("y" * columns)
    screen.draw([("head", BOLD), (wide, PLAIN), ("second", PLAIN)])
    screen.draw([("head", BOLD), ("third", PLAIN)])
    screen.close()
    lines = terminal.lines()
    assert lines == ["a message", wide[:columns], wide[columns:], "y" * columns, "head", "third", ""]
    assert terminal.text.count(HIDE_CURSOR) == terminal.text.count(SHOW_CURSOR) == 1
    assert terminal.text.count(BEGIN) == 3  # a write each
    assert "\x1b[2J" not in terminal.text  # nothing is cleared first, which would flicker
    terminal.close()


def test_a_low_terminal_shows_as_many_lines_as_it_has() -> None:
    terminal = Terminal(rows=5)
    screen = Screen(terminal.theirs)
    for i in range(3):
        screen.draw([(f"line {k} of {i}", PLAIN) for k in range(9)])
    assert terminal.lines() == [f"line {k} of 2" for k in range(4)]
    terminal.close()


def test_a_terminal_that_nobody_reads_delays_no_step() -> None:
    """Its buffer is full, so that a write waits for ever, and steps and messages do not."""
    terminal = Terminal()
    clock = MonotonicClock()
    pilot = Steady(clock)
    screen = Screen(terminal.theirs)
    stuck = threading.Thread(target=lambda: screen.draw([("z" * 70, PLAIN)] * 20 * 400), daemon=True)
    for _ in range(3000):
        screen.say("w" * 79)
    stuck.start()
    time.sleep(0.1)
    assert stuck.is_alive()
    panel = panel_of([pilot], screen)
    for _ in range(100):
        began = time.monotonic()
        panel.seen(0, pilot.step())
        screen.say("a message")
        assert time.monotonic() - began < 10.0  # where it waited, it would for ever
    assert stuck.is_alive()
    wait_for(lambda: terminal.read(0.0) and not stuck.is_alive())
    terminal.close()


def test_its_picture_costs_the_loop_little() -> None:
    """Median: the thread that draws holds the interpreter for so long."""
    pilots = [Steady(ManualClock(), i) for i in range(4)]
    panel = panel_of(pilots)
    panel.loop = ControlLoop(pilots, pilots[0].clock, panel.seen)  # type: ignore[arg-type]
    panel.loop.run(lambda: panel.loop is not None and panel.loop.steps > 300)
    took = []
    for _ in range(50):
        began = time.thread_time()
        panel.lines()
        took.append(time.thread_time() - began)
    assert np.median(took) < 2e-3


def test_plain_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.sim2real.runtime.panel.LINES_S", 0.02)
    pilot = Steady(ManualClock())
    said: list[str] = []
    panel = panel_of([pilot], say=said.append)
    panel.loop = ControlLoop([pilot], pilot.clock, panel.seen)  # type: ignore[list-item]
    with panel:
        panel.loop.run(lambda: panel.loop is not None and panel.loop.steps > 10)
        wait_for(lambda: said and "100 Hz" in said[-1] and "limited" in said[-1])
        pilot.done = True
    assert said
    assert " policy 12.3 s " in said[0]
    assert "limited: collective_thrust 100 %" in said[-1]
    assert "100 Hz" in said[-1]
    assert "\x1b" not in "".join(said)


def test_the_terminal_of_these_tests_is_one() -> None:
    assert shown("abcdef\r\x1b[Kxy\r\nlow\x1b[1A\rZ\x1b[J", 4) == ["abcd", "Z"]
