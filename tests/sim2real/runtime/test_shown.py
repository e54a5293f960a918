"""The estimated robot on the viewer's page: it is where its readings say, and the loop never waits for the page."""

from __future__ import annotations

import dataclasses
import json
import math
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.robots.quadrupeds.table import GO2
from rookery.sim.viewing.server import close_server, open_server
from rookery.sim2real.contract import Contract
from rookery.sim2real.runtime import shown
from rookery.sim2real.runtime.flight_log import FlightLog
from rookery.sim2real.runtime.pilot import Phase, StepRecord
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.safety import Fault
from rookery.sim2real.runtime.shown import EstimatedScene, FlightPage, ReadingSender, flight_recording, marks
from tests.sim2real.runtime.processes import ROOKERY

TURN = (math.cos(0.4), 0.0, 0.0, math.sin(0.4))


def record(values: dict[str, Any], fault: Fault | None = None, **commands: Any) -> StepRecord:
    arrays = {name: np.array(v, np.float32) for name, v in values.items()}
    given = {name: np.array(v, np.float32) for name, v in commands.items()}
    return StepRecord(0.0, Phase.POLICY, Reading(0.0, 0.0, arrays), fault=fault, commands=given)


def test_a_quadruped_is_posed_as_its_readings_say() -> None:
    """Joints in another order than the model's; against kinematics of the model itself."""
    model = GO2.spec().compile()
    names = tuple(reversed(GO2.joints))
    angles = np.array(GO2.home)[::-1] + np.linspace(-0.2, 0.2, 12)
    scene = EstimatedScene(model, names)
    values = {"position": (1.0, -2.0, 0.4), "rotation": TURN, "joint angles": angles.tolist()}
    found = scene.poses(values)
    data = mujoco.MjData(model)
    root = model.joint("root").qposadr[0]
    data.qpos[root : root + 7] = (1.0, -2.0, 0.4, *TURN)
    for name, angle in zip(names, angles, strict=True):
        data.qpos[model.joint(name).qposadr[0]] = angle
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(found.pos, data.geom_xpos, atol=1e-9)
    np.testing.assert_array_equal(scene.poses({}).pos, found.pos)  # nobody tells anything: it stays
    np.testing.assert_array_equal(scene.poses({"position": (math.nan, 0.0, 0.0)}).pos, found.pos)


@pytest.mark.slow
def test_a_flight_log_is_shown_as_its_steps_say() -> None:
    """At every picture the robot is where the newest step before it said; what a step leaves out or cannot say stays."""
    scene = EstimatedScene(GO2.spec().compile(), GO2.joints)
    steps: list[dict[str, Any]] = [{"time": 5.0, "phase": "checked"}]
    for i in range(1, 60):
        state = {"joint angles": (np.array(GO2.home) + 0.01 * i).tolist(), "rotation": [None, 0.0, 0.0, 0.0]}
        steps.append({"time": 5.0 + 0.02 * i, "phase": "policy", "state": state, "commands": {"target": [i, 0.0, 1.0]}})
    steps.append({"time": 6.3, "phase": "emergency", "fault": "tilt"})
    found = flight_recording(steps, scene)
    assert found.seconds >= 1.3 and len(found.poses) == len(found.markers) == len(found.story)
    for k, poses in enumerate(found.poses):
        i = max(i for i, step in enumerate(steps) if step["time"] - 5.0 <= k * found.dt + 1e-9)
        if 0 < i < 60:
            expected = EstimatedScene(GO2.spec().compile(), GO2.joints).poses(
                steps[i]["state"] | {"rotation": [math.nan] * 4}
            )
            np.testing.assert_allclose(poses.pos, expected.pos, atol=1e-9)
            assert found.markers[k][0]["pos"] == steps[i]["commands"]["target"]
    assert [line.split(" ", 1)[1] for line in found.story[-1]] == ["checked", "policy", "emergency, tilt"]


def test_the_log_of_a_flight_becomes_a_page(hover_bundle: Path, tmp_path: Path) -> None:
    contract = Contract.read(hover_bundle)
    log, page = tmp_path / "log.mcap", tmp_path / "page.html"
    with FlightLog(log, contract.to_json()) as file:
        for i in range(20):
            step = record({"position": (0.1 * i, 0.0, 1.0), "rotation": TURN})
            file.write(0, dataclasses.replace(step, now=0.1 * i))
    assert main(["replay", str(log), "--html", str(page)]) == 0
    assert b"viser" in page.read_bytes()
    assert main(["replay", str(log), "--html", str(page), "--episode", "1"]) == 2
    assert main(["replay", str(tmp_path / "none.mcap"), "--html", str(page)]) == 2


