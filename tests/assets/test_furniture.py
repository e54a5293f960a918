"""Furniture: its pieces keep clear of each other, its joints stay where they are left, and handles are where they should be."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets import furniture
from rookery.assets.errors import RookeryError
from rookery.assets.scenery import table

PARTS = {
    "door": (furniture.door, "hinge", 0.15),
    "drawer": (furniture.drawer, "slide", 0.0),
    "window": (lambda: furniture.window(0.16), "slide", 0.16),
    "tall_window": (lambda: furniture.window(0.20), "slide", 0.20),
}
every_part = pytest.mark.parametrize("name", PARTS)


def placed(name):
    make, joint, height = PARTS[name]
    spec = table()
    spec.attach(make(), frame=spec.worldbody.add_frame(pos=[0, 0.8, height]), prefix="p/")
    model = spec.compile()
    return model, mujoco.MjData(model), f"p/{joint}"


@every_part
def test_moving_pieces_keep_clear_of_those_that_stand(name):
    model, data, joint = placed(name)
    solid = [g for g in range(model.ngeom) if model.geom(g).name.startswith("p/")]
    moving = [g for g in solid if model.geom_bodyid[g] != model.body("p/base").id]
    standing = [g for g in solid if g not in moving]
    assert moving
    assert standing
    for q in np.linspace(*model.joint(joint).range, 12):
        data.joint(joint).qpos[:] = q
        mujoco.mj_kinematics(model, data)
        for a in moving:
            for b in standing:
                assert mujoco.mj_geomDistance(model, data, a, b, 0.01, None) > -1e-6, (a, b, q)
            # nor do they sink into the table, a plane that mj_geomDistance does not know
            if model.geom_type[a] == mujoco.mjtGeom.mjGEOM_BOX:
                reach = np.abs(data.geom_xmat[a].reshape(3, 3)[2]) @ model.geom_size[a]
                assert data.geom_xpos[a, 2] - reach > 0.0


@every_part
def test_joints_stay_where_they_are_left_and_stop_soon_when_let_go(name):
    model, data, joint = placed(name)
    data.joint(joint).qpos[:] = middle = model.joint(joint).range.mean()
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert data.joint(joint).qpos[0] == pytest.approx(middle, abs=1e-9)
    assert data.ncon == 0
    # speed falls as exp(-damping t / inertia)
    data.joint(joint).qpos[:] = model.joint(joint).range[0] + 1e-3
    data.joint(joint).qvel[:] = 0.2
    inertia = data.M[0]
    for _ in range(round(3.0 * inertia / furniture.DAMPING / model.opt.timestep)):
        mujoco.mj_step(model, data)
    assert data.joint(joint).qvel[0] == pytest.approx(0.2 * np.exp(-3.0), rel=0.05)


def middle(model, data, name):
    mujoco.mj_kinematics(model, data)
    return data.geom(f"p/{name}").xpos - data.body("p/base").xpos


def test_the_door_swings_towards_its_user_about_its_hinge():
    model, data, joint = placed("door")
    for q in (0.0, 1.0):
        data.joint(joint).qpos[:] = q
        c, s = np.cos(q), np.sin(q)
        out, before = 0.381, -furniture.LEVER  # m, the lever's middle
        expected = np.add(furniture.HINGE, (out * c + before * s, -out * s + before * c, 0.0))
        np.testing.assert_allclose(middle(model, data, "lever"), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "handle", "place", "way"),
    [("drawer", "bar", furniture.BAR, (0, -1, 0)), ("window", "handle", furniture.GRIP, (1, 0, 0))],
)
def test_handles_of_drawers_and_windows_are_at_their_places(name, handle, place, way):
    model, data, joint = placed(name)
    for q in (0.0, 0.1):
        data.joint(joint).qpos[:] = q
        np.testing.assert_allclose(middle(model, data, handle), np.array(place) + q * np.array(way), atol=1e-9)


def test_windows_too_low_for_their_handle_are_refused():
    with pytest.raises(RookeryError, match=r"0\.1 m over the table or more, got 0\.05"):
        furniture.window(0.05)
