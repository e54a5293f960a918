"""A quadruped from a URDF: what is read, guessed and refused, and the task that it walks in."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
import trimesh
from own_files import write_robot
from sampled import slow_but

import rookery
from rookery.assets.go2 import go2_spec
from rookery.cli.main import main
from rookery.robots import load
from rookery.robots.own.quadruped import load_quadruped
from rookery.robots.quadrupeds.go2 import GO2
from rookery.sim.errors import RookeryError

ZOO = Path(__file__).resolve().parents[3] / "policies" / "zoo"


@pytest.fixture
def dog(tmp_path) -> Path:
    return write_robot(tmp_path, "quadruped")


def test_the_file_and_its_settings_are_what_the_model_says(dog):
    robot = load_quadruped(dog)
    m = robot.model
    assert (robot.family, m.name) == ("quadruped", "my_robot")
    assert m.joints[:4] == ("lf_abduction", "lf_hip", "lf_knee", "rf_abduction")
    assert m.joints[6] == "lh_abduction" and m.links[2] == "lf_shank"
    assert m.home == (0.0, -0.75, 1.45) * 4
    assert m.torque[:3] == (18.0, 18.0, 24.0) and m.speed[:3] == (30.0, 30.0, 24.0)
    assert set(m.kp) == {25.0} and set(m.kd) == {0.7}
    assert m.lower[:3] == (-0.8, -2.4, 0.5) and m.foot_radius == pytest.approx(0.02)
    assert m.mirror == GO2.mirror
    assert m.mass == pytest.approx(8.4) and m.leg_length == pytest.approx(0.18 + 0.19)
    assert {g.split(" = ")[0] for g in robot.guessed} == {"swing", "armature"}
    model = m.spec().compile()
    assert model.body_mass.sum() == pytest.approx(4.2 + 4 * (0.35 + 0.5 + 0.15 + 0.05))
    assert model.actuator("lf_knee").id >= 0 and model.joint("root").type == mujoco.mjtJoint.mjJNT_FREE


def test_without_settings_a_stance_is_guessed(tmp_path):
    robot = load_quadruped(write_robot(tmp_path, "quadruped", settings=False))
    m = robot.model
    assert {g.split(" = ")[0] for g in robot.guessed} == {"home", "kp", "kd", "swing", "armature"}
    np.testing.assert_allclose(
        m.home[:3], (0.0, -0.75, 1.45), atol=0.02
    )  # feet below hips, 0.75 of the leg's length down
    assert 0.25 < m.stand_height < 0.31


def test_the_go2s_mass_and_legs_are_those_of_its_bodies():
    model = go2_spec(visual=False).compile()
    assert model.body_mass.sum() == pytest.approx(GO2.mass, abs=1e-3)
    thigh, foot = np.linalg.norm(model.body("FL_calf").pos), np.linalg.norm(model.site("FL_foot").pos)
    assert thigh + foot == pytest.approx(GO2.leg_length, abs=1e-6)


def test_settings_by_joint(dog):
    m = load_quadruped(dog, kp={"*_knee": 30.0}, kd=[0.5] * 12, name="Other dog").model
    assert m.name == "other_dog" and m.kp[2] == 30.0 and m.kp[0] != 30.0 and set(m.kd) == {0.5}


@pytest.mark.parametrize("engine", slow_but(["mujoco"], ["mujoco", "pybullet"]))
def test_it_stands_in_the_velocity_task(dog, engine):
    env = rookery.make(
        "go2-velocity", num_envs=2, engine=engine, config={"robot": str(dog), "push_s": 0.0, "stand_share": 1.0}
    )
    env.reset()
    still = torch.tensor(env.groups["robot"].action.neutral).expand(2, 1, -1)
    for _ in range(100):
        _, _, terminated, _, _ = env.step({"robot": still})
        assert not terminated.any()
    task = env.unwrapped.task
    assert task.contact.all()
    torch.testing.assert_close(task.height, torch.full((2,), task.model.stand_height), atol=0.01, rtol=0.0)
    joints = task.actuation["robot"].joints
    assert [j.name for j in joints] == list(task.model.joints)
    assert (joints[2].torque, joints[2].kp, joints[2].no_load_speed) == (24.0, 25.0, 24.0)
    assert f"{task.model.stand_height:g} m" in task.metric_definitions["height_error"]
    assert task.default_randomization["payload"].high == task.model.typical_payload[1]
    assert task.camera == "my_robot/chase"
    env.close()


def test_feet_and_mirror_agree_with_mujoco(dog):
    env = rookery.make("go2-velocity", num_envs=2, config={"robot": str(dog)})
    env.reset()
    robot = env.unwrapped.task.robot
    for _ in range(5):
        env.step({"robot": torch.rand(2, 1, 12) - 0.5})
    data = env.unwrapped.world.mj_data(1)
    robot.refresh()
    for i, leg in enumerate(("FL", "FR", "RL", "RR")):
        np.testing.assert_allclose(robot.foot_pos[1, i], data.site(f"my_robot/{leg}_foot").xpos, atol=1e-5)
    assert env.groups["robot"].mirror is not None


def test_load_makes_it_known_by_name(dog):
    robot = load(dog, name="known_dog")
    env = rookery.make("go2-velocity", config={"robot": "known_dog"})
    assert env.unwrapped.task.model == robot.model
    again = dataclasses.replace(robot.model, kp=(1.0,) * 12)
    with pytest.raises(RookeryError, match="already"):
        load(dog, name="known_dog", kp=again.kp[0] + 20.0)
    with pytest.raises(RookeryError, match="unknown quadruped 'known_dgo': did you mean 'known_dog'"):
        rookery.make("go2-velocity", config={"robot": "known_dgo"})


def test_meshes_come_along(tmp_path):
    """Those that collide and those that are looked at; DAE files that are only looked at are left out, and said to be."""
    mesh = '<mesh filename="package://my_robot/meshes/trunk.stl"/>'
    file = write_robot(tmp_path, "quadruped", change=('<box size="0.34 0.14 0.1"/>', mesh))
    with pytest.raises(RookeryError, match=r"'trunk' collides as the mesh .* which is not there"):
        load_quadruped(file)
    (tmp_path / "meshes").mkdir()
    trimesh.creation.box((0.34, 0.14, 0.1)).export(tmp_path / "meshes" / "trunk.stl")
    robot = load_quadruped(file)
    assert robot.model.spec().compile().nmesh == 1
    env = rookery.make("go2-velocity", config={"robot": str(file)})
    written = env.unwrapped.task.scene().save(tmp_path / "scene" / "scene.xml")
    assert len(written) == 2 and mujoco.MjModel.from_xml_path(str(written[0])).nmesh > 0
    text = file.read_text()
    at = text.index(mesh)
    file.write_text(text[:at] + '<mesh filename="trunk.dae"/>' + text[at + len(mesh) :])
    assert any("only looked at are left out" in note for note in load_quadruped(file).notes)
    file.write_text(file.read_text().replace("trunk.stl", "trunk.dae"))
    (tmp_path / "meshes" / "trunk.dae").write_text("")
    with pytest.raises(RookeryError, match=r"convert it to|export it again"):  # without and with pycollada
        load_quadruped(file)


def test_an_mjcf_brings_its_servos_and_stance(tmp_path, dog):
    spec = load_quadruped(dog).model.spec()
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    model = spec.compile()
    for name in load_quadruped(dog).model.joints:
        actuator = spec.add_actuator(
            name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, forcerange=[-19.0, 19.0]
        )
        actuator.set_to_position(kp=31.0, kv=0.9)
    qpos = [0.0, 0.0, 0.28, 1.0, 0.0, 0.0, 0.0, *(0.0, -0.7, 1.4) * 4]
    spec.add_key(name="home", qpos=qpos)
    spec.compile()
    file = tmp_path / "dog.xml"
    file.write_text(spec.to_xml())
    m = load_quadruped(file, speed=25.0).model
    assert model.nq == 19
    np.testing.assert_allclose(m.home, (0.0, -0.7, 1.4) * 4)
    assert set(m.kp) == {31.0} and set(m.kd) == {0.9} and set(m.torque) == {19.0}


def without(tag: str, link: str, new: str = ""):
    """Takes what a link has of a tag out of a URDF, or puts something in its place."""

    def change(text: str) -> str:
        at = text.index(f'<link name="{link}">')
        end = text.index("</link>", at)
        return text[:at] + re.sub(rf"<{tag}>.*</{tag}>", new, text[at:end], flags=re.DOTALL) + text[end:]

    return change


def put(old: str, new: str):
    return lambda text: text.replace(old, new)


MASSIVE = '<inertial><mass value="0.5"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>'
KNEE = 'name="lf_knee" type="revolute"'
BAD = {
    "no inertia": (without("inertial", "lf_thigh"), "gives link 'lf_thigh', moved by a joint, no mass: give each"),
    "impossible inertia": (
        put('izz="2e-05"', 'izz="2e-02"'),
        "'lf_shank' has the principal moments .* which no rigid body has",
    ),
    "moments of 0": (
        without("inertial", "lf_thigh", MASSIVE),
        "'lf_thigh' has 0.5 kg and no moments of inertia",
    ),
    "negative mass": (put('<mass value="0.35"/>', '<mass value="-0.35"/>'), "gives link 'lf_hip'.* and 1 more, moved"),
    "a limb too few": (put(KNEE, 'name="lf_knee" type="fixed"'), "it has 11 joints, and four legs"),
    "slides": (put(KNEE, 'name="lf_knee" type="prismatic"'), "'lf_knee' is no hinge"),
    "two roots": (put("</robot>", '<link name="lost"/></robot>'), "must have one root link"),
    "nothing at the foot": (
        lambda text: without("collision", "lf_foot")(without("collision", "lf_shank")(text)),
        "nothing on the link 'lf_shank' at the end of a leg collides",
    ),
    "no XML": (put("</robot>", ""), "cannot be read"),
    "another XML": (put("robot", "gazebo"), "its root element is <gazebo>"),
}


@pytest.mark.parametrize("case", BAD)
def test_defects_are_sentences(case, tmp_path):
    change, message = BAD[case]
    file = write_robot(tmp_path, "quadruped")
    text = change(file.read_text())
    assert text != file.read_text()
    file.write_text(text)
    with pytest.raises(RookeryError, match=message):
        load_quadruped(file)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kpp": 3.0}, "unknown setting of my_robot.urdf 'kpp': did you mean 'kp'"),
        ({"kp": -3.0}, "kp of my_robot.urdf must be a number above 0, got -3.0"),
        ({"kp": [1.0, 2.0]}, "needs 12 values, one for each joint, got 2"),
        ({"home": {"*_nee": 1.0}}, "unknown joint in home"),
        ({"home": 3.0}, "home is beyond the limits of"),
        ({"kp": 0.5}, "does not stand at home"),
        (
            {"kp": 3e6, "torque": 1e5},
            "diverges, and no shapes overlap: the motor of .f_knee moves .* larger armature or a smaller",
        ),
        ({"rpy": [3.14159, 0.0, 0.0]}, "z must be up|does not stand|do not walk"),
        ({"rpy": "up"}, "rpy of my_robot.urdf needs a list of 3"),
        ({"exclude": [["trunk", "lf_foo"]]}, "unknown body in exclude"),
    ],
)
def test_settings_that_cannot_be(settings, message, dog):
    with pytest.raises(RookeryError, match=message):
        load_quadruped(dog, **settings)


def test_a_robot_that_is_thrown_off_the_ground_is_told_why(tmp_path, monkeypatch, capfd):
    """A trunk that reaches into the ground: no gains help; MuJoCo's own warnings go nowhere."""
    monkeypatch.chdir(tmp_path)
    file = write_robot(tmp_path, "quadruped")
    text = file.read_text()
    file.write_text(text.replace('<box size="0.34 0.14 0.1"/>', '<box size="0.34 0.14 0.9"/>'))
    assert text != file.read_text()
    with pytest.raises(RookeryError, match=r"the shapes of base reach .* mm below its feet, into the ground") as error:
        load_quadruped(file)
    assert "kp" not in str(error.value)
    file.write_text(text)
    with pytest.raises(RookeryError, match="diverges"):
        load_quadruped(file, kp=3e6, torque=1e5)
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists() and capfd.readouterr() == ("", "")


