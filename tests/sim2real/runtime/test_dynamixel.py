"""X-series servos by DYNAMIXEL protocol 2.0: packets against ROBOTIS's SDK, our servos under that SDK, our link on our servos
in lock-step; limits, faults, refusals and damaged packets."""

from __future__ import annotations

import random
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dynamixel_sdk as sdk
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.experiments.runs import open_run
from rookery.robots.manipulators.panda import PANDA
from rookery.sim.errors import RookeryError
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.links import dynamixel as dynamixel_link
from rookery.sim2real.links import dynamixel_protocol as dxl
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.dynamixel import DynamixelLink
from rookery.sim2real.links.dynamixel_protocol import PacketReader, ServoPacket
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles.dynamixel import DynamixelArm
from tests.sim2real.runtime.drive_reaches import (
    MemoryPort,
    ServoReach,
    blind,
    cut,
    frozen_cameras,
    not_a_number,
    running,
    servos,
    servos_at,
    servos_wait,
    step,
)
from tests.sim2real.runtime.processes import fly, flying, free_port, prompt, run_refused, tried_again, vehicle
from tests.sim2real.runtime.reaches import controller
from tests.sim2real.runtime.runtime_faults import RUNTIME_FAULTS
from tests.sim2real.runtime.test_faults import SAFE_S
from tests.sim2real.runtime.test_packets import COUNTS

# -- packets -------------------------------------------------------------------------------------------------------


class Wire:
    """A port of the SDK that reads what is given."""

    def __init__(self) -> None:
        self.is_using = False
        self.given = b""

    def readPort(self, length: int) -> bytes:  # noqa: N802
        """Give so many bytes."""
        out, self.given = self.given[:length], self.given[length:]
        return out

    def isPacketTimeout(self) -> bool:  # noqa: N802
        """It never waits."""
        return not self.given


bodies = st.lists(st.sampled_from([b"\xff", b"\xfd", b"\xff\xff\xfd", b"\x00", b"\x37"]), max_size=30).map(b"".join)


@given(st.integers(0, 252), bodies)
def test_packets_are_those_of_the_sdk(number: int, data: bytes) -> None:
    """CRC and byte stuffing, both ways; wild data with many headers in it."""
    handler, wire = sdk.Protocol2PacketHandler(), Wire()
    plain = [*dxl.HEADER, number, (len(data) + 3) & 255, (len(data) + 3) >> 8, dxl.WRITE, *data, 0, 0]
    stuffed = handler.addStuffing(plain)  # its txPacket sends the packet as it was before: a fault of the SDK's 4.1.0
    crc = handler.updateCRC(0, stuffed, len(stuffed) - 2)
    expected = bytes(stuffed[:-2]) + struct.pack("<H", crc)
    assert ServoPacket(number, dxl.WRITE, data).pack() == expected
    assert PacketReader().feed(expected) == [ServoPacket(number, dxl.WRITE, data)]
    if b"\xfd" in data.partition(b"\xff\xff\xfd")[2]:
        return  # the SDK takes stuffing out in place, and then sees it where none is
    answer = ServoPacket(number, dxl.STATUS, b"\x00" + data)
    wire.given = answer.pack()
    received, result = handler.rxPacket(wire, False)
    assert result == sdk.COMM_SUCCESS
    assert bytes(received[8 : 9 + len(data)]) == answer.data


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 9))
def test_packets_are_found_among_noise(noise: list[bytes], size: int) -> None:
    """In pieces of any size, after bytes that are none; noise may only hide what follows a header of its own."""
    packet = ServoPacket(7, dxl.STATUS, b"\x00\xff\xff\xfd\x01")
    clean = [piece.replace(b"\xff\xff\xfd", b"") for piece in noise]
    stream = b"".join(piece.rstrip(b"\xff\xfd") + packet.pack() for piece in clean)
    reader = PacketReader()
    found = [p for k in range(0, len(stream), size) for p in reader.feed(stream[k : k + size])]
    assert found == [packet] * len(clean)


def test_each_damaged_bit_is_noticed() -> None:
    whole = ServoPacket(3, dxl.STATUS, b"\x00\x12\x34\x56\x78").pack()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert PacketReader().feed(bytes(damaged) + bytes(1100)) == []


