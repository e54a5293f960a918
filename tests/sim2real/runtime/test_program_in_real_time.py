"""The C++ program of `--target linux` over MAVLink in real time: it flies our vehicle and lands; a policy that hangs and a
program that is killed end in a landing, too."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymavlink import mavutil
from pymavlink.dialects.v20 import common as mav

from tests.sim2real.runtime.processes import PATIENT, free_port, mavlink, prompt, tried_again, vehicle, wait_for
from tests.sim2real.runtime.programs import build
from tests.sim2real.runtime.test_mavlink import armed, mode, options, read_phases

HANG = """#include <csignal>
#include <unistd.h>
namespace {
volatile std::sig_atomic_t hung = 0;
const bool listens = (std::signal(SIGUSR1, [](int) { hung = 1; }), true);
}
"""


@contextlib.contextmanager
def flying(program: Path, port: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The program from when the policy flies."""
    command = [str(program), mavlink(port), *words, *patience(program.parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        while "\npolicy\n" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        yield process
    finally:
        process.kill()
        process.communicate()


def patience(folder: Path) -> list[str]:
    """Limits of this machine."""
    if prompt():
        return []
    file = folder / "patient.toml"
    file.write_text(PATIENT)
    return ["--safety", str(file)]


@pytest.mark.slow
@tried_again
def test_it_flies_and_lands(hover_program: Path, tmp_path: Path) -> None:
    port, log = free_port(2), tmp_path / f"{time.time_ns()}.mcap"
    with (
        vehicle(*options(port, port + 1)),
        flying(hover_program / "linux" / "loop", port, "--seconds", "3", "--log", str(log)) as process,
    ):
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    report = json.loads(out)
    (one,) = report["vehicles"]
    assert one["fault"] is None
    assert one["policy_s"] == pytest.approx(3.0, abs=0.1)
    assert one["largest_distance_m"] < 0.1
    assert report["timing"]["cycle_us"][0] < 20.0
    phases = read_phases(log)
    assert list(dict.fromkeys(phases)) == ["armed", "entry", "policy", "exit", "idle"]
    assert len(phases) == report["timing"]["steps"]


@pytest.fixture
def watcher() -> Iterator[tuple[int, mavutil.mavfile]]:
    """A port of a vehicle, and one more station that listens to it."""
    port = free_port(3)
    with vehicle(*options(port, port + 1)):
        station = mavutil.mavlink_connection(f"udpout:127.0.0.1:{port + 1}", source_system=200)
        station.mav.heartbeat_send(mav.MAV_TYPE_GCS, mav.MAV_AUTOPILOT_INVALID, 0, 0, 0)
        yield port, station


@pytest.mark.slow
def test_the_vehicle_lands_when_the_program_is_killed(
    hover_program: Path, watcher: tuple[int, mavutil.mavfile]
) -> None:
    port, station = watcher
    with flying(hover_program / "linux" / "loop", port) as process:
        assert mode(station) == 6
        process.send_signal(signal.SIGKILL)
        wait_for(lambda: mode(station) == 4, 3.0)
        wait_for(lambda: not armed(station), 20.0)


@pytest.mark.slow
def test_the_watchdog_lands_it_when_the_policy_never_returns(
    hover_program: Path, tmp_path: Path, watcher: tuple[int, mavutil.mavfile]
) -> None:
    """And the program ends at last. It sleeps: one that spins at real-time priority would starve a vehicle on its core."""
    port, station = watcher
    copy = Path(shutil.copytree(hover_program, tmp_path / "hanging"))
    glue = copy / "linux" / "bundle.cpp"
    text = glue.read_text().replace(
        "Policy::State state{};",
        "Policy::State state{};\n        while (hung != 0) {\n            usleep(1000);\n        }\n",
        1,
    )
    glue.write_text(HANG + text)
    build(copy)
    with flying(copy / "linux" / "loop", port) as process:
        assert mode(station) == 6
        process.send_signal(signal.SIGUSR1)
        wait_for(lambda: mode(station) == 4, 3.0)
        wait_for(lambda: not armed(station), 20.0)
        assert process.stderr is not None
        assert "the policy's step did not return in time: land" in process.stderr.readline()
        assert process.wait(20) == 1