def test_a_turned_root_link_is_turned_back(tmp_path):
    """The same robot, drawn with y forward."""
    file = write_robot(tmp_path, "quadruped")
    straight = load_quadruped(file).model
    weld = '<joint name="weld" type="fixed"><parent link="drawn"/><child link="trunk"/><origin rpy="0 0 1.5707963"/></joint>'
    text = file.read_text().replace('<link name="trunk">', f'<link name="drawn"/>{weld}<link name="trunk">')
    file.write_text(text)
    with pytest.raises(RookeryError, match="do not walk along x"):
        load_quadruped(file)
    turned = load_quadruped(file, rpy=[0.0, 0.0, -1.5707963]).model
    assert turned.joints == straight.joints and turned.stand_height == pytest.approx(straight.stand_height, abs=1e-3)


def test_an_arm_needs_a_place(dog):
    with pytest.raises(RookeryError, match="no place for the arm 'airbot_play'"):
        rookery.make("go2-velocity", config={"robot": str(dog), "arm": "airbot_play"})


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "robot", "my-dog", "--template", "quadruped"]) == 0
    assert main(["robot", "my-dog/my_dog.urdf", "--json"]) == 0
    out = capsys.readouterr().out
    shown = json.loads(out[out.index("{") :])
    assert shown["family"] == "quadruped" and shown["model"]["torque"][2] == 24.0
    assert main(["robot", "my-dog/my_dog.urdf"]) == 0
    assert "rookery train go2-velocity --task-config robot=my-dog/my_dog.urdf" in capsys.readouterr().out
    (tmp_path / "my.step").write_text("solid")
    for words, message in (
        ("robot my.step", "give a URDF"),
        ("robot none.urdf", "there is no file none.urdf"),
        ("robot my-dog/my_dog.urdf --family cat", "unknown family of robots 'cat'"),
    ):
        assert main(words.split()) == 2
        assert message in capsys.readouterr().err


