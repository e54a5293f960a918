"""Servo drives on a CAN bus by CiA 402: our drives under a master of the canopen library, and our link on them, in lock-step;
limits, faults, refusals and damaged frames."""

from __future__ import annotations

import itertools
import math
import random
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import canopen
import numpy as np
import pytest
from canopen.profiles.p402 import State402

from rookery.robots.manipulators.panda import PANDA
from rookery.sim.errors import RookeryError
from rookery.sim2real.links import cia402
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.can_bus import GROUP
from rookery.sim2real.links.canopen import CanopenLink
from rookery.sim2real.links.drive_link import id_numbers
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles.axis import Axis, AxisLimits
from rookery.sim2real.vehicles.canopen import CanopenArm
from tests.sim2real.runtime.canopen_master import connect, map_pdos
from tests.sim2real.runtime.drive_reaches import (
    CanReach,
    blind,
    cut,
    drives,
    frozen_cameras,
    not_a_number,
    running,
    step,
)
from tests.sim2real.runtime.processes import fly, flying, free_port, tried_again, vehicle, wait_for
from tests.sim2real.runtime.reaches import controller
from tests.sim2real.runtime.runtime_faults import RUNTIME_FAULTS
from tests.sim2real.runtime.test_faults import SAFE_S
from tests.sim2real.runtime.test_franka import nearest
from tests.sim2real.runtime.test_packets import COUNTS

UNITS = 131072 * 100 / (2.0 * math.pi)  # increments of the vehicle's encoders per rad
LIMITS = AxisLimits(lower=-1.0, upper=2.0, speed=2.0, torque=10.0, deceleration=10.0, window=0.1, patience=0.01)


# -- the state machine ---------------------------------------------------------------------------------------------


def axis_in(state: str) -> Axis:
    """A drive in a state, still."""
    axis = Axis(LIMITS, 0.5, 0.001)
    axis.mode, axis.state = cia402.CYCLIC_SYNCHRONOUS_POSITION, state
    axis.stays = True
    return axis


def test_each_transition_of_the_library_s_table() -> None:
    """The canopen library's own table of transitions and states judges ours."""
    for (before, after), word in State402.TRANSITIONTABLE.items():
        if before in ("START", "NOT READY TO SWITCH ON", "FAULT REACTION ACTIVE"):
            continue  # automatic ones
        axis = axis_in(before.lower())
        axis.control(word)
        mask, value = State402.SW_MASK[after]
        assert axis.status & mask == value, (before, after)
        assert cia402.state_of(axis.status) == after.lower()


def test_the_way_to_enabled_is_the_library_s() -> None:
    for (before, after), word in State402.TRANSITIONTABLE.items():
        if before == "QUICK STOP ACTIVE" or after != State402.next_state_indirect(before):
            continue
        state = before.lower()
        if state not in ("start", cia402.NOT_READY, cia402.FAULT_REACTION):  # left without a word
            assert cia402.word_towards_enabled(state, 0) == word, (before, after)
    assert cia402.word_towards_enabled(cia402.QUICK_STOP, 0) == cia402.TO_DISABLE, "it ends the stop, and never goes on"
    words = [0]
    for _ in range(6):
        words.append(cia402.word_towards_enabled(cia402.FAULT, words[-1]))
    edges = [~a & b & cia402.TO_RESET for a, b in itertools.pairwise(words)]
    assert sum(map(bool, edges)) == 3, "a fault that comes back is reset by another rising edge"


def test_a_random_walk_never_enables_but_from_switched_on() -> None:
    rng = random.Random(3)
    axis = axis_in(cia402.SWITCH_ON_DISABLED)
    enabled = 0
    for _ in range(20_000):
        before = axis.state
        event = rng.random()
        if event < 0.02:
            axis.fail(0x8611)
        elif event < 0.2:
            axis.tick(axis.demand)
        else:
            axis.control(rng.choice((0x00, 0x06, 0x07, 0x0F, 0x0F, 0x02, 0x80, rng.randrange(0x10000))))
        enabled += axis.enabled
        if axis.enabled and before != axis.state:
            assert before in (cia402.SWITCHED_ON, cia402.QUICK_STOP)
        if before == cia402.FAULT and axis.state != before:
            assert axis.state == cia402.SWITCH_ON_DISABLED
        assert bool(axis.error) == (axis.state in (cia402.FAULT, cia402.FAULT_REACTION))
    assert enabled > 200