# -- our servos under ROBOTIS's SDK --------------------------------------------------------------------------------


class SteppedPort(sdk.PortHandler):  # type: ignore[misc]
    """A port of the SDK on a line in memory, whose servos go on while it waits for answers; its time is theirs."""

    def __init__(self, server: DynamixelArm, line: MemoryPort) -> None:
        self._server, self._line = server, line
        super().__init__(line.name)

    def getCurrentTime(self) -> float:  # noqa: N802
        """Milliseconds."""
        return 1e3 * self._server.vehicle.now

    def readPort(self, length: int) -> bytes:  # noqa: N802
        """What has arrived a period later."""
        step(self._server)
        return self._line.read(length)

    def writePort(self, packet: list[int]) -> int:  # noqa: N802
        """How many bytes were written."""
        self._line.write(bytes(packet))
        return len(packet)

    def clearPort(self) -> None:  # noqa: N802
        """There is nothing that waits to be written."""


class Host:
    """The SDK on the port of our servos."""

    def __init__(self) -> None:
        self.server, line = servos(noise=0.0)
        self.port = SteppedPort(self.server, line)
        self.packets = sdk.PacketHandler(2.0)

    def write(self, number: int, place: tuple[int, int], value: int) -> int:
        """Its error."""
        call = {1: self.packets.write1ByteTxRx, 2: self.packets.write2ByteTxRx, 4: self.packets.write4ByteTxRx}[
            place[1]
        ]
        result, error = call(self.port, number, place[0], value & ((1 << 8 * place[1]) - 1))
        assert result == sdk.COMM_SUCCESS
        return int(error)

    def read(self, number: int, place: tuple[int, int]) -> int:
        call = {1: self.packets.read1ByteTxRx, 2: self.packets.read2ByteTxRx, 4: self.packets.read4ByteTxRx}[place[1]]
        value, result, _ = call(self.port, number, place[0])
        assert result == sdk.COMM_SUCCESS
        return int(value)

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


def test_robotis_s_sdk_drives_our_servos(host: Host) -> None:
    """It finds them, is refused what the control table refuses, and moves a joint by sync write and sync read."""
    model, result, error = host.packets.ping(host.port, 3)
    assert (model, result, error) == (1020, sdk.COMM_SUCCESS, 0)
    found, result = host.packets.broadcastPing(host.port)
    assert result == sdk.COMM_SUCCESS
    assert sorted(found) == list(range(1, 9))
    assert host.write(1, dxl.POSITION, 5) == dxl.ACCESS
    assert host.write(1, dxl.OPERATING_MODE, 16) == dxl.DATA_RANGE
    assert host.write(2, dxl.GOAL_POSITION, 4000) == dxl.DATA_LIMIT
    assert host.write(1, dxl.DRIVE_MODE, dxl.TIME_BASED) == 0
    assert host.write(1, dxl.PROFILE_VELOCITY, 300) == 0
    assert host.write(1, dxl.TORQUE_ENABLE, 1) == 0
    assert host.write(1, dxl.CURRENT_LIMIT, 5) == dxl.ACCESS  # EEPROM, while torque is on
    at = host.read(1, dxl.POSITION)
    assert at == round(PANDA.home_across[0] / dxl.RAD) + 2048
    group = sdk.GroupSyncWrite(host.port, host.packets, *dxl.GOAL_POSITION)
    group.addParam(1, list(struct.pack("<i", at + 200)))
    assert group.txPacket() == sdk.COMM_SUCCESS
    began = host.server.vehicle.now
    speeds = []
    reads = sdk.GroupSyncRead(host.port, host.packets, *dxl.MEASURED)
    for number in (1, 2):
        reads.addParam(number)
    while host.server.vehicle.now - began < 0.6:
        assert reads.txRxPacket() == sdk.COMM_SUCCESS
        speeds.append(struct.unpack("<i", struct.pack("<I", reads.getData(1, *dxl.VELOCITY)))[0] * dxl.RAD_S)
    assert abs(reads.getData(1, *dxl.POSITION) - at - 200) <= 1
    assert max(speeds) == pytest.approx(200 * dxl.RAD / 0.3, rel=0.2)  # a move of 0.3 s
    assert host.server.vehicle.truth()["joint angles"][0] - PANDA.home_across[0] == pytest.approx(
        200 * dxl.RAD, abs=3e-3
    )


