"""Betaflight's MSP: frames and rate curves against a description of its own, our board under two clients written by others or
from that description alone, our link on our board in lock-step; faults, refusals, damaged bytes."""

from __future__ import annotations

import math
import random
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled import slow_but

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim2real.links import msp
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.betaflight import BetaflightLink
from rookery.sim2real.links.betaflight_rates import ACTUAL, BETAFLIGHT, QUICK, RateCurve, RcTuning, StickFinder
from rookery.sim2real.links.msp import MspMessage, MspReader
from rookery.sim2real.links.place_controller import PlaceController
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles.betaflight import BetaflightDrone
from rookery.sim2real.vehicles.betaflight_board import FAILSAFE, BetaflightBoard
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.pseudo_terminal import PseudoTerminal
from tests.fuzz.mutate import mutate_bytes
from tests.sim2real.runtime.boards import BoardFlight
from tests.sim2real.runtime.msp_client import (
    MspClient,
    actual_rate,
    betaflight_rate,
    crc8_dvb_s2,
    frame_v1,
    frame_v2,
    quick_rate,
    spin,
)
from tests.sim2real.runtime.processes import fly, flying, free_port, prompt, run_refused, tried_again, vehicle, wait_for
from tests.sim2real.runtime.reaches import controller
from tests.sim2real.runtime.runtime_faults import RUNTIME_FAULTS
from tests.sim2real.runtime.test_faults import SAFE_S
from tests.sim2real.runtime.test_packets import COUNTS, judge, shake

# -- frames --------------------------------------------------------------------------------------------------------

VECTORS = {
    "request, version 2": (b"$X<\x00\x64\x00\x00\x00\x8f", MspMessage(100, b"", msp.REQUEST, msp.V2)),
    "request, version 1": (b"$M<\x00\x64\x64", MspMessage(100, b"", msp.REQUEST, msp.V1)),
    "reply, version 2": (
        b"$X>\xa5\x42\x42\x12\x00Hello flying world\x82", MspMessage(0x4242, b"Hello flying world", msp.REPLY, msp.V2)
    ),
    "reply, version 2 in 1": (
        b"$M>\x18\xff\xa5\x42\x42\x12\x00Hello flying world\x82\xe1",
        MspMessage(0x4242, b"Hello flying world", msp.REPLY, msp.V2_IN_V1),
    ),
}  # fmt: skip
"""Examples of the description of version 2 (INAV's wiki, "MSP V2")."""


@pytest.mark.parametrize("name", VECTORS)
def test_published_frames(name: str) -> None:
    wire, message = VECTORS[name]
    assert MspReader().feed(wire) == [message]
    if b"\xa5" not in wire:  # flags that no board of ours sends
        assert message.pack() == wire


@given(st.integers(0, 254), st.binary(max_size=200), st.sampled_from([msp.V1, msp.V2, msp.V2_IN_V1]))
def test_frames_are_those_of_the_description(code: int, data: bytes, version: int) -> None:
    expected = {
        msp.V1: frame_v1(code, data), msp.V2: frame_v2(code, data), msp.V2_IN_V1: frame_v1(255, frame_v2(code, data)[3:])
    }  # fmt: skip
    message = MspMessage(code, data, msp.REQUEST, version)
    assert message.pack() == expected[version]
    assert MspReader().feed(expected[version]) == [message]
    assert msp.crc8(data) == crc8_dvb_s2(data)


@given(st.lists(st.binary(max_size=30), max_size=6), st.integers(1, 9), st.sampled_from([1, 2, 3]), st.integers(0, 400))
def test_messages_are_found_among_noise(noise: list[bytes], size: int, version: int, length: int) -> None:
    """In pieces of any size; noise may only hide what follows a beginning of its own."""
    message = MspMessage(108, bytes(length), msp.REPLY, version)
    stream = b"".join(piece.replace(b"$", b"") + message.pack() for piece in noise)
    reader = MspReader()
    found = [m for k in range(0, len(stream), size) for m in reader.feed(stream[k : k + size])]
    assert found == [message] * len(noise)


