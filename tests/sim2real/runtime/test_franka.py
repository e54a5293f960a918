"""Franka's control interface: our vehicle driven by pylibfranka and by our link, franka-sim driven by our link, in real time
over loopback; damaged messages; refusals."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.robots.manipulators.panda import PANDA
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links import fci, tracker
from rookery.sim2real.links.arm_drive import ArmDrive
from rookery.sim2real.links.franka_servo import FR3, PERIOD_S
from rookery.sim2real.links.mailbox import ProcessMailbox
from rookery.sim2real.vehicles.fci import FciArm
from rookery.sim2real.vehicles.urdf import arm_urdf
from tests.sim2real.runtime.processes import (
    PATIENCE_S,
    alone,
    fly,
    flying,
    free_port,
    run_refused,
    tried_again,
    vehicle,
    wait_for,
)
from tests.sim2real.runtime.reaches import vehicle as arm_vehicle

START = Path(__file__).parents[3] / "benchmarks/peers/franka_sim_start.py"
CLIENT = Path(__file__).with_name("franka_client.py")
FRANKA_SIM = "ROOKERY_FRANKA_SIM"
"""Names the Python of an environment with franka-sim, which wants an older MuJoCo than this package."""


def steps(log: Path, phase: str = "policy") -> list[dict[str, Any]]:
    from mcap.reader import make_reader

    with log.open("rb") as stream:
        rows = [json.loads(message.data) for _, _, message in make_reader(stream).iter_messages()]
    return [row for row in rows if row["phase"] == phase]


def nearest(log: Path, what: str) -> float:
    """m, the least distance of something from the goal while the policy acted."""
    rows = [row["state"] | row["estimates"] for row in steps(log)]
    return min(float(np.linalg.norm(np.subtract(row[what], row["goal's position"]))) for row in rows)


@pytest.mark.slow
@tried_again
def test_a_program_written_with_pylibfranka_drives_our_vehicle() -> None:
    """It moves a joint, breaks a limit of acceleration and is stopped for it, recovers, moves again, and uses the hand."""
    with vehicle("--protocol", "fci", task="table-reach"):
        done = subprocess.run([sys.executable, str(CLIENT)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    out = json.loads(done.stdout.splitlines()[-1])
    assert out["mode"] == "Idle"
    np.testing.assert_allclose(out["q"], PANDA.home_across, atol=0.01)
    assert out["wave"] == [pytest.approx(0.3, abs=0.01), ""]
    moved, error, mode = out["step"]
    assert "joint_motion_generator" in error
    assert abs(moved) < 0.02  # 0.05 rad at once it does not go
    assert mode == "Reflex"
    assert out["refused"] != ""
    assert out["recovered"] == "Idle"
    assert out["again"] == [pytest.approx(0.1, abs=0.01), ""]
    assert out["open"] == pytest.approx(0.08, abs=0.002)
    assert out["moved"] == [True, pytest.approx(0.03, abs=0.003)]
    assert out["second"] != ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task", "what", "radius"),
    [
        ("reach_bundle", "table-reach", "tool's position", 0.05),
        ("drawer_bundle", "table-drawer-open", "first object's position", 0.03),
    ],
)
@tried_again
def test_a_policy_does_its_task_over_fci(
    name: str, task: str, what: str, radius: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log, port = tmp_path / f"{time.time_ns()}.mcap", free_port()
    with vehicle("--protocol", "fci", "--port", str(port), task=task):
        code, report = fly(
            request.getfixturevalue(name),
            "--link",
            f"franka://127.0.0.1?tracker={port}",
            "--log",
            str(log),
            seconds=4.0,
        )
    (one,) = report["vehicles"]
    assert (code, one["fault"], one["family"]) == (0, None, "arm")
    assert nearest(log, what) < radius


@pytest.mark.slow
@tried_again
def test_the_arm_stops_when_the_runtime_is_killed(reach_bundle: Path) -> None:
    """The process of the 1 kHz loop brakes it, and ends."""
    port = free_port()
    with (
        vehicle("--protocol", "fci", "--port", str(port), task="table-reach"),
        flying(reach_bundle, "--link", f"franka://127.0.0.1?tracker={port}") as process,
    ):
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.5)
        code = (
            "import pylibfranka as f; s = f.Robot('127.0.0.1', f.RealtimeConfig.kIgnore).read_once();"
            "print(s.robot_mode.name, max(abs(v) for v in s.dq))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr  # the servo has let it go: it takes another client
    mode, speed = done.stdout.split()
    assert mode == "Idle"  # no reflex, which a motion that does not end at rest leads to
    assert float(speed) < 0.05


@contextlib.contextmanager
def franka_sim(task: str, folder: Path) -> Iterator[int]:
    """A served franka-sim with the task's furniture, and its limits for the filter in a folder: port of its tracker."""
    if not os.environ.get(FRANKA_SIM):
        pytest.skip(f"{FRANKA_SIM} names no environment with franka-sim")
    port = free_port()
    command = [sys.executable, str(START), task, str(folder), str(port)]
    with alone():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            assert any(line.strip() == "ready" for line in process.stdout)
            yield port
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task", "what", "radius"),
    [
        ("reach_bundle", "table-reach", "tool's position", 0.05),
        ("drawer_bundle", "table-drawer-open", "first object's position", 0.03),
    ],
)
def test_a_policy_does_its_task_on_franka_sim(
    name: str, task: str, what: str, radius: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A simulator written by others, which stops where a limit of motion is broken."""
    log = tmp_path / "flight.mcap"
    with franka_sim(task, tmp_path) as port:
        link, safety = f"franka://127.0.0.1?tracker={port}", str(tmp_path / "safety.toml")
        words = ["--link", link, "--log", str(log), "--safety", safety]
        code, report = fly(request.getfixturevalue(name), *words, seconds=5.0)
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert nearest(log, what) < radius


@pytest.mark.slow
def test_refusals(reach_bundle: Path, walk_bundle: Path) -> None:
    bundle = str(reach_bundle)
    with alone():
        nobody = run_refused(["fly", bundle, "--link", "franka://127.0.0.1"])
    assert "the arm does not answer" in nobody
    assert "FCI has a port of its own" in run_refused(["fly", bundle, "--link", "franka://127.0.0.1:1337"])
    assert "unknown option" in run_refused(["fly", bundle, "--link", "franka://127.0.0.1?griper=0"])
    assert "a link to an arm" in run_refused(["fly", str(walk_bundle), "--link", "franka://127.0.0.1"])
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", port))
        taken.listen()
        said = run_refused(["vehicle", "table-reach", "--protocol", "fci", "--listen", str(port)])
    assert "is another program using it" in said
    assert "one arm" in run_refused(["vehicle", "drone-hover", "--protocol", "fci", "--listen", str(port)])


@pytest.mark.slow
@tried_again
def test_of_two_runtimes_the_second_is_refused(reach_bundle: Path) -> None:
    ports = free_port(2)
    with (
        vehicle("--protocol", "fci", "--port", str(ports), task="table-reach"),
        flying(reach_bundle, "--link", f"franka://127.0.0.1?tracker={ports}"),
    ):
        said = run_refused(["fly", str(reach_bundle), "--link", "franka://127.0.0.1"])
        assert "the arm does not answer" in said


class Client:
    """Raw messages to a served arm in this process."""

    def __init__(self) -> None:
        self.port = free_port()
        self.vehicle = arm_vehicle(noise=0.0)
        self.server = FciArm(self.vehicle, port=self.port)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.newest = np.zeros(1, fci.STATE)
        self.connect()

    def connect(self) -> None:
        self.tcp = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def run(self, count: int = 1) -> None:
        for _ in range(count):
            self.server.receive()
            self.vehicle.step()
            self.server.send()
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.newest = np.frombuffer(self.udp.recv(4096), fci.STATE)

    def ask(self, kind: int, payload: bytes, number: int = 1) -> bytes:
        """The payload of the answer."""
        self.tcp.sendall(fci.message(kind, number, payload))
        self.run(3)
        wait_for(lambda: select.select([self.tcp], [], [], 0.0)[0] or self.run())
        head = self.tcp.recv(fci.HEADER.size)
        answered, same, size = fci.HEADER.unpack(head)
        assert (answered, same) == (kind, number)
        return self.tcp.recv(size - fci.HEADER.size)

    def hello(self, version: int = fci.VERSION) -> bytes:
        return self.ask(fci.CONNECT, np.array([version, self.udp.getsockname()[1]], "<u2").tobytes())

    def state(self) -> np.ndarray:
        """The newest state."""
        self.run(2)
        return self.newest

    def close(self) -> None:
        self.tcp.close()
        self.udp.close()
        self.server.close()


@pytest.fixture
def client() -> Iterator[Client]:
    with contextlib.closing(Client()) as made:
        yield made


def test_another_version_of_the_library_is_told_so(client: Client) -> None:
    assert client.hello(9) == b"\x01" + np.array([fci.VERSION], "<u2").tobytes()
    assert client.hello()[:1] == b"\x00"
    row = client.state()
    assert row["robot_mode"][0] == fci.IDLE_MODE
    np.testing.assert_allclose(row["q"][0], PANDA.home_across, atol=5e-3)


def test_motions_other_than_joint_positions_are_refused(client: Client) -> None:
    client.hello()
    for generator in (1, 2, 3, 4):
        move = np.array([0, generator], "<u4").tobytes() + bytes(48)
        assert client.ask(fci.MOVE, move)[0] == fci.INVALID_ARGUMENT
    assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48))[0] == fci.MOTION_STARTED
    row = np.zeros(1, fci.COMMAND)
    row["message_id"], row["q_c"] = client.server._sent, client.vehicle.monitor.position
    client.udp.sendto(row.tobytes(), ("127.0.0.1", client.server._udp.socket.getsockname()[1]))
    client.run()
    assert client.vehicle.mode == "setpoints"
    client.run(40)  # nobody answers any more
    assert client.vehicle.error == "communication_constraints_violation"
    assert client.state()["errors"][0][25] == 1


def test_a_motion_ends_at_rest(client: Client) -> None:
    client.hello()
    to = ("127.0.0.1", client.server._udp.socket.getsockname()[1])
    ends = (0.0, fci.IDLE_MODE, fci.SUCCESS), (0.4, fci.REFLEX_MODE, fci.REFLEX_ABORTED)
    for speed, mode, status in ends:
        assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48))[0] == fci.MOTION_STARTED
        row = np.zeros(1, fci.COMMAND)
        row["q_c"] = client.vehicle.monitor.position
        for k in range(100):
            ramp = min(k * 0.004, speed)
            row["q_c"][0, 0] += 0.001 * ramp
            row["message_id"], row["motion_generation_finished"] = client.server._sent, k == 99
            client.udp.sendto(row.tobytes(), to)
            client.run()
        assert client.state()["robot_mode"][0] == mode
        assert client.tcp.recv(16)[fci.HEADER.size] == status  # the motion's own answer
    assert client.vehicle.error == "joint_motion_generator_velocity_discontinuity"


@pytest.mark.slow
def test_positions_that_come_too_late_are_dropped(client: Client, reach_group: ContractGroup) -> None:
    """FCI's documentation, "Network": a client that is late for up to 20 cycles goes on from where the robot has gone."""
    client.hello()
    to = ("127.0.0.1", client.server._udp.socket.getsockname()[1])
    assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48))[0] == fci.MOTION_STARTED
    drive, rng = ArmDrive(reach_group, PERIOD_S, FR3), np.random.default_rng(0)
    drive.start(client.newest["q_d"][0])
    row, seen, late, fastest = np.zeros(1, fci.COMMAND), int(client.newest["message_id"][0]), 0, 0.0
    for cycle in range(1500):
        if cycle % 300 == 0:
            drive.go(client.vehicle.monitor.position + rng.uniform(-0.3, 0.3, 7))
        state = client.newest[0]
        drive.resume(state["q_d"], state["dq_d"], state["ddq_d"])
        seen = int(state["message_id"])
        row["message_id"], row["q_c"] = seen, drive.tick()
        if cycle % 17 == 16:
            late += 1
            client.run(int(rng.integers(1, 15)))
        client.udp.sendto(row.tobytes(), to)
        client.run()
        assert client.vehicle.error == ""
        fastest = max(fastest, np.abs(client.vehicle.monitor.velocity).max())
    assert (late, fastest > 0.3) == (1500 // 17, True)


@tried_again
def test_a_client_that_takes_longer_than_a_cycle_is_waited_for() -> None:
    """The arm's time is as slow as the machine: the first states of a motion go unanswered, the others do not."""
    with contextlib.closing(Client()) as client:  # a new one for each attempt: a motion that has begun refuses another
        client.hello()
        to = ("127.0.0.1", client.server._udp.socket.getsockname()[1])
        assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48))[0] == fci.MOTION_STARTED
        row, over = np.zeros(1, fci.COMMAND), threading.Event()
        row["q_c"] = client.vehicle.monitor.position

        def answer() -> None:
            while not over.is_set():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        row["message_id"] = np.frombuffer(client.udp.recv(4096), fci.STATE)["message_id"]
                time.sleep(3 * PERIOD_S)
                client.udp.sendto(row.tobytes(), to)

        slow = threading.Thread(target=answer)
        slow.start()
        try:
            for _ in range(150):
                client.server.receive()
                client.vehicle.step()
                client.server.send()
        finally:
            over.set()
            slow.join()
        assert (client.vehicle.mode, client.vehicle.error) == ("setpoints", "")
        assert client.server._state()["control_command_success_rate"][0] > 0.8


