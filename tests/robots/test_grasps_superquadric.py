"""Superquadrics are recovered from noisy points, and grasps around them fit hand and table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import trimesh

from rookery.assets.objects import find_object
from rookery.robots.manipulators.grasps import ALLEGRO, PARALLEL, superquadric
from rookery.robots.manipulators.grasps.pose import quaternions
from rookery.robots.manipulators.grasps.superquadric import Superquadric
from rookery.robots.manipulators.grasps.surface import sample_surface
from rookery.sim.errors import RookeryError

NOISE = 0.0005  # m
KINDS = {
    "ellipsoid": ((0.030, 0.045, 0.070), (1.0, 1.0)),
    "box": ((0.025, 0.040, 0.060), (0.15, 0.15)),
    "can": ((0.033, 0.033, 0.050), (0.15, 1.0)),
    "cushion": ((0.030, 0.040, 0.060), (0.6, 0.4)),
}


def made(kind: str, seed: int) -> Superquadric:
    rng = np.random.default_rng(seed)
    axes, exponents = KINDS[kind]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn[:, 0] *= np.linalg.det(turn)
    return Superquadric(np.array(axes), np.array(exponents), rng.uniform(-0.1, 0.1, 3), quaternions(turn[None])[0])


def test_surface_and_normals() -> None:
    shape = made("cushion", 0)
    rng = np.random.default_rng(0)
    points, normals = shape.surface(rng.normal(size=(200, 3)))
    assert np.allclose(shape.inside_outside(points), 1.0)
    assert np.allclose(np.linalg.norm(normals, axis=1), 1.0)
    assert (shape.inside_outside(points + 1e-4 * normals) > 1.0).all()
    tangent = np.cross(normals, rng.normal(size=(200, 3)))
    slope = (shape.inside_outside(points + 1e-7 * tangent) - 1.0) / 1e-7
    steep = (shape.inside_outside(points + 1e-7 * normals) - 1.0) / 1e-7
    assert np.abs(slope / steep).max() < 1e-3
    assert shape.inside_outside(shape.position[None])[0] < 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_fit_recovers_what_made_the_points(kind: str, seed: int) -> None:
    true = made(kind, seed)
    rng = np.random.default_rng(10 + seed)
    points, _ = true.surface(rng.normal(size=(400, 3)))
    found = superquadric.fit(points + rng.normal(scale=NOISE, size=points.shape))
    assert np.allclose(np.sort(found.axes), np.sort(true.axes), rtol=0.03)
    assert np.allclose(found.position, true.position, atol=3e-4)
    assert found.error < 2 * NOISE
    # the same shape can be written in several ways; so compare surfaces, both ways
    far, _ = true.surface(np.random.default_rng(20).normal(size=(300, 3)))
    ratio = found.inside_outside(far) ** (-0.5 * found.exponents[0])  # of the distances from the centre
    assert np.abs(ratio - 1.0).max() < 0.05
    if kind != "can":
        axis = np.abs(found.rotation.T @ true.rotation)
        assert any(np.trace(axis[list(p)]) > 2.99 for p in itertools.permutations(range(3)))
    else:
        assert abs(found.rotation[:, 2] @ true.rotation[:, 2]) > 0.999
        assert np.allclose(found.exponents, true.exponents, atol=0.1)


def test_fit_of_everyday_objects() -> None:
    for name, error in (
        ("cube_50", 0.001),
        ("tomato_soup_can", 0.001),
        ("tennis_ball", 0.001),
        ("mustard_bottle", 0.008),
    ):
        item = find_object(name)
        points, _ = sample_surface(item.mesh, 400, np.random.default_rng(0))
        found = superquadric.fit(points)
        assert found.error < error
        assert np.allclose(np.sort(2 * found.axes), np.sort(item.size), rtol=0.12)


def test_fit_refuses_what_is_no_solid() -> None:
    with pytest.raises(RookeryError, match="at least 20 points"):
        superquadric.fit(np.zeros((10, 3)))
    with pytest.raises(RookeryError, match="in a plane"):
        superquadric.fit(np.column_stack([np.random.default_rng(0).normal(size=(50, 2)), np.zeros(50)]))


@pytest.mark.parametrize("name", ["cube_50", "tomato_soup_can", "banana"])
def test_poses_surround_the_object_above_the_table(name: str) -> None:
    item = find_object(name)
    rng = np.random.default_rng(0)
    points, _ = sample_surface(item.mesh, 600, rng)
    shape = superquadric.fit(points)
    table = -item.rest_height
    poses = superquadric.sample(shape, 40, rng, table=table)
    assert len(poses) >= 8 and all(p.sampler == "superquadric" for p in poses)
    assert [p.quality for p in poses] == sorted((p.quality for p in poses), reverse=True)
    surface, _ = shape.surface(rng.normal(size=(1000, 3)))
    for pose in poses:
        opening = ALLEGRO.opening(np.array(pose.width), superquadric.CLEARANCE)
        low, high = np.moveaxis(ALLEGRO.boxes(opening), -2, 0)
        lowest = ALLEGRO.lowest(pose.axes[None], opening[None])[0]
        assert pose.position[2] - lowest >= table
        own = (surface - pose.position) @ pose.axes
        assert not ((own[:, None] > low + 0.003) & (own[:, None] < high - 0.003)).all(2).any()
        between = (np.abs(own[:, 0]) < ALLEGRO.breadth) & (own[:, 2] < ALLEGRO.reach - 0.01)
        assert between.any() and np.abs(own[between, 1]).max() < 0.5 * opening  # neither finger has it outside
        if pose.axes[2, 2] < -0.5:  # from above: midway between the fingers
            beside = own[np.abs(own[:, 0]) < ALLEGRO.breadth, 1]
            assert abs(beside.max() + beside.min()) < 0.01
        assert pose.axes[2, 2] < 0.21  # not from below
    if name == "tomato_soup_can":
        heights = np.array([p.axes[2, 2] for p in poses])
        assert (heights < -0.9).any() and (np.abs(heights) < 0.1).any()  # from the top and from the sides


def test_fingers_hold_what_has_some_points_between_them() -> None:
    """Eight, in the middle of the fingers' breadth and within the opening: fewer are a corner that slips."""
    few = np.zeros((1, 7, 3))
    few[0, :, 2] = PARALLEL.reach - 0.5 * (PARALLEL.reach - PARALLEL.behind[1]) - 0.01
    enough = np.concatenate((few, few[:, :1]), axis=1)
    aside = enough + np.array([1.1 * PARALLEL.breadth / 2.0, 0.0, 0.0])
    wide = enough + np.array([0.0, 0.021, 0.0])
    deep = enough + np.array([0.0, 0.0, 0.1])
    opening = np.array([0.04])
    held = [bool(superquadric._held(points, PARALLEL, opening)[0]) for points in (enough, few, aside, wide, deep)]
    assert held == [True, False, False, False, False]