def test_an_axis_keeps_its_limits() -> None:
    axis = axis_in(cia402.SWITCHED_ON)
    axis.take(1.0, 0.004)
    axis.tick(0.5)
    assert axis.demand == 0.5  # it is not enabled
    axis.control(0x0F)
    axis.take(0.504, 0.004)
    path = []
    for _ in range(4):
        axis.tick(axis.demand)
        path.append(axis.demand)
    np.testing.assert_allclose(path, (0.501, 0.502, 0.503, 0.504))
    assert not axis.status & cia402.LIMITED
    axis.take(1.5, 0.004)  # at once it would be 250 rad/s
    axis.tick(axis.demand)
    assert axis.velocity == pytest.approx(2.0)
    assert axis.status & cia402.LIMITED
    axis.take(9.0, 0.004)
    for _ in range(1000):
        axis.tick(axis.demand)
    assert axis.demand == 2.0
    axis.control(0x02)
    axis.take(0.0, 0.004)
    assert axis.state == cia402.QUICK_STOP
    axis.tick(0.0)
    assert axis.demand == 2.0


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_a_quick_stop_brakes_as_it_is_told(speed: float) -> None:
    axis = axis_in(cia402.SWITCHED_ON)
    axis.stays = False
    axis.control(0x0F)
    for k in range(200):
        axis.take(0.5 + 0.001 * speed * (k + 1), 0.001)
        axis.tick(axis.demand)
    at = axis.demand
    axis.control(0x02)
    count = 0
    while axis.state == cia402.QUICK_STOP:
        axis.tick(axis.demand)
        count += 1
    assert axis.state == cia402.SWITCH_ON_DISABLED
    assert count * 0.001 == pytest.approx(speed / 10.0, abs=0.003)
    assert axis.demand - at == pytest.approx(speed**2 / 20.0, rel=0.05)


def test_units_of_drives() -> None:
    turn = 2.0 * math.pi
    for code, scale in (
        (0, 4000 / turn), (0x00B50000, 4000 / turn), (0xFD410000, 360e3 / turn), (0xFC100000, 1e4), (0x00B40000, 1 / turn),
        (0xFA010000, 1e6), (0x01410000, 36 / turn),
    ):  # fmt: skip
        assert cia402.position_scale(code, 4000) == pytest.approx(scale)
    assert cia402.velocity_scale(0x00B44700, 4000) == pytest.approx(60 / turn)  # 1/min
    assert cia402.velocity_scale(0xFFB44700, 4000) == pytest.approx(600 / turn)
    assert cia402.velocity_scale(0x00B50300, 4000) == pytest.approx(4000 / turn)
    with pytest.raises(ValueError, match="0x77"):
        cia402.position_scale(0x00770000, 1)
    with pytest.raises(ValueError, match="time 0x05"):
        cia402.velocity_scale(0x00B40500, 1)


# -- our drives under another master -------------------------------------------------------------------------------


class Master:
    """The library's master of drive `node`; `cycle` is a SYNC and what the drives do until the next one."""

    def __init__(self, node: int = 1) -> None:
        self.server = drives(noise=0.0)
        self.network, self.drive = connect(self.server.channel, node)
        self.axis = self.server.vehicle.axes[node - 1]
        self.emergencies: list[int] = []
        self.drive.emcy.add_callback(lambda error: self.emergencies.append(error.code))

    def enable(self) -> None:
        with running(self.server):
            map_pdos(self.drive)
            self.drive.sdo["Modes of operation"].raw = 8
            self.at = self.drive.sdo["Position actual value"].raw
            self.drive.rpdo[1]["Target position"].raw = self.at
        for word in (0x06, 0x07, 0x0F):
            self.cycle(word, self.at)
        assert self.axis.enabled

    def cycle(self, word: int, target: int) -> None:
        self.drive.rpdo[1]["Controlword"].raw = word
        self.drive.rpdo[1]["Target position"].raw = target
        self.drive.rpdo[1].transmit()
        self.network.sync.transmit()
        step(self.server, 4)

    def close(self) -> None:
        self.network.disconnect()
        self.server.close()


