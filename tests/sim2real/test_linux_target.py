"""`--target linux`: the program compiles as it is, flies simulators by datagrams, and refuses what it cannot fly."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import shutil
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
from sampled import slow_but

import rookery
from rookery.experiments.runs import open_run
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.linux_target import SOURCES, text_of
from rookery.sim2real.runtime.settings import FAULTS, REACTIONS, Limits
from tests.sim2real.conftest import make_env, make_group, make_policy
from tests.sim2real.runtime.programs import ACTUATORS, FROM_US, REACT, STEP_DONE, TO_US, build

SENT = ("target", "position", "rotation", "velocity", "angular velocity")


@pytest.fixture(scope="module")
def hover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the program for drone-hover."""
    folder = export_bundle(*open_run(Path("drone-hover")), tmp_path_factory.mktemp("onboard") / "hover", target="linux")
    return build(folder)


class Simulator:
    """The other end of the program's datagrams, which gives targets, too, and takes motor commands."""

    def __init__(self, program: Path, *words: str, options: str = "actuators=1&give=commands&lockstep=1") -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [program, f"udp://:{self.port}?{options}", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.count = 0
        self.now = 100.0

    def send(self, values: Any, count: int | None = None) -> None:
        """A measurement."""
        self.count += count is None
        head = struct.pack(
            "<IIddfBbbB", TO_US, self.count if count is None else count, self.now, self.now, -1.0, 2, -1, -1, 1
        )
        self.socket.sendto(head + np.asarray(values, "<f4").tobytes(), ("127.0.0.1", self.port))

    def answers(self) -> list[tuple[int, int, np.ndarray]]:
        """Kind, detail and numbers of what it answers until its step is done."""
        out = []
        while not out or out[-1][0] != STEP_DONE:
            data = self.socket.recv(4096)
            magic, count, what, detail, _, _ = struct.unpack("<IIBBBB", data[:12])
            assert magic == FROM_US
            assert count == self.count
            out.append((what, detail, np.frombuffer(data[12:], "<f4")))
        return out

    def begin(self, values: Any) -> list[tuple[int, int, np.ndarray]]:
        """The first answers; the program may not listen yet."""
        self.socket.settimeout(0.1)
        for _ in range(100):
            self.count = 0
            self.send(values)
            try:
                out = self.answers()
            except TimeoutError:
                continue
            self.socket.settimeout(10.0)
            return out
        raise AssertionError(self.process.communicate(timeout=5))

    def end(self) -> tuple[int, str, str]:
        """Status and both outputs."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@pytest.fixture
def simulator(hover: Path) -> Iterator[Any]:
    started: list[Simulator] = []

    def start(*words: str, **options: str) -> Simulator:
        started.append(Simulator(hover / "loop", *words, **options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        one.socket.close()


@pytest.mark.slow
def test_it_flies_a_drone_that_has_nothing_but_motors(simulator: Any) -> None:
    """From measured state to motor commands, 500 Hz in step with the simulator."""
    plant = rookery.make(
        "drone-hover", 1, engine="mujoco", seed=3, config={"action": "rotor_thrust", "control_dt": 0.002}
    )
    plant.reset()
    drones, bodies = plant.task.drones, plant.task.drones.bodies
    target = plant.task.target[0, 0].clone()
    curve = np.poly1d(CRAZYFLIE_21.thrust_curve[::-1])
    plant.step({"drone": torch.zeros(1, 1, 4)})  # kernels are compiled
    onboard = simulator("--seconds", "2.5")
    for step in range(1270):
        parts = {
            "target": target, "position": bodies.pos[0, 0], "rotation": bodies.quat[0, 0],
            "velocity": bodies.lin_vel[0, 0], "angular velocity": bodies.ang_vel[0, 0],
        }  # fmt: skip
        values = torch.cat([parts[name] for name in SENT]).numpy()
        onboard.now += 0.002
        if step == 0:
            answers = onboard.begin(values)
        else:
            onboard.send(values)
            answers = onboard.answers()
        motors = [numbers for what, _, numbers in answers if what == ACTUATORS]
        if not motors:
            if any(what == REACT for what, _, _ in answers):  # its 2.5 s are over
                break
            motors = [np.zeros(4)]  # it arms
        thrust = torch.tensor(curve(motors[0]), dtype=torch.float32)
        plant.step({"drone": drones.normalized(thrust)[None, None]})
    assert step == pytest.approx(1252, abs=3)
    assert float((bodies.pos[0, 0] - target).norm()) < 0.05
    plant.close()
    code, out, err = onboard.end()
    assert code == 0, err
    report = json.loads(out)
    assert report["vehicles"][0]["largest_distance_m"] < 1.0
    assert report["timing"]["missed"] == 0


def motors_of(onboard: Simulator, target: tuple[float, float, float], steps: int = 20) -> np.ndarray:
    """Motor commands [steps, 4] of a drone that lies in the air at 3, 0, 2 and is told a target."""
    values = np.zeros(16)
    values[:7] = (*target, 3.0, 0.0, 2.0, 1.0)
    out = [onboard.begin(values)]
    for n in range(1, steps):
        onboard.now += 0.002
        values[15] = 1e-3 * n  # frozen measurements would be a fault
        onboard.send(values)
        out.append(onboard.answers())
    return np.array([numbers for answers in out for what, _, numbers in answers if what == ACTUATORS])


def test_a_target_of_the_link_is_held_within_the_training_and_told_once(simulator: Any) -> None:
    """A target two meters away along x and y is one a meter away, the range of the training, to the bit."""
    runs = {}
    for target in ((5.0, -1.5, 2.5), (4.0, -1.0, 2.5), (3.9, -1.0, 2.5)):
        onboard = simulator("--seconds", "9")
        runs[target] = motors_of(onboard, target)
        onboard.process.send_signal(signal.SIGKILL)
        told = onboard.end()[2].count("target is held within what the policy was trained with")
        assert told == (target == (5.0, -1.5, 2.5))
    far, edge, near = runs.values()
    assert len(far) > 10
    np.testing.assert_array_equal(far, edge)
    assert np.abs(near - edge).max() > 1e-3


@pytest.mark.parametrize(
    ("target", "fits"),
    [("4,0,2", True), ("3,-1.05,2.9", True), ("4.15,0,2", False), ("3,0,3.2", False), ("0,0,1", False)],
)
def test_a_target_of_the_operator_is_checked_against_where_the_policy_begins(
    simulator: Any, target: str, fits: bool
) -> None:
    onboard = simulator("--command", f"target={target}", options="actuators=1&lockstep=1")
    values = np.zeros(13)
    values[:4] = (3.0, 0.0, 2.0, 1.0)
    if fits:
        assert onboard.begin(values)
        return
    onboard.socket.settimeout(0.02)
    while onboard.process.poll() is None:  # it hears where the drone is, and ends without an answer
        onboard.send(values)
        with pytest.raises(TimeoutError):
            onboard.answers()
    code, out, err = onboard.end()
    assert (code, out) == (2, "")
    assert "of the command target is" in err and "out of its range" in err and "from where it begins (position)" in err
    assert err.count("\n") == 1


def test_datagrams_that_come_late_twice_or_damaged_change_nothing(simulator: Any) -> None:
    values = np.zeros(16)
    values[6] = 1.0
    onboard = simulator()
    onboard.begin(values)
    chance = random.Random(0)
    for n in range(200):
        onboard.now += 0.002
        before = onboard.count
        onboard.send(np.full(16, np.nan), count=before)  # an older one
        # what it holds is none of 0, 1 and 2; with one of those, later and of the right size, it would be a measurement
        unknown = struct.pack("<I", TO_US) + chance.randbytes(24) + b"\x03" + chance.randbytes(67)
        for damaged in (b"", b"short", chance.randbytes(96), unknown, chance.randbytes(2000)):
            onboard.socket.sendto(damaged, ("127.0.0.1", onboard.port))
        values[:6] = 0.001 * n
        onboard.send(values)
        assert next(what for what, _, _ in onboard.answers()) == ACTUATORS or n < 2
    onboard.process.send_signal(signal.SIGTERM)


def test_a_number_that_is_none_stops_the_motors_first_thing(simulator: Any, tmp_path: Path) -> None:
    safety = tmp_path / "safety.toml"
    safety.write_text('# stop at once\n[reactions]\nnot_finite = "stop" # here\n')
    values = np.zeros(16)
    values[6] = 1.0
    onboard = simulator("--safety", str(safety))
    onboard.begin(values)
    for n in range(1, 20):
        onboard.now += 0.002
        onboard.send(values + 0.001 * n)
        onboard.answers()
    onboard.now += 0.002
    onboard.send(np.where(np.arange(16) == 5, np.nan, values))
    assert (REACT, list(REACTIONS).index("stop")) in [(what, detail) for what, detail, _ in onboard.answers()]


def test_a_network_that_answers_otherwise_does_not_start(hover: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(hover.parent, tmp_path / "edited"))
    source = copy / "policy.c"
    text = source.read_text()
    at = text.index("perceptron_bias_0")
    start = text.index("{", at)
    source.write_text(text[: start + 1] + "7.0f + " + text[start + 1 :])
    subprocess.run(["make", "-s"], check=True, cwd=copy / "linux")
    done = subprocess.run([copy / "linux" / "loop", "udp://:9"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "answers otherwise than in training" in done.stderr


def refused(program: Path, *words: str) -> str:
    """The one sentence of a refusal."""
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give the vehicle's URL"),
        (["udp://:9000", "--seconds"], "wants a value"),
        (["udp://:9000", "--seconds", "nan"], "must be a number"),
        (["udp://:9000", "--what"], "no option --what"),
        (["robot"], "is no address"),
        (["mavlnk://:9000"], "no protocol mavlnk"),
        (["udp://:90000"], "no port"),
        (["udp://:9000?actuator=1"], "no option actuator; it has"),
        (["mavlink://:9000?system=300"], "from 0 to 255"),
        (["udp://:9000", "--command", "target=1,two"], "must be NAME=number"),
        (["udp://:9000", "--safety", "/nowhere.toml"], "cannot read the safety settings"),
        (["udp://:9000", "--log", "/nowhere/flight.mcap"], "cannot write"),
        (["udp://8.8.8.8:9000"], "cannot listen"),
    ],
)  # fmt: skip
def test_refusals_before_anything_moves(hover: Path, words: list[str], why: str) -> None:
    assert why in refused(hover / "loop", *words)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[limits]\ntilt_degrees = 3\n", 2, "no limit of this name"),
        ("[limits]\n\nstale_ms = -1\n", 3, "must not be below 0"),
        ("[limits]\nfence_m = nan\n", 2, "must be a number"),
        ("[limits]\ntilt_deg = -1\n", 2, "tilt_deg must be above 0"),
        ("[limits]\njump_m = inf\njump_deg = 0\n", 3, "jump_deg must be above 0"),
        ("[limits]\nbattery = 15\n", 2, "below 1"),
        ("[limits]\nlowest_m = 2\nhighest_m = 2\n", 3, "lowest_m must be below highest_m"),
        ("stale_ms = 1\n", 1, "write [limits]"),
        ('[reactions]\ntilt = "damp"\n', 2, '"land" or "stop"'),
        ('[reactions]\nlean = "land"\n', 2, "no fault of this name"),
        ("[limit]\n", 1, "write [limits]"),
    ],
)
def test_safety_settings_are_refused_by_the_line(hover: Path, tmp_path: Path, text: str, line: int, why: str) -> None:
    file = tmp_path / "safety.toml"
    file.write_text(text)
    said = refused(hover / "loop", "udp://:9000", "--safety", str(file))
    assert said.startswith(f"line {line} of the safety settings")
    assert why in said


def test_a_port_that_is_taken_is_said(hover: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        said = refused(hover / "loop", f"mavlink://127.0.0.1:{taken.getsockname()[1]}")
    assert "is another program using it?" in said


def test_faults_reactions_and_limits_are_those_of_the_runtime_in_python() -> None:
    settings, robot = (SOURCES / "settings.cpp").read_text(), (SOURCES / "robot.hpp").read_text()
    texts = re.findall(
        r'"([^"]*)"', settings[settings.index("reaction_names[reactions]") : settings.index("namespace {")]
    )
    assert texts == [*REACTIONS, "", *FAULTS, "", *FAULTS.values()]
    fields = re.search(r"struct Limits \{(.*?)\};", robot, re.S)
    assert fields is not None
    names = re.findall(r"\b([a-z]+(?:_[a-z]+)*)[,;]", re.sub(r"/\*.*?\*/", "", fields[1]))
    assert names == [f.name for f in dataclasses.fields(Limits)]


def test_a_text_of_a_contract_cannot_leave_its_literal(tmp_path: Path) -> None:
    text = 'a"b\\c??/\n*/ "; system("x"); // é ' + "long " * 100
    file = tmp_path / "text.cpp"
    file.write_text(f"#include <cstdio>\nint main() {{ std::fputs({text_of(text)}, stdout); }}\n")
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", "-o", tmp_path / "text", file], check=True)
    assert subprocess.run([tmp_path / "text"], capture_output=True, check=True).stdout.decode() == text


@pytest.mark.parametrize(
    "task",
    slow_but(["table-reach"], ["go2-velocity", "table-reach", "volley-hit", "drone-hover-gru"]),
)
def test_every_kind_of_robot_compiles(task: str, tmp_path: Path) -> None:
    policies, contract = open_run(Path(task))
    folder = build(export_bundle(policies, contract, tmp_path / "out", target="linux"))
    said = subprocess.run([folder / "loop", "--describe"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{contract.task_id}, agent group")


@pytest.mark.slow
def test_several_groups_have_programs_of_their_own(tmp_path: Path) -> None:
    policies = {"keeper": make_policy((8,)), "striker-2": make_policy((6,), seed=1)}
    contract = build_contract(make_env(**{"keeper": make_group(), "striker-2": make_group()}))
    folder = build(export_bundle(policies, contract, tmp_path / "out", target="linux"))
    assert os.access(folder / "loop_keeper", os.X_OK) and os.access(folder / "loop_striker-2", os.X_OK)


def test_a_link_of_ones_own_is_built_in(hover: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(hover.parent, tmp_path / "own"))
    build(copy, "LINKS=example_link.cpp")
    assert "is the vehicle plugged in?" in refused(copy / "linux" / "loop", "example:///dev/nothing")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.slow
def test_cmake_builds_the_same_program(hover: Path, tmp_path: Path) -> None:
    subprocess.run(["cmake", "-S", hover, "-B", tmp_path, "-DCMAKE_BUILD_TYPE=Debug"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    said = [
        subprocess.run([folder / "loop", "--describe"], capture_output=True, check=True).stdout
        for folder in (hover, tmp_path)
    ]
    assert said[0] == said[1]
