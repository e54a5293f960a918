"""`rookery sysid` from a motion to ranges that a training takes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.sim.randomization.ranges import load
from rookery.sim2real.sysid.excitation import series
from rookery.sim2real.sysid.jointed.robot import find_robot


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """A motion for a Go2 and the log of a simulated one that follows it."""
    folder = tmp_path_factory.mktemp("sysid")
    words = ["sysid", "--design", "go2", "--motion", str(folder / "motion.npz"), "--seconds", "6", "--rehearse",
             str(folder / "log.npz"), "--fit", "armature,damping,friction,delay"]  # fmt: skip
    assert main(words) == 0
    return folder


def test_motions_stay_within_limits():
    robot = find_robot("go2")
    time = np.arange(1200) / 200.0
    motion = series(robot, time, np.random.default_rng(0))
    assert (motion >= robot.lower).all() and (motion <= robot.upper).all()
    assert (np.abs(np.gradient(motion, time, axis=0)) <= robot.speed).all()
    assert motion[0] == pytest.approx(robot.home) and motion[-1] == pytest.approx(robot.home)
    assert (motion.std(axis=0) > 0.02).all()


@pytest.mark.slow
def test_from_a_rehearsed_log_to_ranges(rehearsed, capsys):
    ranges, report = rehearsed / "ranges.toml", rehearsed / "report.json"
    words = ["sysid", str(rehearsed / "log.npz"), "--fit", "armature,damping,friction,delay", "--profile", "none", "--report",
             str(report), "--to-randomization", str(ranges), "--to-robot", str(rehearsed / "robot.toml"), "--plots",
             str(rehearsed / "plots.html")]  # fmt: skip
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "friction:FL_calf" in out and "singular values" in out
    values = json.loads(report.read_text())
    assert values["kind"] == "rookery.sysid" and values["robot"] == "go2"
    log = values["log"]
    assert log["signals"] == len(find_robot("go2").joints) and log["values"] % log["signals"] == 0
    assert log["independent_values"] <= log["values"] <= log["samples"] * log["signals"]
    told = f"{log['samples']} samples; fitted to {log['values']} values of {log['signals']} signals, worth"
    assert f"{told} {log['independent_values']:.0f} independent ones" in out
    by_name = {p["name"]: p for p in values["parameters"]}
    assert values["errors"][str(rehearsed / "log.npz")]["identified"]["all"] < 0.7e-3  # the encoders' noise
    drawn = load(str(ranges)).ranges
    low, high = drawn["knee_friction:*_calf"].low, drawn["knee_friction:*_calf"].high
    assert low == pytest.approx(
        min(by_name[f"friction:{leg}_calf"]["low"] for leg in ("FL", "FR", "RL", "RR")), rel=1e-3
    )
    assert high == pytest.approx(
        max(by_name[f"friction:{leg}_calf"]["high"] for leg in ("FL", "FR", "RL", "RR")), rel=1e-3
    )
    assert drawn["armature:*_calf"].low * 0.0148 == pytest.approx(by_name["armature:calf"]["low"], rel=1e-3)
    env = rookery.make("go2-velocity", num_envs=2, randomize=str(ranges))
    assert "knee_friction:FL_calf" in env.randomization.names
    assert env.randomization.ranges["payload"] == env.unwrapped.task.default_randomization["payload"]
    env.close()
    assert (rehearsed / "plots.html").read_text().count("<svg") == 12
    assert "[armature]" in (rehearsed / "robot.toml").read_text()
    assert main(["sysid", str(rehearsed / "log.npz"), "--apply", str(report), "--json"]) == 0
    applied = json.loads(capsys.readouterr().out)
    assert applied["errors"]["identified"]["all"] == pytest.approx(
        values["errors"][str(rehearsed / "log.npz")]["identified"]["all"], rel=1e-6
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sysid"], "give a log, or --design"),
        (["sysid", "none.npz"], "there is no log none.npz"),
        (["sysid", "--design", "go2"], "--motion FILE"),
        (["sysid", "--design", "cat", "--motion", "m.npz"], "cat"),
        (["sysid", "--design", "go2", "--motion", "m.npz", "--seconds", "1"], "4 to 120 s"),
        (["sysid", "LOG", "--robot", "go2", "--kp", "a"], "--kp must be numbers"),
        (["sysid", "LOG", "--fit", "gravity"], "gravity"),
        (["sysid", "LOG", "--hold-out", "2"], "--hold-out"),
        (["sysid", "LOG", "--columns", "position"], "--columns must be OURS=THEIRS"),
        (["sysid", "LOG", "--robot", "crazyflie21"], "and not of x, y, z"),
        (["sysid", "LOG", "--apply", "none.json"], "cannot read the report none.json"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_errors_are_one_sentence(rehearsed, words, sentence, capsys, in_tmp):
    assert main([str(rehearsed / "log.npz") if w == "LOG" else w for w in words]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
