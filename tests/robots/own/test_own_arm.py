"""An arm from a URDF: its limits, gains, tool and gripper by closed forms, its tasks, and what is refused."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np
import pybullet_data
import pytest
import torch
from own_files import write_robot
from sampled import slow_but

import rookery
from rookery.cli.main import main
from rookery.robots import load
from rookery.robots.manipulators.chain import tools
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.own.arm import BANDWIDTH, load_arm
from rookery.sim.errors import RookeryError

DATA = Path(pybullet_data.getDataPath())
FRANKA = DATA / "franka_panda" / "panda.urdf"
IIWA = DATA / "kuka_iiwa" / "model.urdf"


def done(robot: str, task: str, episodes: int = 4, **config: object) -> float:
    """Share of worlds in which the scripted expert does a task."""
    env = rookery.make(task, num_envs=episodes, config={"robot": robot, **config})
    act = env.controller()
    obs, _ = env.reset(seed=3)
    task_ = env.unwrapped.task
    for _ in range(250):
        obs, *_ = env.step(act(obs))
    return float(task_.ever_done.float().mean())


def test_frankas_urdf_is_the_panda():
    """Its chain is our own Panda's; what differs is what its URDF says otherwise (limits without margins, masses)."""
    m = load_arm(FRANKA).model
    assert m.joints == tuple(f"panda_joint{i}" for i in range(1, 8)) and m.stroke == 0.04
    assert m.torque == PANDA.torque and m.speed == PANDA.speed
    np.testing.assert_allclose(m.lower, (-2.9671, -1.8326, -2.9671, -3.1416, -2.9671, -0.0873, -2.9671))
    ours, theirs = PANDA.spec(visual=False).compile(), m.spec().compile()
    for q in np.random.default_rng(1).uniform(-1.0, 1.0, (5, 7)):
        places = []
        for model, joints, site in ((ours, PANDA.joints, PANDA.tool), (theirs, m.joints, m.tool)):
            data = mujoco.MjData(model)
            for name, angle in zip(joints, q, strict=True):
                data.joint(name).qpos[0] = angle
            mujoco.mj_forward(model, data)
            places.append((data.site(site).xpos, data.site(site).xmat))
        np.testing.assert_allclose(places[0][0], places[1][0], atol=1e-3)  # the tool is found from the fingers' shapes
        assert abs(np.dot(places[0][1], places[1][1]) / 3.0) > 0.33 and np.allclose(
            places[0][1][2::3], places[1][1][2::3], atol=1e-3
        )


@pytest.mark.parametrize("task", slow_but(["table-push"], ["table-reach", "table-push", "table-pick-place"]))
def test_frankas_urdf_does_our_pandas_tasks(task):
    assert done(str(FRANKA), task) == 1.0


@pytest.mark.slow
def test_an_arm_without_fingers_reaches(capsys):
    robot = load_arm(IIWA)
    assert robot.model.fingers == () and robot.model.pads == ()
    assert done(str(IIWA), "table-reach") == 1.0
    env = rookery.make("table-reach", config={"robot": str(IIWA)})
    assert env.groups["arm"].action.names == ("tool_x", "tool_y", "tool_z")
    assert env.unwrapped.task.actuation["arm"].gripper is None
    assert main(["eval", "table-push", "--controller", "classical", "--task-config", f"robot={IIWA}"]) == 2
    assert "needs a gripper, and the arm 'lbr_iiwa' has no two sliding fingers" in capsys.readouterr().err


FINGER = '<axis xyz="0 {} 0"/>\n    <limit lower="{}" upper="{}" '


