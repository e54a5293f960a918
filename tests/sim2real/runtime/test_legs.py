"""A quadruped walks by a stored policy behind the runtime: it stands up, tracks its command, lies down softly, and every fault
leaves its joints damped within 80 ms."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from sampled import slow_but

from rookery.cli import fly
from rookery.sim.errors import RookeryError
from rookery.sim2real.links.joints import JointOrder, JointTargets
from rookery.sim2real.links.simulated import SimulatedJoints
from rookery.sim2real.runtime.checks import check_vehicle, complete
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.pilot import HALT_S, Phase
from rookery.sim2real.vehicles.joints import JointVehicle
from tests.sim2real.runtime import test_faults as faults
from tests.sim2real.runtime.walks import SPEED, Walk, controller, vehicle

SHUFFLED = (
    "RL_calf", "FR_hip", "FL_thigh", "RR_thigh", "RL_hip", "FL_calf", "FR_calf", "RR_hip", "RL_thigh", "FL_hip", "RR_calf",
    "FR_thigh",
)  # fmt: skip


def heading(walk: Walk) -> np.ndarray:
    """[2], the trunk's x axis on the ground."""
    w, x, y, z = walk.vehicle.truth()["rotation"].astype(float)
    ahead = np.array((1 - 2 * (y * y + z * z), 2 * (x * y + w * z)))
    return ahead / np.linalg.norm(ahead)


def test_it_stands_up_walks_and_lies_down(walk_bundle: Path) -> None:
    walk = Walk(walk_bundle, seconds=11.0)
    assert walk.vehicle.lying
    assert walk.height < 0.15
    walk.begin()  # a second of the policy is over
    forward, aside = [], []
    while walk.pilot.phase is Phase.POLICY:
        walk.run(1)
        velocity = walk.vehicle.truth()["velocity"][:2]
        ahead = heading(walk)
        forward.append(velocity @ ahead)
        aside.append(velocity @ (-ahead[1], ahead[0]))
        assert walk.height > 0.22
    assert walk.pilot.phase is Phase.EXIT, walk.said
    assert len(forward) == pytest.approx(500 + HALT_S / 0.02, abs=3)
    assert np.mean(forward[:500]) == pytest.approx(SPEED, abs=0.1)
    assert np.mean(aside) == pytest.approx(0.0, abs=0.1)
    assert np.abs(forward[-10:]).max() < 0.15, "it lay down in mid-stride"
    assert walk.lands(hardest=0.3), walk.said
    assert walk.pilot.fault is None
    assert walk.vehicle.mode == "off"


def tip_over(walk: Walk) -> None:
    """It is rolled by 75 degrees in the air."""
    data = walk.vehicle._data
    data.qpos[2] += 0.1
    data.qpos[3:7] = np.cos(0.65), np.sin(0.65), 0.0, 0.0
    mujoco.mj_forward(walk.vehicle._model, data)


FAULTS: dict[str, Callable[[Walk], None]] = {
    "silent": faults.cut, "stale": faults.stale, "frozen": faults.frozen, "not_finite": faults.not_a_number,
    "clock": faults.clock_jump, "hung": faults.hung, "operator": faults.operator, "": faults.killed, "tilt": tip_over,
    "deadline": faults.late,
}  # fmt: skip


@pytest.mark.parametrize("seed", slow_but([0], [0, 1]))
@pytest.mark.parametrize("fault", slow_but(["stale", "tilt"], FAULTS))
def test_joints_are_damped_within_80_ms(walk_bundle: Path, fault: str, seed: int) -> None:
    """And it lies down softly; free fall from its stand would end at 2 m/s."""
    walk = Walk(walk_bundle, seed=seed)
    walk.begin()
    walk.run(int(np.random.default_rng([len(fault), seed]).integers(1, 50)))
    assert walk.pilot.phase is Phase.POLICY, walk.said
    assert not walk.safe
    FAULTS[fault](walk)
    assert walk.seconds_to_safety() <= faults.SAFE_S + 1e-9, walk.said
    if fault:
        assert walk.pilot.fault is not None
        assert walk.pilot.fault.name == fault
    if fault in ("hung", "tilt"):  # a loop that hangs reads no more; one that is tipped falls first
        walk.run(250)
        assert walk.vehicle.lying
        assert walk.safe
    else:
        assert walk.lands(), walk.said


