"""Puck, peg, button and block: measures, rest, and travel."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets import tabletop
from rookery.assets.scenery import table
from rookery.sim.scene import Scene

DT = 0.0025


def placed(name: str, z: float) -> mujoco.MjModel:
    scene = Scene(table, dt=DT, integrator="discrete").add(getattr(tabletop, name), "p", pos=(0.0, 0.6, z))
    return scene.compile()


def after(model: mujoco.MjModel, seconds: float, force: float = 0.0) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qfrc_applied[:] = force
    for _ in range(round(seconds / DT)):
        mujoco.mj_step(model, data)
    return data


@pytest.mark.parametrize(
    ("name", "half", "kg", "moments"),
    [
        # a solid cylinder: m r^2 / 2, m (3 r^2 + h^2) / 12; a solid bar: m (a^2 + b^2) / 12
        ("puck", 0.02, 0.06, (0.06 * (3 * 0.02**2 + 0.04**2) / 12,) * 2 + (0.06 * 0.02**2 / 2,)),
        ("peg", 0.015, 0.1, (0.1 * 2 * 0.03**2 / 12,) + (0.1 * (0.24**2 + 0.03**2) / 12,) * 2),
    ],
)
def test_loose_things_weigh_what_their_shape_says_and_rest_still(name, half, kg, moments):
    model = placed(name, half)
    body = model.body("p/base")
    assert body.mass[0] == pytest.approx(kg)
    np.testing.assert_allclose(sorted(body.inertia), sorted(moments), rtol=1e-6)
    data = after(model, 2.0)
    assert data.qpos[:3] == pytest.approx([0.0, 0.6, half], abs=2e-4)
    assert np.abs(data.qvel).max() < 1e-4


def test_the_button_stands_up_and_goes_down_to_its_stop():
    model = placed("button", 0.115)
    assert after(model, 1.0).qpos[0] == pytest.approx(0.0, abs=1e-3)
    pressed = after(model, 1.0, -0.5).qpos[0]
    assert pressed == pytest.approx(-tabletop.BUTTON_TRAVEL, abs=2e-3)
    # 24 mm over the goal, where a press counts, is before the stop
    assert -pressed > tabletop.BUTTON_TOP - tabletop.BUTTON_GOAL - 0.024 + 0.003


def test_a_pressed_button_comes_back():
    model = placed("button", 0.115)
    data = mujoco.MjData(model)
    data.qpos[0] = -0.07
    for _ in range(round(3.0 / DT)):
        mujoco.mj_step(model, data)
    assert abs(data.qpos[0]) < 1e-3


@pytest.mark.parametrize(("y", "z", "free"), [(0.0, 0.13, True), (0.014, 0.144, True), (0.02, 0.13, False)])
def test_the_hole_takes_the_peg_and_its_walls_do_not(y, z, free):
    scene = Scene(table, dt=DT).add(tabletop.block, "block").add(tabletop.peg, "peg", pos=(0.1, y, z))
    model = scene.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert (data.ncon == 0) is free


def test_fixtures_are_placed_by_the_task_and_meet_the_arm():
    for name in ("button", "block"):
        model = placed(name, 0.115)
        assert model.body("p/base").mocapid[0] >= 0
        solid = [i for i in range(model.ngeom) if model.geom(i).name.startswith("p/") and model.geom(i).name != "p/cap"]
        assert solid
        assert all(model.geom_contype[i] & 2 for i in solid)
        assert after(model, 0.1).ncon == 0  # neither with the table nor with itself