@pytest.fixture
def master() -> Iterator[Master]:
    made = Master()
    yield made
    made.close()


def test_a_master_of_the_library_moves_a_joint(master: Master) -> None:
    """It reads who the drive is, maps PDOs of its own, enables it by its own state machine, and moves it by 0.3 rad."""
    sdo = master.drive.sdo
    with running(master.server):
        assert sdo["Manufacturer device name"].raw == "rookery panda joint1"  # longer than a frame
        assert sdo["Device type"].raw & 0xFFFF == 402
        assert [sdo[0x607D][k].raw / UNITS for k in (1, 2)] == pytest.approx([PANDA.lower[0], PANDA.upper[0]], abs=1e-6)
        with pytest.raises(canopen.SdoAbortedError, match="0x06020000"):
            sdo.upload(0x2345, 0)
        with pytest.raises(canopen.SdoAbortedError, match="0x06010002"):
            sdo["Position actual value"].raw = 5
        with pytest.raises(canopen.SdoAbortedError, match="0x06070010"):
            sdo.download(0x6060, 0, b"\x08\x00")
        with pytest.raises(canopen.SdoAbortedError, match="0x06090030"):
            sdo["Modes of operation"].raw = 3
        brakes = sdo["Quick stop deceleration"].raw
        assert brakes / UNITS == pytest.approx(PANDA.acceleration[0], abs=1e-6)
        with pytest.raises(canopen.SdoAbortedError, match="0x06090030"):
            sdo["Quick stop deceleration"].raw = brakes - 1  # it would come to rest far behind its limits
        sdo["Quick stop deceleration"].raw = brakes + 1
        map_pdos(master.drive)
        master.drive.setup_402_state_machine(read_pdos=False)
        sdo["Modes of operation"].raw = 8
        at = sdo["Position actual value"].raw
        master.drive.rpdo[1]["Target position"].raw = at
        master.drive.rpdo[1].start(0.002)
        master.network.sync.start(0.002)
        master.drive.state = "OPERATION ENABLED"
        master.drive.rpdo[1].stop()
        master.network.sync.stop()
        assert master.drive.state == "OPERATION ENABLED"
    for k in range(125):
        share = (k + 1) / 125
        master.cycle(0x0F, at + round(0.3 * UNITS * share * share * (3 - 2 * share)))
    for _ in range(25):
        master.cycle(0x0F, at + round(0.3 * UNITS))
    moved = master.server.vehicle.truth()["joint angles"] - PANDA.home_across
    np.testing.assert_allclose(moved, (0.3, 0, 0, 0, 0, 0, 0), atol=5e-3)
    heard = master.drive.tpdo[1]  # in the library's thread
    there = 0.3 + PANDA.home_across[0]
    wait_for(lambda: abs(heard["Position actual value"].raw / UNITS - there) < 5e-3)
    assert heard["Statusword"].raw & cia402.FOLLOWS
    assert not master.emergencies


def test_a_joint_that_cannot_follow_is_a_fault(master: Master) -> None:
    """Its drive gives a tenth of its torque: the arm's weight takes the elbow out of the window."""
    master.close()
    made = Master(node=2)
    with closing(made):
        made.enable()
        with running(made.server):
            made.drive.sdo["Max torque"].raw = 100
        for _ in range(200):
            made.cycle(0x0F, made.at)
            if made.axis.error:
                break
        assert made.axis.error == 0x8611
        made.cycle(0x0F, made.at)
        assert made.axis.state == cia402.FAULT
        wait_for(lambda: made.emergencies)  # the library hears in a thread
        assert made.emergencies == [0x8611]
        with running(made.server):
            made.drive.sdo["Max torque"].raw = 1000
            assert made.drive.sdo["Error code"].raw == 0x8611
        made.cycle(0x0F, made.at)
        assert made.axis.state == cia402.FAULT  # a word to enable does not reset it
        made.cycle(0x80, made.at)
        assert made.axis.state == cia402.SWITCH_ON_DISABLED


