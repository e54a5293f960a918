"""Damaged packets to every parser of links and vehicles: no error, and no number that is not finite passes the safety filter or
reaches a motor. `make test` sends a few thousand to each, `make test-all` 250,000 and `make fuzz` a million."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as mav

import rookery
from rookery.sim2real.links import crtp
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.crazyflie import CrazyflieLink
from rookery.sim2real.links.mavlink import MavlinkLink
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.safety import SafetyFilter
from rookery.sim2real.runtime.settings import Limits
from rookery.sim2real.vehicles.crtp import CrtpDrone
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.mavlink import MavlinkDrone
from tests.fuzz.mutate import mutate_bytes
from tests.sim2real.runtime.flights import library
from tests.sim2real.runtime.processes import free_port

MANY = pytest.param(
    int(os.environ.get("ROOKERY_PACKETS", "250000")), marks=[pytest.mark.slow, pytest.mark.packets], id="many"
)
COUNTS = [300, MANY]
"""To each parser."""
WILD = (float("nan"), float("inf"), -1e38, 0.0, 1.0, -0.3, 1e9, 1e-40)
SANE = (0.0, 0.01, -0.01, 0.1)
STATION = ("127.0.0.1", 9)


def mavlink_packets(rng: random.Random, count: int) -> Iterator[bytes]:
    """Messages of all kinds with wild values, whole and damaged, from vehicles and ground stations; and no messages."""
    codec = mav.MAVLink(None, srcSystem=1, srcComponent=1)
    kinds = [kind for kind in mav.mavlink_map.values() if kind.id < 256]
    often = [mav.mavlink_map[i] for i in (0, 1, 30, 31, 32, 76, 82, 84, 245, 23, 44, 73)]
    for i in range(count):
        kind = rng.choice(often if rng.random() < 0.7 else kinds)
        values = SANE if rng.random() < 0.7 else WILD
        message = kind(*(_field(name, rng, values) for name in _layout(kind)))
        if "time_boot_ms" in kind.fieldnames:
            message.time_boot_ms = i
        if values is SANE and "q1" in kind.fieldnames:
            message.q1 = 1.0
        try:
            packet = bytes(message.pack(codec))
        except (struct.error, TypeError, ValueError):  # a value that its field cannot hold
            continue
        if rng.random() < 0.3:
            packet = mutate_bytes(packet, rng)
        yield packet if rng.random() < 0.9 else rng.randbytes(rng.randrange(300))


def _layout(kind: Any) -> list[tuple[str, int]]:
    """Type and length of each field in the order of the constructor."""
    lengths = dict(zip(kind.ordered_fieldnames, kind.array_lengths, strict=True))
    return [(of, lengths[name]) for name, of in zip(kind.fieldnames, kind.fieldtypes, strict=True)]


def _field(layout: tuple[str, int], rng: random.Random, values: Sequence[float]) -> Any:
    kind, length = layout
    if kind == "char":
        return rng.randbytes(max(1, length))
    if kind in ("float", "double"):
        one: Callable[[], Any] = lambda: rng.choice(values)  # noqa: E731
    else:
        one = lambda: rng.choice((0, 1, 2, 3, 6, 64, 127))  # noqa: E731
    return [one() for _ in range(length)] if length else one()


def crtp_packets(rng: random.Random, count: int) -> Iterator[bytes]:
    """Packets of every port and channel, some of the right length, and no packets."""
    for _ in range(count):
        kind = rng.random()
        if kind < 0.2:
            small = [rng.randrange(-500, 500) for _ in range(9)]
            state = struct.pack("<hhhhhhIhhh", *small[:6], crtp.compress(np.float32([1, 0, 0, 0])), *small[6:])
            wire = crtp.Packet(crtp.LOG, crtp.LOG_DATA, b"\x01" + rng.randbytes(3) + state).pack()
        elif kind < 0.4:
            data = bytes([rng.randrange(3)]) + rng.randbytes(rng.choice((6, 25, 29)))
            wire = crtp.Packet(crtp.LOG, crtp.LOG_DATA, data).pack()
        else:
            wire = bytes([rng.randrange(256)]) + rng.randbytes(rng.randrange(31))
        yield mutate_bytes(wire, rng) if rng.random() < 0.2 else wire


@pytest.fixture(scope="module")
def controller(hover_program: Path) -> Controller:
    return Controller(hover_program)


def judge(
    link: Any, packets: Iterator[bytes], take: Callable[[bytes], None], controller: Controller, sent: list[bytes]
) -> int:
    """Feed a link, and fly by what the filter passes; how many commands there were."""
    clock = link._clock
    filter_ = SafetyFilter(library(), Limits(frozen_ms=0.0, battery=0.0), controller.spec)
    count = 0
    for i, packet in enumerate(packets):
        clock.moment += 0.001
        take(packet)
        reading = link.read()
        if reading is None or i % 10:
            continue
        filter_.reset()  # the vehicle's clock is wild here, which is another fault
        if filter_.check(reading, clock.now(), link.heard) is not None:
            controller.begin()
            continue
        assert all(np.isfinite(v).all() for v in reading.values.values())
        command = controller.step({**reading.values, "target": np.zeros(3, np.float32)})
        if filter_.limit(command) is None:
            assert np.isfinite(command).all()
            link.write("ctbr", command)
            link.react("land")
            count += 1
    assert len(sent) >= count
    return count


@pytest.mark.parametrize("count", COUNTS)
def test_mavlink_link(controller: Controller, count: int) -> None:
    clock = ManualClock()
    link = MavlinkLink(parse_address("mavlink://127.0.0.1:1?system=1"), controller.spec, clock)
    sent: list[Any] = []
    link._send = sent.append  # type: ignore[method-assign]
    commands = judge(
        link, mavlink_packets(random.Random(count), count), lambda p: link.take_packet(p, STATION), controller, sent
    )
    assert commands > count / 100
    for message in sent:
        if message.get_type() == "SET_ATTITUDE_TARGET":
            numbers = [
                *message.q,
                message.body_roll_rate,
                message.body_pitch_rate,
                message.body_yaw_rate,
                message.thrust,
            ]
            assert np.isfinite(numbers).all()
            assert 0.0 <= message.thrust <= 1.0


@pytest.mark.parametrize("count", COUNTS)
def test_crazyflie_link(controller: Controller, count: int) -> None:
    clock = ManualClock()
    link = CrazyflieLink(parse_address("crazyflie://127.0.0.1:1"), controller.spec, clock)
    sent: list[Any] = []
    link._send = lambda *words: sent.append(words)  # type: ignore[method-assign]
    commands = judge(link, crtp_packets(random.Random(count), count), link.take_packet, controller, sent)
    assert commands > count / 100
    assert len(link._replies) <= 256


def shake(server: Any, packets: Iterator[bytes]) -> None:
    """Feed a vehicle, which flies on."""
    vehicle = server.vehicle
    for i, packet in enumerate(packets):
        server.port.arriving.put(vehicle.now, (packet, STATION))
        if i % 500 == 0:
            server.receive()
            vehicle.step()
            server.send()
            assert all(np.isfinite(o.setpoint).all() for o in vehicle._onboard)
            assert np.isfinite(vehicle._commands).all()
            assert np.isfinite(vehicle.truth(0)["position"]).all()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("server", "packets"), [(MavlinkDrone, mavlink_packets), (CrtpDrone, crtp_packets)])
def test_vehicles(server: Any, packets: Callable[[random.Random, int], Iterator[bytes]], count: int) -> None:
    made = server(DroneVehicle(rookery.make("drone-hover", num_envs=1)), port=free_port(1))
    try:
        shake(made, packets(random.Random(count), count))
    finally:
        made.close()


@pytest.fixture(scope="module")
def fuzz(hover_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's parsers with sanitizers, behind the main function of fuzz_program.cpp."""
    out = tmp_path_factory.mktemp("fuzz") / "fuzz"
    linux = hover_program / "linux"
    sources = [
        linux / f"{name}.cpp" for name in ("bundle", "controls", "link", "mavlink_link", "packets", "settings", "udp")
    ]
    subprocess.run(
        ["gcc", "-std=c99", "-O1", "-c", hover_program / "policy.c", "-o", out.with_name("policy.o")], check=True
    )
    subprocess.run(["gcc", "-std=c99", "-O1", "-c", linux / "safety.c", "-o", out.with_name("safety.o")], check=True)
    subprocess.run(
        [
            "g++", "-std=c++17", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread",
            f"-I{hover_program}", f"-I{linux}", "-o", out, Path(__file__).with_name("fuzz_program.cpp"),
            *sources, out.with_name("policy.o"), out.with_name("safety.o"),
        ],
        check=True,
    )  # fmt: skip
    return out


@pytest.mark.parametrize("count", [pytest.param(10_000, marks=pytest.mark.slow), MANY])
def test_the_program(fuzz: Path, tmp_path: Path, count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [fuzz, str(count), "1", tmp_path, str(port)]
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    set_points, refused = map(int, done.stdout.split())
    assert set_points > count / 100
    assert refused > count / 100
