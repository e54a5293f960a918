"""Props and furniture: they stand, move and spring as they say, and meet only what they should."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets import workshop
from rookery.assets.arms import FIXTURE_BIT, airbot_play_spec
from rookery.assets.scenery import ground

PARTS = {
    "ball": lambda: workshop.ball(0.025),
    "box": lambda: workshop.box((0.045, 0.025, 0.03)),
    "crate": lambda: workshop.crate((0.12, 0.12, 0.12)),
    "drawer": lambda: workshop.drawer(0.02),
    "door": lambda: workshop.door(0.02, 0.40, 0.09),
    "button": lambda: workshop.button(0.025, 0.02),
    "board": lambda: workshop.board(0.025),
}
LOOSE = ("ball", "box", "crate")
FIXTURES = ("drawer", "door", "button", "board")


def placed(name, z, base=ground):
    spec = base()
    spec.attach(PARTS[name](), frame=spec.worldbody.add_frame(pos=[0, 0, z]), prefix="p/")
    return spec.compile()


def after(model, seconds, **state):
    data = mujoco.MjData(model)
    for name, value in state.items():
        data.joint(f"p/{name}").qpos[:] = value
    while data.time < seconds:
        mujoco.mj_step(model, data)
    return data


@pytest.mark.parametrize("name", LOOSE)
def test_loose_things_hang_until_they_are_given_their_weight(name):
    model = placed(name, 1.0)
    assert abs(after(model, 1.0).body("p/base").xpos[2] - 1.0) < 1e-6
    model.body_gravcomp[model.body("p/base").id] = 0.0
    data = after(model, 0.2)
    assert data.body("p/base").xpos[2] == pytest.approx(1.0 - 0.5 * 9.81 * 0.2**2, rel=0.03)
    assert after(model, 3.0).ncon > 0  # it lies on the ground


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_stay_where_they_are_put_and_touch_only_hands(name):
    model = placed(name, 0.1)
    assert model.body("p/base").mocapid[0] >= 0
    data = after(model, 1.0)
    assert data.ncon == 0  # neither the ground nor each other
    solid = [i for i in range(model.ngeom) if model.geom(i).name.startswith("p/") and model.geom_contype[i]]
    assert solid
    assert set(model.geom_contype[solid]) == {FIXTURE_BIT}
    assert not model.geom_conaffinity[solid].any()
    arm = airbot_play_spec(visual=False).compile()
    hands = {arm.geom(i).name for i in range(arm.ngeom) if arm.geom_conaffinity[i] & FIXTURE_BIT}
    assert hands == {"palm", "finger_left", "finger_right"}


@pytest.mark.parametrize(
    ("name", "joint", "start"), [("door", "lever", 0.6), ("button", "slide", 0.02), ("board", "slide", 0.01)]
)
def test_springs_bring_levers_buttons_and_boards_back(name, joint, start):
    model = placed(name, 1.0)
    data = after(model, 2.0, **{joint: start})
    assert abs(data.joint(f"p/{joint}").qpos[0]) < 0.02 * max(1.0, start)


def test_a_drawer_stays_where_it_was_pulled_to():
    data = after(placed("drawer", 0.5), 2.0, slide=0.15)
    assert data.joint("p/slide").qpos[0] == pytest.approx(0.15, abs=1e-3)


def test_the_handle_of_a_door_is_at_its_origin_and_swings_towards_the_user():
    model = placed("door", 1.0)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.geom("p/handle").xpos, [0, 0, 1.0], atol=1e-9)
    data.joint("p/hinge").qpos[:] = 0.5
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(
        data.geom("p/handle").xpos, [-0.4 * np.sin(0.5), 0.4 - 0.4 * np.cos(0.5), 1.0], atol=1e-9
    )
    data.joint("p/hinge").qpos[:] = 0.0
    data.joint("p/lever").qpos[:] = 0.6
    mujoco.mj_kinematics(model, data)
    assert data.geom("p/handle").xpos[2] == pytest.approx(1.0 - 0.09 * np.sin(0.6))


def test_faces_are_a_finger_tip_ahead_of_the_tool():
    for name, geom, half in (("button", "p/cap", 0.01), ("board", "p/face", 0.008)):
        model = placed(name, 1.0)
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        assert data.geom(geom).xpos[0] - half == pytest.approx(0.025)
