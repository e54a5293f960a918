"""Gates: their frames leave the opening free and nothing else, and courses can be flown."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from rookery.assets.errors import RookeryError
from rookery.assets.gates import BAR, COURSES, DEPTH, OPENING, gate


def inside(points, **sizes):
    """Whether each point [n, 3] (m, gate axes) is in one of the frame's boxes."""
    model = gate(**sizes).compile()
    assert set(model.geom_type) == {int(mujoco.mjtGeom.mjGEOM_BOX)}
    assert model.nv == 0
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    local = np.einsum("gji,pgj->pgi", data.geom_xmat.reshape(-1, 3, 3), points[:, None] - data.geom_xpos)
    return (np.abs(local) < model.geom_size).all(-1).any(-1)


@pytest.mark.parametrize(("opening", "bar", "depth"), [(OPENING, BAR, DEPTH), (0.6, 0.2, 0.3)])
def test_the_frame_is_a_square_ring(opening, bar, depth):
    points = np.random.default_rng(0).uniform(-1, 1, (20_000, 3)) * (depth, opening, opening)
    edge = np.abs(points[:, 1:]).max(1)
    ring = (edge > opening / 2) & (edge < opening / 2 + bar) & (np.abs(points[:, 0]) < depth / 2)
    assert ring.any()
    assert (inside(points, opening=opening, bar=bar, depth=depth) == ring).all()


def test_parts_have_their_names_and_collide():
    model = gate().compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for name, axis, sign in (("top", 2, 1), ("bottom", 2, -1), ("left", 1, 1), ("right", 1, -1)):
        assert np.sign(data.geom(name).xpos[axis]) == sign
        assert model.geom(name).contype[0] == model.geom(name).conaffinity[0] == 1


@pytest.mark.parametrize("sizes", [{"opening": 0.0}, {"bar": -0.1}, {"depth": 0.0}])
def test_lengths_must_be_positive(sizes):
    with pytest.raises(RookeryError, match="must be positive"):
        gate(**sizes)


@pytest.mark.parametrize("course", COURSES)
def test_gates_stand_apart_above_ground_and_lead_to_each_other(course):
    poses = COURSES[course]
    place = np.array([(p.x, p.y, p.z) for p in poses])
    way = np.array([(math.cos(p.yaw), math.sin(p.yaw), 0.0) for p in poses])
    outer = OPENING / 2 + BAR
    assert (place[:, 2] > outer + 0.2).all()
    apart = np.linalg.norm(place[:, None] - place, axis=-1) + 9 * np.eye(len(poses))
    assert apart.min() > 2 * outer + 0.3
    assert np.linalg.norm(np.roll(place, -1, 0) - place, axis=-1).max() < 5
    for i, p in enumerate(poses):
        rotated = np.zeros(3)
        mujoco.mju_rotVecQuat(rotated, np.array([1.0, 0, 0]), np.array(p.quat))
        assert np.allclose(rotated, way[i])


def test_round_courses_turn_once_and_the_eight_not_at_all():
    for course, turns in (("oval", 1), ("figure-eight", 0)):
        yaw = np.array([p.yaw for p in COURSES[course]])
        steps = (np.roll(yaw, -1) - yaw + np.pi) % (2 * np.pi) - np.pi
        assert steps.sum() / (2 * np.pi) == pytest.approx(turns, abs=1e-9)


def test_the_two_passes_of_the_split_s():
    """Two gates above each other, flown through in opposite directions, the upper one first."""
    high, low = COURSES["split-s"][2:4]
    assert (high.x, high.y) == (low.x, low.y)
    assert high.z - low.z > 2 * (OPENING / 2 + BAR)
    assert math.cos(high.yaw - low.yaw) == pytest.approx(-1)