@pytest.mark.parametrize("side", slow_but([1], [1, -1]), ids=["left", "right"])
def test_a_finger_may_slide_the_other_way(tmp_path, side):
    """Its axis turned round, and its limits with it: the same hand."""
    folders = [tmp_path / name for name in ("as_it_is", "turned")]
    change = FINGER.format(side, "0", "0.04"), FINGER.format(-side, "-0.04", "0")
    hands = []
    for folder, changed in zip(folders, (None, change), strict=True):
        folder.mkdir()
        m = load_arm(write_robot(folder, "arm", change=changed)).model
        model = m.spec().compile()
        data = mujoco.MjData(model)
        places = []
        for opened in (0.0, 0.5 * m.stroke, m.stroke):
            for finger in m.fingers:
                data.joint(finger).qpos[0] = opened
            mujoco.mj_forward(model, data)
            places += [data.body(name).xpos.copy() for name in ("left_finger", "right_finger")]
            places.append(data.site(m.tool).xpos.copy())
        hands.append(np.array(places))
    np.testing.assert_allclose(hands[1], hands[0], atol=1e-9)
    left, right = hands[0][0::3], hands[0][1::3]
    assert (np.diff(np.linalg.norm(left - right, axis=1)) > 0.0).all()


BASE_MASS = '<mass value="4"/><inertia ixx="0.01493" iyy="0.01493" izz="0.0128" ixy="0" ixz="0" iyz="0"/>'
NO_MASS = '<mass value="0"/><inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/>'
MARK = f"""
  <link name="mark"><inertial>{NO_MASS}</inertial></link>
  <joint name="marked" type="fixed"><parent link="hand"/><child link="mark"/><origin xyz="0 0 0.02"/></joint>
</robot>"""


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((BASE_MASS, NO_MASS), id="base"),
        pytest.param(("</robot>", MARK), id="frame", marks=pytest.mark.slow),
    ],
)
def test_links_that_do_not_move_may_weigh_nothing(tmp_path, change):
    """Whose <inertial> says 0, as exporters of CAD programs write them; what moves is as before."""
    moving = []
    for folder, changed in ((tmp_path / "without", None), (tmp_path / "with", change)):
        folder.mkdir()
        m = load_arm(write_robot(folder, "arm", change=changed)).model
        model = m.spec().compile()
        bodies = model.jnt_bodyid
        moving.append((model.body_mass[bodies], model.body_inertia[bodies]))
    for found, want in zip(*moving, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_the_templates_arm(tmp_path):
    """Six joints: its numbers are those of the file, its gains those of the rule."""
    file = write_robot(tmp_path, "arm")
    robot = load_arm(file)
    m = robot.model
    assert robot.family == "arm" and m.joints == ("turn", "lift", "elbow", "roll", "pitch", "spin")
    assert m.fingers == ("finger_left", "finger_right") and m.acceleration == (12.0,) * 6 and m.armature == (0.08,) * 6
    model = m.spec().compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = m.home
    mujoco.mj_forward(model, data)
    turn = data.site("tcp").xmat.reshape(3, 3)
    np.testing.assert_allclose(turn[:, 2], (0.0, 0.0, -1.0), atol=2e-3)
    assert abs(turn[1, 1]) > 0.999  # the fingers close along y
    np.testing.assert_allclose(
        np.linalg.norm(data.site("tcp").xpos - data.body("left_finger").xpos), 0.06 - 0.009, atol=1e-6
    )
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    np.testing.assert_array_less(full.diagonal()[:6] * BANDWIDTH**2 * 0.99, m.kp)
    np.testing.assert_allclose(m.kd, 2.0 * np.array(m.kp) / BANDWIDTH, rtol=0.01)
    assert done(str(file), "table-push") == 1.0
    assert load(file, name="my_own").name == "my_own"
    assert rookery.make("panda-lift", config={"robot": "my_own"}).unwrapped.task.model.name == "my_own"


@pytest.mark.parametrize("task", slow_but(["table-push"], ["table-reach", "table-push"]))
def test_five_joints(task, tmp_path):
    """The hand fixed to the wrist: its spin follows from its place."""
    file = write_robot(tmp_path, "arm", change=('name="spin" type="revolute"', 'name="spin" type="fixed"'))
    assert len(load_arm(file).model.joints) == 5
    assert done(str(file), task) == 1.0


@pytest.mark.slow
def test_an_mjcf_of_the_arm_is_the_arm(tmp_path):
    """Saved as MJCF with motors, and with fewer of its hinges named as the arm's."""
    m = load_arm(write_robot(tmp_path, "arm")).model
    spec = m.spec(drive="torque")
    for element in [*spec.tendons, *(act for act in spec.actuators if act.name == m.gripper)]:
        spec.delete(element)
    (tmp_path / "same.xml").write_text(spec.to_xml())
    same = load_arm(tmp_path / "same.xml", tool="tcp").model
    assert same.joints == m.joints and same.fingers == m.fingers and same.torque == m.torque
    np.testing.assert_allclose(same.armature, m.armature)
    np.testing.assert_allclose(same.home, m.home, atol=1e-3)
    (tmp_path / "same.toml").write_text('joints = ["turn", "lift", "elbow", "roll", "pitch"]\n')
    assert load_arm(tmp_path / "same.xml").model.joints == m.joints[:5]


def test_a_tool_of_ones_own(tmp_path):
    file = write_robot(tmp_path, "arm")
    m = load_arm(file, tool="hand", tool_offset=[0.0, 0.0, 0.1]).model
    model = m.spec().compile()
    assert model.body(int(model.site("tcp").bodyid[0])).name == "hand"
    np.testing.assert_allclose(model.site("tcp").pos, (0.0, 0.0, 0.1))


def test_what_is_given_is_not_guessed(tmp_path):
    """All that the templates' arm leaves to guesses is taken as it is said, and then nothing is guessed any more."""
    file = write_robot(tmp_path, "arm")
    guessed = {g.split(" = ")[0] for g in load_arm(file).guessed}
    home = (0.0, 0.3, 1.7, 0.0, 1.1416, 0.0)
    given = {"home": list(home), "nearer": 0.12}
    assert "home" in guessed
    robot = load_arm(file, **given)
    assert robot.model.home == pytest.approx(home) and robot.model.nearer == 0.12
    assert {g.split(" = ")[0] for g in robot.guessed} == guessed - given.keys() < guessed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('lower="-1.8" upper="1.9" ', ""), "revolute joints lift have no limits"),
        (('effort="50" velocity="2"', 'velocity="2"'), "does not say what the motors of elbow can do"),
        (('effort="50"', 'effort="3"'), "motors of elbow cannot hold the arm"),
        (('name="elbow" type="revolute"', 'name="elbow" type="prismatic"'), "2 hinges follow each other"),
        (('lower="0" upper="0.04"', 'lower="0" upper="0"'), "need limits"),
    ],
)
def test_defects_are_sentences(change, message, tmp_path):
    file = write_robot(tmp_path, "arm", change=change)
    with pytest.raises(RookeryError, match=message):
        load_arm(file)


