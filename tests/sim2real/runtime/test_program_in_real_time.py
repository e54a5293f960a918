"""The C++ program of `--target linux` over MAVLink in real time: it flies our vehicle and lands; where it is
killed the vehicle lands by itself."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymavlink import mavutil
from pymavlink.dialects.v20 import common as mav

from tests.sim2real.runtime.processes import PATIENT, free_port, mavlink, prompt, vehicle, wait_for
from tests.sim2real.runtime.test_mavlink import armed, mode, options, read_phases


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


def test_it_flies_and_lands(hover_program: Path, tmp_path: Path) -> None:
    port, log = free_port(2), tmp_path / "flight.mcap"
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


def test_the_vehicle_lands_when_the_program_is_killed(
    hover_program: Path, watcher: tuple[int, mavutil.mavfile]
) -> None:
    port, station = watcher
    with flying(hover_program / "linux" / "loop", port) as process:
        assert mode(station) == 6
        process.send_signal(signal.SIGKILL)
        wait_for(lambda: mode(station) == 4, 3.0)
        wait_for(lambda: not armed(station), 20.0)