def test_the_bus_watchdog_stops_a_servo(host: Host) -> None:
    host.write(1, dxl.DRIVE_MODE, dxl.TIME_BASED)
    host.write(1, dxl.PROFILE_VELOCITY, 2000)
    host.write(1, dxl.TORQUE_ENABLE, 1)
    at = host.read(1, dxl.POSITION)
    host.write(1, dxl.WATCHDOG, 3)
    host.write(1, dxl.GOAL_POSITION, at + 800)
    axis = host.server.vehicle.axes[0]
    step(host.server, 1000)  # nobody speaks
    assert host.server.servos[0]._table[98] == dxl.WATCHDOG_ERROR
    assert axis.velocity == 0.0
    assert axis.demand - PANDA.home_across[0] < 0.2 * 800 * dxl.RAD
    assert host.write(1, dxl.GOAL_POSITION, at) == dxl.DATA_RANGE  # read-only until the error is cleared
    assert host.write(1, dxl.WATCHDOG, 0) == 0
    assert host.write(1, dxl.GOAL_POSITION, at) == 0
    step(host.server, 10)
    assert axis.enabled


def test_the_bus_watchdog_lets_a_servo_go_on_that_is_spoken_to(host: Host) -> None:
    host.write(1, dxl.DRIVE_MODE, dxl.TIME_BASED)
    host.write(1, dxl.PROFILE_VELOCITY, 2000)
    host.write(1, dxl.TORQUE_ENABLE, 1)
    host.write(1, dxl.WATCHDOG, 3)
    host.write(1, dxl.GOAL_POSITION, host.read(1, dxl.POSITION) + 800)
    for _ in range(25):
        step(host.server, 40)  # of 60 ms that it waits
        host.read(1, dxl.POSITION)
    assert host.server.servos[0]._table[98] != dxl.WATCHDOG_ERROR
    assert host.server.vehicle.axes[0].demand - PANDA.home_across[0] > 0.3 * 800 * dxl.RAD


def test_an_overloaded_servo_takes_its_torque_off_until_a_reboot(host: Host) -> None:
    assert host.write(2, dxl.CURRENT_LIMIT, 60) == 0
    assert host.write(2, dxl.TORQUE_ENABLE, 1) == 0  # the arm's weight is more than 5 % of its torque holds
    for _ in range(500):
        if host.read(2, dxl.TORQUE_ENABLE) == 0:
            break
    _, _, error = host.packets.ping(host.port, 2)
    assert error & dxl.ALERT
    assert host.read(2, dxl.HARDWARE_ERROR) == dxl.OVERLOAD
    assert host.write(2, dxl.TORQUE_ENABLE, 1) & 0x7F == dxl.DATA_RANGE
    assert host.packets.reboot(host.port, 2)[0] == sdk.COMM_SUCCESS
    assert host.read(2, dxl.HARDWARE_ERROR) == 0
    assert host.write(2, dxl.TORQUE_ENABLE, 1) == 0


# -- our link on our servos ----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def lift_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored panda-lift policy."""
    policies, contract = open_run(Path("panda-lift"))
    return export_bundle(policies, contract, tmp_path_factory.mktemp("lift") / "bundle")


@pytest.mark.slow
def test_a_hand_over_dynamixel_grasps(lift_bundle: Path) -> None:
    """Arm and hand lift a cube; then they go home, and hold."""
    with closing(ServoReach(lift_bundle, seconds=4.0)) as flight:
        rest = float(flight.vehicle.objects["cube's position"][2])
        flight.begin()
        flight.vehicle.begin_episode()
        while flight.pilot.phase is Phase.POLICY:
            flight.run(1)
        assert flight.vehicle.success, flight.said
        assert flight.vehicle.objects["cube's position"][2] > rest + 0.1
        width, hand = float(flight.vehicle.truth()["distance between the fingers"][0]), flight.vehicle.axes[7]
        assert 0.03 < width < 0.06  # a cube of 5 cm is between its fingers
        assert hand.demand < width - 0.01  # they squeeze it
        assert not hand.error
        while flight.pilot.phase is not Phase.IDLE:
            flight.run(1)
        assert flight.pilot.fault is None, flight.said
        flight.run(80)
        assert not any(servo._table[9] for servo in flight.server.servos)  # the link has taken their delay away
        assert all(servo._table[64] for servo in flight.server.servos)  # no brakes: they hold
        assert flight.vehicle.still


