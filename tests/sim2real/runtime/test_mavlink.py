"""MAVLink: our vehicle driven by MAVSDK and by our link, in real time over loopback; damaged packets; refusals."""

from __future__ import annotations

import contextlib
import json
import math
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymavlink import mavutil
from pymavlink.dialects.v20 import common as mav

import rookery
import rookery.policies
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.frames import (
    from_frd,
    from_ned,
    rotation_from_ned,
    rotation_to_ned,
    to_frd,
    to_ned,
    yaw_to_ned,
)
from rookery.sim2real.links.mavlink import MavlinkLink
from rookery.sim2real.links.opening import open_link
from rookery.sim2real.runtime.clock import ManualClock, MonotonicClock
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.mavlink import MavlinkDrone
from rookery.sim2real.vehicles.mission import EARTH_M, HOME, to_global
from tests.sim2real.runtime.processes import (
    fly,
    flying,
    free_port,
    mavlink,
    run_refused,
    tried_again,
    vehicle,
    wait_for,
)

CLIENT = Path(__file__).with_name("mavsdk_client.py")
ZOO = Path(rookery.policies.__file__).parent / "zoo"


def options(station: int, listen: int) -> list[str]:
    return ["--protocol", "mavlink", "--port", str(station), "--listen", str(listen)]


