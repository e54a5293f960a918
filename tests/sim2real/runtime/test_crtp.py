"""CRTP: our vehicle flown by cflib and by our link, in real time over loopback; numbers on the wire; damaged packets."""

from __future__ import annotations

import json
import math
import random
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rookery
import rookery.policies
from rookery.sim2real.contract import Contract
from rookery.sim2real.links import crtp
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.crazyflie import CrazyflieLink
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.entry import TakeOff
from rookery.sim2real.runtime.pilot import EXIT_S
from rookery.sim2real.vehicles.crtp import CrtpDrone
from rookery.sim2real.vehicles.drone import DroneVehicle
from tests.sim2real.runtime.processes import fly, free_port, run_refused, vehicle

CLIENT = Path(__file__).with_name("cflib_client.py")


@pytest.mark.slow
def test_bitcrazes_client_flies_our_vehicle_by_every_kind_of_set_point() -> None:
    port = free_port(1)
    with vehicle("--protocol", "crtp", "--listen", str(port)):
        done = subprocess.run([sys.executable, str(CLIENT), str(port)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    out = json.loads(done.stdout.splitlines()[-1])
    assert out["parameters"] >= 8
    assert out["variables"] >= 20
    assert out["controller"] == "2"
    assert out["position"][:3] == pytest.approx([0.0, 0.0, 1.0], abs=0.1)
    assert out["velocity"][3] == pytest.approx(0.4, abs=0.15)
    assert out["hover"][4] == pytest.approx(0.3, abs=0.12)
    assert out["hover"][2] == pytest.approx(0.7, abs=0.1)
    assert out["z_distance"][2] == pytest.approx(1.0, abs=0.15)
    assert out["full_state"][:3] == pytest.approx([0.5, 0.0, 1.2], abs=0.15)
    assert out["attitude"][3] > 0.15  # nose down, ahead
    assert abs(out["attitude"][4]) < 0.1
    assert out["go_to"][:3] == pytest.approx([0.3, 0.3, 0.8], abs=0.15)
    assert out["land"][2] < 0.1


@pytest.mark.slow
def test_a_bundle_flies_through_loss_and_latency(hover_bundle: Path) -> None:
    """1 % of packets lost and 5 ms each way, as radios have them."""
    port = free_port(1)
    with vehicle("--protocol", "crtp", "--listen", str(port), "--loss", "0.01", "--latency-ms", "5"):
        code, report = fly(hover_bundle, "--link", f"crazyflie://127.0.0.1:{port}")
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert one["largest_distance_m"] < 0.2


class Supervised(CrazyflieLink):
    """Linked to a Crazyflie whose supervisor works as the firmware's: motors turn while set-points are valid, it flies until
    2 s after they have, and where it is disarmed in flight it locks."""

    def __init__(self, clock: ManualClock) -> None:
        hover = Contract.read(Path(rookery.policies.__file__).parent / "zoo" / "drone-hover").groups["drone"]
        super().__init__(parse_address("crazyflie://127.0.0.1:1"), hover, clock)
        self.height, self.wish, self.turned, self.locked = 1.0, 1.0, clock.now(), False
        self.valid = True
        self._status = (0, 1.0)

    def _send(self, port: int, channel: int, data: bytes) -> None:
        if (port, channel) == (crtp.GENERIC, 0):
            self.valid = data[0] != crtp.STOP
            self.wish = struct.unpack("<fff", data[1:13])[2] if data[0] == crtp.POSITION else self.wish
        elif (port, channel) == (crtp.GENERIC, 1):
            self.valid = False
        elif port == crtp.PLATFORM and data[1] == 0:
            self.locked = self.flies

    @property
    def flies(self) -> bool:
        return self._clock.now() - self.turned < 2.0

    def step(self) -> None:
        if self.valid:
            self.turned = self._clock.now()
        before = self.height
        if self.valid:
            self.height = max(0.0, before + 0.01 * max(-1.0, 2.0 * (self.wish - before)))
        info = 1 << 1 | self.flies << 4
        stamp = struct.pack("<I", round(1e3 * self._clock.now()))[:3]
        up, climb = round(1e3 * self.height), round(1e5 * (self.height - before))
        state = struct.pack("<hhhhhhIhhh", 0, 0, up, 0, 0, climb, crtp.compress(np.float32([1, 0, 0, 0])), 0, 0, 0)
        self._logged(bytes([2]) + stamp + struct.pack("<HB", info, 90))
        self._logged(bytes([1]) + stamp + state)


def test_a_flight_ends_on_the_ground_and_the_vehicle_can_fly_again() -> None:
    """Motors that turn count as flight: a link that waits for the end of it while it sends set-points waits for ever."""
    clock = ManualClock()
    link = Supervised(clock)
    link.step()
    way, reading = TakeOff(), link.read()
    assert reading is not None
    begun = clock.now()
    way.begin_exit(reading, begun)
    while not way.leave(link, link.read(), clock.now()):  # type: ignore[arg-type]
        assert link.valid or link.height == 0.0  # its motors never stop in the air
        clock.moment += 0.01
        link.step()
        assert clock.now() - begun < EXIT_S
    link.disarm()
    assert not link.locked


@pytest.mark.parametrize("lost", [{1}, {1, 2}, {2, 3, 4}])
def test_the_thrust_is_unlocked_though_packets_are_lost(lost: set[int]) -> None:
    """The firmware follows no thrust before it has seen none, and the policy's first would let the vehicle fall."""
    sent: list[tuple[int, bytes]] = []
    link = Supervised(ManualClock())
    link._send = lambda port, channel, data: sent.append((port, data))  # type: ignore[method-assign]
    link.arm()
    arrived = [data for i, (port, data) in enumerate(sent) if i not in lost and port == crtp.COMMANDER]
    assert any(struct.unpack("<fffH", data)[3] == 0 for data in arrived)


def test_refusals(hover_bundle: Path) -> None:
    port = free_port(1)
    assert "no Crazyflie answers" in run_refused(["fly", str(hover_bundle), "--link", f"crazyflie://127.0.0.1:{port}"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("0.0.0.0", port))
        said = run_refused(["vehicle", "drone-hover", "--protocol", "crtp", "--listen", str(port)])
    assert "is another program using it" in said


rotations = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda v: np.linalg.norm(v) > 0.1)


@given(rotations)
def test_compressed_rotations(v: list[float]) -> None:
    q = np.array(v) / np.linalg.norm(v)
    back = crtp.decompress(crtp.compress(q.astype(np.float32)))
    assert 2.0 * math.acos(min(1.0, abs(float(np.dot(q, back))))) < 0.005


@given(st.floats(0.0, 1.0))
def test_thrust_is_undone_by_the_motor_share(share: float) -> None:
    curve = (0.003525, 0.014373, 0.09223)  # N, of a Crazyflie 2.1 (rl-tools, crazyflie.h)
    thrust = curve[0] + share * (curve[1] + share * curve[2])
    assert crtp.motor_share(thrust, curve) == pytest.approx(share, abs=1e-6)


@given(st.integers(0, 14), st.integers(0, 3), st.binary(max_size=30))
def test_packets(port: int, channel: int, data: bytes) -> None:
    packet = crtp.Packet(port, channel, data)
    assert crtp.parse(packet.pack()) == packet


def test_damaged_packets_change_nothing() -> None:
    rng = random.Random(1)
    server = CrtpDrone(DroneVehicle(rookery.make("drone-hover", num_envs=1)), port=free_port(1))
    try:
        for k in range(20_000):
            size = rng.randrange(32)
            wire = bytes(rng.randrange(256) for _ in range(size))
            if k % 2:
                wire = bytes([rng.choice((3, 5, 7, 8, 13)) << 4 | rng.randrange(4)]) + wire[:30]
            server.port.arriving.put(server.vehicle.now, (wire, ("127.0.0.1", 9)))
            if k % 1000 == 0:
                server.receive()
                server.vehicle.step()
                server.send()
        assert all(np.isfinite(o.setpoint).all() for o in server.vehicle._onboard)
        assert np.isfinite(server.vehicle.truth(0)["position"]).all()
    finally:
        server.close()