def no_measurements(flight: ServoReach) -> None:
    flight.spoil = lambda number, packet: packet if len(packet.data) != 11 else None


def one_silent(flight: ServoReach) -> None:
    flight.spoil = lambda number, packet: packet if number != 5 else None


def frozen(flight: ServoReach) -> None:
    """The same measurements come again and again, of servos and cameras."""
    kept: dict[Any, ServoPacket] = {}
    flight.spoil = lambda number, packet: kept.setdefault((number, len(packet.data)), packet)
    frozen_cameras(flight)


def alert(flight: ServoReach) -> None:
    flight.vehicle.axes[2].fail(0x8611)


FAULTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "bus cut": (cut, "silent"), "no measurements": (no_measurements, "stale"), "one servo silent": (one_silent, "stale"),
    "no tracker": (blind, "stale"), "frozen": (frozen, "frozen"), "NaN": (not_a_number, "not_finite"),
    **RUNTIME_FAULTS, "overload": (alert, "disarmed"),
}  # fmt: skip
QUICK = ("overload",)


@pytest.mark.parametrize("fault", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAULTS])
def test_it_stops_within_80_ms(reach_bundle: Path, fault: str) -> None:
    begin, name = FAULTS[fault]
    rng = np.random.default_rng(len(fault))
    with closing(ServoReach(reach_bundle, seed=1)) as flight:
        flight.begin()
        flight.run(int(rng.integers(1, 40)))
        assert flight.pilot.phase is Phase.POLICY, flight.said
        assert not flight.safe
        before = flight.vehicle.truth()["joint angles"]
        begin(flight)
        assert flight.seconds_to_safety() <= SAFE_S + 1e-9, (fault, flight.said)
        if name:
            flight.run(8)
            assert flight.pilot.fault is not None
            assert flight.pilot.fault.name == name
        flight.run(100)
        assert np.abs(flight.vehicle.truth()["joint velocities"]).max() < 0.05
        assert np.abs(flight.vehicle.truth()["joint angles"] - before).max() < 0.3  # nothing fell
        if fault == "overload":
            assert "joint3: hardware error" in " ".join(flight.said)


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wrong_addresses_and_other_servos_are_refused(reach_bundle: Path) -> None:
    server, line = servos()
    spec = controller(reach_bundle).spec

    def refused(url: str, change: Callable[[], object] = lambda: None) -> str:
        change()
        try:
            with servos_wait(server), pytest.raises(RookeryError) as refusal:
                open_it(url)
        finally:
            for servo in server.servos:
                servo._table[64] = 0
        return str(refusal.value)

    def open_it(url: str) -> None:
        link = DynamixelLink(parse_address(url), spec, ManualClock())
        link._open_port = lambda: line  # type: ignore[method-assign]
        link.open(1.0)

    def put(number: int, place: tuple[int, int], value: int) -> Callable[[], object]:
        return lambda: server.servos[number - 1]._put(place, value)

    good = f"dynamixel://{server.port}"
    assert "must name a serial port" in refused("dynamixel://ttyUSB0")
    assert "unknown option" in refused(good + "?id=1")
    assert "names 6 drives" in refused(good + "?ids=1-6")
    assert "period must be" in refused(good + "?period=1")
    assert "the gripper's servo moves from" in refused(good + "?gripper=8&closed=5")
    assert "drive 6 should be that of joint4" in refused(good + "?ids=1,2,3,6,5,4,7")
    assert "servo 2 (joint2) holds in another mode" in refused(
        good, lambda: (put(2, dxl.TORQUE_ENABLE, 1)(), put(2, dxl.OPERATING_MODE, 5)())
    )
    put(2, dxl.OPERATING_MODE, 3)()
    assert "of model 12; this link knows" in refused(good, put(3, dxl.MODEL, 12))
    put(3, dxl.MODEL, 1020)()
    assert "servo 9 (joint7) does not answer" in refused(good + "?ids=1-6,9")
    server.vehicle.axes[3].error = 0x8611
    assert "hardware error (overload)" in refused(good)
    assert not server.vehicle.armed
    server.close()


