"""`rookery fly` in a terminal: the panel, keys, a gamepad; every exit leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rookery.sim2real.runtime.gamepad import AXIS, BUTTON, EVENT
from rookery.sim2real.runtime.keys import HELP
from rookery.sim2real.runtime.screen import SHOW_CURSOR
from tests.sim2real.runtime.processes import ROOKERY
from tests.sim2real.runtime.terminals import Terminal

pytestmark = pytest.mark.slow  # each starts a program, and most take as long as a flight


def _on_the_terminal() -> None:
    """In the new process: the terminal is its controlling one."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Program:
    """`rookery fly` on a pseudo terminal that is its controlling one."""

    def __init__(self, *words: str) -> None:
        self.terminal = Terminal()
        self.before = termios.tcgetattr(self.terminal.theirs)
        theirs = self.terminal.theirs
        self.process = subprocess.Popen(
            [*ROOKERY, "fly", *words], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=os.environ | {"TERM": "xterm"}, preexec_fn=_on_the_terminal,
        )  # fmt: skip

    def ends(self, seconds: float = 120.0) -> int:
        """Its exit code, with the terminal as it was."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.terminal.read(0.1)
        code = self.process.wait(1.0)
        self.terminal.read()
        assert termios.tcgetattr(self.terminal.theirs) == self.before
        assert self.terminal.text.rstrip().endswith(SHOW_CURSOR) or SHOW_CURSOR in self.terminal.text
        return code


@contextlib.contextmanager
def flown(*words: str) -> Iterator[Program]:
    program = Program(*words)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()
        program.terminal.close()


def linger(terminal: Terminal, seconds: float) -> None:
    """Read for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.1)


def steps(log: Path) -> list[dict]:
    """Messages of a flight log."""
    from mcap.reader import make_reader

    with log.open("rb") as file:
        return [json.loads(message.data) for _, _, message in make_reader(file).iter_messages()]


def test_a_walk_turns_when_keys_say_so_and_stops(walk_bundle: Path, tmp_path: Path) -> None:
    log = tmp_path / "walk.mcap"
    words = (str(walk_bundle), "--dry-run", "--real-time", "--seconds", "60", "--log", str(log))
    with flown(*words) as program:
        terminal = program.terminal
        terminal.await_text(HELP)
        terminal.await_text("sim://go2: policy")
        assert not termios.tcgetattr(terminal.theirs)[3] & termios.ECHO
        terminal.type(b"qqqqq")
        terminal.await_text("turn 0.40 rad/s")
        linger(terminal, 3.0)
        terminal.type(b" ")
        assert program.ends() == 1
        assert "ended by the fault operator" in terminal.text
        lines = terminal.lines()
    assert all(len(line) <= 80 for line in lines)
    assert sum(line == HELP for line in lines) == 1  # drawn in place, once left behind
    walked = [s for s in steps(log) if s["phase"] == "policy"]
    turns = [next(iter(s["commands"].values()))[2] for s in walked]
    assert turns[0] == 0.0
    assert max(turns) == pytest.approx(0.4)
    told = np.array(turns) > 0.39
    rates = np.array([s["state"]["angular velocity"][2] for s in walked])
    assert rates[told][50:].mean() == pytest.approx(0.4, abs=0.1)
    assert abs(rates[~told].mean()) < 0.1


def test_a_walk_turns_by_a_gamepad(walk_bundle: Path, tmp_path: Path) -> None:
    pad, log = tmp_path / "js0", tmp_path / "walk.mcap"
    os.mkfifo(pad)
    out = os.open(pad, os.O_RDWR)
    with flown(str(walk_bundle), "--dry-run", "--seconds", "60", "--log", str(log), "--gamepad", str(pad)) as program:
        program.terminal.await_text("sim://go2: policy")
        os.write(out, EVENT.pack(0, 32767, AXIS, 3))
        program.terminal.await_text("turn -0.80 rad/s")
        linger(program.terminal, 2.5)
        os.write(out, EVENT.pack(0, 1, BUTTON, 0))
        assert program.ends() == 0
    walked = [s for s in steps(log) if s["phase"] == "policy"]
    rates = [s["state"]["angular velocity"][2] for s in walked if next(iter(s["commands"].values()))[2] < -0.79]
    assert np.mean(rates[50:]) == pytest.approx(-0.8, abs=0.15)
    os.close(out)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_bring_it_down_and_leave_the_terminal_as_it_was(hover_bundle: Path, number: int) -> None:
    with flown(str(hover_bundle), "--dry-run", "--real-time", "--seconds", "60") as program:
        program.terminal.await_text("sim://0: policy")
        os.kill(program.process.pid, signal.SIGTSTP)  # a program that is stopped flies no more
        os.kill(program.process.pid, number)
        assert program.ends() == (0 if number == signal.SIGINT else 1)
        assert "sim://0: idle" in program.terminal.text


def test_a_refusal_leaves_the_terminal_as_it_was(hover_bundle: Path) -> None:
    with flown(str(hover_bundle), "--dry-run", "--command", "wind=1") as program:
        assert program.ends() == 2
        assert "takes no command 'wind'" in program.terminal.text
        assert program.terminal.lines()[-1] == ""


def test_no_panel_where_the_output_is_no_terminal(hover_bundle: Path) -> None:
    words = [*ROOKERY, "fly", str(hover_bundle), "--dry-run", "--seconds", "1"]
    plain = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "\x1b" not in plain.stdout
    assert plain.stdout.splitlines()[0] == "sim://0: checked"
    told = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["vehicles"][0]["fault"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gamepad", "/dev/input/js77"], "cannot read the gamepad /dev/input/js77 (No such file or directory)"),
        (["--controls", "/nowhere.toml"], "there is no file /nowhere.toml"),
    ],
)
def test_wrong_controls_are_refused(hover_bundle: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [*ROOKERY, "fly", str(hover_bundle), "--dry-run", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