@pytest.mark.parametrize("hand", [False, True])
def test_a_client_that_leaves_makes_room_for_the_next_at_once(client: Client, hand: bool) -> None:
    client.hello()
    assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48))[0] == fci.MOTION_STARTED
    tcp, place = client.tcp, ("127.0.0.1", client.port + hand)
    if hand:
        tcp = socket.create_connection(place, PATIENCE_S)
        client.run(2)
    tcp.close()
    with socket.create_connection(place, PATIENCE_S) as tcp:
        client.run(3)
        assert client.vehicle.armed is hand  # the motion was the one's that has gone
        message = fci.gripper_message(fci.HOMING, 3, b"") if hand else fci.message(fci.GET_ROBOT_MODEL, 3, b"")
        tcp.sendall(message)
        wait_for(lambda: select.select([tcp], [], [], 0.0)[0] or client.run())
        assert tcp.recv(16) != b""


def test_a_motion_that_is_stopped_is_told_that_it_was_preempted(client: Client) -> None:
    client.hello()
    assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48), 7)[0] == fci.MOTION_STARTED
    assert client.ask(fci.STOP_MOVE, b"", 8)[0] == fci.SUCCESS
    client.run(3)
    ended = client.tcp.recv(64)  # the motion's own answer
    assert fci.HEADER.unpack(ended[: fci.HEADER.size])[:2] == (fci.MOVE, 7)
    assert ended[fci.HEADER.size] == fci.PREEMPTED
    client.run(500)
    assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48), 9)[0] == fci.MOTION_STARTED


