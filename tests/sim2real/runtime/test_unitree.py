"""Unitree's low level: messages against independent codecs, the link and the vehicle's server over loopback, refusals."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import fastcrc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.sim.errors import RookeryError
from rookery.sim2real.links import dds, motion_switcher
from rookery.sim2real.links import unitree as links
from rookery.sim2real.links import unitree_messages as um
from rookery.sim2real.links.dds import Participant
from rookery.sim2real.links.joints import JointTargets
from rookery.sim2real.links.motion_switcher import MotionSwitcher, check_mode
from rookery.sim2real.links.opening import open_link
from rookery.sim2real.links.unitree import COMMANDS, PERIOD_S, STATES, UnitreeLink
from rookery.sim2real.runtime.clock import MonotonicClock
from rookery.sim2real.vehicles.joints import JointVehicle
from rookery.sim2real.vehicles.unitree import RELEASE_S, UnitreeGo2
from tests.sim2real.runtime.dds_bus import Bus, bus_for_links
from tests.sim2real.runtime.processes import PATIENCE_S, wait_for
from tests.sim2real.runtime.walks import controller, vehicle

DOMAIN = 1 + os.getpid() % 99
MESSAGES = (um.LOW_CMD, um.LOW_STATE, um.SPORT_MODE_STATE)
LYING = (0.0, 1.1, -2.7) * 4  # rad, as a folded Go2 tells


def servo(q: Any = 0.0, kp: Any = 0.0, kd: Any = 1.0, mode: int = 1) -> um.Record:
    """A LowCmd for all motors."""
    out = um.LOW_CMD.new()
    motors = out["motor_cmd"]
    motors["mode"][:12], motors["q"][:12], motors["kp"][:12], motors["kd"][:12] = mode, q, kp, kd
    return um.seal(out)


def lying(**fields: Any) -> um.Record:
    """A LowState of a robot that lies."""
    out = um.LOW_STATE.new()
    out["motor_state"]["q"][:12] = LYING
    out["imu_state"]["quaternion"][0] = 1.0
    for name, value in fields.items():
        out[name] = value
    return um.seal(out)


# -- messages ----------------------------------------------------------------------------------------------------


def crc_bit_by_bit(words: list[int]) -> int:
    """By polynomial division, as the robot's manual describes it."""
    remainder = 0xFFFFFFFF
    for word in words:
        for bit in range(31, -1, -1):
            top = remainder >> 31 ^ (word >> bit & 1)
            remainder = (remainder << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if top else 0)
    return remainder


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30))
def test_crc(words: list[int]) -> None:
    """Two independent ones: division bit by bit, and the library that Unitree's Python SDK calls."""
    own = um.crc32(np.array(words, "<u4").tobytes())
    assert own == crc_bit_by_bit(words)
    assert own == fastcrc.crc32.mpeg_2(np.array(words, ">u4").tobytes())


def test_a_changed_bit_breaks_the_crc() -> None:
    rng = np.random.default_rng(0)
    for message in (um.LOW_CMD, um.LOW_STATE):
        record = um.seal(random_record(message.dtype, rng))
        assert um.intact(record)
        raw = bytearray(record.tobytes())
        raw[int(rng.choice(np.flatnonzero(um._members(message.dtype))))] ^= 1 << int(rng.integers(8))
        assert not um.intact(np.frombuffer(bytes(raw), message.dtype)[0:1].reshape(()))


def test_padding_has_no_part_in_the_crc() -> None:
    record = um.seal(random_record(um.LOW_STATE.dtype, np.random.default_rng(3)))
    dirty = bytearray(record.tobytes())
    dirty[22:24] = b"\xaa\xaa"  # between `bandwidth` and the IMU
    again = np.frombuffer(bytes(dirty), um.LOW_STATE.dtype)[0:1].reshape(())
    assert again.tobytes() != record.tobytes()
    assert um.intact(again)


def random_record(dtype: np.dtype[Any], rng: np.random.Generator) -> um.Record:
    """Members filled, padding left 0."""
    out = np.zeros((), dtype)
    fill(out, rng)
    return out


