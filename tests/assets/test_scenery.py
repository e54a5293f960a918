"""Props weigh, slide and bounce as asked."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from rookery.assets import scenery
from rookery.assets.errors import RookeryError


def scene(prop, height, dt=0.001):
    root = scenery.ground()
    root.attach(prop, frame=root.worldbody.add_frame(pos=[0, 0, height]), prefix="prop/")
    root.option.timestep = dt
    model = root.compile()
    return model, mujoco.MjData(model)


@pytest.mark.parametrize("visual", [True, False])
def test_ground(visual):
    model = scenery.ground(visual=visual, friction=(0.7, 0.004, 0.0002)).compile()
    assert model.nq == 0
    assert np.allclose(model.geom("ground").friction, [0.7, 0.004, 0.0002])
    assert model.nlight == int(visual)


def test_props_have_their_mass_and_inertia():
    solid = scenery.ball(0.1, 0.3).compile()
    shell = scenery.ball(0.1, 0.3, hollow=True).compile()
    assert np.allclose(solid.body("base").inertia, 2 / 5 * 0.3 * 0.01)
    assert np.allclose(shell.body("base").inertia, 2 / 3 * 0.3 * 0.01)
    box = scenery.box((0.1, 0.2, 0.3), 1.2).compile()
    assert box.body("base").mass[0] == pytest.approx(1.2)
    assert sorted(box.body("base").inertia) == pytest.approx(sorted([0.13 / 10, 0.10 / 10, 0.05 / 10]))


@pytest.mark.parametrize("restitution", [0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("speed", [2.0, 6.0])
@pytest.mark.parametrize(("dt", "tolerance"), [(0.0002, 0.01), (0.002, 0.06)])
def test_bounce(restitution, speed, dt, tolerance):
    model, data = scene(scenery.ball(0.1, 0.05, restitution=restitution), 0.11, dt)
    model.opt.gravity[:] = 0
    data.qvel[2] = -speed
    while data.time < 0.3:
        mujoco.mj_step(model, data)
    assert data.qvel[2] / speed == pytest.approx(restitution, abs=tolerance)


@pytest.mark.parametrize("restitution", [0.05, 0.5, 0.99])
def test_restitution_is_read_back(restitution):
    assert scenery.restitution(scenery.bounce(restitution, 0.01)) == pytest.approx(restitution, abs=1e-6)
    assert scenery.restitution((0.02, 1.0)) == 0.0


@pytest.mark.parametrize("restitution", [0.0, 1.0, -0.1])
def test_impossible_restitution(restitution):
    with pytest.raises(RookeryError, match="between 0 and 1"):
        scenery.bounce(restitution)


def test_box_slides_by_its_friction():
    model, data = scene(scenery.box((0.2, 0.2, 0.05), 1.0, friction=(0.3, 0.005, 0.0001)), 0.025)
    model.geom("ground").friction[:] = [0.1, 0.005, 0.0001]  # MuJoCo takes the larger of two frictions
    model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    data.qvel[0] = 2.0
    while data.time < 0.3:
        mujoco.mj_step(model, data)
    assert data.qvel[0] == pytest.approx(2.0 - 0.3 * 9.81 * 0.3, abs=0.05)
    assert math.isclose(data.qpos[2], 0.025, abs_tol=0.002)
