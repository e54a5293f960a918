"""An arm reaches and opens a drawer by stored policies behind the runtime: it homes, keeps every limit, and every fault stops
it softly within 80 ms; drive, monitor and vehicle by properties."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from sampled import slow_but
from scipy.spatial.transform import Rotation

from rookery.cli import fly
from rookery.robots.manipulators.panda import PANDA
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.arm_drive import ArmDrive, MotionLimits
from rookery.sim2real.links.arm_drive import _quaternion as rotation_of
from rookery.sim2real.links.simulated_arm import SimulatedArm
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles import motion_monitor as monitor
from rookery.sim2real.vehicles.motion_monitor import MotionMonitor
from tests.sim2real.runtime import test_faults as faults
from tests.sim2real.runtime.reaches import Reach, controller, vehicle

PANDA_LIMITS = MotionLimits(PANDA.lower, PANDA.upper, PANDA.speed, PANDA.acceleration, PANDA.jerk)


@pytest.fixture(scope="module")
def group(reach_bundle: Path) -> ContractGroup:
    return controller(reach_bundle).spec


@pytest.mark.parametrize("name", slow_but(["reach_bundle"], ["reach_bundle", "drawer_bundle"]))
def test_a_policy_does_its_task_and_goes_home(name: str, request: pytest.FixtureRequest) -> None:
    """Real limits hold in every millisecond, by the positions that were sent."""
    flight = Reach(request.getfixturevalue(name), seconds=2.5 if name == "reach_bundle" else 6.25)
    sent: list[np.ndarray] = []
    homing: list[float] = []

    def seen() -> None:
        sent.append(flight.vehicle.monitor.position)
        if flight.pilot.phase is Phase.ENTRY:
            homing.append(np.abs(flight.vehicle.monitor.velocity / PANDA.speed).max())

    flight.seen = seen  # type: ignore[method-assign]
    flight.begin()
    assert 0.05 < max(homing) < 0.25  # it homes slowly
    while flight.pilot.phase is not Phase.IDLE:
        flight.run(1)
    assert flight.pilot.fault is None, flight.said
    assert flight.link.success is True
    assert flight.vehicle.error == ""
    start = flight.link.drive.start_angles
    assert np.abs(flight.vehicle.truth()["joint angles"] - start).max() < 0.02
    path = np.array(sent)
    for k, limit in enumerate((PANDA.speed, PANDA.acceleration, PANDA.jerk), 1):
        most = (np.abs(np.diff(path, k, axis=0)) / 1e-3**k / limit).max()
        assert most < 1.001
        assert most > 0.2  # the test moves it


def pushed(flight: Reach) -> None:
    """Somebody leans on the hand with 120 N."""
    data, model = flight.vehicle._data, flight.vehicle._model

    def push() -> None:
        body = model.body("panda/hand").id
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jacBody(model, data, jacobian, None, body)
        flight.vehicle.external[:] = (jacobian.T @ (0.0, 120.0, 0.0))[flight.vehicle._v[:7]]

    flight.seen = push  # type: ignore[method-assign]


def stopped_by_itself(flight: Reach) -> None:
    """Its own controller has stopped it, as after a reflex."""
    flight.vehicle.stop(monitor.PUSHED)


FAULTS: dict[str, Callable[[Reach], None]] = {
    "silent": faults.cut, "stale": faults.stale, "frozen": faults.frozen, "not_finite": faults.not_a_number,
    "clock": faults.clock_jump, "hung": faults.hung, "operator": faults.operator, "": faults.killed,
    "deadline": faults.late, "collision": pushed, "disarmed": stopped_by_itself,
}  # fmt: skip


@pytest.mark.parametrize("fault", slow_but(["silent"], FAULTS))
def test_it_stops_softly_within_80_ms(reach_bundle: Path, fault: str) -> None:
    rng = np.random.default_rng(len(fault))
    flight = Reach(reach_bundle, seed=1)
    flight.begin()
    flight.run(int(rng.integers(1, 60)))
    assert flight.pilot.phase is Phase.POLICY, flight.said
    assert not flight.safe
    before = flight.vehicle.truth()["joint angles"]
    FAULTS[fault](flight)
    assert flight.seconds_to_safety() <= faults.SAFE_S + 1e-9, (fault, flight.said)
    if fault:
        flight.run(8)  # the arm's own controller may be faster than the runtime
        assert flight.pilot.fault is not None
        assert flight.pilot.fault.name == fault
    assert flight.stops(), (fault, flight.said)
    assert flight.vehicle.error in ("", monitor.SILENCE if fault in ("", "silent") else monitor.PUSHED)
    assert np.abs(flight.vehicle.truth()["joint angles"] - before).max() < 0.3  # nothing fell


@pytest.mark.slow
def test_it_goes_home_where_the_reaction_says_so(reach_bundle: Path) -> None:
    flight = Reach(reach_bundle)
    flight.pilot.settings = dataclasses.replace(
        flight.pilot.settings, reactions={**flight.pilot.settings.reactions, "deadline": "sit"}
    )
    flight.begin()
    faults.late(flight)
    while flight.pilot.phase is not Phase.IDLE:
        flight.run(1)
    assert np.abs(flight.vehicle.truth()["joint angles"] - flight.link.drive.start_angles).max() < 0.02
    assert not flight.vehicle.armed


def differences(drive: ArmDrive, moves: int, seed: int) -> np.ndarray:
    """[3] the greatest share of the limits of speed, acceleration and jerk, on random ways and stops on them."""
    rng = np.random.default_rng(seed)
    drive.start(drive.start_angles)
    path = []
    for i in range(moves):
        if i % 3 == 2:
            drive.stop()
        else:
            drive.go(drive.start_angles + 10.0 ** rng.uniform(-3.0, 0.0) * rng.uniform(-1.0, 1.0, 7))
        path += [drive.tick().copy() for _ in range(int(rng.integers(20, 400)))]
    limits = PANDA_LIMITS.speed, PANDA_LIMITS.acceleration, PANDA_LIMITS.jerk
    rows = np.array(path)
    return np.array(
        [(np.abs(np.diff(rows, k, axis=0)) / drive.period**k / most).max() for k, most in enumerate(limits, 1)]
    )


@pytest.mark.parametrize("period", slow_but([0.001], [0.001, 0.002, 0.004]))
def test_a_drive_keeps_the_limits_at_any_rate(group: ContractGroup, period: float) -> None:
    shares = differences(ArmDrive(group, period), 60, 0)
    assert (shares < 1.0005).all()
    assert (shares > 0.5).all()


def test_an_arms_own_limits_hold_besides(group: ContractGroup) -> None:
    half = MotionLimits(
        PANDA.lower, PANDA.upper, *(tuple(0.5 * v for v in x) for x in (PANDA.speed, PANDA.acceleration, PANDA.jerk))
    )
    shares = differences(ArmDrive(group, 0.001, half), 60, 1)
    assert (shares < 0.5003).all()
    assert (shares > 0.25).all()


def test_a_stop_goes_ahead_and_not_back(group: ContractGroup) -> None:
    drive = ArmDrive(group, 0.001)
    rng = np.random.default_rng(2)
    for _ in range(10):
        drive.start(drive.start_angles)
        drive.go(drive.start_angles + rng.uniform(-0.6, 0.6, 7))
        drive.tick(150)
        speed, place = drive.speed.copy(), drive.position.copy()
        moving = np.abs(speed) > 0.05
        assert moving.any()
        drive.stop()
        steps = [drive.tick().copy() for _ in range(800)]
        assert np.abs(drive.speed).max() < 1e-4
        ways = (np.array(steps) - place) * np.sign(speed)
        assert (ways[:, moving] > -1e-6).all()
        braking = speed**2 / (2.0 * np.array(PANDA.acceleration))
        assert (ways[-1] < 8.0 * braking.max() + 0.02).all()


def test_kinematics_are_mujoco_s(group: ContractGroup) -> None:
    drive = ArmDrive(group, 0.001)
    robot = vehicle(noise=0.0)
    data, rng = robot._data, np.random.default_rng(3)
    for _ in range(20):
        q = rng.uniform(PANDA.lower, PANDA.upper)
        data.qpos[robot._q[:7]] = q
        mujoco.mj_kinematics(robot._model, data)
        site = data.site("panda/tcp")
        place, turn = drive.tool(q)
        np.testing.assert_allclose(place, site.xpos, atol=2e-6)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, turn.astype(float))
        np.testing.assert_allclose(matrix, site.xmat, atol=2e-6)


def test_the_rotation_of_a_matrix_is_scipys() -> None:
    """Of random rotations, of half turns about any axis, and of the identity; up to the sign of half turns."""
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((200, 3))
    axes[:3] = np.eye(3)
    half = np.pi * axes / np.linalg.norm(axes, axis=1, keepdims=True)
    turns = Rotation.concatenate(
        [Rotation.identity(1), Rotation.random(500, random_state=0), Rotation.from_rotvec(half)]
    )
    for turn in turns:
        q = rotation_of(turn.as_matrix().astype(np.float32)).astype(float)
        assert q[0] >= 0.0 and np.linalg.norm(q) == pytest.approx(1.0, abs=1e-6)
        assert (Rotation.from_quat(q[[1, 2, 3, 0]]) * turn.inv()).magnitude() < 1e-5
    for place in np.ndindex(3, 3):
        bad = np.eye(3, dtype=np.float32)
        bad[place] = np.nan
        assert np.isnan(rotation_of(bad)).all()


def test_the_monitor_names_what_is_wrong() -> None:
    """Each limit just kept and just broken, on one joint at a time."""
    dt = 0.001
    speed, acceleration, jerk = (np.array(x) for x in (PANDA.speed, PANDA.acceleration, PANDA.jerk))
    home = np.array(PANDA.home)

    def judge(path: np.ndarray, joint: int) -> str:
        watch = MotionMonitor(dt, PANDA.lower, PANDA.upper, speed, acceleration, jerk)
        watch.begin(home)
        for x in path:
            at = home.copy()
            at[joint] += x
            if fault := watch.take(at):
                return fault
        return ""

    for j in range(7):
        for factor, broken in ((0.98, False), (1.02, True)):
            steps = np.arange(1, 40)
            ramp = np.minimum(steps * dt * jerk[j] * 0.9, factor * acceleration[j])  # acceleration up to its limit
            path = np.cumsum(np.cumsum(ramp) * dt) * dt
            assert judge(path, j) == (monitor.ACCELERATION if broken else ""), (j, factor)
            first = np.array([factor * jerk[j] * dt**3])
            assert judge(first, j) == (monitor.JERK if broken else "")
        assert judge(np.array([0.02]), j) == monitor.START
        assert judge(np.array([0.009]), j) in (monitor.VELOCITY, monitor.ACCELERATION)
        assert judge(np.array([np.nan]), j) == monitor.POSITION
        rise = 0.9 * acceleration[j] * np.minimum(np.arange(1, 1000) / 5.0, 1.0)
        fast = np.cumsum(np.cumsum(rise) * dt) * dt
        assert judge(fast[:900], j) in (monitor.VELOCITY, monitor.POSITION)


def test_the_vehicle_stops_itself_where_positions_stay_away() -> None:
    robot = vehicle(noise=0.0)
    robot.arm()
    for _ in range(5):
        robot.setpoint(robot.monitor.position)
        robot.step()
    steps = 0
    while robot.armed:
        robot.step()
        steps += 1
    assert robot.error == monitor.SILENCE
    assert 20 <= steps <= 22
    robot.setpoint(robot.monitor.position)
    assert robot.mode == "stopped"
    robot.arm()
    assert robot.mode == "ready"


def test_the_tracker_sees_what_the_physics_have() -> None:
    robot = vehicle("table-drawer-open", noise=0.0)
    before = robot.truth()["first object's position"].copy()
    slide = robot._model.joint("furniture/slide")
    robot._data.qpos[slide.qposadr[0]] += 0.1
    for _ in range(11):
        robot.step()
    moved = robot.truth()["first object's position"] - before
    np.testing.assert_allclose(moved, (0.0, -0.1, 0.0), atol=2e-3)


def test_joints_of_another_order_are_matched_by_name(group: ContractGroup) -> None:
    robot = vehicle(noise=0.0)
    robot.joints = tuple(reversed(robot.joints))
    link = SimulatedArm(robot, ManualClock(), group)
    assert [robot.joints[i] for i in link._places] == list(link.drive.names)
    robot.joints = (*robot.joints[:6], "wrist")
    with pytest.raises(RookeryError, match="those of the arm panda are joint7, joint6"):
        SimulatedArm(robot, ManualClock(), group)


def test_what_leads_to_no_joint_positions_is_refused(group: ContractGroup) -> None:
    action = dataclasses.replace(group.spec.action, kind="impedance")
    with pytest.raises(RookeryError, match="sends joint positions: train with one of cartesian"):
        ArmDrive(dataclasses.replace(group, spec=dataclasses.replace(group.spec, action=action)), 0.001)
    assert group.actuation is not None
    old = dataclasses.replace(group.actuation, chain=None)
    with pytest.raises(RookeryError, match="kinematics"):
        ArmDrive(dataclasses.replace(group, actuation=old), 0.001)


@pytest.mark.slow
def test_a_dry_run_reaches_the_operators_goal(reach_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = fly.Args(reach_bundle, dry_run=True, seconds=3.0, command=("goal=0.1,0.85,0.2",), json=True)
    assert fly.run(args) == 0
    (report,) = json.loads(capsys.readouterr().out)["vehicles"]
    assert (report["family"], report["fault"]) == ("arm", None)
    assert report["success"] is None  # the vehicle judges by the goal of its task, which nobody asked for


def test_packets_that_do_not_come_are_no_violation(group: ContractGroup) -> None:
    """A good signal of which a third is lost, in rows of up to five; a jump is still found."""
    drive = ArmDrive(group, 0.001)
    rng = np.random.default_rng(5)
    for _ in range(5):
        drive.start(drive.start_angles)
        watch = MotionMonitor(0.001, PANDA.lower, PANDA.upper, PANDA.speed, PANDA.acceleration, PANDA.jerk)
        watch.begin(drive.position)
        assert watch.take(drive.position) == ""
        missing = lost = 0
        for k in range(1500):
            if k % 300 == 0:
                drive.go(drive.start_angles + rng.uniform(-0.5, 0.5, 7))
            at = drive.tick()
            if missing == 0 and rng.random() < 0.15:
                missing = int(rng.integers(1, 6))
            if missing:
                missing -= 1
                lost += 1
                watch.extrapolate()
                assert np.abs(watch.position - at).max() < 1e-3
                continue
            assert watch.take(at) == ""
            np.testing.assert_array_equal(watch.position, at)
        assert lost > 300
        watch.extrapolate()
        assert watch.take(drive.position + 0.05) == monitor.VELOCITY
