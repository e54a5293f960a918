"""What published files have and a robot can do without: judged by what moves, and the right robot comes of it."""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np
import pytest
from own_files import write_robot

import rookery
from rookery.robots import load
from rookery.robots.own.arm import load_arm
from rookery.robots.own.drone import load_drone
from rookery.robots.own.fusing import fuse_inertials
from rookery.robots.own.quadruped import load_quadruped
from rookery.sim.errors import RookeryError

CASES = Path(__file__).parent / "cases"


# Fixed links


@pytest.mark.parametrize(
    ("case", "mass"),
    [
        ("q10_placeholder_root", 8.4 + 1e-6), ("q11_sensor_inertia", 8.4 + 0.1), ("q12_tiny_mass", 8.4),
        ("q13_world_floating", 8.4), ("q15_massless_foot", 8.2),
    ],
)  # fmt: skip
def test_links_that_are_fixed_are_judged_with_what_carries_them(case, mass, tmp_path):
    """`mass`: kg, of the template and what the case puts on it."""
    plain = load_quadruped(write_robot(tmp_path, "quadruped", settings=False)).model
    m = load_quadruped(CASES / f"{case}.urdf").model
    assert m.mass == pytest.approx(mass) == m.spec().compile().body_mass.sum()
    assert m.home == pytest.approx(plain.home, abs=1e-3)
    assert m.stand_height == pytest.approx(plain.stand_height, abs=2e-3)


def chain(seed: int) -> str:
    """A URDF: a hinge that moves three links, each turned and fixed to the one before, with turned inertias."""
    draw = np.random.default_rng(seed)

    def origin() -> str:
        xyz, rpy = draw.uniform(-0.3, 0.3, 3), draw.uniform(-3.0, 3.0, 3)
        return f'<origin xyz="{" ".join(map(str, xyz))}" rpy="{" ".join(map(str, rpy))}"/>'

    links, joints = [], []
    for i, parent in enumerate(("root", "l0", "l1", "l1")):
        x, y = draw.uniform(0.001, 0.002, 2)
        moments = f'ixx="{x}" iyy="{y}" izz="{0.8 * (x + y)}" ixy="0" ixz="0" iyz="0"'
        mass = draw.uniform(0.1, 2.0)
        links.append(
            f'<link name="l{i}"><inertial>{origin()}<mass value="{mass}"/><inertia {moments}/></inertial></link>'
        )
        kind = "fixed" if i else "continuous"
        joints.append(
            f'<joint name="j{i}" type="{kind}"><parent link="{parent}"/><child link="l{i}"/>{origin()}'
            '<axis xyz="0 0 1"/></joint>'
        )
    return f'<robot name="chain"><link name="root"/>{"".join(links + joints)}</robot>'


@pytest.mark.parametrize("seed", range(6))
def test_fused_inertias_are_those_that_mujoco_finds(seed):
    """Its own fusing of the untouched file is the oracle."""
    text = chain(seed)
    options = '<mujoco><compiler fusestatic="true"/></mujoco></robot>'
    expected = mujoco.MjModel.from_xml_string(text.replace("</robot>", options))
    robot = ET.fromstring(text)
    fuse_inertials(Path("chain.urdf"), robot)
    assert [x.get("name") for x in robot.findall("link") if x.find("inertial") is not None] == ["l0"]
    got = mujoco.MjModel.from_xml_string(ET.tostring(robot, encoding="unicode").replace("</robot>", options))
    assert got.nbody == expected.nbody == 2
    for name in ("body_mass", "body_ipos", "body_inertia"):
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=1e-9, atol=1e-12)
    tensors = []
    for model in (got, expected):
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.body_iquat[1])
        turn = turn.reshape(3, 3)
        tensors.append(turn @ np.diag(model.body_inertia[1]) @ turn.T)
    np.testing.assert_allclose(*tensors, rtol=1e-9, atol=1e-12)


