"""Commands that are ended by a signal leave nothing half written, and say so by their exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WRITES = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from rookery.cli import main
from rookery.sim.rendering.encoder import completed


class Command:
    EXAMPLES = ""

    @dataclass
    class Args:
        "Write a file, slowly."

    @staticmethod
    def run(args):
        with completed(Path(sys.argv[1])) as partial:
            partial.write_bytes(b"half")
            time.sleep(60)


main.command_module = lambda name: Command
sys.exit(main.main(["doctor"]))
"""


def begun(path: Path) -> subprocess.Popen[bytes]:
    """A command that has begun to write."""
    process = subprocess.Popen([sys.executable, "-c", WRITES, str(path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any(p.read_bytes() == b"half" for p in path.parent.glob(".*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)], ids=lambda v: str(v)
)
def test_a_command_that_is_ended_removes_what_it_began(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = begun(tmp_path / "video.mp4")
    process.send_signal(number)
    assert process.wait(30) == code
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_was_killed_is_cleaned_up_after_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rookery.sim.rendering import encoder

    path = tmp_path / "video.mp4"
    process = begun(path)
    process.kill()
    process.wait(30)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(encoder, "NEW_S", 0.0)
    with encoder.completed(path) as partial:
        partial.write_bytes(b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["video.mp4"]
