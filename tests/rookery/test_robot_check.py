"""`rookery robot check`: figures beside hand calculations, and what it calls a problem."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.robot_check import stride_of, swing_speed_of
from rookery.robots import load
from rookery.robots.own.quadruped import load_quadruped

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robots" / "own"))
from own_files import write_robot

THIGH, SHANK = 0.18, 0.19  # m, of the template


def checked(capsys, *words: str) -> tuple[int, dict]:
    code = main(["robot", "check", *words, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out[out.index("{") :])["check"]


def rename(file: Path, name: str) -> None:
    """Another robot of the same process needs another name."""
    settings = file.with_suffix(".toml")
    settings.write_text(f'name = "{name}"\n{settings.read_text()}')


@pytest.mark.slow
def test_a_quadruped(tmp_path, capsys):
    picture = tmp_path / "dog.png"
    code, check = checked(capsys, str(write_robot(tmp_path, "quadruped")), "--picture", str(picture))
    assert code == 0 and check["problems"] == []
    assert picture.read_bytes()[:4] == b"\x89PNG"
    got = check["figures"]
    assert got["mass_kg"] == pytest.approx(8.4) and got["leg_m"] == pytest.approx(THIGH + SHANK)
    assert got["command_m_s"] == pytest.approx(math.sqrt((THIGH + SHANK) / 0.426), rel=1e-3)
    # trot at 2 Hz of a Go2's size: each leg is down for half a period, in which the trunk goes a stride; swings peak at pi / 2
    m = load_quadruped(tmp_path / "my_robot.urdf").model
    steps = 2.0 / got["command_m_s"]
    assert got["speed_by_stride_m_s"] == pytest.approx(stride_of(m) / (0.5 / steps), rel=1e-3)
    assert got["speed_by_motors_m_s"] == pytest.approx(swing_speed_of(m) * 2.0 / math.pi)
    # a foot carries a quarter of the weight below the hip: the knee's lever is how far it is ahead
    ahead = THIGH * math.sin(0.75)
    assert got["standing_torque_share"] == pytest.approx(8.4 * 9.81 / 4 * ahead / 18.0, abs=0.05)
    stands, walks = (got[f"go2-velocity: standing, told to {x},"] for x in ("stand", "walk"))
    assert stands > walks > got["go2-velocity: folding its legs"]


def test_strides_and_speeds_are_those_of_the_legs_geometry(tmp_path):
    m = load_quadruped(write_robot(tmp_path, "quadruped")).model
    low = m.stand_height - m.foot_radius  # m, of the hip over the foot
    widest = 2.0 * math.sqrt((THIGH + SHANK) ** 2 - low**2)
    assert 0.6 * widest < stride_of(m) < 1.1 * widest
    # straight ahead at home: the thigh turns the foot about the hip, the knee about itself
    depth = THIGH * math.cos(0.75) + SHANK * math.cos(1.45 - 0.75)
    below = SHANK * math.cos(1.45 - 0.75)
    behind = THIGH * math.sin(0.75) - SHANK * math.sin(1.45 - 0.75)
    lift = -SHANK * math.sin(1.45 - 0.75)
    # [dx; dz] = [[-depth, -below], [-behind, -lift]] [thigh; knee]: no rise, 1 m/s ahead
    det = depth * lift - below * behind
    thigh, knee = -lift / det, behind / det
    assert swing_speed_of(m) == pytest.approx(1.0 / max(abs(thigh) / 30.0, abs(knee) / 24.0), rel=0.02)


@pytest.mark.slow
def test_legs_that_cannot_follow_are_a_problem(tmp_path, capsys):
    """Motors of 2 rad/s."""
    file = write_robot(tmp_path, "quadruped")
    rename(file, "slow_dog")
    file.write_text(re.sub(r'velocity="[^"]*"', 'velocity="2"', file.read_text()))
    code, check = checked(capsys, str(file))
    assert code == 2 and any("its motors do not reach the commands" in p for p in check["problems"])
    assert main(["robot", "check", str(file)]) == 2
    assert "PROBLEM: go2-velocity: its motors do not reach" in capsys.readouterr().out


def test_a_drone(tmp_path, capsys):
    code, check = checked(capsys, str(write_robot(tmp_path, "quadrotor")))
    got = check["figures"]
    assert code == 0 and check["problems"] == []
    assert got["thrust_to_weight"] == pytest.approx(12.0 / (0.5 * 9.81), rel=1e-3)
    assert got["across_m"] == pytest.approx(2.0 * math.hypot(0.09, 0.08))
    assert got["can_m_s2"] == pytest.approx(
        9.81 * math.tan(load(tmp_path / "my_robot.urdf", name="d1").model.max_tilt), rel=1e-3
    )
    assert got["drone-hover: success"] == 1.0 and 0.5 < got["asked_m_s"] < 3.0


def test_a_drone_that_hardly_lifts_itself(tmp_path, capsys):
    file = write_robot(tmp_path, "quadrotor")
    rename(file, "weak_quad")
    settings = file.with_suffix(".toml")
    settings.write_text(settings.read_text().replace("max_thrust = 3.0", "max_thrust = 1.3"))
    code, check = checked(capsys, str(file))
    assert code == 2 and any("hardly more than its weight" in p for p in check["problems"])


@pytest.mark.slow
def test_an_arm(tmp_path, capsys):
    code, check = checked(capsys, str(write_robot(tmp_path, "arm")))
    got = check["figures"]
    assert code == 0 and check["problems"] == []
    assert got["table-reach: success"] == 1.0 and got["table-pick-place: success"] > 0.8
    assert got["table-reach: the scripted expert"] > 2.0 * got["table-reach: standing still"]


@pytest.mark.parametrize("words", [[], ["a.urdf", "b.urdf"], ["check"], ["a.urdf", "--picture", "a.png"]])
def test_words_that_are_no_command(words, capsys):
    assert main(["robot", *words]) == 2
    assert "give one file: `rookery robot FILE`" in capsys.readouterr().err
