"""A Go2 over DDS in real time: it walks through a bad network, damps when its runtime is killed, speaks with Unitree's SDK."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from rookery.sim2real.links.dds import Participant
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.unitree_messages import SPORT_MODE_STATE
from rookery.sim2real.runtime.pilot import HALT_S
from rookery.sim2real.vehicles.unitree import TRUTH
from tests.sim2real.runtime.processes import (
    ROOKERY,
    alone,
    fly,
    flying,
    patience,
    prompt,
    run_refused,
    tried_again,
    vehicle,
    wait_for,
)

CLIENT = Path(__file__).with_name("unitree_client.py")
DOCS = Path(__file__).resolve().parents[3] / "docs" / "fly.md"
DOMAIN = 100 + os.getpid() % 99


def serving(domain: int = DOMAIN) -> list[str]:
    """Options of a vehicle that waits for set-points as long as this machine may make it."""
    patient = () if prompt() else ("--silence-ms", "1000")
    return ["--protocol", "unitree", "--interface", "lo", "--domain", str(domain), *patient]


def link(domain: int = DOMAIN) -> list[str]:
    return ["--link", f"unitree://lo?domain={domain}" + ("" if prompt() else "&hold=1.0")]


class Witness:
    """Reads where the vehicle truly is, as Unitree's simulation tells it; a context manager.

    Attributes:
        rows: s of the vehicle, m of the trunk's height, m/s ahead and to the left, rad/s to the left.
    """

    def __init__(self) -> None:
        self._reader = Participant("lo", DOMAIN).reader(TRUTH, SPORT_MODE_STATE)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rows: list[tuple[float, ...]] = []

    def _run(self) -> None:
        while not self._over.wait(0.01):
            for m in self._reader.take():
                yaw = euler(m["imu_state"]["quaternion"])[2]
                vx, vy, _ = m["velocity"].tolist()
                ahead, left = math.cos(yaw) * vx + math.sin(yaw) * vy, math.cos(yaw) * vy - math.sin(yaw) * vx
                stamp = int(m["stamp"]["sec"]) + 1e-9 * int(m["stamp"]["nanosec"])
                self.rows.append((stamp, float(m["position"][2]), ahead, left, float(m["yaw_speed"])))

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.slow
@tried_again
def test_it_walks_through_loss_and_latency(walk_bundle: Path) -> None:
    """1 % of messages lost and 10 ms each way, as a radio bridge has them; its own estimate of its velocity is right."""
    bad = ("--loss", "0.01", "--latency-ms", "10")
    with vehicle(*serving(), *bad, task="go2-velocity"), Witness() as witness:
        code, report = fly(walk_bundle, *link(), "--command", "velocity=0.5,0,0.3", seconds=5.0)
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert one["policy_s"] == pytest.approx(5.0 + HALT_S, abs=0.1)
    assert one["velocity_error"] < 0.15
    _, height, ahead, left, turn = np.array(witness.rows).T
    walking = ahead > 0.35
    assert walking.sum() > 150  # of 50 messages a second
    assert height[walking].min() > 0.22
    assert ahead[walking].mean() == pytest.approx(0.5, abs=0.12)
    assert left[walking].mean() == pytest.approx(0.0, abs=0.1)
    assert turn[walking].mean() == pytest.approx(0.3, abs=0.12)
    assert height[-5:].max() < 0.15  # it lies at the end


@pytest.mark.slow
def test_the_vehicle_damps_by_itself_when_its_runtime_is_killed(walk_bundle: Path) -> None:
    """A second runtime has been refused before, and the first walked on."""
    with vehicle(*serving(), task="go2-velocity"), Witness() as witness:
        with flying(walk_bundle, *link()) as process:
            assert "another program sends set-points" in run_refused(["fly", str(walk_bundle), *link()])
            assert witness.rows[-1][1] > 0.22
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
        wait_for(lambda: witness.rows[-1][1] < 0.15, 10.0)
        time, height, *_ = np.array(witness.rows[-150:]).T
    assert (np.diff(height) / np.diff(time)).min() > -0.6  # m/s; free fall would end at 2


def test_options_that_are_refused() -> None:
    words = ["vehicle", "go2-velocity", "--protocol", "unitree"]
    assert "unitree has no ports" in run_refused([*words, "--port", "5"])
    assert "--silence-ms must be above 0" in run_refused([*words, "--silence-ms", "0"])
    assert "no network interface 'no0'" in run_refused([*words, "--interface", "no0"])


# -- Unitree's SDK, built upon Cyclone DDS 0.10.2 -----------------------------------------------------------------


def run_client(*words: str) -> subprocess.Popen[str]:
    pytest.importorskip("unitree_interface", reason="far-unitree-sdk is not installed: pip install far-unitree-sdk")
    return subprocess.Popen(
        [sys.executable, str(CLIENT), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.slow
@tried_again
def test_a_program_written_with_unitrees_sdk_stands_our_vehicle_up() -> None:
    """It takes our states' CRC, and our vehicle its commands'; joints are in its order."""
    with vehicle(*serving(domain=0), task="go2-velocity"):
        said, _ = (client := run_client("stand")).communicate(timeout=60)
    assert client.returncode == 0, said
    assert "CRC Error" not in said
    out = json.loads(said.splitlines()[-1])
    assert np.abs(np.subtract(out["lying"], out["home"])).max() > 0.8
    assert np.abs(np.subtract(out["q"], out["home"])).max() < 0.2
    assert out["quat"][0] == pytest.approx(1.0, abs=0.02)
    assert out["accel"][2] == pytest.approx(9.81, abs=1.0)
    assert max(out["tau"]) > 2.0  # knees carry it


@pytest.mark.slow
@tried_again
def test_our_link_walks_a_robot_made_of_unitrees_sdk(walk_bundle: Path) -> None:
    """A robot in the air, whose joints follow; its states come with its own CRC, and it tells no modes of motors."""
    with alone():
        robot = run_client("robot", "40")
        try:
            code, report = fly(walk_bundle, *link(domain=0), seconds=1.0)
            said, _ = robot.communicate(timeout=60)
        finally:
            robot.kill()
    assert (code, report["vehicles"][0]["fault"]) == (0, None)
    out = json.loads(said.splitlines()[-1])
    assert out["softened"]
    assert out["kp"][0] < 40.0  # the exit lets go of the joints
    assert max(out["most"]) == 40.0
    assert out["stiff"] > 500
    np.testing.assert_allclose(out["first"], out["lying"], atol=0.01)
    np.testing.assert_allclose(out["stand"], out["home"], atol=0.15)  # hips of the right side to the right


# -- docs/fly.md, "A Go2" -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_commands_of_the_page(walk_bundle: Path, tmp_path: Path) -> None:
    section = re.search(r"^## A Go2\n(.*?)^## ", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    shown = [
        line for block in re.findall(r"```console\n(.*?)```", section[1], re.DOTALL) for line in block.splitlines()
    ]
    serve, *rest = [shlex.split(line) for line in shown]
    assert serve[:3] == ["rookery", "vehicle", "go2-velocity"]
    assert len(rest) == 2
    shutil.copytree(walk_bundle, tmp_path / "walk")
    patient = [] if prompt() else ["--silence-ms", "1000"]
    with vehicle(*serve[3:], *patient, task=serve[2]):
        for words in rest:
            done = subprocess.run(
                [*ROOKERY, *words[1:], *patience(tmp_path / "walk")],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "lies" in done.stdout