def test_targets_and_measured_things_are_balls() -> None:
    values = {
        "target": (0.0, 0.0, 1.0), "goal's position": (1.0, 0.0, 0.0), "cube's position": (2.0, 0.0, 0.0),
        "position": (3.0, 0.0, 0.0), "tool's position": (4.0, 0.0, 0.0), "puck's position": (math.nan, 0.0, 0.0),
        "velocity": (5.0, 0.0, 0.0),
    }  # fmt: skip
    assert [m["pos"] for m in marks(values)] == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    colors = [m["rgba"] for m in marks(values)]
    assert colors[0] == colors[1] != colors[2]


def test_readings_that_nobody_takes_are_left_out_and_none_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "PERIOD_S", 0.0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sender = ReadingSender(ours, 1)
    long = record({"joint angles": np.arange(1000)})
    began = time.monotonic()
    for _ in range(2000):
        sender.seen(0, long)
    assert time.monotonic() - began < 20.0  # a socket that blocks would wait for ever
    assert json.loads(theirs.recv(1 << 16))["values"]["joint angles"][999] == 999.0
    theirs.close()
    sender.seen(0, long)  # the page has ended
    ours.close()


def test_no_more_are_sent_than_a_page_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sender = ReadingSender(ours, 2)
    for _ in range(100):  # a second at 100 Hz
        for i in range(2):
            sender.seen(i, record({"position": (0.0, 0.0, now[0])}, Fault("tilt"), target=(1.0, 2.0, 3.0)))
        now[0] += 0.01
    theirs.setblocking(False)
    found = []
    try:
        while True:
            found.append(json.loads(theirs.recv(1 << 16)))
    except BlockingIOError:
        pass
    assert len(found) == 2 * 25
    assert found[0] | {"values": None} == {
        "vehicle": 0, "phase": "policy", "values": None, "fault": "the body leans too far"
    }  # fmt: skip
    assert found[-1]["values"]["target"] == [1.0, 2.0, 3.0]
    ours.close()
    theirs.close()


@pytest.fixture(scope="module")
def page() -> Iterator[FlightPage]:
    server, _ = open_server(port=0)
    env = rookery.make("drone-hover", 1)
    env.reset(0)
    yield FlightPage(server, env, (), 2, "test")
    close_server(server)
    env.close()


def test_two_drones_are_drawn_where_they_are_and_the_page_ends_with_the_flight(page: FlightPage) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    shows = threading.Thread(target=page.run, args=(theirs,), daemon=True)
    shows.start()
    sender = ReadingSender(ours, 2)
    for i, x in enumerate((1.0, -4.0)):
        sender.seen(i, record({"position": (x, 0.0, 1.0), "rotation": TURN}, Fault("tilt") if i else None))
    ours.close()
    shows.join(10.0)
    assert not shows.is_alive()
    page.draw()
    for i, x in enumerate((1.0, -4.0)):
        rows = page._drawing.geoms(i)
        own = [
            b.sent[0][k]
            for b in page._drawing._batches
            for k, g in enumerate(b.index)
            if rows.start <= g < rows.stop and b.body[k] > 0
        ]
        np.testing.assert_allclose(np.mean(own, axis=0), (x, 0.0, 1.0), atol=0.05)
    assert page._text.content == "1: policy  \n2: policy, the body leans too far"


@pytest.mark.slow
def test_a_dry_run_is_shown(hover_bundle: Path) -> None:
    words = [*ROOKERY, "fly", str(hover_bundle), "--dry-run", "--viewer", "--viewer-port", "0", "--seconds", "3"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    first = program.stdout.readline()
    url = next(word for word in first.split() if word.startswith("http"))
    assert b"<html" in urllib.request.urlopen(url, timeout=20.0).read(4096).lower()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url.partition("?")[0], timeout=20.0)
    began = time.monotonic()
    out, _ = program.communicate(timeout=120.0)
    assert program.returncode == 0
    assert time.monotonic() - began > 5.0  # it took as long as a flight
    assert "sim://0: landed" in out
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5.0)


@pytest.mark.slow
def test_a_page_that_cannot_be_is_refused(hover_bundle: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = [*ROOKERY, "fly", str(hover_bundle), "--dry-run"]
        for more, said in (
            (["--viewer", "--viewer-port", port], f"port {port} of 127.0.0.1 is in use"),
            (["--viewer-port", port], "--viewer-port and --viewer-host are options of --viewer: add it."),
        ):
            done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
            assert done.returncode == 2
            assert said in done.stderr
            assert len(done.stderr.splitlines()) == 1
