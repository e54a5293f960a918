"""MJCFs in whatever angles, orientations and masses their compiler says: MuJoCo's own model of the file is the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from rookery.robots.own.parts import name_all, take_refs
from rookery.robots.own.reading import BASE, read
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

FILE = """<mujoco><compiler {compiler}/><worldbody>
  <body name="trunk" euler="0 0 0.3"><freejoint/><geom size="0.1" mass="3"/><geom size="0.2" group="4" mass="1"/>
    <body name="thigh" pos="0.1 0.2 0" axisangle="0 1 0 0.5">
      <inertial pos="0.01 0 0" mass="1" diaginertia="0.02 0.03 0.04" euler="0.2 0.1 0.4"/>
      <joint name="hip" axis="0 1 1" pos="0.01 0.02 0" range="-0.4 1.2" ref="0.3" stiffness="3" springref="0.2"/>
      <frame pos="0 0 -0.3" euler="0.1 0.2 0.3">
        <body name="shank" xyaxes="0 1 0 -1 0 0"><joint name="knee" axis="1 0 0" range="-0.4 1.2" ref="{knee}" {axes}/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3" density="700"/><site name="tool" zaxis="0 1 1"/>
          <body name="slider" pos="0 0 0.1" quat="0.8 0.6 0 0"><joint name="slide" type="slide" axis="0 3 4" ref="0.05"/>
            <geom type="box" size="0.1 0.02 0.03" pos="0 0.1 0" mass="0.4"/></body></body></frame></body></body>
</worldbody>{more}</mujoco>"""
COMPILERS = {
    "degrees": "",
    "radians": 'angle="radian"',
    "turned the other way": 'angle="radian" eulerseq="ZYX"',
    "mass of all": 'settotalmass="20"',
    "shapes that weigh": 'inertiagrouprange="0 2" settotalmass="9"',
    "inertia from shapes": 'inertiafromgeom="true" angle="radian"',
}


def written(folder: Path, compiler: str = 'angle="radian"', knee: str = "-0.2", axes: str = "", more: str = "") -> Path:
    file = folder / "robot.xml"
    file.write_text(FILE.format(compiler=compiler, knee=knee, axes=axes, more=more))
    return file


def in_scene(model: mujoco.MjModel, name: str) -> Any:
    return model.body("r/" + (BASE if name == "trunk" else name))


@pytest.mark.parametrize("name", COMPILERS)
def test_a_robot_in_a_scene_weighs_and_stands_as_its_file_says(name: str, tmp_path: Path) -> None:
    file = written(tmp_path, COMPILERS[name])
    expected = mujoco.MjModel.from_xml_path(str(file))
    spec = read(file, floating=True).spec
    for joint in ("hip", "knee", "slide"):
        assert spec.joint(joint).range == pytest.approx(expected.joint(joint).range)  # as settings write it
    for body in ("thigh", "shank", "slider"):
        found = spec.body(body)
        if found.frame is None:
            np.testing.assert_allclose(found.quat, expected.body(body).quat, atol=1e-12)
    np.testing.assert_allclose(spec.site("tool").quat, expected.site("tool").quat, atol=1e-12)
    for geom in spec.geoms:
        geom.group = 5  # what is drawn is no matter of masses
    model = Scene(mujoco.MjSpec).add(lambda: spec, "r").compile(visual=True)
    for field in ("mass", "ipos", "iquat", "inertia", "pos", "quat"):
        ours = [getattr(in_scene(model, b), field) for b in ("trunk", "thigh", "shank", "slider")]
        theirs = [getattr(expected.body(b), field) for b in ("trunk", "thigh", "shank", "slider")]
        np.testing.assert_allclose(ours, theirs, atol=1e-9, err_msg=field)
    np.testing.assert_allclose(model.jnt_range, expected.jnt_range)
    np.testing.assert_allclose(model.qpos0, expected.qpos0)
    np.testing.assert_allclose(model.qpos_spring, expected.qpos_spring)


def test_without_refs_the_same_angles_put_all_shapes_at_the_same_places(tmp_path: Path) -> None:
    file = written(tmp_path)
    expected = mujoco.MjModel.from_xml_path(str(file))
    spec = read(file, floating=True).spec
    take_refs(file, spec, ("hip", "knee", "slide"))
    model = spec.compile()
    assert not model.qpos0[7:].any() and (expected.qpos0[7:] != 0.0).all()
    draw = np.random.default_rng(0)
    for _ in range(4):
        ours, theirs = mujoco.MjData(model), mujoco.MjData(expected)
        ours.qpos[:] = theirs.qpos[:] = draw.uniform(-1.0, 1.0, model.nq)
        mujoco.mj_forward(model, ours)
        mujoco.mj_forward(expected, theirs)
        for field in ("geom_xpos", "geom_xmat", "site_xpos", "xipos", "qfrc_passive", "qfrc_bias"):
            np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), atol=1e-9, err_msg=field)


@pytest.mark.parametrize(
    "changes",
    [
        {"axes": '/><joint name="other" ref="0.1"'},
        {"more": '<equality><joint joint1="hip" joint2="knee" polycoef="0 1 0 0 0"/></equality>'},
    ],
)
def test_a_ref_that_others_share_is_refused(changes: dict[str, str], tmp_path: Path) -> None:
    file = written(tmp_path, **changes)
    spec = read(file, floating=True).spec
    name_all(spec)
    joints = [j.name for j in spec.joints if j.type != mujoco.mjtJoint.mjJNT_FREE]
    with pytest.raises(RookeryError, match=r"joint '(hip|other)' has ref = 0\.\d+ and shares its body or its motion"):
        take_refs(file, spec, joints)