@pytest.mark.parametrize(
    ("template", "follower", "leader"), [("arm", "elbow", "lift"), ("quadruped", "lf_knee", "lf_hip")]
)
def test_a_joint_that_follows_another_is_not_driven(template, follower, leader, tmp_path):
    """MuJoCo reads a URDF without its <mimic>, and the robot would stand and move as if it had one more motor."""
    at = f'<joint name="{follower}" type="revolute">'
    file = write_robot(tmp_path, template, change=(at, f'{at}<mimic joint="{leader}" multiplier="-1"/>'))
    with pytest.raises(RookeryError, match=f"joint '{follower}' follows '{leader}'"):
        load(str(file))


@pytest.mark.parametrize(("template", "joint"), [("arm", "roll"), ("quadruped", "lf_abduction")])
def test_limits_in_degrees_are_warned_of(template, joint, tmp_path):
    """As of rad they are no limits; those of the templates and of wrists that turn by 450 degrees pass."""

    def warned(name: str, factor: float) -> bool:
        folder = tmp_path / name
        folder.mkdir()
        file = write_robot(folder, template)
        root = ET.fromstring(file.read_text())
        limit = root.find(f"joint[@name='{joint}']/limit")
        assert limit is not None
        for end in ("lower", "upper"):
            limit.set(end, str(factor * float(limit.get(end, ""))))
        file.write_text(ET.tostring(root, encoding="unicode"))
        warnings = [w for w in load(str(file), name=f"{template}_{name}").warnings if "position" in w]
        return any(joint in w and "my_robot.urdf has degrees" in w for w in warnings)

    assert not warned("radians", 1.0)
    assert not warned("wrist", np.deg2rad(450.0) / 2.9)
    assert warned("degrees", np.rad2deg(1.0))


