"""Robots' files for fuzzing: a URDF and an MJCF of a robot, an SDF of a drone, how their XML is changed, who reads them."""

from __future__ import annotations

import copy
import random
import string
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco

from rookery.robots.own.loading import family_of
from rookery.robots.own.reading import read

TEMPLATE = Path(__file__).resolve().parents[2] / "rookery" / "templates" / "robot" / "quadruped.urdf.in"
URDF, MJCF, SDF = "robot.urdf", "robot.xml", "drone.sdf"
INERTIAL = "<inertial><mass>{}</mass><inertia><ixx>1e-3</ixx><iyy>1e-3</iyy><izz>1e-3</izz></inertia></inertial>"
ROTOR = """<link name="rotor_{i}"><pose relative_to="arm_{i}">0 0 .02 0 0 0</pose>{inertial}</link>
<joint name="joint_{i}" type="revolute"><parent>body</parent><child>rotor_{i}</child></joint>
<frame name="arm_{i}" attached_to="body"><pose>{x} {y} 0 0 0 0</pose></frame>
<plugin filename="libgazebo_motor_model.so" name="motor_{i}"><linkName>rotor_{i}</linkName>
<turningDirection>{turn}</turningDirection>
<maxRotVelocity>1000</maxRotVelocity><motorConstant>3e-6</motorConstant><momentConstant>.01</momentConstant></plugin>"""
PART = "part.xml"
VALUES = (
    "",
    "nan",
    "inf",
    "1e308",
    "-1",
    "0",
    "0 0 0",
    "1 2",
    "9" * 40,
    "a b",
    "../robot.urdf",
    "/dev/zero",
    "base",
    "\u00e9",
)
MAKERS = (
    '<include file="robot.xml"/>', '<include file="part.xml"/>', '<model name="m" file="robot.xml"/>',
    '<replicate count="100000"><replicate count="100000"><geom size="1"/></replicate></replicate>',
    '<texture name="t" type="2d" builtin="flat" width="100000" height="100000"/>',
    '<hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/>', '<size nuser_body="1000000000"/>',
    '<flexcomp name="f" type="grid" count="1000 1000 1000" spacing="1 1 1"/>',
)  # fmt: skip


def write_robots(folder: Path) -> None:
    text = string.Template(TEMPLATE.read_text()).substitute(module="robot")
    (folder / URDF).write_text(text)
    spec = read(folder / URDF, floating=False).spec
    spec.compile()
    (folder / MJCF).write_text(spec.to_xml())
    places = enumerate(((0.1, -0.1, "ccw"), (-0.1, 0.1, "ccw"), (0.1, 0.1, "cw"), (-0.1, -0.1, "cw")))
    rotors = (ROTOR.format(i=i, x=x, y=y, turn=turn, inertial=INERTIAL.format(0.01)) for i, (x, y, turn) in places)
    shape = "<collision><geometry><box><size>.2 .2 .1</size></box></geometry></collision>"
    body = f'<link name="body">{INERTIAL.format(0.6)}{shape}</link>'
    (folder / SDF).write_text(f'<sdf version="1.9"><model name="drone">{body}{"".join(rotors)}</model></sdf>')
    (folder / PART).write_text('<mujoco><worldbody><geom size=".1"/></worldbody></mujoco>')


def mutate_xml(data: bytes, rng: random.Random) -> bytes:
    """Attributes, elements and where they stand."""
    root = ET.fromstring(data)
    for _ in range(rng.randrange(1, 4)):
        elements = list(root.iter())
        one, other = rng.choice(elements), rng.choice(elements)
        kind = rng.randrange(9)
        if kind <= 2 and one.attrib:
            one.set(rng.choice(list(one.attrib)), rng.choice(VALUES))
        elif kind == 3 and one.attrib:
            del one.attrib[rng.choice(list(one.attrib))]
        elif kind == 4 and len(one):
            one.remove(rng.choice(list(one)))
        elif kind == 5 and one is not root:
            other.append(copy.deepcopy(one))
        elif kind == 6 and one.attrib and other.attrib:
            one.set(rng.choice(list(one.attrib)), rng.choice(list(other.attrib.values())))
        elif kind == 7 and (one.text or "").strip():
            one.text = rng.choice((*VALUES, other.text))
        else:
            one.append(ET.fromstring(rng.choice(MAKERS)))
    return ET.tostring(root)


def read_robot(file: Path) -> None:
    """As `rookery.robots.load` begins: read, compiled, and told what it is; the specs compile later within its own checks."""
    source = read(file, floating=False)
    try:
        source.spec.compile()
    except ValueError:
        return
    assert isinstance(source.spec, mujoco.MjSpec)
    family_of(source)