def test_a_run_needs_its_robot(dog, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "train go2-velocity --steps 2048 --num-envs 64 --out run --task-config robot=my_robot.urdf"
    assert main(words.split()) == 0
    words = "eval run --episodes 1 --num-envs 1 --task-config episode_s=0.2"
    assert main([*words.split(), "--json"]) == 0
    contract = (tmp_path / "run" / "contract.json").read_text()
    assert '"lf_abduction"' in contract and '"FL_hip"' not in contract
    dog.rename(tmp_path / "moved.urdf")
    dog.with_suffix(".toml").rename(tmp_path / "moved.toml")
    capsys.readouterr()
    assert main(words.split()) == 2
    assert "there is no file my_robot.urdf" in capsys.readouterr().err
    assert main([*words.split(), "--task-config", "robot=moved.urdf"]) == 0


def test_a_policy_of_another_robot_is_refused_in_one_sentence(dog, tmp_path, capsys):
    """By the names of its joints where its sizes are the same, and an actor without names by its sizes."""
    robot = ["--task-config", f"robot={dog}"]
    assert main(["eval", str(ZOO / "go2-velocity"), "--episodes", "1", "--num-envs", "1", *robot]) == 2
    error = capsys.readouterr().err.strip()
    assert "the policy does not fit: at contract line groups.robot.action" in error and len(error.splitlines()) == 1
    layers = (("0", torch.nn.Linear(48, 8)), ("2", torch.nn.Linear(8, 12)))
    weights = {f"mlp.{i}.{k}": v for i, layer in layers for k, v in layer.state_dict().items()}
    file = tmp_path / "model_8.pt"
    torch.save({"actor_state_dict": weights}, file)
    assert (
        main(["import", str(file), "go2-velocity", "--out", str(tmp_path / "run"), "--activation", "elu", *robot]) == 2
    )
    error = capsys.readouterr().err.strip()
    assert "takes 48 observations and gives 12 actions, and go2-velocity has 47 and 12" in error
    assert len(error.splitlines()) == 1