def silent(master: Master) -> None:
    """Set-points and SYNC go on; the heartbeat does not."""
    for _ in range(30):
        master.cycle(0x0F, master.at)


def no_setpoints(master: Master) -> None:
    """The heartbeat goes on; set-points do not."""
    for _ in range(30):
        master.network.send_message(0x77F, b"\x05")
        master.network.sync.transmit()
        step(master.server, 4)


def stopped(master: Master) -> None:
    """It is taken out of "operational"."""
    master.network.nmt.send_command(0x02)
    step(master.server, 2)


@pytest.mark.parametrize(
    ("gone", "error", "late_s"), [(silent, 0x8130, 0.06), (no_setpoints, 0x8250, 0.06), (stopped, 0x8130, 0.002)]
)
def test_drives_stop_where_their_master_is_gone(
    master: Master, gone: Callable[[Master], None], error: int, late_s: float
) -> None:
    with running(master.server):
        map_pdos(master.drive)
        master.drive.nmt.send_command(0x80)
        master.drive.sdo[0x1400][1].raw = 1 << 31 | 0x201
        master.drive.sdo[0x1400][5].raw = 60
        master.drive.sdo[0x1400][1].raw = 0x201
        master.drive.sdo[0x1016][1].raw = 127 << 16 | 60
        master.drive.sdo["Modes of operation"].raw = 8
        master.drive.nmt.send_command(0x01)
        master.at = master.drive.sdo["Position actual value"].raw
    for word in (0x06, 0x07, 0x0F, 0x0F):
        master.network.send_message(0x77F, b"\x05")
        master.cycle(word, master.at)
    assert master.axis.enabled
    began = master.server.vehicle.now
    errors: list[float] = []
    tick = master.axis.tick

    def watch(actual: float) -> None:
        tick(actual)
        if master.axis.error and not errors:
            errors.append(master.server.vehicle.now - began)

    master.axis.tick = watch  # type: ignore[method-assign]
    gone(master)
    assert master.axis.error == error
    assert errors[0] <= late_s + 0.003
    assert not master.axis.enabled


# -- our link on our drives ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reach_bundle", pytest.param("drawer_bundle", marks=pytest.mark.slow)])
def test_a_policy_does_its_task_over_canopen(name: str, request: pytest.FixtureRequest) -> None:
    """And no drive's limit is reached, nor a joint out of its window, on the way there and home."""
    with closing(CanReach(request.getfixturevalue(name), seconds=2.5 if name == "reach_bundle" else 6.25)) as flight:
        limits: list[bool] = []
        demands: list[list[float]] = []

        def seen() -> None:
            limits.append(any(a.limited or a.following for a in flight.vehicle.axes[:7]))
            demands.append([a.demand for a in flight.vehicle.axes[:7]])

        flight.seen = seen  # type: ignore[method-assign]
        flight.begin()
        flight.vehicle.begin_episode()
        while flight.pilot.phase is Phase.POLICY:
            flight.run(1)
        done = flight.vehicle.success
        while flight.pilot.phase is not Phase.IDLE:
            flight.run(1)
        flight.run(10)
        assert flight.pilot.fault is None, flight.said
        assert done
        assert not any(limits)
        assert np.abs(flight.vehicle.truth()["joint angles"] - flight.link.drive.start_angles).max() < 0.02
        assert [a.state for a in flight.vehicle.axes] == [cia402.READY] * 8
        speed = np.abs(np.diff(demands, axis=0)).max(0) / 1e-3
        assert (speed < PANDA.speed).all()
        assert (speed > 0.02).any()