@pytest.mark.parametrize("version", [msp.V1, msp.V2, msp.V2_IN_V1])
def test_each_damaged_bit_is_noticed(version: int) -> None:
    whole = MspMessage(108, b"\x12\x34\x56\x78", msp.REPLY, version).pack()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        found = MspReader().feed(bytes(damaged) + bytes(msp.MOST))
        assert found == [] or bytes(damaged[2:3]) in (msp.REQUEST, msp.ERROR)  # the sign is in no checksum


# -- rates ---------------------------------------------------------------------------------------------------------

KINDS: dict[int, tuple[Callable[..., float], Callable[[int, int, int], tuple[float, float, float]]]] = {
    ACTUAL: (actual_rate, lambda rc, rate, expo: (10.0 * rc, 10.0 * max(rc, rate), expo / 100)),
    BETAFLIGHT: (betaflight_rate, lambda rc, rate, expo: (rc / 100, rate / 100, expo / 100)),
    QUICK: (quick_rate, lambda rc, rate, expo: (rc / 100, max(10.0 * rate, 2.0 * rc), expo / 100)),
}
numbers = st.integers(1, 190), st.integers(0, 98), st.integers(0, 100)


@pytest.mark.parametrize("kind", KINDS)
@given(st.floats(-1, 1), *numbers)
def test_rates_are_those_of_the_documentation(kind: int, stick: float, rc_rate: int, rate: int, expo: int) -> None:
    formula, words = KINDS[kind]
    expected = max(-1998.0, min(1998.0, formula(stick, *words(rc_rate, rate, expo))))
    assert RateCurve(kind, rc_rate, rate, expo).degrees(stick) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_rates_that_everybody_knows() -> None:
    assert RateCurve(BETAFLIGHT, 100, 70, 0).degrees(1.0) == pytest.approx(
        667, abs=0.5
    )  # Betaflight's defaults up to 4.2
    assert RateCurve(ACTUAL, 7, 67, 0).degrees(-1.0) == pytest.approx(-670)  # and since
    assert RateCurve(ACTUAL, 7, 67, 0, limit=300).degrees(1.0) == 300.0


@pytest.mark.parametrize("kind", KINDS)
@given(st.floats(-1, 1), st.integers(1, 190), st.integers(0, 98), st.integers(0, 100), st.integers(0, 30))
def test_sticks_turn_rates_round(kind: int, share: float, rc_rate: int, rate: int, expo: int, deadband: int) -> None:
    """No other whole number of us gives a rate that is nearer."""
    curve = RateCurve(kind, rc_rate, rate, 0 if kind == QUICK else expo)
    finder = StickFinder(curve, deadband)
    wanted = share * finder.most

    def rate_of(offset: int) -> float:
        size = max(0, abs(offset) - deadband) / (500 - deadband)
        return curve.degrees(math.copysign(size, offset))

    found = finder.offset(wanted)
    assert -500 <= found <= 500
    off = abs(rate_of(found) - wanted)
    assert all(off <= abs(rate_of(k) - wanted) + 1e-9 for k in (*range(-500, 501, 7), found - 1, found + 1))


# -- our board under a client of the description -------------------------------------------------------------------


class Bench:
    """A board in this process whose world goes on whenever the client waits."""

    def __init__(self) -> None:
        port = free_port(1)
        self.server = BetaflightDrone(DroneVehicle(rookery.make("drone-hover", num_envs=1), noise=0.0), port=port)
        self.drone = self.server.vehicle
        self.client = MspClient(port, self.step)

    def step(self) -> None:
        self.server.receive()
        self.drone.step()
        self.server.send()

    def hold(self, steps: int, *channels: int) -> None:
        for _ in range(steps):
            self.client.channels(*channels)

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as made:
        yield made


OFF, ON = 1000, 1800


def throttle_of(share: float) -> int:
    """us at which the simulated drone, a Crazyflie 2.1, pushes with a share of its weight: its thrust curve (rl-tools,
    crazyflie.h) solved by bisection, motors that idle at 5.5 %, min_check at 1050."""
    low, high = 0.0, 1.0
    for _ in range(40):
        u = 0.5 * (low + high)
        over = 4 * (0.003525 + 0.014373 * u + 0.09223 * u * u) > share * 0.0306 * 9.81
        low, high = (low, u) if over else (u, high)
    return round(1050 + 950 * (low - 0.055) / 0.945)


