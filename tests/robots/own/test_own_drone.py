"""A drone from a URDF: mass, inertia and rotors by closed forms, its loops in flight, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from own_files import write_robot

import rookery
from rookery.cli.main import main
from rookery.robots import load
from rookery.robots.drones.hummingbird import HUMMINGBIRD
from rookery.robots.own.drone import _with_gains, load_drone
from rookery.sim.errors import RookeryError


def test_mass_inertia_and_rotors(tmp_path):
    robot = load_drone(write_robot(tmp_path, "quadrotor"))
    d = robot.model
    assert robot.family == "drone" and d.mass == pytest.approx(0.44 + 4 * 0.015)
    rise = 4 * 0.015 * 0.02 / 0.5  # m, of the centre of mass, since the rotors stand 2 cm above the frame's
    down = 0.44 * rise**2 + 4 * 0.015 * (0.02 - rise) ** 2
    np.testing.assert_allclose(
        d.inertia,
        (
            0.0016 + 4 * (1e-6 + 0.015 * 0.08**2) + down,
            0.0018 + 4 * (1e-6 + 0.015 * 0.09**2) + down,
            0.003 + 4 * (2e-6 + 0.015 * (0.08**2 + 0.09**2)),
        ),
        rtol=1e-6,
    )
    np.testing.assert_allclose(d.rotor_positions, [(x, y, 0.02 - rise) for x, y in _CLOCKWISE], atol=1e-6)
    assert d.directions == (-1, 1, -1, 1)
    assert d.thrust_curve == (0.0, 0.0, 3.0) and d.torque_curve[2] == pytest.approx(0.033)
    assert {g.split(" = ")[0] for g in robot.guessed} == {"directions", "max_tilt", "max_velocity"}


_CLOCKWISE = ((0.09, -0.08), (-0.09, -0.08), (-0.09, 0.08), (0.09, 0.08))


def test_loops_of_the_same_drone_are_its_own():
    again = _with_gains(HUMMINGBIRD)
    for name, values in HUMMINGBIRD.gains._asdict().items():
        np.testing.assert_allclose(getattr(again.gains, name), values, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("engine", ["rotor", "mujoco"])
def test_it_hovers_by_its_own_loops(engine, tmp_path):
    file = write_robot(tmp_path, "quadrotor")
    env = rookery.make("drone-hover", num_envs=4, engine=engine, config={"drone": str(file)})
    act = env.controller()
    obs, _ = env.reset()
    for _ in range(999):
        obs, _, terminated, _, _ = env.step(act(obs))
        assert not terminated.any()
    assert env.unwrapped.task.distances().max() < 0.05
    part = env.unwrapped.task.actuation["drone"].multirotor
    assert part.mass == pytest.approx(0.5) and part.thrust_curve[2] == 3.0 and part.tau_up == 0.035


def test_rotors_that_turn_are_rotors(tmp_path):
    change = ('name="front_left" type="fixed"', 'name="front_left" type="continuous"')
    file = write_robot(tmp_path, "quadrotor", change=change)
    assert load(file, name="turning").family == "drone"
    assert load_drone(file).model.mass == pytest.approx(0.5)
    assert rookery.make("drone-hover", config={"drone": "turning"}).unwrapped.task.drone.name == "turning"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_thrust": 1.0}, "does not fly: its rotors give at most 4 N, and its 0.5 kg weigh 4.905 N"),
        ({"rotors": [[0.1, 0.1]]}, "must be four places"),
        ({"directions": [1, 1, 1]}, "3 directions"),
        ({"thrust": 2.0}, "unknown setting of my_robot.urdf 'thrust'"),
        ({"tau": 0}, "tau of my_robot.urdf must be a number above 0"),
    ],
)
def test_settings_that_cannot_be(settings, message, tmp_path):
    with pytest.raises(RookeryError, match=message):
        load_drone(write_robot(tmp_path, "quadrotor"), **settings)


def test_defects_are_sentences(tmp_path, capsys):
    dog = write_robot(tmp_path, "quadruped")
    assert main(["eval", "drone-hover", "--controller", "classical", "--task-config", f"drone={dog}"]) == 2
    assert "is no drone that tasks here know: joint" in capsys.readouterr().err
    file = write_robot(tmp_path, "quadrotor", change=("rotor_rear_left", "arm_rear_left"))
    with pytest.raises(RookeryError, match="3 links are called rotor, prop or motor"):
        load_drone(file)
    assert load_drone(file, rotors=[[x, y, 0.02] for x, y in _CLOCKWISE]).model.rotor_positions[0][0] == pytest.approx(
        0.09
    )
    with pytest.raises(RookeryError, match="it has 0 joints, and four legs"):
        rookery.make("go2-velocity", config={"robot": str(file)})
    skew = ('izz="0.003" ixy="0"', 'izz="0.003" ixy="0.0005"')
    with pytest.raises(RookeryError, match="its axes must be principal"):
        load_drone(write_robot(tmp_path, "quadrotor", change=skew))


def test_a_policy_of_another_family_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    dog = write_robot(tmp_path, "quadruped")
    assert main(["eval", "drone-hover", "--episodes", "1", "--task-config", f"drone={dog}"]) == 2
    assert main(["eval", "go2-velocity", "--episodes", "1", "--task-config", "robot=a1"]) == 2
    assert "unknown quadruped 'a1'" in capsys.readouterr().err