FIXED = '<joint name="{0}{1}" type="fixed"><parent link="{0}"/><child link="{1}"/></joint>'


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            '<link name="a"/><link name="b"/>' + FIXED.format("a", "b") + FIXED.format("b", "a"),
            "joints go in a circle through the link '[ab]'",
        ),
        (
            '<link name="a"><inertial><mass value="-0.1"/></inertial></link>' + FIXED.format("trunk", "a"),
            "link 'a' has mass -0.1 kg: it must be above 0",
        ),
        (
            '<link name="a"><inertial><mass value="nan"/></inertial></link>' + FIXED.format("trunk", "a"),
            "link 'a' has mass nan kg",
        ),
        (
            '<link name="a"><inertial><origin xyz="0 0"/><mass value="1"/></inertial></link>'
            + FIXED.format("trunk", "a"),
            "has something else where a number belongs: xyz='0 0'",
        ),
    ],
    ids=["circle", "negative", "no number", "two numbers"],
)
def test_fixed_links_that_nobody_can_add_up(more, message, tmp_path):
    file = write_robot(tmp_path, "quadruped", change=("</robot>", more + "</robot>"))
    with pytest.raises(RookeryError, match=message):
        load_quadruped(file)


@pytest.mark.parametrize(("excess", "loads"), [(5e-4, True), (2e-3, False)])
def test_moments_are_held_against_each_other_not_against_a_number(excess, loads, tmp_path):
    """A hip of 0.00025 kg m^2 whose largest moment is too large by a share of it: rounded, or wrong."""
    izz = 0.0005 / (1.0 - excess)
    old = 'ixx="0.00025" iyy="0.00025" izz="0.00025"'
    file = write_robot(tmp_path, "quadruped", change=(old, f'ixx="0.00025" iyy="0.00025" izz="{izz!r}"'))
    if loads:
        load_quadruped(file)
    else:
        with pytest.raises(RookeryError, match="which no rigid body has"):
            load_quadruped(file)


def test_an_arms_base_stands_whatever_its_inertia(tmp_path):
    file = write_robot(tmp_path, "arm")
    expected = load_arm(file).model
    root = ET.fromstring(file.read_text())
    moved = {j.find("child").get("link") for j in root.findall("joint")}
    (base,) = (x for x in root.findall("link") if x.get("name") not in moved)
    base.find("inertial/inertia").set("izz", "30.0")
    file.write_text(ET.tostring(root, encoding="unicode"))
    assert load_arm(file).model.home == expected.home


# Stances


def wide_limits(folder: Path, low: float, high: float) -> Path:
    """The template with the same limits at all joints."""
    file = write_robot(folder, "quadruped", settings=False)
    file.write_text(re.sub(r'lower="[^"]*" upper="[^"]*"', f'lower="{low}" upper="{high}"', file.read_text()))
    return file


@pytest.mark.parametrize("file", ["q20_limits10", "q22_limitspi", (-6.2832, 6.2832), (-3.0, 9.0)], ids=str)
def test_no_joint_of_a_guessed_stance_is_a_turn_away(file, tmp_path):
    """Feet below hips at 0.75 of a leg's length, hips at the file's 0: thigh and knee follow up to the knee's side."""
    path = CASES / f"{file}.urdf" if isinstance(file, str) else wide_limits(tmp_path, *file)
    m = load_quadruped(path).model
    home = np.array(m.home).reshape(4, 3)
    side = np.sign(home[:, 1:2])
    np.testing.assert_allclose(home[:, 0], 0.0, atol=0.02)
    np.testing.assert_allclose(home[:, 1:] * side, [[0.74, -1.44]] * 4, atol=0.03)
    assert (side == side[0]).all()
    assert m.stand_height == pytest.approx(0.28, abs=0.01)


# Limits that are no motor's


def test_a_placeholder_is_named_and_is_no_motor(tmp_path, capsys):
    file = tmp_path / "placeholder.urdf"
    file.write_text((CASES / "q25_effort_sentinel.urdf").read_text())
    robot = load_quadruped(file)
    assert max(robot.model.torque) < 20.0 and max(robot.model.speed) < 40.0  # the template's motors have 24 and 30
    effort, velocity = robot.warnings
    assert effort.startswith("effort = 1000 N m of lf_abduction, lf_hip, lf_knee and 9 more is no motor's")
    assert velocity.startswith("velocity = 1000 rad/s of lf_abduction") and "Give speed in placeholder.toml" in velocity
    for _ in range(2):
        env = rookery.make("go2-velocity", config={"robot": str(file)})
        assert max(j.torque for j in env.unwrapped.task.actuation["robot"].joints) < 20.0
        env.close()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all(line.startswith(f"rookery: {file}: ") for line in said)