@pytest.mark.slow
def test_the_link_s_measurements_are_the_drives(reach_bundle: Path) -> None:
    with closing(CanReach(reach_bundle, noise=0.0)) as flight:
        flight.begin()
        reading = flight.link.read()
        assert reading is not None
        truth = flight.vehicle.truth()
        for name, near in (
            ("joint angles", 0.02), ("joint velocities", 0.1), ("joint torques", 3.0), ("distance between the fingers", 1e-4)
        ):  # fmt: skip
            np.testing.assert_allclose(reading.values[name], truth[name], atol=near)
        assert np.abs(reading.values["joint torques"]).max() > 20.0  # the arm's weight
        assert reading.received == flight.link.heard


def stale(flight: CanReach) -> None:
    """Emergencies arrive, measurements do not."""
    flight.spoil = lambda cob, data: None if cob < 0x580 else data
    heard = flight.seen

    def seen() -> None:
        heard()
        flight.link.take_frame = lambda cob, data, now: setattr(flight.link, "heard", now)  # type: ignore[method-assign]

    flight.seen = seen  # type: ignore[method-assign]


def frozen(flight: CanReach) -> None:
    """The same measurements come again and again, of drives and cameras."""
    kept: dict[int, bytes] = {}
    flight.spoil = lambda cob, data: kept.setdefault(cob, data)
    frozen_cameras(flight)


def one_drive_silent(flight: CanReach) -> None:
    """Of eight."""
    flight.spoil = lambda cob, data: None if cob & 0x7F == 5 else data


def drive_fault(flight: CanReach) -> None:
    flight.vehicle.axes[2].fail(0x8611)


def out_of_torque(flight: CanReach) -> None:
    """A joint is pushed out of its window."""
    flight.vehicle.axes[3].limits.window = 1e-7


FAULTS: dict[str, tuple[Callable[[CanReach], None], str]] = {
    "bus cut": (cut, "silent"), "no measurements": (stale, "stale"), "one drive silent": (one_drive_silent, "stale"),
    "no tracker": (blind, "stale"), "frozen": (frozen, "frozen"), "NaN": (not_a_number, "not_finite"),
    **RUNTIME_FAULTS, "a drive's fault": (drive_fault, "disarmed"), "following error": (out_of_torque, "disarmed"),
}  # fmt: skip


QUICK = ("following error",)


@pytest.mark.parametrize("fault", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAULTS])
def test_it_stops_within_80_ms(reach_bundle: Path, fault: str) -> None:
    begin, name = FAULTS[fault]
    rng = np.random.default_rng(len(fault))
    with closing(CanReach(reach_bundle, seed=1)) as flight:
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
        assert flight.stops(), (fault, flight.said)
        assert np.abs(flight.vehicle.truth()["joint angles"] - before).max() < 0.3  # nothing fell
        if name == "disarmed":
            assert "0x8611, following error" in " ".join(flight.said)


@pytest.mark.slow
def test_it_reaches_on_where_a_third_of_the_frames_is_lost(reach_bundle: Path) -> None:
    rng = np.random.default_rng(0)
    with closing(CanReach(reach_bundle)) as flight:
        flight.begin()
        flight.spoil = lambda cob, data: None if rng.random() < 0.3 else data
        flight.run(80)
        assert flight.pilot.phase is Phase.POLICY, flight.said
        assert flight.link.statistics()["lost_cycles"] > 100


