"""Scenes as files: plain MuJoCo opens them and computes the same."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest
import torch
import trimesh
from sampled import slow_but

from rookery.cli.main import main
from rookery.robots.drones.table import DRONES
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.scene import Scene
from rookery.tasks.drones.hover import Hover, HoverConfig
from rookery.tasks.registry import TASKS

FIELDS = (
    "names", "body_mass", "body_ipos", "geom_type", "geom_size", "geom_bodyid", "geom_contype", "geom_friction", "geom_solref",
    "jnt_type", "jnt_axis", "jnt_range", "qpos0", "dof_armature", "dof_damping", "dof_frictionloss", "actuator_gainprm",
    "actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange", "actuator_trnid", "opt.timestep", "opt.integrator",
)  # fmt: skip
TASKS_WITH_SCENES = [name for name, entry in TASKS.items() if not entry.members]


def field(model: mujoco.MjModel, name: str):
    for part in name.split("."):
        model = getattr(model, part)
    return model


QUICK = (
    "drone-hover", "drone-navigate", "drone-race", "uav-coverage", "swarm-surround", "volley-3v3", "go2-velocity",
    "go2-navigate", "go2arm-loco-manipulation", "panda-lift", "panda-push-t", "dual-panda-handover",
    "table-drawer-open", "table-push", "hand-reorient",
)  # fmt: skip
"""Tasks between whose scenes stands all that others have."""


@pytest.mark.parametrize("task", slow_but(QUICK, TASKS_WITH_SCENES))
def test_plain_mujoco_opens_every_scene(task, tmp_path):
    scene = TASKS[task].load()().scene()
    scene.save(tmp_path / "scene.xml")
    saved = mujoco.MjModel.from_xml_path(str(tmp_path / "scene.xml"))
    whole = scene.spec().compile()
    for name in FIELDS:
        np.testing.assert_array_equal(field(saved, name), field(whole, name), err_msg=name)
    own = scene.compile()
    exact = [b for b in range(own.nbody) if own.body(b).name not in scene.inertia]
    np.testing.assert_allclose(saved.body_inertia[exact], own.body_inertia[exact], rtol=1e-12)
    data = mujoco.MjData(saved)
    mujoco.mj_step(saved, data, 10)
    mine = mujoco.MjData(own)
    mujoco.mj_step(own, mine, 10)
    np.testing.assert_allclose(data.qpos, mine.qpos, atol=1e-12)
    if not scene.extension(Aeronautics).drones:  # else the engine adds the air
        world = make_world("mujoco", scene, 1, threads=1)
        world.step(10)
        np.testing.assert_allclose(data.qpos, world.mj_data(0).qpos, atol=1e-12)


def test_numbers_of_a_text_stay_mujocos_own(tmp_path):
    """The setting that saves every digit is put back."""
    scene = Hover().scene()
    before = scene.spec()
    before.compile()
    text = before.to_xml()
    scene.save(tmp_path / "s.xml")
    after = scene.spec()
    after.compile()
    assert after.to_xml() == text


def test_an_inertia_that_mujoco_refuses_is_told(tmp_path):
    iris = DRONES["iris"]
    scene = Hover(HoverConfig(drone="iris")).scene()
    (file,) = scene.save(tmp_path / "deep" / "er" / "s.xml")
    moments = mujoco.MjModel.from_xml_path(str(file)).body("drone_0/base").inertia
    np.testing.assert_allclose(moments, [*iris.inertia[:2], sum(iris.inertia[:2])])
    assert f"drone_0/base: the published principal moments {iris.inertia} kg m^2" in file.read_text()
    (plain,) = Hover().scene().save(tmp_path / "s.xml")
    assert "published" not in plain.read_text() and "rotor lag" in plain.read_text()


PART = """<mujoco><asset><mesh name="m" file="box.stl"/></asset><worldbody><body name="b"><freejoint/>
    <geom type="mesh" mesh="m" mass="2"/></body></worldbody></mujoco>"""


def test_files_that_parts_bring_come_along(tmp_path):
    data = trimesh.creation.box((0.1, 0.2, 0.3)).export(file_type="stl")
    scene = Scene().add(lambda: mujoco.MjSpec.from_string(PART, assets={"box.stl": data}), "a", count=2)
    written = scene.save(tmp_path / "scene.xml")
    assert [str(f.relative_to(tmp_path)) for f in written] == ["scene.xml", "assets/a_0_box.stl", "assets/a_1_box.stl"]
    saved = mujoco.MjModel.from_xml_path(str(tmp_path / "scene.xml"))
    np.testing.assert_allclose(saved.body_inertia, scene.compile().body_inertia, rtol=1e-12)
    assert saved.nmesh == 2


def test_the_command_writes_the_start_of_an_episode(tmp_path, capsys):
    words = ["scene", "table-push", "--out", str(tmp_path), "--seed", "3", "--json"]
    assert main(words) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    m = mujoco.MjModel.from_xml_path(file)
    key = m.key("start")
    import rookery

    env = rookery.make("table-push", engine="mujoco", seed=3)
    env.reset()
    np.testing.assert_array_equal(key.qpos, env.unwrapped.world.mj_data(0).qpos)
    assert torch.tensor(m.key_qpos).abs().sum() > 0
    assert main(words[:-1]) == 0
    assert f"--mjcf={file}" in capsys.readouterr().out


def test_refusals(tmp_path, capsys):
    scene = Hover().scene()
    with pytest.raises(RookeryError, match=r"a name that ends in \.xml"):
        scene.save(tmp_path / "scene.mjb")
    (tmp_path / "file").write_text("")
    with pytest.raises(RookeryError, match="Choose another folder"):
        scene.save(tmp_path / "file" / "scene.xml")
    (tmp_path / "box.stl").write_bytes(trimesh.creation.box((0.1, 0.2, 0.3)).export(file_type="stl"))
    (tmp_path / "part.xml").write_text(PART)
    onto = Scene().add(lambda: mujoco.MjSpec.from_file(str(tmp_path / "part.xml")), "a")
    with pytest.raises(RookeryError, match="'a/m' is read from the file"):
        onto.save(tmp_path / "scene.xml")
    assert main(["scene", "MT10", "--out", str(tmp_path)]) == 2
    assert "is a set of 10 tasks" in capsys.readouterr().err
    assert main(["scene", "drone-hover", "--out", str(tmp_path), "--task-config", "drone=none"]) == 2
    assert "unknown drone" in capsys.readouterr().err