@pytest.mark.slow
def test_a_program_written_with_mavsdk_flies_our_vehicle() -> None:
    """Take-off, off-board set-points, a mission that is uploaded, read back and flown, landing."""
    port = free_port(2)
    with vehicle(*options(port, port + 1)):
        done = subprocess.run([sys.executable, str(CLIENT), str(port)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    out = json.loads(done.stdout.splitlines()[-1])
    assert out["takeoff_altitude"] == pytest.approx(1.5)
    assert out["offboard"] is True
    assert out["east_m"] == pytest.approx(1.0, abs=0.1)
    assert out["attitude"] == pytest.approx(90.0, abs=5.0)
    assert out["mission_items"] == 2
    assert out["north_m"] == pytest.approx(2.0, abs=0.35)
    assert out["landed_height"] < 0.1


@pytest.mark.slow
@tried_again
def test_a_bundle_flies_and_lands(hover_bundle: Path, tmp_path: Path) -> None:
    port = free_port(2)
    log = tmp_path / f"{time.time_ns()}.mcap"
    with vehicle(*options(port, port + 1)):
        code, report = fly(hover_bundle, "--link", mavlink(port), "--log", str(log))
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert one["policy_s"] == pytest.approx(3.0, abs=0.1)
    assert one["largest_distance_m"] < 0.1
    assert report["timing"]["cycle_us"][0] < 5_000  # with the link, on a core that others use; see test_step_cost.py
    phases = read_phases(log)
    assert [p for i, p in enumerate(phases) if i == 0 or phases[i - 1] != p] == [
        "armed",
        "entry",
        "policy",
        "exit",
        "idle",
    ] or (phases[0] == "entry")


def read_phases(log: Path) -> list[str]:
    from mcap.reader import make_reader

    with log.open("rb") as stream:
        return [json.loads(message.data)["phase"] for _, _, message in make_reader(stream).iter_messages()]


@pytest.mark.slow
def test_of_four_drones_the_one_whose_link_is_cut_lands_and_the_others_go_on(
    hover_bundle: Path, tmp_path: Path
) -> None:
    """The third drone's packets are forwarded by a relay that stops."""
    port = free_port(9)
    log = tmp_path / "flight.mcap"
    links = [port, port + 1, port + 8, port + 3]
    words = [w for p in links for w in ("--link", mavlink(p))]
    with (
        vehicle(*options(port, port + 4), "--task-config", "num_drones=4"),
        Relay(port + 2, port + 8, port + 6) as relay,
        flying(hover_bundle, *words, "--seconds", "10", "--log", str(log), policies=4) as process,
    ):
        relay.cut()
        said, _ = process.communicate(timeout=60)
    ends = [line.partition(": ")[2] for line in said.splitlines() if ": landed" in line or ": ended" in line]
    assert [e.startswith("landed") for e in ends] == [True, True, False, True], said
    assert "silent" in ends[2] or "stale" in ends[2]


class Relay:
    """Forwards packets between a vehicle and a station until it is cut."""

    def __init__(self, station: int, link: int, listen: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", station))
        self._socket.settimeout(0.05)
        self._link, self._vehicle = ("127.0.0.1", link), ("127.0.0.1", listen)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                packet, peer = self._socket.recvfrom(4096)
            except TimeoutError:
                continue
            self._socket.sendto(packet, self._link if peer == self._vehicle else self._vehicle)

    def cut(self) -> None:
        """Nothing passes any more."""
        self._over.set()
        self._thread.join()

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.cut()
        self._socket.close()


@pytest.mark.slow
def test_the_vehicle_lands_when_the_runtime_is_killed(hover_bundle: Path) -> None:
    port = free_port(3)
    with vehicle(*options(port, port + 1)):
        # the vehicle answers whoever speaks to it: the watcher asks for nothing but a heartbeat
        sender = mavutil.mavlink_connection(f"udpout:127.0.0.1:{port + 1}", source_system=200)
        sender.mav.heartbeat_send(mav.MAV_TYPE_GCS, mav.MAV_AUTOPILOT_INVALID, 0, 0, 0)
        with flying(hover_bundle, "--link", mavlink(port)) as process:
            assert mode(sender) == 6
            process.send_signal(signal.SIGKILL)
            # COM_OF_LOSS_T is 0.06 s, and a heartbeat follows every change of mode; the machine may be busy
            wait_for(lambda: mode(sender) == 4, 3.0)
            wait_for(lambda: not armed(sender), 20.0)


def beat(connection: mavutil.mavfile) -> mav.MAVLink_heartbeat_message:
    """The next heartbeat; those that wait in the socket's buffer are old."""
    while connection.recv_msg() is not None:
        pass
    out = connection.recv_match(type="HEARTBEAT", blocking=True, timeout=5)
    assert out is not None
    return out


def mode(connection: mavutil.mavfile) -> int:
    return int(beat(connection).custom_mode) >> 16 & 0xFF


def armed(connection: mavutil.mavfile) -> bool:
    return bool(beat(connection).base_mode & mav.MAV_MODE_FLAG_SAFETY_ARMED)


@pytest.mark.slow
def test_refusals(hover_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port(2)
    bundle = str(hover_bundle)
    monkeypatch.setattr(MavlinkLink.open, "__defaults__", (0.3,))
    nobody = run_refused(["fly", bundle, "--link", f"mavlink://127.0.0.1:{port}"])
    assert "no vehicle sends heartbeats" in nobody
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port + 1))
        said = run_refused(["fly", bundle, "--link", f"mavlink://127.0.0.1:{port + 1}"])
    assert "is another program using it" in said
    assert "unknown protocol" in run_refused(["fly", bundle, "--link", "mavlnk://:14540"])
    assert "unknown option" in run_refused(["fly", bundle, "--link", f"mavlink://:{port}?hovr=0.5"])
    run = run_refused(["fly", str(ZOO / "drone-hover"), "--dry-run"])
    assert "it is no whole bundle" in run and "--check" not in run
    bad = tmp_path / "safety.toml"
    bad.write_text("[limits]\ntilt_degrees = 3\n")
    assert "tilt_deg" in run_refused(["fly", bundle, "--dry-run", "--safety", str(bad)])
    assert "takes no command" in run_refused(["fly", bundle, "--dry-run", "--command", "goal=1,2,3"])


@pytest.mark.parametrize("share", ["5", "1", "-0.1", "nan", "inf", "half", ""])
def test_shares_that_are_none_are_refused(share: str) -> None:
    group = Contract.read(ZOO / "drone-hover").groups["drone"]
    for protocol in ("mavlink://:14540", "betaflight://127.0.0.1"):
        with pytest.raises(RookeryError, match="hover must be"):
            open_link(
                f"{protocol}?tracker=14810&hover={share}".replace("14540?tracker=14810&", "14540?"),
                group,
                MonotonicClock(),
            )


@pytest.mark.parametrize("url", ["unitree://lo", "dynamixel:///dev/null", "franka://127.0.0.1"])
def test_a_drones_policy_drives_no_joints(url: str) -> None:
    with pytest.raises(RookeryError, match="flies a multirotor, and the link is to a robot with joints"):
        open_link(url, Contract.read(ZOO / "drone-hover").groups["drone"], MonotonicClock())


def test_a_crazyradio_that_is_not_there_is_said() -> None:
    pytest.importorskip("cflib")
    for path in ("", "0/80/2M/E7E7E7E7E7", "x/y"):
        with pytest.raises(RookeryError, match="there is no Crazyradio"):
            open_link(
                f"crazyflie://radio/{path}", Contract.read(ZOO / "drone-hover").groups["drone"], MonotonicClock()
            ).open()


@pytest.mark.parametrize("options", ["", "?system=1"])
@pytest.mark.parametrize("component", [25, 100, 154, 191, 250])
def test_only_the_autopilot_of_a_system_is_believed(options: str, component: int) -> None:
    """Gimbals, cameras and companion computers send heartbeats under the vehicle's system id, and some their own attitude."""
    link = MavlinkLink(
        parse_address(f"mavlink://127.0.0.1:1{options}"),
        Contract.read(ZOO / "drone-hover").groups["drone"],
        ManualClock(),
    )
    autopilot, other = (mav.MAVLink(None, srcSystem=1, srcComponent=c) for c in (1, component))

    def tell(codec: Any, armed: bool, mode: int, kind: int, north: float) -> None:
        for message in (
            mav.MAVLink_heartbeat_message(2, kind, 128 * armed, mode << 16, 4, 3),
            mav.MAVLink_local_position_ned_message(0, north, 0, 0, 0, 0, 0),
            mav.MAVLink_attitude_quaternion_message(0, 1, 0, 0, 0, 0, 0, 0),
        ):
            link.take_packet(message.pack(codec), ("127.0.0.1", 9 if codec is autopilot else 10))

    tell(other, False, 0, mav.MAV_AUTOPILOT_INVALID, 5.0)
    assert link.read() is None
    tell(autopilot, True, 6, mav.MAV_AUTOPILOT_PX4, 1.0)
    tell(other, False, 0, mav.MAV_AUTOPILOT_INVALID, 5.0)
    reading = link.read()
    assert reading is not None and reading.armed and link.engaged
    assert to_ned(reading.values["position"])[0] == pytest.approx(1.0)
    assert link._peer == ("127.0.0.1", 9)


class FakeVehicle:
    """A port that says what a PX4 vehicle says, and takes what is sent to it."""

    def __init__(self, to: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.02)
        self._to = ("127.0.0.1", to)
        self._codec, self._parser = mav.MAVLink(None, srcSystem=1, srcComponent=1), mav.MAVLink(None)
        self.heard: list[Any] = []

    def tell(self, heartbeat: bool = True) -> None:
        """Heartbeat, place and attitude; then take what has arrived."""
        messages = [
            mav.MAVLink_heartbeat_message(2, mav.MAV_AUTOPILOT_PX4, 0, 0, 4, 3),
            mav.MAVLink_local_position_ned_message(0, 0, 0, 0, 0, 0, 0),
            mav.MAVLink_attitude_quaternion_message(0, 1, 0, 0, 0, 0, 0, 0),
        ]
        for message in messages[0 if heartbeat else 1 :]:
            self._socket.sendto(message.pack(self._codec), self._to)
        with contextlib.suppress(TimeoutError):
            while True:
                self.heard += self._parser.parse_buffer(self._socket.recv(4096)) or []

    @property
    def beats(self) -> list[Any]:
        return [m for m in self.heard if m.get_type() == "HEARTBEAT"]

    def close(self) -> None:
        self._socket.close()


def test_the_link_sends_a_heartbeat_a_second_from_when_it_knows_the_vehicle() -> None:
    """As a companion computer's, whatever the vehicle sends meanwhile: PX4 takes a component without one for lost."""
    port, clock = free_port(1), ManualClock()
    link = MavlinkLink(
        parse_address(f"mavlink://127.0.0.1:{port}"), Contract.read(ZOO / "drone-hover").groups["drone"], clock
    )
    with contextlib.closing(FakeVehicle(port)) as there, contextlib.closing(link):
        opened = threading.Thread(target=link.open)
        opened.start()
        for _ in range(20):
            there.tell(heartbeat=False)
        assert there.heard == []  # nothing says yet that this is a vehicle
        wait_for(lambda: there.tell() or not opened.is_alive(), 10.0)
        for seconds in range(1, 4):
            wait_for(lambda: there.tell() or len(there.beats) >= seconds, 5.0)  # noqa: B023
            clock.moment += 0.99
            for _ in range(20):
                there.tell()
            assert len(there.beats) == seconds
            clock.moment += 0.01 + 1e-6
        (kind,) = {(m.type, m.autopilot, m.get_srcSystem(), m.get_srcComponent()) for m in there.beats}
        theirs = link._codec
        assert kind == (
            mav.MAV_TYPE_ONBOARD_CONTROLLER, mav.MAV_AUTOPILOT_INVALID, theirs.srcSystem, theirs.srcComponent,
        )  # fmt: skip


def unit(values: list[float]) -> np.ndarray:
    out = np.array(values)
    return out / np.linalg.norm(out)


vectors = st.lists(st.floats(-10, 10), min_size=3, max_size=3)
rotations = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda v: np.linalg.norm(v) > 0.1).map(unit)


def matrix(q: np.ndarray) -> np.ndarray:
    """The matrix of a rotation, by its definition."""
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@given(rotations, vectors)
def test_a_turned_body_vector_is_the_same_arrow_in_both_conventions(q: np.ndarray, v: list[float]) -> None:
    ours = matrix(q) @ v
    theirs = matrix(np.asarray(rotation_to_ned(q), float)) @ to_frd(v)
    np.testing.assert_allclose(theirs, to_ned(ours), atol=1e-4)
    np.testing.assert_allclose(from_ned(to_ned(v)), v)
    np.testing.assert_allclose(from_frd(to_frd(v)), v)
    np.testing.assert_allclose(abs(np.dot(rotation_from_ned(rotation_to_ned(q)), q)), 1.0, atol=1e-5)


def test_headings() -> None:
    assert yaw_to_ned(0.0) == pytest.approx(math.pi / 2)  # east
    assert yaw_to_ned(math.pi / 2) == pytest.approx(0.0)  # north


@pytest.fixture(scope="module")
def server():  # type: ignore[no-untyped-def]
    made = MavlinkDrone(DroneVehicle(rookery.make("drone-hover", num_envs=1)), port=free_port(1))
    yield made
    made.close()


def test_damaged_packets_change_nothing(server: MavlinkDrone) -> None:
    """Random bytes, damaged copies of good packets, and good packets with wild values: no error, and no command that is not
    finite reaches the vehicle."""
    rng = random.Random(0)
    codec = mav.MAVLink(None, srcSystem=255, srcComponent=190)
    wild = [float("nan"), float("inf"), -1e38, 0.0, 1e9]
    for _ in range(3000):
        kind = rng.randrange(3)
        pick = [rng.choice(wild) for _ in range(11)]
        good = (
            mav.MAVLink_command_long_message(1, 1, rng.randrange(1000), 0, *pick[:7])
            if kind
            else (mav.MAVLink_set_attitude_target_message(0, 1, 1, rng.randrange(256), pick[:4], *pick[4:8]))
        )
        packet = bytearray(good.pack(codec))
        if kind == 2:
            for _ in range(rng.randrange(1, 8)):
                packet[rng.randrange(len(packet))] = rng.randrange(256)
        server.port.arriving.put(server.vehicle.now, (bytes(packet), ("127.0.0.1", 9)))
    server.receive()
    for _ in range(20):
        server.vehicle.step()
        server.send()
    assert all(np.isfinite(o.setpoint).all() for o in server.vehicle._onboard)
    assert np.isfinite(server.vehicle.truth(0)["position"]).all()


NAN = float("nan")
ORDERS: dict[str, Any] = {
    "none": None,
    "land": lambda s: s._command(mav.MAV_CMD_NAV_LAND, [0.0] * 7, 1.0),
    "return": lambda s: s._command(mav.MAV_CMD_NAV_RETURN_TO_LAUNCH, [0.0] * 7, 1.0),
    "take off": lambda s: s._command(mav.MAV_CMD_NAV_TAKEOFF, [0.0] * 7, 1.0),
    "elsewhere": lambda s: s._command(mav.MAV_CMD_DO_REPOSITION, [0.0, 0.0, 0.0, NAN, *HOME[:2], HOME[2] + 2.0], 1.0),
    "mode land": lambda s: s._set_mode(4, 6),
    "mode return": lambda s: s._set_mode(4, 5),
    "mode hold": lambda s: s._set_mode(4, 3),
    "mode off-board": lambda s: s._set_mode(6, 0),
}


@pytest.mark.parametrize("order", ORDERS)
def test_who_orders_something_else_ends_the_mission(order: str) -> None:
    """It goes on to the second waypoint as soon as it has reached the first, where it is, unless it was told otherwise."""
    vehicle = DroneVehicle(rookery.make("drone-hover", num_envs=1))
    made = MavlinkDrone(vehicle, port=free_port(1))
    try:
        vehicle.arm(0)
        here = vehicle.sense(0).values["position"]
        places = [to_global(here + np.array([0.0, 0.0, up])) for up in (0.0, 3.0)]
        made.mission.items = [
            SimpleNamespace(command=mav.MAV_CMD_NAV_WAYPOINT, x=1e7 * north, y=1e7 * east, z=height - HOME[2])
            for north, east, height in places
        ]
        assert made._start_mission() == mav.MAV_RESULT_ACCEPTED
        if ORDERS[order] is not None:
            ORDERS[order](made)
        told = vehicle._onboard[0].mode
        for _ in range(3):
            vehicle.step()
            made.send()
        assert made.mission.current == (0 if ORDERS[order] else 1)
        assert made.mission.running == (ORDERS[order] is None)
        assert vehicle._onboard[0].mode == told
        assert (told == "land") == ("land" in order or "return" in order)
    finally:
        made.close()


def test_telemetry_says_the_place_in_the_units_of_each_message(server: MavlinkDrone, monkeypatch: Any) -> None:
    """2 m east, 5 m north, 12 m up of home, 1, 2 and 3 m/s along these: degrees by the earth's radius, millimetres, metres."""
    reading = server.vehicle.sense(0)
    place, velocity = np.array([2.0, 5.0, 12.0]), np.array([1.0, 2.0, 3.0])
    reading = replace(reading, values={**reading.values, "position": place, "velocity": velocity})
    said: dict[str, Any] = {}
    monkeypatch.setattr(server, "_put", lambda message: said.update({message.get_type(): message}))
    server._slow(reading)
    north = HOME[0] + math.degrees(5.0 / EARTH_M)
    east = HOME[1] + math.degrees(2.0 / (EARTH_M * math.cos(math.radians(HOME[0]))))
    for name in ("GLOBAL_POSITION_INT", "GPS_RAW_INT"):
        m = said[name]
        assert (m.lat, m.lon) == (pytest.approx(1e7 * north, abs=1), pytest.approx(1e7 * east, abs=1))
        assert m.alt == pytest.approx(1e3 * (HOME[2] + 12.0), abs=1)
    m = said["GLOBAL_POSITION_INT"]
    assert (m.relative_alt, m.vx, m.vy, m.vz) == (12000, 200, 100, -300)  # mm; cm/s north, east, down
    m = said["ALTITUDE"]
    assert (m.altitude_monotonic, m.altitude_amsl) == (pytest.approx(HOME[2] + 12.0), pytest.approx(HOME[2] + 12.0))
    for name in ("altitude_local", "altitude_relative", "altitude_terrain", "bottom_clearance"):
        assert getattr(m, name) == pytest.approx(12.0), name
    home = said["HOME_POSITION"]
    assert (home.latitude, home.longitude) == (pytest.approx(1e7 * HOME[0], abs=1), pytest.approx(1e7 * HOME[1], abs=1))
    assert home.altitude == pytest.approx(1e3 * HOME[2], abs=1)