@pytest.mark.slow
def test_arming_resets_a_drive_s_fault(reach_bundle: Path) -> None:
    with closing(CanReach(reach_bundle)) as flight:
        flight.pilot.check()
        for axis in flight.vehicle.axes[2:4]:
            axis.fail(0x8611)
        flight.run(4)
        assert [a.state for a in flight.vehicle.axes[1:4]] == [cia402.SWITCH_ON_DISABLED, cia402.FAULT, cia402.FAULT]
        flight.pilot.start()
        flight.run(16)
        assert all(a.enabled for a in flight.vehicle.axes)
        assert flight.pilot.phase is Phase.ENTRY


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wrong_addresses_are_refused(reach_bundle: Path, walk_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.sim2real.links.drive_setup.ANSWER_S", 0.05)  # nobody is there

    def refused(url: str, bundle: Path = reach_bundle) -> str:
        with pytest.raises(RookeryError) as refusal:
            CanopenLink(parse_address(url), controller(bundle).spec, ManualClock()).open(0.1)
        return str(refusal.value)

    assert "must name a CAN bus" in refused("canopen://")
    assert "unknown option" in refused("canopen://can0?node=1")
    assert "moves 7 joints" in refused("canopen://can0?nodes=1-6")
    assert "drives must be numbers" in refused("canopen://can0?nodes=1-x")
    assert "different numbers from 1 to 126" in refused("canopen://can0?nodes=1,1,2,3,4,5,6")
    assert "is a joint's" in refused("canopen://can0?gripper=3")
    for wrong in ("gripper=nan", "gripper=1.5", "tracker=1e99", "tracker=-1", "bitrate=inf"):
        assert "must be a whole number" in refused(f"canopen://can0?{wrong}")
    assert "hold must be" in refused("canopen://can0?hold=nan")
    assert "sync must be" in refused("canopen://can0?sync=0.5")
    assert "hold must be" in refused("canopen://can0?hold=0.001")
    assert "cannot open the CAN bus nothere (socketcan)" in refused("canopen://nothere")
    assert "node 1 (joint1) does not answer" in refused("canopen://nobody?bus=virtual")
    assert "a link to an arm" in refused("canopen://can0", walk_bundle)
    assert id_numbers("3,5-7", 9, "") == [3, 5, 6, 7]


def refusal_of(server: CanopenArm, bundle: Path, options: str = "") -> str:
    """The sentence with which the link leaves these drives alone; none of them was enabled."""
    link = CanopenLink(
        parse_address(f"canopen://{server.channel}?bus=virtual&{options}"), controller(bundle).spec, ManualClock()
    )
    try:
        with running(server), pytest.raises(RookeryError) as refusal:
            link.open(1.0)
    finally:
        for drive in server.drives:
            drive.boot()  # as it was
    assert not server.vehicle.armed
    return str(refusal.value)


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_other_drives_are_refused(reach_bundle: Path, thorough: bool) -> None:
    server = drives()

    def changed(change: Callable[[CanopenArm], None], options: str = "") -> str:
        change(server)
        return refusal_of(server, reach_bundle, options)

    def put(node: int, index: int, sub: int, kind: str, value: int) -> Callable[[CanopenArm], None]:
        from rookery.sim2real.vehicles.canopen_drive import CanObject

        def change(server: CanopenArm) -> None:
            server.drives[node - 1]._objects[index, sub] = CanObject(kind, lambda: value)

        return change

    assert "node 3 (joint3) is no servo drive: its device profile is 401" in changed(put(3, 0x1000, 0, "I", 401))
    assert "drive 6 should be that of joint4" in changed(lambda server: None, "nodes=1,2,3,6,5,4,7")
    if not thorough:
        server.close()
        return
    assert "no mode of cyclic synchronous positions" in changed(put(2, 0x6502, 0, "I", 1))
    assert "units that this link does not know (unit 0x77)" in changed(put(1, 0x60A8, 0, "I", 0x00770000))
    assert "tells no ratio in the object 0x6091" in changed(put(1, 0x6091, 2, "I", 0))
    assert "outside of its own limits" in changed(put(4, 0x6064, 0, "i", 0))
    assert "in 2 bytes" in changed(put(4, 0x6064, 0, "h", 0))
    assert "no limits that a joint can move in" in changed(put(7, 0x6080, 0, "I", 0))
    assert "refuses 8323132" in changed(put(6, 0x1016, 1, "I", 0))  # it does not watch its master
    silent = changed(lambda server: [setattr(d, "_send", lambda cob, data: None) for d in server.drives[5:6]])
    assert "node 6 (joint6) does not answer" in silent
    server.close()


def test_answers_that_are_lost_are_asked_for_again(
    reach_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two answers of a drive are lost; nothing of it is printed."""
    monkeypatch.setattr("rookery.sim2real.links.drive_setup.ANSWER_S", 0.5)
    monkeypatch.setattr("rookery.sim2real.links.canopen.OTHERS_S", 0.0)
    server = drives()
    drive = server.drives[2]
    heard, answers = drive._send, itertools.count()

    def send(cob: int, data: bytes) -> None:
        if cob != cia402.SDO_ANSWER + drive.node or next(answers) not in (2, 40):
            heard(cob, data)

    drive._send = send
    link = CanopenLink(
        parse_address(f"canopen://{server.channel}?bus=virtual"), controller(reach_bundle).spec, ManualClock()
    )
    with running(server):
        link._connect()
    assert next(answers) > 45
    assert len(link._units) == 7
    link._leave()
    server.close()
    assert "SDO" not in capfd.readouterr().err


@pytest.mark.slow
def test_another_master_is_known_by_each_frame_that_only_masters_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network may be of other drives besides, which have their own masters."""
    clock = itertools.count(0.0, 0.04)
    monkeypatch.setattr("rookery.sim2real.links.canopen.time", SimpleNamespace(monotonic=lambda: next(clock)))
    link = CanopenLink.__new__(CanopenLink)
    link.url, link._ids = "canopen://can0", [1, 2, 8]
    refused = set()
    for cob in range(0x800):
        sent = iter([SimpleNamespace(arbitration_id=cob)])
        link._bus = SimpleNamespace(recv=lambda left, sent=sent: next(sent, None))
        try:
            link._listen()
        except RookeryError:
            refused.add(cob)
    assert refused == {0x080, 0x700 + 127, *(0x200 + node for node in link._ids)}


@pytest.mark.slow
def test_a_second_runtime_is_refused(reach_bundle: Path) -> None:
    with closing(CanReach(reach_bundle)) as flight:
        flight.begin()
        second = CanopenLink(
            parse_address(f"canopen://{flight.server.channel}?bus=virtual"), flight.controller.spec, flight.clock
        )
        listen = second._listen

        def hears() -> None:
            flight.link._cycle()
            listen()

        second._listen = hears  # type: ignore[method-assign]
        with pytest.raises(RookeryError, match="another master speaks on this bus"):
            second.open(1.0)


# -- damaged frames ------------------------------------------------------------------------------------------------


def frames(rng: random.Random, count: int) -> Iterator[tuple[int, bytes]]:
    """Frames of every kind, many of them whole, and no frames."""
    objects = [
        (0x6040, 0), (0x6060, 0), (0x607A, 0), (0x6072, 0), (0x6065, 0), (0x1016, 1), (0x1400, 1), (0x1600, 0), (0x1600, 1),
        (0x1A00, 1), (0x60C2, 1), (0x60C2, 2), (0x6085, 0), (0x6066, 0), (0x1008, 0), (0x1800, 2), (0x605A, 0), (0x1017, 0),
    ]  # fmt: skip
    words = itertools.cycle((0x06, 0x07, 0x0F, 0x0F, 0x80))
    for _ in range(count):
        node, kind = rng.randrange(1, 10), rng.random()
        if kind < 0.3:
            yield 0x200 + node, struct.pack("<Hi", next(words), rng.randrange(-(1 << 31), 1 << 31))
        elif kind < 0.5:
            index, sub = rng.choice(objects)
            head = rng.choice((0x40, 0x23, 0x27, 0x2B, 0x2F, 0x21, 0x60, 0x70, 0x80, rng.randrange(256)))
            yield 0x600 + node, struct.pack("<BHBi", head, index, sub, rng.choice((0, 1, 8, -1, rng.getrandbits(31))))
        elif kind < 0.7:
            yield 0x80, b""
        elif kind < 0.75:
            yield 0, bytes([rng.choice((1, 1, 1, 2, 0x80, 0x81, rng.randrange(256))), rng.randrange(10)])
        elif kind < 0.85:
            yield rng.choice((0x180, 0x280)) + node, rng.randbytes(rng.choice((8, 6)))
        else:
            yield rng.randrange(0x800), rng.randbytes(rng.randrange(9))


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_frames_leave_the_drives_within_their_limits(count: int) -> None:
    server = drives()
    try:
        enabled = 0
        for i, frame in enumerate(frames(random.Random(count), count)):
            server.take_frame(*frame)
            if i % 20 == 0:
                server.vehicle.step()
                server.send()
                enabled += server.vehicle.armed
                for axis in server.vehicle.axes:
                    # braking may pass an end by its distance
                    past = axis.limits.speed**2 / (2.0 * PANDA.acceleration[1])
                    assert axis.limits.lower - past <= axis.demand <= axis.limits.upper + past
                    assert abs(axis.velocity) <= axis.limits.speed * 1.001
        assert enabled > count / 1000
        assert np.isfinite(server.vehicle.truth()["joint angles"]).all()
    finally:
        server.close()


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_frames_to_the_link(reach_bundle: Path, count: int) -> None:
    """Whatever arrives, what leaves is a target within the ranges of contract and drives."""
    with closing(CanReach(reach_bundle)) as flight:
        flight.begin()
        link = flight.link
        u = link._units
        sent: list[tuple[int, bytes]] = []
        link._put = lambda cob, data: sent.append((cob, data))
        for i, (cob, data) in enumerate(frames(random.Random(count), count)):
            flight.take(cob, data, flight.clock.moment)
            if i % 50 == 0:
                flight.clock.moment += 0.004
                flight.pilot.step()
                link._cycle()
                if i % 5000 == 0:
                    link.arm()
        targets = [struct.unpack("<Hi", data) for cob, data in sent if 0x200 < cob < 0x208]
        assert len(targets) > count / 100
        for cob, data in sent:
            if 0x200 < cob < 0x208 and struct.unpack("<Hi", data)[0] == cia402.TO_ENABLE:
                k = cob - 0x201
                assert u[k].lower - 1e-6 <= struct.unpack("<Hi", data)[1] / u[k].position <= u[k].upper + 1e-6


# -- in real time --------------------------------------------------------------------------------------------------


def bus() -> tuple[str, list[str], str]:
    """Port of the tracker, options of a vehicle on a multicast group of its own, and the address of a link to it."""
    ports = free_port(2)
    return (
        str(ports), ["--protocol", "canopen", "--port", str(ports), "--listen", str(ports + 1)],
        f"canopen://{GROUP}:{ports + 1}?gripper=8&tracker={ports}&hold=1",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task", "what", "radius"),
    [
        ("reach_bundle", "table-reach", "tool's position", 0.05),
        ("drawer_bundle", "table-drawer-open", "first object's position", 0.03),
    ],
)
@tried_again
def test_a_policy_does_its_task_on_a_bus_of_another_process(
    name: str, task: str, what: str, radius: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log = tmp_path / f"{time.time_ns()}.mcap"
    _, served, url = bus()
    with vehicle(*served, task=task):
        code, report = fly(request.getfixturevalue(name), "--link", url, "--log", str(log), seconds=4.0, crowded=True)
    (one,) = report["vehicles"]
    assert (code, one["fault"], one["family"]) == (0, None, "arm")
    assert nearest(log, what) < radius


@pytest.mark.slow
@tried_again
def test_drives_stop_when_the_runtime_is_killed(reach_bundle: Path) -> None:
    import can

    _, served, url = bus()
    port = int(url.partition("?")[0].rpartition(":")[2])
    with vehicle(*served, task="table-reach"), flying(reach_bundle, "--link", url, crowded=True) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.5)
        with can.Bus(channel=GROUP, interface="udp_multicast", port=port, fd=False) as here:
            network = canopen.Network(here)
            network.connect()
            sdo = [network.add_node(canopen.RemoteNode(k, canopen.ObjectDictionary())).sdo for k in range(1, 9)]
            words = [struct.unpack("<H", s.upload(0x6041, 0))[0] for s in sdo]
            errors = {struct.unpack("<H", s.upload(0x603F, 0))[0] for s in sdo}
            network.notifier.stop()
    assert {cia402.state_of(word) for word in words} == {cia402.FAULT}
    assert errors <= {0x8130, 0x8250}
