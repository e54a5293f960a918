"""A multirotor from an SDF: what the same drone's URDF gives, whatever frames the SDF uses; its motors; and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from own_files import write_robot

from rookery.cli.main import main
from rookery.robots.own.drone import load_drone
from rookery.robots.own.quadruped import load_quadruped
from rookery.sim.errors import RookeryError

CONSTANT, TOP, RATIO = 3e-6, 1000.0, 0.011
ROTORS = {
    "rotor_0": (0.09, -0.08, "ccw"), "rotor_1": (-0.09, 0.08, "ccw"), "rotor_2": (0.09, 0.08, "cw"),
    "rotor_3": (-0.09, -0.08, "cw"),
}  # fmt: skip
HEIGHT = 0.24  # m, at which the root link stands in its model


def inertial(mass: float, x: float, y: float, z: float) -> str:
    return (
        f"<inertial><mass>{mass}</mass><inertia><ixx>{x}</ixx><ixy>0</ixy><ixz>0</ixz><iyy>{y}</iyy><iyz>0</iyz>"
        f"<izz>{z}</izz></inertia></inertial>"
    )


def motor(name: str, turning: str) -> str:
    return f"""<plugin filename="gz-sim-multicopter-motor-model-system" name="gz::sim::systems::MulticopterMotorModel">
      <jointName>{name}_joint</jointName> <linkName>{name}</linkName> <turningDirection>{turning}</turningDirection>
      <timeConstantUp>0.0125</timeConstantUp> <timeConstantDown>0.025</timeConstantDown>
      <maxRotVelocity>{TOP}</maxRotVelocity> <motorConstant>{CONSTANT}</motorConstant> <momentConstant>{RATIO}</momentConstant>
    </plugin>"""


def by_model(name: str, x: float, y: float) -> str:
    """A rotor placed in the model's frame."""
    return f"""<link name="{name}"><pose>{x} {y} {HEIGHT + 0.02} 0 0 0</pose>{inertial(0.015, 1e-6, 1e-6, 2e-6)}</link>
    <joint name="{name}_joint" type="revolute"><parent>frame</parent><child>{name}</child></joint>"""


def by_joint(name: str, x: float, y: float) -> str:
    """A rotor that turns by a quarter in its joint's frame, which stands in the root link's."""
    return f"""<joint name="{name}_joint" type="revolute"><pose relative_to="frame">{x} {y} 0.02 0 0 0</pose>
      <parent>frame</parent><child>{name}</child><axis><xyz>0 0 1</xyz></axis></joint>
    <link name="{name}"><pose relative_to="{name}_joint" degrees="true">0 0 0 0 0 90</pose>
    {inertial(0.015, 1e-6, 1e-6, 2e-6)}</link>"""


def by_frame(name: str, x: float, y: float) -> str:
    """A rotor in a frame that is attached to the root link and turned."""
    return f"""<frame name="{name}_mount" attached_to="frame"><pose>{x} {y} 0 0 0 {math.pi / 2}</pose></frame>
    <link name="{name}"><pose relative_to="{name}_mount">0 0 0.02 0 0 0</pose>{inertial(0.015, 1e-6, 1e-6, 2e-6)}</link>
    <joint name="{name}_joint" type="revolute"><parent>frame</parent><child>{name}</child></joint>"""


def write_sdf(folder, placing=by_model, motors: bool = True, change=("", ""), heading: float = 0.0):
    """The template's quadrotor as an SDF."""
    rotors = "\n".join(placing(name, x, y) for name, (x, y, _) in ROTORS.items())
    plugins = "\n".join(motor(name, turning) for name, (_, _, turning) in ROTORS.items()) if motors else ""
    text = f"""<?xml version="1.0"?><sdf version="1.9"><model name="my_x"><pose>1 2 3 0 0 1</pose>
    <link name="frame"><pose>0 0 {HEIGHT} 0 0 {heading}</pose>{inertial(0.44, 0.0016, 0.0018, 0.003)}
      <collision name="c"><geometry><box><size>0.2 0.18 0.05</size></box></geometry></collision></link>
    {rotors} {plugins}</model></sdf>"""
    assert change[0] in text
    out = folder / "my_x.sdf"
    out.write_text(text.replace(*change) if change[0] else text)
    return out


@pytest.mark.parametrize("placing", [by_model, by_joint, by_frame])
def test_it_is_the_drone_of_the_urdf_in_whatever_frames(placing, tmp_path):
    expected = load_drone(write_robot(tmp_path, "quadrotor")).model
    d = load_drone(write_sdf(tmp_path, placing)).model
    assert d.mass == pytest.approx(expected.mass)
    np.testing.assert_allclose(d.inertia, expected.inertia, rtol=1e-6)
    np.testing.assert_allclose(d.rotor_positions, expected.rotor_positions, atol=1e-6)