def test_other_orders_do_not_stop_a_motion(client: Client) -> None:
    client.hello()
    assert client.ask(fci.MOVE, np.array([0, 0], "<u4").tobytes() + bytes(48), 7)[0] == fci.MOTION_STARTED
    row = np.zeros(1, fci.COMMAND)
    row["q_c"] = client.vehicle.monitor.position
    for kind in (fci.GET_ROBOT_MODEL, fci.SET_LOAD):
        row["message_id"] = client.server._sent
        client.udp.sendto(row.tobytes(), ("127.0.0.1", client.server._udp.socket.getsockname()[1]))
        client.ask(kind, b"", 8)
        assert client.vehicle.mode == "setpoints"
    assert client.ask(fci.STOP_MOVE, b"", 9)[0] == fci.SUCCESS
    assert client.vehicle.mode != "setpoints"


def test_damaged_messages_change_nothing(client: Client) -> None:
    """Random bytes and good headers with wild payloads by TCP, by UDP while it moves: no error, and it stays finite."""
    rng = random.Random(4)
    client.hello()
    for _ in range(300):
        kind, size = rng.randrange(16), rng.choice((0, 1, 7, 16, 56, 416, 420))
        payload = bytes(rng.randrange(256) for _ in range(size))
        data = fci.message(kind, 1, payload) if rng.random() < 0.7 else payload
        with contextlib.suppress(OSError):
            client.tcp.sendall(data)
        client.run()
        if not client.server._robot.there:
            client.connect()
            client.run(2)
    client.tcp.close()
    client.run(3)
    client.connect()
    client.run(2)
    client.hello()
    client.vehicle.collision[:] = 50.0
    client.ask(fci.AUTOMATIC_ERROR_RECOVERY, b"")
    client.run(200)
    to = client.server._udp.socket.getsockname()[1]
    for _ in range(500):
        row = np.zeros(1, fci.COMMAND)
        row["message_id"] = rng.randrange(1 << 40)
        row["q_c"] = [rng.choice((float("nan"), float("inf"), 1e300, 0.0, rng.uniform(-3, 3))) for _ in range(7)]
        data = row.tobytes()[: rng.choice((371, 371, 370, 12))]
        client.udp.sendto(data, ("127.0.0.1", to))
        client.run()
    assert np.isfinite(client.vehicle.truth()["joint angles"]).all()
    assert np.abs(client.vehicle.truth()["joint angles"] - PANDA.home_across).max() < 0.05