def test_joints_that_are_not_driven_may_follow(tmp_path):
    """A gripper's second finger follows the first in most files, and a held joint stays where it is."""
    at = '<joint name="finger_right" type="prismatic">'
    file = write_robot(tmp_path, "arm", change=(at, f'{at}<mimic joint="finger_left"/>'))
    assert load_arm(file).model.fingers == ("finger_left", "finger_right")
    at = '<joint name="spin" type="revolute">'
    file = write_robot(tmp_path, "arm", change=(at, f'{at}<mimic joint="pitch"/>'))
    with pytest.raises(RookeryError, match="'spin' follows 'pitch'"):
        load_arm(file)
    named = load_arm(file, joints=["turn", "lift", "elbow", "roll", "pitch"], tool="hand", tool_offset=[0.0, 0.0, 0.1])
    assert "spin" in " ".join(named.notes) and len(named.model.joints) == 5


@pytest.mark.parametrize("other", ["lift", ""])
def test_an_mjcf_arm_whose_joint_is_coupled_is_refused(other, tmp_path):
    m = load_arm(write_robot(tmp_path, "arm")).model
    spec = m.spec(drive="torque")
    coupling = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1="elbow", name2=other)
    coupling.active = False
    (tmp_path / "free.xml").write_text(spec.to_xml())
    assert load_arm(tmp_path / "free.xml", tool="tcp").model.joints == m.joints
    coupling.active = True
    (tmp_path / "coupled.xml").write_text(spec.to_xml())
    with pytest.raises(RookeryError, match="joint 'elbow' " + ("follows 'lift'" if other else "is held")):
        load_arm(tmp_path / "coupled.xml", tool="tcp")


def test_settings_that_cannot_be(tmp_path):
    file = write_robot(tmp_path, "arm")
    for given, message in (
        ({"tool": "flange"}, "unknown tool of my_robot.urdf, a link or site, 'flange'"),
        ({"joints": ["turn", "elbow"]}, "must follow each other"),
        ({"joints": ["turn", "lift"]}, "2 hinges follow each other"),
        ({"kp": 0}, "kp of my_robot.urdf must be a number above 0"),
        ({"tool_rpy": [3.14, 0.0, 0.0], "tool": "hand"}, "does not reach the places"),
    ):
        with pytest.raises(RookeryError, match=message):
            load_arm(file, **given)
    with pytest.raises(RookeryError, match="is no arm that tasks here know: 4 parts move on its base"):
        load_arm(write_robot(tmp_path, "quadruped"))


def test_tasks_for_a_panda_alone_say_so(tmp_path, capsys):
    file = write_robot(tmp_path, "arm")
    assert (
        main(
            ["eval", "panda-cabinet", "--episodes", "1", "--controller", "classical", "--task-config", f"robot={file}"]
        )
        == 2
    )
    assert "is for a Panda alone" in capsys.readouterr().err


def test_kernels_of_fewer_joints_are_mujocos(tmp_path):
    env = rookery.make("table-reach", num_envs=3, config={"robot": str(write_robot(tmp_path, "arm"))})
    env.reset()
    arm = env.unwrapped.task.robot
    q = torch.tensor(np.random.default_rng(0).uniform(-1.0, 1.0, (3, 6)))
    pos, turn = np.zeros((3, 3)), np.zeros((3, 3, 3))
    tools(q.numpy(), arm.chain, pos, turn)
    arm.reset(torch.arange(3), q)
    for i in range(3):
        data = env.unwrapped.world.mj_data(i)
        mujoco.mj_forward(env.unwrapped.world.model, data)
        np.testing.assert_allclose(data.site("my_robot/tcp").xpos, pos[i], atol=1e-5)