def test_the_watchdog_leaves_a_loop_that_goes_on_alone(walk_bundle: Path) -> None:
    """It would overrule what ends an emergency: motors that are switched off where the robot lies."""
    walk = Walk(walk_bundle)
    walk.begin()
    walk.clock.moment += 0.1
    walk.watchdog.look()
    assert walk.pilot.fault is not None
    assert walk.pilot.fault.name == "hung"
    walk.run(1)
    reactions: list[str] = []
    walk.link.react = reactions.append  # type: ignore[method-assign]
    walk.clock.moment += 0.02
    walk.watchdog.look()
    assert not reactions
    walk.clock.moment += 0.02
    walk.watchdog.look()
    assert reactions == ["damp"]


def with_reaction(walk: Walk, fault: str, reaction: str) -> None:
    reactions = {**walk.pilot.settings.reactions, fault: reaction}
    walk.pilot.settings = dataclasses.replace(walk.pilot.settings, reactions=reactions)


def test_sitting_goes_back_to_where_it_lay(walk_bundle: Path) -> None:
    walk = Walk(walk_bundle)
    with_reaction(walk, "deadline", "sit")
    found = walk.vehicle.truth()["joint angles"]
    walk.begin()
    faults.late(walk)
    walk.run(2)
    assert walk.pilot.phase is Phase.EMERGENCY
    away = []
    while walk.vehicle.stiff:
        walk.run(1)
        away.append(np.abs(walk.vehicle.truth()["joint angles"] - found).max())
    assert away[0] > 0.5
    assert min(away) < 0.15
    assert len(away) * walk.vehicle.period > 2.0
    assert walk.lands(hardest=0.3), walk.said


def test_holding_lasts_until_the_operator_stops(walk_bundle: Path) -> None:
    walk = Walk(walk_bundle)
    with_reaction(walk, "deadline", "hold")
    walk.pilot.commands.values[next(n for n in walk.pilot.commands.values)] = np.zeros(3, np.float32)  # it stands
    walk.begin()
    walk.run(50)
    faults.late(walk)
    walk.run(150)
    assert walk.pilot.phase is Phase.EMERGENCY
    assert walk.height > 0.22
    assert walk.vehicle.stiff
    walk.pilot.commands.stop = True
    walk.run(2)
    assert walk.safe
    assert walk.lands(), walk.said


@pytest.mark.slow
def test_joints_are_matched_by_name(walk_bundle: Path) -> None:
    """A vehicle with its joints in another order walks the very same way."""
    places = []
    for joints in (None, SHUFFLED):
        walk = Walk(walk_bundle, noise=0.0, joints=joints)
        walk.begin()
        walk.run(100)
        places.append(walk.vehicle.truth()["position"])
    assert places[0][0] > 0.5
    np.testing.assert_array_equal(places[0], places[1])


def test_a_set_point_reaches_the_joint_of_its_name(walk_bundle: Path) -> None:
    group = controller(walk_bundle).spec
    robot = vehicle(joints=SHUFFLED, noise=0.0)
    link = SimulatedJoints(robot, ManualClock(), group)
    link.open()
    link.arm()
    targets = JointTargets(group)
    for k, name in enumerate(targets.names):
        link.hold_joints(np.zeros(12), np.eye(12)[k], np.zeros(12))
        link.receive()
        reading = link.read()
        assert reading is not None
        angle = robot._data.joint(f"go2/{name}").qpos[0]
        assert reading.values["joint angles"][k] == pytest.approx(angle, abs=1e-6)
        robot._drive()
        torque = dict(zip(SHUFFLED, robot._torque, strict=True))
        assert torque.pop(name) == pytest.approx(-angle, abs=1e-6)
        assert not any(torque.values())


def test_drives_follow_the_law_of_set_points() -> None:
    robot = vehicle(noise=0.0)
    rng = np.random.default_rng(0)
    robot.arm()
    clipped = 0
    for _ in range(50):
        robot._data.qvel[robot._v] = rng.uniform(-20.0, 20.0, 12)
        q, dq = robot._data.qpos[robot._q].copy(), robot._data.qvel[robot._v].copy()
        want, speed, extra = rng.uniform(-2, 2, 12), rng.uniform(-5, 5, 12), rng.uniform(-5, 5, 12)
        kp, kd = rng.uniform(0, 40, 12), rng.uniform(0, 2, 12)
        robot.setpoint(want, speed, extra, stiffness=kp, damping=kd)
        robot._drive()
        free = kp * (want - q) + kd * (speed - dq) + extra
        for i, name in enumerate(robot.joints):
            most, top = (45.43, 15.70) if name.endswith("calf") else (23.7, 30.1)
            line = most * max(-1.0, min(1.0, 1.0 - np.sign(free[i]) * dq[i] / top))  # towards where it is driven
            bound = min(abs(free[i]), line) * np.sign(free[i]) if line >= 0.0 else np.nan
            if np.isfinite(bound):
                assert robot._torque[i] == pytest.approx(bound, abs=1e-9)
            assert abs(robot._torque[i]) <= most + 1e-9
            clipped += abs(robot._torque[i] - free[i]) > 1e-9
    assert 20 < clipped < 580


