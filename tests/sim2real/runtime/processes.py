"""Vehicles and runtimes as processes, over loopback, in real time."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rookery.cli.main import main
from rookery.sim2real.runtime.priority import real_time

ROOKERY = [sys.executable, "-m", "rookery"]
PATIENCE_S = 30.0
"""s, that threads and the kernel of a busy machine may need for what takes no time."""
PATIENT = """[limits]
stale_ms = 1000
silent_ms = 1000
frozen_ms = 1000
policy_ms = 1000
misses = 200
"""
"""Limits where other tests would stop the loop for longer than those of a flight: without real-time priority, or where both
cores are needed."""


@functools.cache
def prompt() -> bool:
    """True where this machine lets a loop run in time."""
    with real_time() as allowed:
        return allowed


def patience(bundle: Path, crowded: bool = False) -> list[str]:
    """Options of `fly` on this machine.

    Args:
        bundle: that is flown.
        crowded: whether the vehicle and the link need most of a core each, which others want as well.
    """
    if prompt() and not crowded:
        return []
    file = bundle.parent / "patient.toml"
    file.write_text(PATIENT)
    return ["--safety", str(file)]


def mavlink(port: int) -> str:
    """The address of a vehicle that waits for set-points as long as this machine may make it."""
    return f"mavlink://127.0.0.1:{port}" + ("" if prompt() else "?loss=1.0")


def free_port(count: int = 1) -> int:
    """The first of `count` UDP ports side by side that nobody uses."""
    for port in range(21000 + os.getpid() % 2000 * 16, 60000, 16):
        taken = False
        for i in range(count):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                try:
                    s.bind(("127.0.0.1", port + i))
                except OSError:
                    taken = True
        if not taken:
            return port
    raise AssertionError("no free port")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """No other test of this machine flies in real time meanwhile: two would keep each other from their deadlines."""
    with (Path(tempfile.gettempdir()) / "rookery-test-flights").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def vehicle(*options: str, task: str = "drone-hover") -> Iterator[subprocess.Popen[str]]:
    """A served vehicle; ends with the block, and must end by Ctrl-C with exit code 0."""
    with alone(), _vehicle(*options, task=task) as process:
        yield process


@contextlib.contextmanager
def _vehicle(*options: str, task: str) -> Iterator[subprocess.Popen[str]]:
    command = [*ROOKERY, "vehicle", task, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        while "is served" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def fly(bundle: Path, *options: str, seconds: float = 3.0, crowded: bool = False) -> tuple[int, dict[str, Any]]:
    """Exit code and report of `rookery fly`."""
    done = subprocess.run(
        [*ROOKERY, "fly", str(bundle), *patience(bundle, crowded), "--json", "--seconds", f"{seconds:g}", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


@contextlib.contextmanager
def flying(bundle: Path, *options: str, policies: int = 1, crowded: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A runtime from when so many policies fly; ten minutes unless told otherwise."""
    process = subprocess.Popen(
        [
            *ROOKERY,
            "fly",
            str(bundle),
            *patience(bundle, crowded),
            *(() if "--seconds" in options else ("--seconds", "600")),
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        for _ in range(policies):
            while (line := process.stdout.readline()) and not line.rstrip().endswith(": policy"):
                pass
            assert line
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Any, seconds: float = PATIENCE_S) -> float:
    """s until a condition holds.

    Raises:
        AssertionError: it does not within `seconds`.
    """
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "waited too long"
        time.sleep(0.002)
    return time.monotonic() - began


def run_refused(words: Sequence[str]) -> str:
    """The one sentence of a refusal with exit code 2, by a command of this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    assert code == 2, (code, out.getvalue(), err.getvalue())
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("rookery: no real-time")]
    assert len(lines) == 1, err.getvalue()
    return lines[0]


def tried_again(test: Callable[..., None]) -> Callable[..., None]:
    """A test in real time that has three attempts: a busy machine may keep one from its deadlines, which what is flown
    answers as it should, by stopping."""

    @functools.wraps(test)
    def attempts(*args: Any, **kwargs: Any) -> None:
        for _ in range(2):
            with contextlib.suppress(AssertionError):
                return test(*args, **kwargs)
        return test(*args, **kwargs)

    return attempts