def test_a_link_called_base_that_is_not_the_root(tmp_path):
    """As the URDFs of Universal Robots have it, and MJCFs of grippers."""
    file = write_robot(tmp_path, "arm")
    frame = (
        '<link name="base"/><joint name="turned" type="fixed"><parent link="foot"/><child link="base"/></joint></robot>'
    )
    file.write_text(file.read_text().replace('"base"', '"foot"').replace("</robot>", frame))
    robot = load_arm(file)
    assert "its link 'base' is called 'base_2' here: the root is the base." in robot.notes
    assert done(str(file), "table-reach", 2) == 1.0


MJCF_ARM = """<mujoco model="six"><worldbody><body name="link0"><geom size="0.06" mass="1"/>{links}</worldbody>
<contact><exclude body1="link0" body2="base"/><exclude body1="base" body2="link3"/></contact>
<actuator>{motors}</actuator></mujoco>"""


def test_an_mjcf_whose_root_is_named_by_its_exclusions(tmp_path):
    """The root becomes `base` also where pairs of bodies name it, and the body of that name becomes another there too."""
    hinges = (
        ("link1", "0 0 0.16", "0 0 1"), ("base", "0 0.13 0", "0 1 0"), ("link3", "0 -0.12 0.42", "0 1 0"),
        ("link4", "0 0 0.39", "0 1 0"), ("link5", "0 0.1 0", "0 0 1"), ("link6", "0 0 0.1", "0 1 0"),
    )  # fmt: skip
    links = "".join(
        f'<body name="{name}" pos="{pos}"><joint name="j{i}" axis="{axis}" range="-170 170"/>'
        f'<geom type="capsule" size="0.03 0.02" mass="{3.0 - 0.4 * i}"/>'
        for i, (name, pos, axis) in enumerate(hinges)
    )
    links += '<body name="hand" pos="0 0.05 0" euler="-90 0 0"><geom size="0.01" mass="0.1"/></body>' + 7 * "</body>"
    motors = "".join(f'<motor joint="j{i}" ctrlrange="-150 150"/>' for i in range(6))
    file = tmp_path / "six.xml"
    file.write_text(MJCF_ARM.format(links=links, motors=motors))
    robot = load_arm(file)
    pairs = {(e.bodyname1, e.bodyname2) for e in robot.model.spec().excludes}
    assert {("base", "base_2"), ("base_2", "link3")} <= pairs
    assert robot.model.torque == (150.0,) * 6
    assert done(str(file), "table-reach", 2) == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('<axis xyz="0 0 1"/>', '<axis xyz="0 0 0"/>'), "MuJoCo refuses .*axis too small"),
        (('<mass value="', '<mass value="heavy'), "has something else where a number belongs: .*heavy"),
        (('effort="', 'effort="much'), "bad format in attribute 'effort'"),
    ],
)
def test_a_damaged_file_is_refused_by_a_sentence(tmp_path, change, message):
    with pytest.raises(RookeryError, match=message):
        load(write_robot(tmp_path, "arm", change=change))


@pytest.mark.parametrize("template", ["arm", "quadruped", "quadrotor"])
def test_a_mesh_that_is_none_is_refused_by_a_sentence(tmp_path, template):
    file = write_robot(tmp_path, template)
    (tmp_path / "a.stl").write_text("no mesh")
    file.write_text(re.sub(r"<(box|cylinder|sphere) [^>]*/>", '<mesh filename="a.stl"/>', file.read_text()))
    with pytest.raises(RookeryError, match=r"MuJoCo refuses .*invalid header in STL file"):
        load(file)


def test_an_arm_with_a_nameless_joint_is_the_same_arm(tmp_path):
    (tmp_path / "other").mkdir()
    whole = load_arm(write_robot(tmp_path, "arm")).model
    other = load_arm(write_robot(tmp_path / "other", "arm", change=('<joint name="roll"', '<joint name=""'))).model
    assert np.array_equal(whole.home, other.home) and whole.armature == other.armature
    assert len(set(other.joints)) == len(whole.joints) and "" not in other.joints