def test_what_is_fixed_to_it_is_part_of_it(tmp_path):
    """A battery with a mass, and a camera without one, which no joint could move."""
    bare = load_drone(write_sdf(tmp_path)).model
    more = f"""<link name="battery"><pose>0 0 {HEIGHT} 0 0 0</pose>{inertial(0.2, 1e-4, 1e-4, 1e-4)}</link>
      <joint name="tape" type="fixed"><parent>frame</parent><child>battery</child></joint>
      <link name="camera"/><joint name="screws" type="fixed"><parent>battery</parent><child>camera</child></joint></model>"""
    loaded = load_drone(write_sdf(tmp_path, change=("</model>", more))).model
    assert loaded.mass == pytest.approx(bare.mass + 0.2)
    flat = [np.array(d.rotor_positions)[:, :2] for d in (loaded, bare)]  # the battery stands in the middle
    np.testing.assert_allclose(*flat, atol=1e-6)


def test_motors_say_thrust_torque_direction_and_lag(tmp_path):
    robot = load_drone(write_sdf(tmp_path))
    d = robot.model
    assert d.thrust_curve == (0.0, 0.0, pytest.approx(CONSTANT * TOP**2))
    assert d.torque_curve[2] == pytest.approx(RATIO * CONSTANT * TOP**2)
    assert (d.tau_up, d.tau_down) == (0.0125, 0.025)
    for (x, y, _), direction in zip(d.rotor_positions, d.directions, strict=True):
        (turning,) = [t for a, b, t in ROTORS.values() if a * x > 0 and b * y > 0]
        assert direction == {"ccw": -1, "cw": 1}[turning]  # the body is turned the other way
    assert {g.split(" = ")[0] for g in robot.guessed} == {"propeller_radius", "max_tilt", "max_velocity"}


def test_settings_come_before_motors_and_guesses_where_there_are_none(tmp_path):
    file = write_sdf(tmp_path)
    assert load_drone(file, max_thrust=5.0, tau=0.03).model.thrust_curve[2] == 5.0
    bare = load_drone(write_sdf(tmp_path, motors=False))
    assert {"max_thrust", "torque_ratio", "tau", "directions"} <= {g.split(" = ")[0] for g in bare.guessed}
    assert sum(g.startswith("tau = ") for g in bare.guessed) == 1


def test_a_root_link_that_is_turned_in_its_model_flies_along_the_models_x(tmp_path):
    turned = load_drone(write_sdf(tmp_path, heading=math.pi / 2)).model
    straight = load_drone(write_sdf(tmp_path, change=("0.0016", "0.0018"))).model  # its own moments turn with it
    np.testing.assert_allclose(turned.rotor_positions, straight.rotor_positions, atol=1e-6)
    assert turned.inertia[2] == pytest.approx(straight.inertia[2])


FRAME = "<pose>0 0 0.24 0 0 0.0</pose>"
BAD = {
    "not a multirotor": (("<child>rotor_0</child>", "<child>frame</child>"), "of SDF files nothing else is read"),
    "an include": (
        ('<link name="frame">', '<include><uri>model://base</uri></include><link name="frame">'),
        "another model, 'model://base'",
    ),
    "a circle of frames": ((FRAME, '<pose relative_to="frame">0 0 0 0 0 0</pose>'), "relative to itself"),
    "a frame that is not there": ((FRAME, '<pose relative_to="nose">0 0 0 0 0 0</pose>'), "'nose', which is not"),
    "no number": (("<mass>0.44</mass>", "<mass>heavy</mass>"), "'heavy' where 1 usual"),
    "not finite": (("<mass>0.44</mass>", "<mass>1e400</mass>"), "where 1 usual"),
    "five numbers": ((FRAME, "<pose>0 0 0 0 0</pose>"), "where 6 usual"),
    "a motor of nothing": (("<linkName>rotor_2</linkName>", "<linkName>wing</linkName>"), "a motor for 'wing'"),
    "a turn of nothing": (("<turningDirection>ccw", "<turningDirection>left"), "must be cw or ccw"),
    "two models": (("</model></sdf>", '</model><model name="b"/></sdf>'), "must hold one <model>"),
    "no child": (("<child>rotor_0</child>", ""), "has no <child>"),
    "a parent that is not there": (
        ("<parent>frame</parent><child>rotor_0", "<parent>nose</parent><child>rotor_0"),
        "which is no link",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_defects_are_sentences(case, tmp_path, capsys):
    change, message = BAD[case]
    file = write_sdf(tmp_path, change=change)
    with pytest.raises(RookeryError, match=message):
        load_drone(file)
    assert main(["robot", str(file)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_motors_that_differ_or_miss_are_refused(tmp_path):
    file = write_sdf(tmp_path)
    text = file.read_text()
    file.write_text(text.replace(f"<motorConstant>{CONSTANT}", "<motorConstant>1e-6", 1))
    with pytest.raises(RookeryError, match=r"motors of .* differ"):
        load_drone(file)
    at = text.index("<plugin")
    file.write_text(text[:at] + text[text.index("</plugin>") + len("</plugin>") :])
    with pytest.raises(RookeryError, match="none for rotor_0"):
        load_drone(file)


def test_another_family_refuses_it(tmp_path):
    with pytest.raises(RookeryError):
        load_quadruped(write_sdf(tmp_path))