def fill(record: um.Record, rng: np.random.Generator) -> None:
    for name in record.dtype.names or ():
        part = record[name]
        if part.dtype.names:
            for one in part.reshape(-1) if part.ndim else [part]:
                fill(one, rng)
        elif part.dtype.kind == "f":
            record[name] = rng.standard_normal(part.shape)
        else:
            record[name] = rng.integers(0, np.iinfo(part.dtype).max, part.shape)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.name)
def test_the_wire_is_that_of_cyclone_dds(message: um.Message) -> None:
    """Its own serializer packs the same members to the same bytes; C structs are as large as Unitree's (its crc.py)."""
    record = random_record(message.dtype, np.random.default_rng(1))
    kind = message.declare(dds.cyclone())
    wire = as_object(kind, record).serialize(use_version_2=False)
    assert wire[:4] == dds.LITTLE
    assert message.to_wire(record) == wire[4 : 4 + message.size]
    back = message.from_wire(wire[4:])
    assert back is not None
    assert back.tobytes() == record.tobytes()
    assert message.from_wire(wire[4:-4]) is None
    assert (um.LOW_CMD.dtype.itemsize, um.LOW_STATE.dtype.itemsize) == (812, 1180)


def test_only_octets_are_announced() -> None:
    """Cyclone DDS 0.10.2, that of Unitree's robots, ends where it learns of a type with a uint8 or int8 (docs/fly.md)."""
    switcher = vars(motion_switcher._kinds()).values()
    for kind in (*(dds._kind(m) for m in MESSAGES), *switcher):
        members = repr(get_type_hints(kind, include_extras=True))
        assert not re.search(r"\bu?int8\b", members), kind
        assert "byte" in members or kind in switcher


def as_object(kind: Any, record: um.Record) -> Any:
    """cyclonedds's object of a record."""
    hints = kind.__annotations__
    values = []
    for name in record.dtype.names or ():
        part = record[name]
        inner = hints[name]
        if part.dtype.names and part.ndim:
            values.append([as_object(inner.__metadata__[0].subtype, one) for one in part])
        elif part.dtype.names:
            values.append(as_object(inner, part))
        else:
            values.append(part.tolist())
    return kind(*values)


# -- the link and a robot over loopback --------------------------------------------------------------------------


@contextlib.contextmanager
def robot(state: um.Record, domain: int = DOMAIN, mode: str | None = None) -> Iterator[Participant]:
    """Somebody who sends one state at 100 Hz, and whose motion switcher answers where a mode is given."""
    participant = Participant("lo", domain)
    states = participant.writer(STATES, um.LOW_STATE)
    switcher = None if mode is None else MotionSwitcher(participant, mode)
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.01):
            states.write(state)
            if switcher is not None:
                switcher.serve()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield participant
    finally:
        over.set()
        thread.join()


def link_to(bundle: Path, url: str = f"unitree://lo?domain={DOMAIN}") -> UnitreeLink:
    link = open_link(url, controller(bundle).spec, MonotonicClock())
    assert isinstance(link, UnitreeLink)
    return link


def test_a_robot_at_its_low_level_is_taken(walk_bundle: Path) -> None:
    battery = um.LOW_STATE.new()["bms_state"]
    battery["soc"] = 77
    with robot(lying(bms_state=battery, tick=1234, foot_force=(1, 2, 3, 4)), mode=""):
        link = link_to(walk_bundle)
        identity = link.open(PATIENCE_S)
        wait_for(lambda: link.read() is not None)
        reading = link.read()
        link.close()
    assert identity.joints == um.MOTORS
    assert reading is not None
    assert reading.battery == pytest.approx(0.77)
    assert reading.measured == pytest.approx(1.234)
    assert reading.armed is False
    np.testing.assert_array_equal(reading.values["foot forces"], (2, 1, 4, 3))  # left before right
    assert dict(zip(JointTargets(controller(walk_bundle).spec).names, reading.values["joint angles"], strict=True)) == {
        name: np.float32(q) for name, q in zip(um.MOTORS, LYING, strict=True)
    }


def broken() -> um.Record:
    state = lying()
    state["crc"] += 1
    return state