def test_what_the_user_gives_is_taken(tmp_path):
    file = tmp_path / "strong.urdf"
    file.write_text((CASES / "q25_effort_sentinel.urdf").read_text())
    robot = load_quadruped(file, torque=400.0, speed=500.0)
    assert set(robot.model.torque) == {400.0} and set(robot.model.speed) == {500.0} and robot.warnings == ()
    assert load_quadruped(write_robot(tmp_path, "quadruped")).warnings == ()


def test_an_arms_placeholder(tmp_path):
    plain = load_arm(write_robot(tmp_path, "arm")).model
    file = write_robot(tmp_path, "arm")
    file.write_text(re.sub(r'effort="[^"]*"', 'effort="10000"', file.read_text(), count=3))
    robot = load_arm(file)
    (warning,) = robot.warnings
    assert "effort = 10000 N m" in warning and robot.model.joints[0] in warning
    for got, motor in zip(robot.model.torque, plain.torque, strict=True):
        assert 0.1 * motor < got < 3.0 * motor
    assert robot.model.torque[3:] == plain.torque[3:]


# Rotors whose place stands in the inertial


@pytest.mark.parametrize(
    ("case", "centre"), [("d10_rotor_in_inertial", 0.06 * 0.02 / 0.5), ("d11_rotor_in_inertial_massless", 0.0)]
)
def test_rotors_stand_where_their_inertials_are(case, centre):
    """`centre`: m, height of the centre of mass over the frame."""
    drone = load_drone(CASES / f"{case}.urdf").model
    places = [(0.09, -0.08), (-0.09, -0.08), (-0.09, 0.08), (0.09, 0.08)]  # clockwise from the front right
    expected = [(x, y, 0.02 - centre) for x, y in places]
    np.testing.assert_allclose(drone.rotor_positions, expected, atol=1e-6)


def test_rotors_with_places_of_their_own_keep_them(tmp_path):
    """A hub's mass that is off its axis does not move the rotor."""
    old = '<link name="rotor_front_left"><inertial>'
    file = write_robot(tmp_path, "quadrotor", change=(old, old + '<origin xyz="0 0 0.004"/>'))
    drone = load_drone(file).model
    np.testing.assert_allclose(
        np.array(drone.rotor_positions)[:, :2], [(0.09, -0.08), (-0.09, -0.08), (-0.09, 0.08), (0.09, 0.08)], atol=1e-6
    )


# Silence


def test_an_mjcfs_own_options_are_neither_taken_nor_told(tmp_path, capfd, monkeypatch):
    """MuJoCo prints "Attach conflict", raises a UserWarning and writes a file; a task has its own step and gravity."""
    monkeypatch.chdir(tmp_path)
    robot = load(write_robot(tmp_path, "quadruped"), name="silent_dog")
    spec = robot.model.spec()
    spec.option.timestep, spec.option.gravity, spec.option.cone = (
        0.001,
        [0.0, 0.0, -1.6],
        mujoco.mjtCone.mjCONE_ELLIPTIC,
    )
    spec.visual.map.znear, spec.memory = 0.3, 1 << 20
    spec.compile()
    file = tmp_path / "dog.xml"
    file.write_text(spec.to_xml())
    assert 'gravity="0 0 -1.6"' in file.read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = rookery.make("go2-velocity", config={"robot": str(file)})
    model = env.unwrapped.world.model
    assert model.opt.gravity[2] == -9.81 and model.opt.timestep == 0.005
    env.close()
    out = capfd.readouterr()
    assert "onflict" not in out.out + out.err and not (tmp_path / "MUJOCO_LOG.TXT").exists()