def test_seeds_and_grippers() -> None:
    shape = Superquadric(np.array([0.02, 0.03, 0.05]), np.array([0.3, 0.5]), np.zeros(3), np.array([1.0, 0, 0, 0]))
    first, again = (superquadric.sample(shape, 6, np.random.default_rng(3), hand=PARALLEL) for _ in range(2))
    assert all(np.array_equal(a.quaternion, b.quaternion) for a, b in zip(first, again, strict=True))
    assert all(p.width <= PARALLEL.width for p in first)


def test_refusals_name_the_sizes() -> None:
    wide = Superquadric(np.array([0.10, 0.09, 0.08]), np.array([0.3, 0.3]), np.zeros(3), np.array([1.0, 0, 0, 0]))
    with pytest.raises(RookeryError, match="200 x 180 x 160 mm, and the Allegro hand opens 100 mm"):
        superquadric.sample(wide, 4, np.random.default_rng(0))
    flat = Superquadric(np.array([0.04, 0.03, 0.004]), np.array([0.2, 0.2]), np.zeros(3), np.array([1.0, 0, 0, 0]))
    with pytest.raises(RookeryError, match="hit the table"):
        superquadric.sample(flat, 4, np.random.default_rng(0))
    with pytest.raises(RookeryError, match="count must be positive"):
        superquadric.sample(wide, 0, np.random.default_rng(0))


def test_points_of_a_trimesh_cylinder() -> None:
    can = trimesh.creation.cylinder(0.033, 0.101, sections=48)
    points, _ = sample_surface(can, 500, np.random.default_rng(0))
    found = superquadric.fit(points)
    assert found.exponents[0] < 0.2 and found.exponents[1] == pytest.approx(1.0, abs=0.1)
    assert found.axes[2] == pytest.approx(0.0505, rel=0.03)