def turned() -> um.Record:
    """Motors one place further."""
    state = lying()
    state["motor_state"]["q"][:12] = np.roll(LYING, 1)
    return um.seal(state)


def level() -> um.Record:
    """Without an IMU."""
    state = lying()
    state["imu_state"]["quaternion"] = 0.0
    return um.seal(state)


REFUSED = {
    "attitude": (level(), "tells no attitude"),
    "CRC": (broken(), "have a wrong CRC"),
    "order": (turned(), "motor 0 should be FR_hip and is at -2.70 rad"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_robots_that_are_refused(walk_bundle: Path, what: str) -> None:
    state, text = REFUSED[what]
    bus = Bus()
    states = bus.writer(STATES, um.LOW_STATE)
    with bus_for_links(bus, lambda: states.write(state)), pytest.raises(RookeryError, match=text):
        link_to(walk_bundle).open(timeout_s=1.0)


def test_a_robot_that_somebody_else_commands_is_refused(walk_bundle: Path) -> None:
    """As its own sport mode does, and a second runtime."""
    bus = Bus()
    states, commands = bus.writer(STATES, um.LOW_STATE), bus.writer(COMMANDS, um.LOW_CMD)

    def world() -> None:
        states.write(lying())
        commands.write(servo())

    with bus_for_links(bus, world), pytest.raises(RookeryError, match="another program sends set-points"):
        link_to(walk_bundle).open()


def test_a_robot_in_its_sport_mode_is_refused(walk_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "SWITCHER_S", PATIENCE_S)
    with robot(lying(), mode="normal"), pytest.raises(RookeryError, match="controller 'normal' is on"):
        link_to(walk_bundle).open(PATIENCE_S)


def test_addresses_that_are_refused(walk_bundle: Path) -> None:
    for url, text in (
        ("unitree://", "must name the network interface"),
        ("unitree://lo:5", "must name the network interface"),
        ("unitree://lo?port=3", "unknown option of unitree"),
        (f"unitree://no0?domain={DOMAIN + 100}", "no network interface 'no0'"),
        ("unitree://lo?domain=900", "a whole number from 0 to"),
        (f"unitree://lo?domain={DOMAIN + 101}", "no robot sends rt/lowstate"),
    ):
        with pytest.raises(RookeryError, match=text):
            link_to(walk_bundle, url).open(timeout_s=0.3)


def test_the_motion_switcher_tells_and_nobody_need_answer() -> None:
    with robot(lying(), mode="ai"):
        assert check_mode(Participant("lo", DOMAIN), PATIENCE_S) == "ai"
    with robot(lying()):
        assert check_mode(Participant("lo", DOMAIN), 0.3) is None


# -- our vehicle's end -------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[UnitreeGo2]:
    """A Go2 on loopback that its test steps."""
    server = UnitreeGo2(vehicle(control_dt=PERIOD_S), domain=DOMAIN)
    yield server
    server.close()


def step(server: UnitreeGo2, seconds: float, record: um.Record | None = None) -> None:
    """Let time pass, a set-point arriving in every step."""
    for _ in range(round(seconds / PERIOD_S)):
        if record is not None:
            server._take(record)
        server.receive()
        server.vehicle.step()


def test_set_points_that_stop_end_in_damping_which_lasts_while_anything_comes(served: UnitreeGo2) -> None:
    stiff = servo(LYING, kp=20.0)
    go2 = served.vehicle
    step(served, 0.1, stiff)
    assert go2.mode == "setpoints"
    assert go2.stiff
    step(served, 0.08)
    assert go2.mode == "failsafe"
    assert not go2.stiff
    step(served, 2 * RELEASE_S, stiff)  # the same runtime goes on, and does not know
    assert go2.mode == "failsafe"
    step(served, RELEASE_S + 0.1)
    assert go2.mode == "off"
    step(served, 0.1, stiff)
    assert go2.stiff


def test_what_a_set_point_says(served: UnitreeGo2) -> None:
    """A loop that is switched off has no gain; a wrong CRC is no set-point; motors that are off let go."""
    go2 = served.vehicle
    record = servo(np.arange(12) / 10.0, kp=np.arange(12) + 1.0, kd=2.0)
    broken = record.copy()
    broken["motor_cmd"]["kp"][3] = 50.0
    served._take(broken)
    assert (go2.mode, served.refused) == ("off", 1)
    motors = record["motor_cmd"]
    motors["q"][5], motors["dq"][6] = um.POSITION_OFF, um.VELOCITY_OFF
    served._take(um.seal(record))
    np.testing.assert_array_equal(go2._setpoint.stiffness, [1, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11, 12])
    np.testing.assert_array_equal(go2._setpoint.damping, [2, 2, 2, 2, 2, 2, 0, 2, 2, 2, 2, 2])
    np.testing.assert_allclose(go2._setpoint.position[:5], np.arange(5) / 10.0)
    served._take(servo(mode=0))
    assert go2.mode == "off"
    with pytest.raises(RookeryError, match="12 motors at 500 Hz"):
        UnitreeGo2(vehicle(), domain=DOMAIN)


def test_damaged_messages_move_nothing(served: UnitreeGo2) -> None:
    """Random bytes under a right CRC are the worst: what is not finite counts as none."""
    rng = np.random.default_rng(2)
    for k in range(3000):
        record = um.LOW_CMD.from_wire(rng.bytes(um.LOW_CMD.size))
        assert record is not None
        if k % 2:
            record["motor_cmd"]["mode"] = 1
            um.seal(record)
        served._take(record)
        if k % 100 == 0:
            served.receive()
            served.vehicle.step()
    assert served.refused >= 1500
    assert all(np.isfinite(v).all() for v in served.vehicle.truth().values())


class Loop:
    """A vehicle served in real time by this thread, and a link to it."""

    def __init__(self, bundle: Path, go2: JointVehicle, hold: float) -> None:
        self.server = UnitreeGo2(go2, domain=DOMAIN)
        self.go2 = go2
        self.link = link_to(bundle, f"unitree://lo?domain={DOMAIN}&hold={hold:g}")
        self.due = time.monotonic()

    def run(self, until: Any) -> None:
        """Serve the vehicle until a condition holds."""
        end = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < end, "waited too long"
            self.server.receive()
            self.go2.step()
            self.server.send()
            self.due = max(self.due + PERIOD_S, time.monotonic() - 0.1)
            time.sleep(max(0.0, self.due - time.monotonic()))

    def open(self) -> None:
        thread = threading.Thread(target=self.link.open, args=(PATIENCE_S,))
        thread.start()
        self.run(lambda: not thread.is_alive())
        thread.join()


@pytest.fixture
def loop(walk_bundle: Path) -> Iterator[Loop]:
    """With a robot and a link that wait as long as a busy machine may make them."""
    loop = Loop(walk_bundle, vehicle(control_dt=PERIOD_S, timeout_s=PATIENCE_S, noise=0.0), hold=9.0)
    loop.open()
    loop.link.arm()
    loop.run(lambda: loop.go2.mode == "setpoints")
    yield loop
    loop.link.close()
    loop.server.close()


def test_a_set_point_reaches_the_motor_of_its_joint(loop: Loop, walk_bundle: Path) -> None:
    for k, name in enumerate(JointTargets(controller(walk_bundle).spec).names):
        kp, motor = 1e-3 * np.eye(12)[k], um.MOTORS.index(name)
        loop.link.hold_joints(np.zeros(12), kp, np.zeros(12))
        loop.run(lambda motor=motor: loop.go2._setpoint.stiffness[motor] > 0.0 and loop.link.read() is not None)
        assert np.flatnonzero(loop.go2._setpoint.stiffness).tolist() == [motor]
        reading = loop.link.read()
        assert reading is not None
        angle = loop.go2._data.joint(f"go2/{name}").qpos[0]
        assert reading.values["joint angles"][k] == pytest.approx(angle, abs=0.02)


def test_disarming_switches_motors_off(loop: Loop) -> None:
    loop.run(lambda: loop.link.read() is not None and loop.link.read().armed is True)  # type: ignore[union-attr]
    loop.link.disarm()
    loop.run(lambda: loop.go2.mode == "off" and loop.link.read().armed is False)  # type: ignore[union-attr]
