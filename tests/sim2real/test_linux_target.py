"""`--target linux`: the program compiles as it is, flies a simulated drone over UDP, and stops safely."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.experiments.runs import open_run
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.bundle import export_bundle
from tests.sim2real.conftest import make_env, make_group, make_policy

STOP = struct.pack("<I", 0xFFFFFFFF)


@pytest.fixture(scope="module")
def hover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the program for drone-hover."""
    folder = export_bundle(*open_run(Path("drone-hover")), tmp_path_factory.mktemp("onboard") / "hover", target="linux")
    return built(folder / "linux")


def built(folder: Path) -> Path:
    subprocess.run(["make", "-s", "WARNINGS=-Wall -Wextra -Wpedantic -Werror -Wshadow"], check=True, cwd=folder)
    return folder


class Robot:
    """The other end of the program's UDP: sends measurements, gets outputs."""

    def __init__(self, program: Path, *options: str) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(10.0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [program, str(self.port), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.count = 0

    def send(self, values: Any, count: int | None = None) -> None:
        self.count += 1
        number = self.count if count is None else count
        self.socket.sendto(struct.pack("<I", number) + np.asarray(values, "<f4").tobytes(), ("127.0.0.1", self.port))

    def receive(self) -> tuple[int, np.ndarray]:
        data = self.socket.recv(4096)
        if data == STOP:
            raise EOFError
        return struct.unpack("<I", data[:4])[0], np.frombuffer(data[4:], "<f4")

    def begin(self, values: Any) -> tuple[int, np.ndarray]:
        """The first answer; the program may not listen yet."""
        self.socket.settimeout(0.2)
        for _ in range(100):
            self.send(values)
            try:
                return self.receive()
            except (TimeoutError, ConnectionRefusedError):
                continue
        raise AssertionError(self.process.communicate(timeout=5))

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=20)
        self.socket.close()
        return self.process.returncode, out, err


@pytest.fixture
def robot(hover: Path) -> Iterator[Any]:
    started: list[Robot] = []

    def start(*options: str) -> Robot:
        started.append(Robot(hover / "loop", *options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def test_it_flies_a_simulated_drone(robot: Any) -> None:
    """From measured state to motor commands, 500 Hz in step with the simulator."""
    plant = rookery.make(
        "drone-hover", 1, engine="mujoco", seed=3, config={"action": "rotor_thrust", "control_dt": 0.002}
    )
    plant.reset()
    drones, bodies = plant.task.drones, plant.task.drones.bodies
    target = plant.task.target[0, 0].clone()
    curve = np.poly1d(CRAZYFLIE_21.thrust_curve[::-1])
    plant.step({"drone": torch.zeros(1, 1, 4)})  # kernels are compiled
    onboard = robot("--lockstep", "--seconds", "3.5")
    for step in range(1500):
        parts = (
            target,
            bodies.pos[0, 0],
            bodies.quat[0, 0],
            bodies.lin_vel[0, 0],
            bodies.ang_vel[0, 0],
            bodies.ang_vel[0, 0],
        )
        values = torch.cat(parts).numpy()
        if step == 0:
            _, motors = onboard.begin(values)
        else:
            onboard.send(values)
            number, motors = onboard.receive()
            assert number == onboard.count
        thrust = torch.tensor(curve(motors), dtype=torch.float32)
        plant.step({"drone": drones.normalised(thrust)[None, None]})
    assert float((bodies.pos[0, 0] - target).norm()) < 0.05
    plant.close()
    onboard.process.send_signal(signal.SIGTERM)
    code, out, _ = onboard.end()
    report = json.loads(out)
    assert code == 0 and report["steps"] >= 1500 and report["missed_deadlines"] == 0


def test_it_keeps_its_rate_by_the_clock(robot: Any) -> None:
    """And acts on the newest measurement, whatever comes late or twice."""
    values = np.zeros(19)
    values[9] = 1.0
    onboard = robot("--seconds", "0.5", "--stale", "5")
    onboard.begin(values)
    onboard.send(values, count=1)  # an older one
    onboard.socket.sendto(b"short", ("127.0.0.1", onboard.port))
    code, out, err = onboard.end()
    assert code == 0, err
    assert json.loads(out)["steps"] == 250


@pytest.mark.parametrize(
    ("values", "options", "why"),
    [
        (np.zeros(19), ("--stale", "0.05"), "the measurements are stale"),
        (np.full(19, np.nan), ("--stale", "9"), "a measurement is not a number"),
    ],
)
def test_faults_end_in_the_safe_state(robot: Any, values: np.ndarray, options: tuple[str, ...], why: str) -> None:
    onboard = robot(*options)
    try:
        onboard.begin(values)
        while True:
            onboard.receive()
    except EOFError:
        pass
    code, _, err = onboard.end()
    assert code == 4 and f"stopped: {why}." in err


def test_a_network_that_answers_otherwise_does_not_start(hover: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(hover.parent, tmp_path / "edited"))
    source = copy / "policy.c"
    text = source.read_text()
    at = text.index("perceptron_bias_0")
    start = text.index("{", at)
    source.write_text(text[: start + 1] + "7.0f + " + text[start + 1 :])
    subprocess.run(["make", "-s"], check=True, cwd=copy / "linux")
    done = subprocess.run([copy / "linux" / "loop", "9"], capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "answers otherwise than in training" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--seconds"], ["9", "--seconds", "nan"], ["9", "--what"], ["9", "--stale", "0"]]
)
def test_wrong_arguments(hover: Path, arguments: list[str]) -> None:
    done = subprocess.run([hover / "loop", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage:" in done.stderr


def test_a_port_that_is_taken_is_said(hover: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        for where, why in (
            (str(taken.getsockname()[1]), "cannot listen on UDP port"),
            ("robot", "robot is no UDP port"),
        ):
            done = subprocess.run([hover / "loop", where], capture_output=True, text=True, check=False)
            assert done.returncode == 4 and why in done.stderr


@pytest.mark.parametrize("task", ["go2-velocity", "table-reach", "volley-hit", "drone-hover-gru"])
def test_every_kind_of_robot_compiles(task: str, tmp_path: Path) -> None:
    folder = built(export_bundle(*open_run(Path(task)), tmp_path / "out", target="linux") / "linux")
    assert os.access(folder / "loop", os.X_OK)


def test_several_groups_have_programs_of_their_own(tmp_path: Path) -> None:
    policies = {"keeper": make_policy((8,)), "striker-2": make_policy((6,), seed=1)}
    contract = build_contract(make_env(**{"keeper": make_group(), "striker-2": make_group()}))
    folder = built(export_bundle(policies, contract, tmp_path / "out", target="linux") / "linux")
    assert os.access(folder / "loop_keeper", os.X_OK) and os.access(folder / "loop_striker-2", os.X_OK)
