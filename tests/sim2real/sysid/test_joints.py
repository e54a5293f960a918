"""Identification of jointed robots: simulated logs of another engine, and logs of two real Go2s."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.jointed.identification import all_parameters, identify_joints, judge
from rookery.sim2real.sysid.jointed.parameters import joint_parameters
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.robot import find_robot
from rookery.sim2real.sysid.problem import Problem
from rookery.sim2real.sysid.readers.reading import read_table
from rookery.sim2real.sysid.report import read_values, reported, write_json
from rookery.sim2real.sysid.settings import LogSettings, beside, joint_log
from rookery.sim2real.sysid.velocities import judge_velocities
from tests.sim2real.sysid.simulated import JOINTS, Motion, Truth, log_of, nominal_leg

DATA = Path(__file__).parent / "data"
TRUTH = Truth(
    armature=(0.016, 0.013, 0.02),
    damping=(0.2, 0.15, 0.3),
    friction=(0.3, 0.2, 0.8),
    bias=(0.1, -0.05, 0.05),
    delay=0.006,
)
QUICK = ("armature", "damping", "friction", "torque_bias", "delay")


def truths(truth: Truth) -> dict[str, float]:
    """By parameter."""
    named = {
        "armature": truth.armature,
        "damping": truth.damping,
        "friction": truth.friction,
        "torque_bias": truth.bias,
    }
    out = {f"{name}:{j}": v for name, values in named.items() for j, v in zip(JOINTS, values, strict=True)}
    return out | {"delay": truth.delay}


@pytest.fixture(scope="module")
def bullet_log():
    """10 ms of noise-free truth would prove little: 0.5 mrad of noise, another engine, a delay."""
    return log_of(TRUTH, Motion(seconds=8.0))


@pytest.mark.slow
def test_parameters_of_the_other_engine_are_found_within_5_percent_and_their_intervals(bullet_log):
    found = identify(
        JointProblem(nominal_leg(), bullet_log, joint_parameters(nominal_leg(), QUICK)), ("delay", "armature")
    )
    covered = []
    for e in found.parameters:
        truth = truths(TRUTH)[e.parameter.name]
        assert e.value == pytest.approx(truth, rel=0.05, abs=2e-3), e.parameter.name
        covered.append(e.interval.low <= truth <= e.interval.high)
        assert e.identified
    assert sum(covered) >= 0.8 * len(covered)
    assert {e.interval.by for e in found.parameters if e.parameter.quantity in ("delay", "armature")} == {"profile"}


@pytest.mark.slow
def test_what_is_not_fitted_is_judged_by_a_replay_with_what_was_found(bullet_log):
    """The end of the log, reached from its beginning, and another log: root mean squares of angles over both, by hand."""
    robot, log = nominal_leg(), bullet_log.part(0, 800)
    later = dataclasses.replace(bullet_log.part(800, 1600), source="later")
    report = identify_joints(robot, log, fit=("friction", "damping"), profiled=(), hold_out=0.25, others=[later])
    parameters = joint_parameters(robot, ("friction", "damping"))
    found = {e.parameter.name: e.value for e in report.identified.parameters}
    models = {"nominal": ((), np.zeros(0)), "identified": (parameters, np.array([found[p.name] for p in parameters]))}
    names = {log.source: (0, 600), f"{log.source}, last 25 %, not fitted": (600, 800), "later, not fitted": (0, 800)}
    assert report.errors.keys() == names.keys() and report.seconds == pytest.approx(599 * 0.005)
    for name, (start, stop) in names.items():
        of = later if "later" in name else log
        for model, (chosen, x) in models.items():
            problem = JointProblem(robot, of, chosen, window=math.inf)  # of all samples but that which it begins at
            off = problem.predict(x[None])[0] - of.position[problem.samples]
            off = off[(problem.samples >= start) & (problem.samples < stop)]
            assert report.errors[name][model]["all"] == pytest.approx(np.sqrt((off**2).mean()), rel=1e-6), (name, model)
            assert report.errors[name][model]["calf"] == pytest.approx(np.sqrt((off[:, 2] ** 2).mean()), rel=1e-6)
        assert report.errors[name]["identified"]["all"] < report.errors[name]["nominal"]["all"]


@pytest.mark.slow
def test_servo_damping_and_viscous_friction_are_named_as_collinear(bullet_log):
    parameters = joint_parameters(nominal_leg(), ("armature", "damping", "kd", "motor_speed"))
    found = identify(JointProblem(nominal_leg(), bullet_log, parameters))
    pairs = [set(t.names) for t in found.shows.tradeoffs]
    for joint in JOINTS:
        assert {f"damping:{joint}", f"kd:{joint}"} in pairs
    assert set(found.shows.unseen) == {f"motor_speed:{j}" for j in JOINTS}


@pytest.mark.slow
def test_the_colored_jacobian_is_the_plain_one():
    """Legs of a held Go2 do not move each other, so that their columns are differenced together."""
    robot = find_robot("go2")
    log = go2_in_air().part(0, 300)
    problem = JointProblem(robot, log, joint_parameters(robot), threads=1)
    x = problem.start + 0.3 * np.array([p.size for p in problem.parameters])
    residuals, jacobian = problem.jacobian(x)
    plain_residuals, plain = Problem.jacobian(problem, x)
    assert residuals == pytest.approx(plain_residuals, abs=1e-12)
    assert np.abs(jacobian - plain).max() < 1e-8 * np.abs(plain).max()
    some = np.arange(len(x)) % 3 == 0
    assert (problem.jacobian(x, some)[1][:, ~some] == 0.0).all()
    assert problem.jacobian(x, some)[1][:, some] == pytest.approx(plain[:, some], abs=1e-8 * np.abs(plain).max())


def test_windows_cover_every_sample_once_after_a_warm_up():
    robot, log = find_robot("go2"), go2_in_air()
    split = dataclasses.replace(log, pieces=(0, 1000))
    problem = JointProblem(robot, split, joint_parameters(robot, ["delay"]))
    assert len(set(problem.samples)) == len(problem.samples) == sum(problem.stretches)
    missing = sorted(set(range(len(log.time))) - set(problem.samples))
    assert missing == [*range(80), *range(1000, 1080)]  # 0.4 s after each beginning
    whole = JointProblem(robot, split, (), window=math.inf)
    assert sorted(set(range(len(log.time))) - set(whole.samples)) == [0, 1000]


# -- real robots ------------------------------------------------------------------------------------------------


def go2_in_air():
    """The first two thirds of a real log."""
    path = DATA / "go2_in_air" / "log.npz"
    return joint_log(read_table(path), beside(path), find_robot("go2"))


@pytest.fixture(scope="module")
def go2_report():
    """Half of a log of a real Go2, without gains and offsets, which it hardly shows."""
    return identify_joints(find_robot("go2"), go2_in_air(), fit=QUICK, profiled=(), hold_out=0.5)


@pytest.mark.slow
def test_a_real_go2_is_predicted_on_motion_that_was_not_fitted(go2_report):
    fitted, unseen = go2_report.errors.values()
    assert unseen["nominal"]["all"] > 20e-3
    assert unseen["identified"]["all"] < 9.5e-3
    assert unseen["identified"]["all"] < 1.3 * fitted["identified"]["all"]


@pytest.mark.slow
def test_dry_friction_of_a_real_go2s_knees_is_above_that_of_its_other_joints(go2_report):
    """Inverse dynamics of the same log, by least squares, give knees 0.8 to 1.5 N m and others 0.2 to 0.4."""
    by_name = {e.parameter.name: e for e in go2_report.identified.parameters}
    for leg in ("FL", "FR", "RL", "RR"):
        knee = by_name[f"friction:{leg}_calf"]
        assert 0.5 < knee.value < 1.9
        assert knee.interval.low > max(by_name[f"friction:{leg}_{part}"].value for part in ("hip", "thigh"))


@pytest.mark.slow
def test_residuals_of_a_real_robot_are_worth_far_fewer_samples_than_there_are(go2_report):
    assert go2_report.identified.fit.weights.effective < 0.15 * go2_report.samples * 12


def test_velocities_of_the_other_go2_are_found_to_disagree():
    """The change of the position over the summed velocity is 4.3 to 4.5 ms a sample and not 5, by its source's own numbers."""
    path = DATA / "go2_motor_response" / "log.npz"
    log = joint_log(read_table(path), beside(path), find_robot("go2"))
    (note,) = [n for n in log.notes if "velocities" in n]
    assert log.velocity is None
    assert "by different factors for different joints" in note


