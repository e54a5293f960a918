"""Poses for the viewer against SciPy's rotations."""

from __future__ import annotations

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from rookery.sim.rendering.frame import FrameStage
from rookery.sim.viewing.poses import quaternions, stage_poses

XML = """<mujoco><worldbody>
<body name="slow" mocap="true"><geom type="box" size=".1 .2 .3"/></body>
<body name="free" pos="1 0 1"><freejoint/><geom type="box" size=".1 .1 .2" pos=".3 0 0" quat=".5 .5 .5 .5"/></body>
</worldbody></mujoco>"""


def test_quaternions_turn_as_their_matrices_do():
    turns = Rotation.random(50, rng=1)
    found = quaternions(turns.as_matrix().reshape(50, 9))
    assert (Rotation.from_quat(found, scalar_first=True).inv() * turns).magnitude().max() < 1e-7


def test_geoms_stand_where_their_bodies_carry_them():
    """A free body and a mocap body, each turned at random; the free body's geom stands and is turned off its origin."""
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    turn = Rotation.random(2, rng=2)
    data.qpos[:] = (0.5, -1.0, 2.0, *turn[0].as_quat(scalar_first=True))
    data.mocap_pos[0], data.mocap_quat[0] = (3.0, 2.0, 1.0), turn[1].as_quat(scalar_first=True)
    got = stage_poses(FrameStage(model), data)
    own = Rotation.from_quat([0.5] * 4, scalar_first=True)
    places = np.stack(([3.0, 2.0, 1.0], np.array([0.5, -1.0, 2.0]) + turn[0].apply([0.3, 0.0, 0.0])))
    wanted = zip(places, (turn[1], turn[0] * own), strict=True)
    for pos, quat, (place, turned) in zip(got.pos, got.quat, wanted, strict=True):
        np.testing.assert_allclose(pos, place, atol=1e-6)
        assert (Rotation.from_quat(quat, scalar_first=True).inv() * turned).magnitude() < 1e-6