HOVER, CLIMB = throttle_of(1.0), throttle_of(1.15)


def climb(bench: Bench, steps: int = 80) -> None:
    """Arm and climb."""
    bench.hold(5, 1500, 1500, 1500, 1000, OFF)
    bench.hold(5, 1500, 1500, 1500, 1000, ON)
    bench.hold(steps, 1500, 1500, 1500, CLIMB, ON)
    assert bench.client.armed()
    assert bench.drone.truth(0)["position"][2] > 0.2


def test_who_it_is(bench: Bench) -> None:
    for version in (1, 2, 3):
        assert bench.client.ask(2, version=version) == (">", b"BTFL")
        assert bench.client.ask(1, version=version) == (">", bytes([0, 1, 46]))
        assert bench.client.ask(77, version=version)[0] == "!"
    assert bench.client.ask(200, b"\x01\x02")[0] == "!"
    assert bench.client.ask(116)[1].startswith(b"ARM;")
    assert not bench.client.armed()


def test_what_keeps_it_from_arming(bench: Bench) -> None:
    for _ in range(20):
        bench.step()
    assert bench.client.flags() & 1 << 2  # RXLOSS
    bench.hold(3, 1500, 1500, 1500, 1500, OFF)
    assert bench.client.flags() == 1 << 7  # THROTTLE
    bench.hold(3, 1500, 1500, 1500, 1500, ON)
    bench.hold(3, 1500, 1500, 1500, 1000, ON)
    assert bench.client.flags() == 1 << 26  # the switch was on too early
    assert not bench.client.armed()
    bench.hold(3, 1500, 1500, 1500, 1000, OFF)
    assert bench.client.flags() == 0
    bench.hold(3, 1500, 1500, 1500, 1000, ON)
    assert bench.client.armed()


@pytest.mark.parametrize("kind", [0, 3, 4])
def test_sticks_turn_the_drone_by_its_rates(bench: Bench, kind: int) -> None:
    """And gyro and attitude say so with the signs of Betaflight: right, nose down, with the clock."""
    bench.client.set_rates(kind, 60, 70, 30) if kind == 0 else bench.client.set_rates(
        kind, 9 if kind == 3 else 60, 50, 30
    )
    words = {0: (0.6, 0.7, 0.3), 3: (90.0, 500.0, 0.3), 4: (0.6, 500.0, 0.3)}[kind]
    formula = {0: betaflight_rate, 3: actual_rate, 4: quick_rate}[kind]
    climb(bench)
    before = bench.client.attitude()[2]
    bench.hold(60, 1500, 1500, 1700, HOVER, ON)
    expected = spin(1700, lambda s: formula(s, *words))
    told = bench.drone._onboard[0]
    assert told.level == "ctbr"
    assert told.setpoint[:3] == pytest.approx([0.0, 0.0, expected], rel=1e-3)
    assert told.setpoint[3] == pytest.approx(0.0306 * 9.81, rel=0.01)
    turning = float(bench.drone.truth(0)["angular velocity"][2])
    assert turning == pytest.approx(expected, rel=0.25)  # its yaw is slow
    assert bench.client.gyro()[2] == pytest.approx(math.degrees(turning), abs=4.0)
    assert 0.0 < (bench.client.attitude()[2] - before) % 360.0 < 180.0
    bench.hold(30, 1500, 1500, 1500, HOVER, ON)
    for axis, sticks in ((0, (1600, 1500)), (1, (1500, 1600))):
        bench.hold(25, *sticks, 1500, HOVER, ON)
        wanted = math.radians(formula(0.2, *words))
        assert bench.drone._onboard[0].setpoint[axis] == pytest.approx(wanted, rel=1e-3)
        assert bench.drone.truth(0)["angular velocity"][axis] == pytest.approx(wanted, rel=0.3)
        assert bench.client.attitude()[axis] > 1.0
        back = (1400, 1500) if axis == 0 else (1500, 1400)
        bench.hold(25, *back, 1500, HOVER, ON)