def test_the_urdf_has_the_arms_kinematics() -> None:
    """MuJoCo reads it, and its last link is where the arm's is."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(arm_urdf(PANDA))
    own = PANDA.spec().compile()
    rng = np.random.default_rng(0)
    for _ in range(5):
        q = rng.uniform(PANDA.lower, PANDA.upper)
        places = []
        for m, joints in ((model, [f"joint{i}" for i in range(1, 8)]), (own, PANDA.joints)):
            data = mujoco.MjData(m)
            for name, angle in zip(joints, q, strict=True):
                data.qpos[m.joint(name).qposadr[0]] = angle
            mujoco.mj_kinematics(m, data)
            places.append(np.append(data.body("link7").xpos, data.body("link7").xmat))
        np.testing.assert_allclose(places[0], places[1], atol=1e-6)


names = st.text(min_size=1, max_size=20)


@given(
    st.dictionaries(
        names, st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=7), min_size=1, max_size=5
    )
)
def test_a_trackers_datagrams(values: dict[str, list[float]]) -> None:
    given_ = {name: np.array(v, np.float32) for name, v in values.items()}
    back = tracker.parse(tracker.pack(given_))
    if all(np.isfinite(v).all() for v in given_.values()):
        assert back is not None
        assert back.keys() == given_.keys()
        assert all(np.array_equal(back[n], given_[n]) for n in given_)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_damaged_datagrams_of_a_tracker_are_none(data: bytes) -> None:
    assert tracker.parse(data) is None or isinstance(json.loads(data), dict)


def test_a_mailbox_gives_whole_messages() -> None:
    """While another thread writes as fast as it can."""
    import threading

    box = ProcessMailbox(40)
    assert box.read() is None
    over = threading.Event()

    def write() -> None:
        k = 0
        while not over.is_set():
            k += 1
            box.write(np.full(40, k))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last, count = 0.0, 0
        end = time.monotonic() + PATIENCE_S
        while (count < 5000 or last < 100) and time.monotonic() < end:
            count += 1
            row = box.read()
            if row is not None:
                assert (row == row[0]).all()
                assert row[0] >= last
                last = row[0]
    finally:
        over.set()
        writer.join()
    assert last >= 100
