"""Where an arm of one's own is at home, by MuJoCo's kinematics."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pybullet_data
import pytest

from rookery.robots.own.arm import load_arm

DATA = Path(pybullet_data.getDataPath())
FRANKA = DATA / "franka_panda" / "panda.urdf"
IIWA = DATA / "kuka_iiwa" / "model.urdf"


@pytest.mark.parametrize("file", [FRANKA, IIWA], ids=["panda", "iiwa"])
def test_at_home_an_arm_of_seven_joints_stands_in_its_plane_with_its_elbow_up(file):
    """By MuJoCo: no joint is beside the plane through base and tool, one is above the tool, none under the base."""
    m = load_arm(file).model
    model = m.spec().compile()
    data = mujoco.MjData(model)
    for name, angle in zip(m.joints, m.home, strict=True):
        data.joint(name).qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    base = data.xpos[model.body(model.jnt_bodyid[model.joint(m.joints[0]).id]).parentid[0]]
    anchors = np.array([data.joint(name).xanchor for name in m.joints]) - base
    assert np.abs(anchors[:, 1]).max() < 0.02
    assert anchors[:, 2].max() > data.site(m.tool).xpos[2] - base[2]
    assert anchors[:, 2].min() > -0.05