def test_angle_mode_levels(bench: Bench) -> None:
    climb(bench)
    bench.hold(15, 1700, 1500, 1500, HOVER, ON, OFF)
    assert bench.client.attitude()[0] > 4.0
    bench.hold(60, 1500, 1500, 1500, HOVER, ON, ON)
    assert abs(bench.client.attitude()[0]) < 2.0
    height, climbing = bench.client.altitude()
    assert height == pytest.approx(float(bench.drone.truth(0)["position"][2]), abs=0.1)
    assert climbing == pytest.approx(float(bench.drone.truth(0)["velocity"][2]), abs=0.15)


def failsafe(bench: Bench, procedure: int, delay: int = 2) -> None:
    assert bench.client.ask(76, struct.pack("<BBHBHB", delay, 60, 1450, 2, 100, procedure))[0] == ">"


@pytest.mark.parametrize(
    ("procedure", "way"),
    slow_but(
        [("land", "silence"), ("drop", "switch")], [(p, w) for p in ("land", "drop") for w in ("silence", "switch")]
    ),
)
def test_its_failsafe(bench: Bench, way: str, procedure: str) -> None:
    failsafe(bench, 0 if procedure == "land" else 1)
    climb(bench)
    if way == "switch":
        bench.hold(1, 1500, 1500, 1500, HOVER, ON, OFF, ON)
    else:
        for _ in range(15):
            bench.step()
        assert bench.drone.mode(0) == "offboard"  # it waits for 0.2 s
        for _ in range(6):
            bench.step()
    assert (bench.drone.mode(0) == "land") == (procedure == "land")
    assert bench.drone.armed(0) == (procedure == "land")
    fastest = 0.0
    for _ in range(800):
        bench.step()
        fastest = min(fastest, float(bench.drone.truth(0)["velocity"][2]))
    assert not bench.client.armed()
    assert (fastest > -1.0) == (procedure == "land")
    bench.hold(3, 1500, 1500, 1500, 1000, ON)
    assert not bench.client.armed()  # the switch must go back first
    assert bench.client.flags() & 1 << 1
    bench.hold(3, 1500, 1500, 1500, 1000, OFF)
    assert not bench.client.flags() & 1 << 1