def test_a_wrong_sample_rate_is_told_from_wrong_velocities():
    log = go2_in_air()
    velocity = np.gradient(log.position, log.time, axis=0)
    right = judge_velocities(dataclasses.replace(log, velocity=velocity))
    assert right.velocity is not None and right.notes == log.notes
    slow = judge_velocities(dataclasses.replace(log, velocity=velocity, time=log.time * 1.1))
    assert slow.velocity is None
    assert "all joints by about the same factor, so the sample period may be 5 ms and not 5.5 ms" in slow.notes[-1]


@pytest.mark.slow
def test_a_report_is_applied_to_another_log(go2_report, tmp_path):
    robot = find_robot("go2")
    write_json(tmp_path / "report.json", go2_report)
    parameters, x = reported(tmp_path / "report.json", all_parameters(robot))
    assert dict(zip((p.name for p in parameters), x, strict=True)) == read_values(tmp_path / "report.json")
    path = DATA / "go2_motor_response" / "log.npz"
    log = joint_log(read_table(path), beside(path), robot)
    errors = judge(robot, log, parameters, x)
    assert errors["nominal"]["all"] > 5e-3 and errors["identified"]["all"] > 5e-3
    (tmp_path / "other.json").write_text(
        '{"kind": "rookery.sysid", "parameters": [{"name": "armature:elbow", "value": 1}]}'
    )
    with pytest.raises(RookeryError, match=r"of another robot: armature:elbow"):
        reported(tmp_path / "other.json", all_parameters(robot))


def test_a_log_of_another_robot_is_refused():
    log = go2_in_air()
    swapped = dataclasses.replace(log, target=log.target[:, [2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10]])
    with pytest.raises(RookeryError, match=r"not of this robot, or the order of the joints"):
        identify_joints(find_robot("go2"), swapped)


def test_an_arm_is_identified_without_its_gripper():
    """What refers to the fingers goes with them: tendons and their servo."""
    robot = find_robot("panda")
    assert (robot.family, robot.model.nv, robot.model.ntendon) == ("arm", 7, 0)


def test_unknown_quantities_are_refused():
    with pytest.raises(RookeryError, match=r"frictio"):
        joint_parameters(find_robot("go2"), ["frictio"])
    with pytest.raises(RookeryError, match=r"--each"):
        joint_parameters(find_robot("go2"), None, ["delay"])


def test_gains_must_be_given():
    path = DATA / "go2_in_air" / "log.npz"
    with pytest.raises(RookeryError, match=r"give --kp \(N m/rad\) and --kd"):
        joint_log(read_table(path), LogSettings(), find_robot("go2"))
