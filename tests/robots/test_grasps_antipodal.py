"""Antipodal grasps lie in their friction cones, on both sides of the object, and the hand has room."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import trimesh

from rookery.assets.allegro import JOINTS, allegro
from rookery.assets.objects import find_object
from rookery.robots.manipulators.allegro import OPEN
from rookery.robots.manipulators.grasps import ALLEGRO, PARALLEL, HandShape, antipodal
from rookery.robots.manipulators.grasps.pose import quaternions
from rookery.robots.manipulators.grasps.surface import sample_surface, through
from rookery.sim.errors import RookeryError

BOX = trimesh.creation.box((0.10, 0.05, 0.06))
BALL = trimesh.creation.icosphere(3, 0.03)
CAN = trimesh.creation.cylinder(0.033, 0.10, sections=48)
SHAPES = pytest.mark.parametrize("mesh", [BOX, BALL, CAN], ids=["box", "ball", "can"])


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def off_box(points: np.ndarray) -> np.ndarray:
    """m, distance of points inside the box from its surface."""
    return (0.5 * BOX.extents - np.abs(points)).min(1)


def test_points_are_even_over_the_surface() -> None:
    points, normals = sample_surface(BOX, 4000, generator())
    assert np.abs(off_box(points)).max() < 1e-9
    areas = np.array([0.05 * 0.06, 0.10 * 0.06, 0.10 * 0.05])
    assert np.allclose(np.abs(normals).mean(0), areas / areas.sum(), atol=0.03)
    assert ((points * normals).sum(1) > 0).all()  # outward


def test_ways_through_overlapping_shells() -> None:
    """Two boxes that overlap along x, and a third one 10 mm further on."""
    parts = [trimesh.creation.box((0.04, 0.04, 0.04)) for _ in range(3)]
    for part, x in zip(parts, (0.0, 0.03, 0.08), strict=True):
        part.apply_translation((x, 0, 0))
    mesh = trimesh.util.concatenate(parts)
    starts = np.array([[-0.02, 0.003, 0.005], [0.02, 0.003, 0.005], [0.06, 0.003, 0.005], [0.01, 0.003, 0.005]])
    along = np.tile([1.0, 0.0, 0.0], (4, 1))
    along[1] *= -1.0
    length, face, before, behind = through(mesh, starts, along)
    assert np.allclose(length[[0, 2]], [0.07, 0.04]) and np.isnan(length[[1, 3]]).all()  # the others begin inside
    assert np.isinf(before[0]) and behind[0] == pytest.approx(0.01) and before[2] == pytest.approx(0.01)
    assert np.isinf(behind[2])
    assert np.allclose(mesh.face_normals[face[[0, 2]]], [1, 0, 0])


@SHAPES
@pytest.mark.parametrize("friction", [0.2, 0.8])
def test_pairs_are_in_their_friction_cones_on_opposite_sides(mesh: trimesh.Trimesh, friction: float) -> None:
    pairs = antipodal.pairs(mesh, 300, generator(), friction=friction)
    assert len(pairs.width) > 50
    for points, normals in ((pairs.first, pairs.first_normal), (pairs.second, pairs.second_normal)):
        _, off, faces = trimesh.proximity.closest_point_naive(mesh, points)
        assert off.max() < 1e-6
        assert np.abs((mesh.face_normals[faces] * normals).sum(1)).min() > 0.5
        assert (((points - mesh.center_mass) * normals).sum(1) > 0).all()
    line = (pairs.second - pairs.first) / pairs.width[:, None]
    assert np.allclose(line, pairs.line)
    limit = np.cos(np.arctan(friction)) - 1e-9
    assert (-(line * pairs.first_normal).sum(1) >= limit).all()
    assert ((line * pairs.second_normal).sum(1) >= limit).all()
    assert pairs.angle.max() <= np.arctan(friction) + 1e-6
    assert pairs.angle.max() > 0.5 * np.arctan(friction)  # the cones are used


@SHAPES
@pytest.mark.parametrize("hand", [PARALLEL, ALLEGRO], ids=["parallel", "allegro"])
def test_poses_hold_the_object_and_stay_above_the_table(mesh: trimesh.Trimesh, hand: HandShape) -> None:
    poses = antipodal.sample(mesh, 12, generator(), hand=hand)
    assert len(poses) >= 5 and all(pose.sampler == "antipodal" for pose in poses)
    assert [p.quality for p in poses] == sorted((p.quality for p in poses), reverse=True)
    assert all(0.0 <= p.quality <= 1.0 for p in poses)
    bottom = mesh.bounds[0, 2]
    points, _ = sample_surface(mesh, 500, generator(1))
    for pose in poses:
        across, closing, approach = pose.axes.T
        assert np.allclose(np.cross(across, closing), approach) and np.linalg.norm(pose.quaternion) == pytest.approx(
            1.0
        )
        assert 0.0 < pose.width <= hand.width
        opening = hand.opening(np.array(pose.width), antipodal.CLEARANCE)
        low, high = np.moveaxis(hand.boxes(opening), -2, 0)
        corners = np.array(
            [np.where(pick, h, lo) for lo, h in zip(low, high, strict=True) for pick in np.ndindex(2, 2, 2)]
        )
        assert (pose.position + corners @ pose.axes.T)[:, 2].min() >= bottom
        own = (points - pose.position) @ pose.axes
        assert not any(((own > lo + 0.003) & (own < h - 0.003)).all(1).any() for lo, h in zip(low, high, strict=True))
        # the line of the contacts goes through the object, before the fingers' ends
        ahead = np.linspace(0.0, hand.reach, 50)[:, None] * approach
        assert np.linalg.norm(points[:, None] - pose.position - ahead, axis=2).min() < 0.5 * pose.width + 0.01


def test_seeds_reproduce() -> None:
    first, again, other = (antipodal.sample(CAN, 6, generator(seed)) for seed in (3, 3, 4))
    assert all(np.array_equal(a.position, b.position) for a, b in zip(first, again, strict=True))
    assert not np.allclose(first[0].position, other[0].position)


def test_quality_prefers_straight_lines_through_the_middle() -> None:
    poses = antipodal.sample(BOX, 40, generator())
    level = [abs(np.dot(p.axes[:, 1], np.eye(3)[np.abs(p.axes[:, 1]).argmax()])) for p in poses]
    assert np.mean(level[:10]) > np.mean(level[-10:])
    far = [np.linalg.norm(p.position[:2]) for p in poses]
    assert np.mean(far[:10]) < np.mean(far[-10:])


def test_rims_can_be_held() -> None:
    """A mug is wider than the gripper, but its wall is not."""
    mug = find_object("mug")
    poses = antipodal.sample(mug.mesh, 8, generator())
    assert len(poses) == 8 and max(p.width for p in poses) < 0.02


def test_refusals_name_the_sizes() -> None:
    with pytest.raises(RookeryError, match=r"200 x 150 x 120 mm.*80 mm"):
        antipodal.sample(trimesh.creation.box((0.2, 0.15, 0.12)), 4, generator())
    with pytest.raises(RookeryError, match=r"60 x 60 x 10 mm.*would hit"):
        antipodal.sample(trimesh.creation.box((0.06, 0.06, 0.01)), 4, generator(), hand=ALLEGRO)
    with pytest.raises(RookeryError, match=r"positive, got 4, 0.05 m and 0"):
        antipodal.sample(BOX, 4, generator(), width=0.05, friction=0.0)


def test_the_allegros_room_covers_the_hand() -> None:
    """However the open hand is turned, none of its geoms is lower than HandShape says."""
    model = allegro(wrist=False, looks=False).compile()
    data = mujoco.MjData(model)
    for name, angle in zip(JOINTS, OPEN.tolist(), strict=True):
        data.joint(name).qpos = angle
    mujoco.mj_forward(model, data)
    frame = data.site("grasp")
    turn = frame.xmat.reshape(3, 3)
    rng = generator()
    axes = np.linalg.qr(rng.normal(size=(300, 3, 3)))[0]
    axes[np.linalg.det(axes) < 0, :, 0] *= -1.0
    says = ALLEGRO.lowest(axes, np.full(300, ALLEGRO.width))
    down = -axes[:, 2, :]  # in the grasp frame
    is_ = np.full(300, -np.inf)
    for g in range(model.ngeom):
        own = turn.T @ data.geom_xmat[g].reshape(3, 3)
        centre = turn.T @ (data.geom_xpos[g] - frame.xpos)
        size = model.geom_size[g]
        along = np.abs(down @ own)
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_BOX:
            support = along @ size
        else:
            support = size[0] + along[:, 2] * size[1]
        is_ = np.maximum(is_, down @ centre + support)
    assert (says >= is_ - 0.001).all()
    assert np.median(says - is_) < 0.03
    assert np.allclose(quaternions(np.eye(3)[None]), [[1, 0, 0, 0]])