def stand(robot: JointVehicle) -> None:
    """Set-points of the home pose for a second."""
    home = dict(zip(robot.kind.joints, robot.kind.home, strict=True))
    for _ in range(50):
        robot.setpoint([home[name] for name in robot.joints], stiffness=40.0, damping=1.0)
        robot.step()


def test_the_fail_safe_damps_and_stays_until_it_is_armed_again() -> None:
    robot = vehicle()
    robot.arm()
    stand(robot)
    assert robot.truth()["position"][2] > 0.25
    steps = 0
    while robot.stiff:
        robot.step()
        steps += 1
    assert steps * robot.period <= faults.SAFE_S + 1e-9
    assert robot.mode == "failsafe"
    stand(robot)
    assert not robot.stiff
    robot.disarm()
    robot.arm()
    stand(robot)
    assert robot.stiff


def test_damaged_set_points_count_as_none() -> None:
    robot = vehicle()
    robot.arm()
    for bad in (np.nan, np.inf):
        robot.setpoint(bad, stiffness=1.0, damping=1.0)
    robot.setpoint(0.0, stiffness=-1.0, damping=1.0)
    assert robot.mode == "ready"
    assert not robot.stiff


def test_a_robot_that_lacks_a_joint_is_refused(walk_bundle: Path) -> None:
    of = controller(walk_bundle)
    link = SimulatedJoints(vehicle(), ManualClock(), of.spec)
    identity = link.open()
    commands: dict[str, np.ndarray] = {}
    complete(of, commands)
    check_vehicle(of, identity, link.url, commands)
    with pytest.raises(RookeryError, match=r"actuation\.joints: it wants also FL_calf, FL_hip"):
        check_vehicle(of, dataclasses.replace(identity, joints=identity.joints[:3]), link.url, commands)
    with pytest.raises(RookeryError, match=r"control_dt: it wants commands at 50 Hz"):
        check_vehicle(of, dataclasses.replace(identity, rate=20.0), link.url, commands)


def test_targets_that_move_are_refused(walk_bundle: Path) -> None:
    group = controller(walk_bundle).spec
    assert group.actuation is not None
    slow = dataclasses.replace(group.actuation.joints[0], target_speed=1.0)
    actuation = dataclasses.replace(group.actuation, joints=(slow, *group.actuation.joints[1:]))
    with pytest.raises(RookeryError, match="moves targets between control steps"):
        JointTargets(dataclasses.replace(group, actuation=actuation))
    action = dataclasses.replace(group.spec.action, kind="cartesian")
    with pytest.raises(RookeryError, match="action kind is cartesian"):
        JointTargets(dataclasses.replace(group, spec=dataclasses.replace(group.spec, action=action)))


def test_orders_are_each_others_inverse() -> None:
    names = ("b", "d", "a")
    order = JointOrder(names, ("a", "b", "c", "d"))
    np.testing.assert_array_equal(order.to_vehicle(np.float32([1, 2, 3])), [3, 1, 0, 2])
    np.testing.assert_array_equal(order.from_vehicle(order.to_vehicle(np.float32([1, 2, 3]))), [1, 2, 3])


@pytest.mark.slow
def test_a_dry_run_walks(walk_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = fly.Args(walk_bundle, dry_run=True, seconds=1.0, command=("velocity=0.3,0,0",), json=True)
    assert fly.run(args) == 0
    (report,) = json.loads(capsys.readouterr().out)["vehicles"]
    assert report["family"] == "joints"
    assert report["policy_s"] == pytest.approx(1.0 + HALT_S, abs=0.05)
    with pytest.raises(RookeryError, match="takes no command 'target'"):
        fly.run(dataclasses.replace(args, command=("target=0,0,1",)))