def test_a_port_that_is_not_there_or_taken_is_refused(reach_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a servo behind a port of this machine answers."""
    monkeypatch.setattr(dynamixel_link, "ANSWER_S", 10.0)
    server = servos_at("")

    def link_to(path: str) -> DynamixelLink:
        return DynamixelLink(parse_address(f"dynamixel://{path}"), controller(reach_bundle).spec, ManualClock())

    with pytest.raises(RookeryError, match="cannot open the serial port /dev/nothere"):
        link_to("/dev/nothere").open()
    with closing(link_to(server.port)) as first:
        first._port = first._open_port()
        with pytest.raises(RookeryError, match="is no other program using it"):
            link_to(server.port).open()
        with running(server):
            assert first._number(3, dxl.MODEL, "joint3") == 1020
    server.close()


def test_a_vehicle_says_what_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RookeryError, match="cannot make the link"):
        servos_at(str(tmp_path / "file"))
    words = ["vehicle", "table-reach", "--protocol", "dynamixel", "--loss", "0.1"]
    assert "a serial port has no latency" in run_refused(words)


# -- damaged packets -----------------------------------------------------------------------------------------------

PLACES = (
    dxl.GOAL_POSITION, dxl.TORQUE_ENABLE, dxl.WATCHDOG, dxl.GOAL_CURRENT, dxl.OPERATING_MODE, dxl.PROFILE_VELOCITY,
    dxl.DRIVE_MODE, dxl.CURRENT_LIMIT, dxl.RETURN_LEVEL, (0, 2), (146, 4),
)  # fmt: skip
KINDS = (
    dxl.PING, dxl.READ, dxl.REG_WRITE, dxl.ACTION, dxl.REBOOT, dxl.SYNC_READ, dxl.SYNC_WRITE, dxl.BULK_READ, dxl.BULK_WRITE
)  # fmt: skip
POSE = (2048, 2048, 2048, 1000, 2048, 3400, 2048, 2600)  # within the servos' ranges


def packets(rng: random.Random, count: int) -> Iterator[bytes]:
    """Packets of every kind, many of them whole, and no packets."""
    for _ in range(count):
        number, kind = rng.choice((*range(1, 10), dxl.BROADCAST)), rng.random()
        place = rng.choice(PLACES[:2] if rng.random() < 0.5 else PLACES)
        value = rng.choice((0, 1, 3, 2048, 2100, 500, rng.getrandbits(31)))
        if kind < 0.4:
            data = (value & ((1 << 8 * place[1]) - 1)).to_bytes(place[1], "little")
            wire = ServoPacket(number, dxl.WRITE, struct.pack("<H", place[0]) + data).pack()
        elif kind < 0.6:
            wire = dxl.sync_write(dxl.GOAL_POSITION, [(k, rng.randrange(4096)) for k in range(1, 9)]).pack()
        elif kind < 0.7:
            answer = rng.randbytes(rng.choice((10, 35)))
            if rng.random() < 0.9 and number < 9:
                answer = struct.pack("<hii", rng.randrange(-500, 500), rng.randrange(-200, 200), POSE[number - 1])
            wire = ServoPacket(number, dxl.STATUS, bytes([rng.choice((0, 0, 0, 0x80, 7))]) + answer).pack()
        else:
            chosen = rng.choice((*KINDS, rng.randrange(256)))
            wire = ServoPacket(number, chosen, rng.randbytes(rng.randrange(20))).pack()
        if rng.random() < 0.15:
            damaged = bytearray(wire)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            wire = bytes(damaged)
        yield wire if rng.random() < 0.95 else rng.randbytes(rng.randrange(60))


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_packets_leave_the_servos_within_their_limits(count: int) -> None:
    server, _ = servos()
    try:
        enabled = 0
        for i, wire in enumerate(packets(random.Random(count), count)):
            for packet in server._reader.feed(wire):
                server.take_packet(packet)
            if i % 20 == 0:
                server.vehicle.step()
                server.send()
                enabled += server.vehicle.armed
                for axis in server.vehicle.axes:
                    past = axis.limits.speed**2 / (2.0 * axis.limits.deceleration)  # braking may pass an end
                    assert axis.limits.lower - past <= axis.demand <= axis.limits.upper + past
                    assert abs(axis.velocity) <= axis.limits.speed * 1.001
        assert enabled > count / 1000
        assert np.isfinite(server.vehicle.truth()["joint angles"]).all()
    finally:
        server.close()


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_packets_to_the_link(reach_bundle: Path, count: int) -> None:
    """Whatever arrives, what leaves are positions within the servos' ranges."""
    with closing(ServoReach(reach_bundle)) as flight:
        flight.begin()
        link, reader, action = flight.link, PacketReader(), flight.controller.spec.spec.action
        rng = random.Random(0)
        sent: list[ServoPacket] = []
        make = link._packets

        def keep(now: float) -> list[ServoPacket]:
            out: list[ServoPacket] = make(now)
            sent.extend(out)
            return out

        link._packets = keep
        for i, wire in enumerate(packets(random.Random(count), count)):
            for packet in reader.feed(wire):
                flight.take(packet, flight.clock.moment)
            if i % 50 == 0:
                flight.clock.moment += 0.01
                if link._mode != "moving":
                    link.arm()
                    link._torque, link._alert = [True] * 8, [False] * 8
                command = np.float32([rng.uniform(a, b) for a, b in zip(action.low, action.high, strict=True)])
                link.write(action.kind, command)
                link._cycle()
        goals = [p.data for p in sent if p.instruction == dxl.SYNC_WRITE and p.data[:2] == struct.pack("<H", 116)]
        assert len(goals) > count / 200
        for data in goals:
            for k in range(8):
                number, goal = struct.unpack_from("<Bi", data, 4 + 5 * k)
                table = flight.server.servos[number - 1]
                assert table._get(dxl.LOWEST_POSITION) <= goal <= table._get(dxl.HIGHEST_POSITION)


# -- in real time --------------------------------------------------------------------------------------------------


def served(folder: Path) -> tuple[list[str], str]:
    """Options of a vehicle on a serial port of its own, and the address of a link to it."""
    port, path = free_port(), folder / f"servos-{time.time_ns()}"
    hold = "" if prompt() else "&hold=1"
    return (
        ["--protocol", "dynamixel", "--bus", str(path), "--port", str(port)],
        f"dynamixel://{path}?gripper=8&tracker={port}{hold}",
    )  # fmt: skip


@pytest.mark.slow
@tried_again
def test_a_hand_grasps_on_the_port_of_another_process(lift_bundle: Path, tmp_path: Path) -> None:
    from tests.sim2real.runtime.test_franka import steps

    options, url = served(tmp_path)
    log = tmp_path / f"{time.time_ns()}.mcap"
    with vehicle(*options, task="panda-lift"):
        code, report = fly(lift_bundle, "--link", url, "--log", str(log), seconds=5.0)
    (one,) = report["vehicles"]
    assert (code, one["fault"], one["family"]) == (0, None, "arm")
    heights = [row["state"]["cube's position"][2] for row in steps(log)]
    assert heights[-1] > heights[0] + 0.1


@pytest.mark.slow
@tried_again
def test_servos_stop_when_the_runtime_is_killed(reach_bundle: Path, tmp_path: Path) -> None:
    options, url = served(tmp_path)
    with vehicle(*options, task="table-reach"), flying(reach_bundle, "--link", url) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.5)
        port = sdk.PortHandler(url.partition("?")[0].removeprefix("dynamixel://"))
        port.openPort()
        handler = sdk.PacketHandler(2.0)
        told = [handler.read1ByteTxRx(port, number, 98) for number in range(1, 9)]
        speeds = [handler.read4ByteTxRx(port, number, 128)[0] for number in range(1, 9)]
        port.closePort()
    assert [value for value, _, _ in told] == [dxl.WATCHDOG_ERROR] * 8
    assert all(min(v, (1 << 32) - v) < 3 for v in speeds)


def test_the_vehicle_s_port_has_its_path(tmp_path: Path) -> None:
    path = tmp_path / "servos"
    for _ in range(2):  # what an ended program left is replaced
        made = servos_at(str(path))
        assert path.resolve() == Path(made.port)
        last = made
    last.close()
    assert not path.is_symlink()