@pytest.mark.slow
def test_yamspy_flies_our_vehicle(tmp_path: Path) -> None:
    """A client that others wrote, on a serial port."""
    port, path = free_port(1), tmp_path / "board"
    client = Path(__file__).with_name("yamspy_client.py")
    words = ["--protocol", "betaflight", "--listen", str(port), "--bus", str(path), "--silence-ms", "1000"]
    with vehicle(*words):
        done = subprocess.run([sys.executable, str(client), str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


# -- our link on our board, in lock-step -----------------------------------------------------------------------------


@pytest.mark.slow
def test_it_takes_off_hovers_and_lands(hover_bundle: Path) -> None:
    with closing(BoardFlight(hover_bundle, seconds=2.0)) as flight:
        flight.begin()
        far = []
        while flight.pilot.phase is Phase.POLICY:
            flight.run(1)
            away = flight.vehicle.truth(0)["position"] - flight.pilot.commands.values["target"]
            far.append(float(np.linalg.norm(away)))
        assert flight.pilot.phase is Phase.EXIT, flight.said
        assert max(far) < 0.2 and np.mean(far) < 0.1
        assert flight.lands(), flight.said
        flight.run(5)
        assert flight.pilot.done and flight.pilot.fault is None
        assert not flight.vehicle.armed(0)
        assert len(flight.wire.sent) == 100  # and channels went out all the time


@pytest.mark.slow
def test_a_lost_reply_does_not_keep_the_next_ones(hover_bundle: Path) -> None:
    """One in ten is lost by UDP, and those that come are two periods of the board late."""
    rng = random.Random(1)
    with closing(BoardFlight(hover_bundle)) as flight:
        flight.begin()
        waiting: list[MspMessage | None] = [None] * 10  # some five requests in 10 ms
        flight.wire.spoil = lambda a: (waiting.append(a if rng.random() > 0.1 else None), waiting.pop(0))[1]
        oldest = 0.0
        for _ in range(200):
            flight.run(1)
            oldest = max(oldest, flight.clock.now() - flight.link.read().received)
        assert flight.pilot.phase is Phase.POLICY, flight.said
        assert oldest < 0.045


def test_replies_that_grow_late_are_no_measurements(hover_bundle: Path) -> None:
    """Boards stamp nothing: what the link knows is when it asked."""
    with closing(BoardFlight(hover_bundle)) as flight:
        flight.begin()
        began = flight.clock.now()
        waiting: deque[tuple[float, MspMessage]] = deque()

        def delay(answer: MspMessage) -> MspMessage | None:
            now = flight.clock.now()
            waiting.append((now, answer))
            return waiting.popleft()[1] if now - waiting[0][0] >= 0.5 * (now - began) else None

        flight.wire.spoil = delay
        while flight.pilot.phase is Phase.POLICY and flight.clock.now() - began < 1.0:
            flight.run(1)
        assert flight.pilot.fault is not None and flight.pilot.fault.name == "stale", flight.said
        assert 0.5 * (flight.clock.now() - began) < 0.11  # s of the delay: 0.06 to a reply, 0.05 of the filter's
        assert flight.seconds_to_safety() < 0.03


def cut(flight: BoardFlight) -> None:
    """Nothing passes either way."""
    flight.wire.cut = True


def deaf(flight: BoardFlight) -> None:
    """Set-points do not reach the board, whose own failsafe begins."""
    flight.wire.deaf = True


def blind(flight: BoardFlight) -> None:
    """The tracker is silent, the board is not."""
    flight.mocap.cut = True


def frozen(flight: BoardFlight) -> None:
    """The same values come again and again."""
    kept: dict[int, MspMessage] = {}
    seen = dict(flight.mocap.values)
    flight.wire.spoil = lambda answer: kept.setdefault(answer.code, answer)
    flight.mocap.more = lambda: seen


def not_a_number(flight: BoardFlight) -> None:
    flight.mocap.more = lambda: {"velocity": np.full(3, np.nan, np.float32)}


FAULTS: dict[str, tuple[Callable[[BoardFlight], None], str]] = {
    "cut": (cut, "silent"), "deaf": (deaf, ""), "blind": (blind, "stale"), "frozen": (frozen, "frozen"),
    "NaN": (not_a_number, "not_finite"), **RUNTIME_FAULTS,
}  # fmt: skip
QUICK_FAULTS = ("blind", "hung, no watchdog")


@pytest.mark.parametrize("fault", slow_but(QUICK_FAULTS, FAULTS))
def test_it_comes_down_within_80_ms(hover_bundle: Path, fault: str) -> None:
    begin, name = FAULTS[fault]
    rng = np.random.default_rng(len(fault))
    with closing(BoardFlight(hover_bundle)) as flight:
        flight.begin()
        flight.run(int(rng.integers(1, 60)))
        assert flight.pilot.phase is Phase.POLICY, flight.said
        assert not flight.safe
        begin(flight)
        assert flight.seconds_to_safety() <= SAFE_S + 1e-9, flight.said
        flight.run(3)
        if name:
            assert flight.pilot.fault is not None
            assert flight.pilot.fault.name == name
        assert flight.lands(), flight.said
        assert np.isfinite(flight.vehicle.truth(0)["position"]).all()


def test_a_full_command_stays_within_the_channels(hover_bundle: Path) -> None:
    with closing(BoardFlight(hover_bundle)) as flight:
        flight.pilot.check()
        low, high = (
            np.array(v) for v in (flight.controller.spec.spec.action.low, flight.controller.spec.spec.action.high)
        )
        for command in (low, high, 100 * high, np.zeros(4)):
            flight.link.write("ctbr", command)
            flight.link._send_channels()
            values = np.frombuffer(flight.wire.sent[-1], "<u2")
            assert ((values >= 1000) & (values <= 2000)).all()
            assert values[2] >= 1050  # the throttle of a flying drone is never down


# -- refusals --------------------------------------------------------------------------------------------------------


def instead(code: int, data: bytes) -> Callable[[MspMessage], MspMessage]:
    """Another answer to a request."""
    return lambda answer: MspMessage(code, data, msp.REPLY) if answer.code == code else answer


def changed(code: int, change: Callable[[bytearray], None]) -> Callable[[MspMessage], MspMessage]:
    """An answer of which bytes are others."""

    def spoil(answer: MspMessage) -> MspMessage:
        if answer.code != code:
            return answer
        data = bytearray(answer.data)
        change(data)
        return MspMessage(code, bytes(data), msp.REPLY)

    return spoil


def put(at: int, *values: int) -> Callable[[bytearray], None]:
    return lambda data: data.__setitem__(slice(at, at + len(values)), bytes(values))


REFUSED: dict[str, tuple[Callable[[MspMessage], MspMessage | None], str]] = {
    "silent": (lambda answer: None, "no board answers"),
    "another firmware": (instead(2, b"INAV"), "'INAV' and not Betaflight"),
    "old": (instead(1, bytes([0, 1, 41])), "needs 1.43"),
    "short": (instead(111, bytes(12)), "in another form"),
    "unknown": (lambda a: MspMessage(a.code, b"", msp.ERROR) if a.code == 75 else a, "does not know the request 75"),
    "receiver": (instead(36, bytes(4)), "receiver is not MSP"),
    "kiss": (changed(111, put(22, 2)), "type KISS"),
    "quick expo": (changed(111, lambda d: (put(22, 4)(d), put(1, 30)(d))[0]), "quickrates_rc_expo"),
    "slow": (changed(111, put(2, 8)), "its rates end at"),
    "bent throttle": (changed(111, put(7, 20)), "thr_expo"),
    "middle": (changed(44, put(3, 0x20, 0x03)), "mid_rc"),
    "map": (instead(64, bytes([0, 1, 1, 2])), "no order of four sticks"),
    "no failsafe switch": (changed(34, put(8, 0, 0, 0, 0)), "mode FAILSAFE has no range"),
    "one switch": (changed(34, put(9, 0)), "give each its own"),
    "angle": (changed(34, put(4, 1, 1, 0, 48)), "mode ANGLE is on"),
    "always armed": (changed(34, put(2, 0, 48)), "at both ends"),
    "stage 1": (changed(75, put(4, 0)), "failsafe_switch_mode"),
    "late failsafe": (changed(75, put(0, 15)), "failsafe_delay to 5"),
    "drop": (changed(75, put(7, 1)), "?drop=1"),
    "no compass": (changed(101, put(4, 0x23)), "let the tracker send rotation"),
    "never arms": (changed(101, put(17, 1, 4, 0, 0)), "will not arm (NOGYRO, LOAD)") ,
    "armed already": (changed(101, put(6, 1)), "armed already"),
}  # fmt: skip
REFUSED["never arms"] = (changed(101, put(17, 1, 8, 0, 0)), "will not arm (NOGYRO, LOAD)")


@pytest.fixture(scope="module")
def hover(hover_bundle: Path) -> Controller:
    return controller(hover_bundle)


@pytest.mark.parametrize("what", REFUSED)
def test_boards_that_do_not_fit(hover_bundle: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    spoil, words = REFUSED[what]
    monkeypatch.setattr("rookery.sim2real.links.betaflight.ANSWER_S", 0.02)
    with closing(BoardFlight(hover_bundle)) as flight:
        flight.wire.spoil = spoil
        with pytest.raises(RookeryError) as refused:
            flight.link.open(0.3)
        said = str(refused.value)
        assert words in said
        assert said.startswith("betaflight://board?tracker=1: ") and said.endswith(".") and "\n" not in said
        assert not flight.vehicle.armed(0)


def test_flags_that_clear_in_time_do_not_keep_it_from_arming(
    hover_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a board that boots or has just got its first RC frames."""
    monkeypatch.setattr("rookery.sim2real.links.betaflight.ANSWER_S", 0.02)
    spoil = REFUSED["never arms"][0]
    with closing(BoardFlight(hover_bundle)) as flight:
        told: list[MspMessage] = []

        def clears(answer: MspMessage) -> MspMessage | None:
            told.extend([answer] * (answer.code == msp.STATUS))
            return spoil(answer) if len(told) < 8 else answer

        flight.wire.spoil = clears
        flight.link.open(3.0)
        assert len(told) >= 8


def test_refusals(hover_bundle: Path, hover: Controller) -> None:
    port = free_port(3)

    def refused(url: str) -> str:
        with pytest.raises(RookeryError) as refusal:
            BetaflightLink(parse_address(url), hover.spec, ManualClock()).open()
        return str(refusal.value)

    link = f"betaflight://127.0.0.1:{port}"
    assert "?tracker=PORT" in refused(link)
    assert "cannot connect" in refused(f"{link}?tracker={port + 1}")
    assert "cannot open the serial port" in refused(f"betaflight:///no/such?tracker={port + 1}")
    assert "must name a board" in refused(f"betaflight://?tracker={port + 1}")
    assert "hold must be" in refused(f"{link}?tracker={port + 1}&hold=0")
    assert "hover must be" in refused(f"{link}?tracker={port + 1}&hover=1")
    assert "?tracker=PORT" in run_refused(["fly", str(hover_bundle), "--link", link])
    with pytest.raises(RookeryError, match="cannot make the link /"):
        PseudoTerminal("/")


# -- damaged bytes -----------------------------------------------------------------------------------------------------

WORDS = (0, 1, 100, -100, 1500, 2000, 32767, -32768)


def answers(rng: random.Random, count: int) -> Iterator[bytes]:
    """Replies with wild numbers, whole and damaged, in pieces; and none."""
    layouts = {108: "hhh", 102: "hhhhhhhhh", 101: "HHHIBHHBBIBHB", 130: "BHBHhBH", 200: ""}
    for _ in range(count):
        code = rng.choice(list(layouts))
        values = []
        sane = rng.random() < 0.8
        for kind in layouts[code]:
            value = rng.choice((0, 1, -1, 20)) if sane else rng.choice((*WORDS, rng.randrange(65536)))
            values.append(
                value % 256 if kind == "B" else value % 65536 if kind in "HI" else max(-32768, min(32767, value))
            )
        data = struct.pack("<" + layouts[code], *values)
        wire = MspMessage(code, data[: rng.choice((len(data), len(data), 3))], msp.REPLY, rng.choice((1, 2, 3))).pack()
        if rng.random() < 0.3:
            wire = mutate_bytes(wire, rng)
        yield wire if rng.random() < 0.9 else rng.randbytes(rng.randrange(300))


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_replies(hover_bundle: Path, hover: Controller, count: int) -> None:
    """No error, and no command that the filter would not pass."""
    clock = ManualClock()
    port = free_port(1)
    with closing(BoardFlight(hover_bundle)) as flight:
        flight.pilot.check()
        setup = flight.link._setup
    link: Any = BetaflightLink(parse_address(f"betaflight://127.0.0.1?tracker={port}"), hover.spec, clock)
    link._setup = setup
    sent: list[bytes] = []
    link._send = lambda message: sent.append(message.data)
    link._asked = lambda code: clock.now()  # all of it, as if asked for
    rng = random.Random(count)

    def take(wire: bytes) -> None:
        kind = rng.random()
        if kind < 0.9:
            link._tracker.values = {"position": np.zeros(3, np.float32), "velocity": np.zeros(3, np.float32)}
        elif kind < 0.95:
            link._tracker.values = {"position": np.full(3, np.nan, np.float32), "velocity": np.zeros(3, np.float32)}
        else:
            link._tracker.values = {
                "position": np.zeros(rng.randrange(1, 5), np.float32),
                "rotation": np.ones(2, np.float32),
            }
        link._tracker.heard = clock.now()
        link.take_bytes(wire)
        link._compose()
        link._flags()
        link._send_channels()

    try:
        assert judge(link, answers(rng, count), take, hover, sent) > count / 100
        for data in sent:
            values = np.frombuffer(data, "<u2")
            assert ((values >= 1000) & (values <= 2000)).all()
    finally:
        link.close()


def requests(rng: random.Random, count: int) -> Iterator[bytes]:
    """Requests of all codes, channels and settings with wild numbers, damaged ones; and none."""
    for _ in range(count):
        kind = rng.random()
        if kind < 0.5:
            code, data = (
                200,
                b"".join(rng.choice((0, 1000, 1500, 1800, 2000, 65535)).to_bytes(2, "little") for _ in range(9)),
            )
        elif kind < 0.7:
            code, data = rng.choice((76, 204)), rng.randbytes(rng.choice((8, 23, 3)))
        else:
            code, data = rng.randrange(255), rng.randbytes(rng.randrange(12))
        wire = MspMessage(code, data, rng.choice((msp.REQUEST, msp.REQUEST, msp.REPLY)), rng.choice((1, 2, 3))).pack()
        yield mutate_bytes(wire, rng) if rng.random() < 0.3 else wire


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_requests(count: int) -> None:
    made = BetaflightDrone(DroneVehicle(rookery.make("drone-hover", num_envs=1)), port=free_port(1))
    with closing(made):
        shake(made, requests(random.Random(count), count))


# -- parts -------------------------------------------------------------------------------------------------------------


def test_tuning_is_read_as_it_is_told() -> None:
    board = BetaflightBoard(DroneVehicle(rookery.make("drone-hover", num_envs=1)))
    curves = tuple(RateCurve(ACTUAL, 5 + i, 60 + i, 10 + i, 900 + i) for i in range(3))
    board.tuning = RcTuning((curves[0], curves[1], curves[2]))
    answer = board.answer(MspMessage(msp.RC_TUNING))
    assert answer is not None
    assert RcTuning.unpack(answer.data) == board.tuning
    assert [answer.data[k] for k in (0, 12, 11)] == [5, 6, 7]  # rates of roll, pitch and yaw stand apart
    assert FAILSAFE in board.answer(MspMessage(msp.BOXIDS)).data  # type: ignore[union-attr]


@given(st.floats(-3, 3), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_the_place_controller_pushes_towards_its_goal(yaw: float, goal: list[float]) -> None:
    """From rest and level: it tilts so that its thrust leans the way the goal is, whatever its heading."""
    q = np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)], np.float32)
    values = {"position": np.zeros(3, np.float32), "velocity": np.zeros(3, np.float32), "rotation": q}
    wx, wy, wz, thrust = PlaceController(0.03, 1.0).step(values, goal, yaw, 5.0)
    ahead = math.cos(yaw) * goal[0] + math.sin(yaw) * goal[1]
    left = -math.sin(yaw) * goal[0] + math.cos(yaw) * goal[1]
    assert wy * ahead >= 0.0 and wx * left <= 0.0  # nose down to go ahead, right side down to go right
    assert abs(wz) < 1e-3
    assert (thrust - 0.03 * 9.81) * goal[2] >= -1e-6


# -- real time ---------------------------------------------------------------------------------------------------------


def slack() -> tuple[list[str], str]:
    """Options of the vehicle and of the link on this machine."""
    return ([], "") if prompt() else (["--silence-ms", "1000"], "&hold=1&loss=2")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tcp", "udp", "serial"])
@tried_again
def test_a_bundle_flies_and_lands(hover_bundle: Path, tmp_path: Path, way: str) -> None:
    port = free_port(2)
    path = tmp_path / f"board{time.time_ns()}"
    words, more = slack()
    where = {"tcp": f"127.0.0.1:{port}?", "udp": f"127.0.0.1:{port}?udp=1&", "serial": f"{path}?"}[way]
    bus = ["--bus", str(path)] if way == "serial" else []
    loss = ["--loss", "0.01", "--latency-ms", "5"] if way == "udp" else []
    served = ["--protocol", "betaflight", "--listen", str(port), "--port", str(port + 1), *words, *bus, *loss]
    with vehicle(*served):
        code, report = fly(hover_bundle, "--link", f"betaflight://{where}tracker={port + 1}{more}")
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert one["policy_s"] == pytest.approx(3.0, abs=0.1)
    assert one["largest_distance_m"] < 0.25


@pytest.mark.slow
def test_the_vehicle_lands_when_the_runtime_is_killed(hover_bundle: Path) -> None:
    port = free_port(2)
    words, more = slack()
    served = ["--protocol", "betaflight", "--listen", str(port), "--port", str(port + 1), *words]
    with vehicle(*served):
        watcher = MspClient(port, lambda: time.sleep(0.02))
        with (
            closing(watcher),
            flying(hover_bundle, "--link", f"betaflight://127.0.0.1:{port}?tracker={port + 1}{more}") as process,
        ):
            assert watcher.armed()
            process.send_signal(signal.SIGKILL)
            wait_for(lambda: watcher.flags() & 1 << 1, 3.0)  # FAILSAFE
            wait_for(lambda: not watcher.armed(), 20.0)
