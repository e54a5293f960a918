"""Points on spheres, planes and boxes whose places are known, and how they are thinned out."""

from __future__ import annotations

import mujoco
import pytest
import torch
from scipy.spatial.transform import Rotation

from rookery.assets.drones import look_along
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import Cameras
from rookery.sim.sensors.point_cloud import PointCloud, unproject

GEOM = mujoco.mjtGeom
BALL = (2.0, 0.3, 1.1)
RADIUS = 0.4
WALL = 4.0
FRONT = ((-9.0, -9.0, -9.0), (3.5, 9.0, 9.0))  # a box without the wall


def room() -> mujoco.MjSpec:
    """A red ball before a green wall, and two cameras that see both."""
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(
        name="ball", type=GEOM.mjGEOM_SPHERE, size=[RADIUS, 0, 0], pos=BALL, rgba=[0.9, 0.05, 0.05, 1]
    )
    spec.worldbody.add_geom(
        name="wall", type=GEOM.mjGEOM_BOX, size=[0.1, 20, 20], pos=[WALL + 0.1, 0, 0], rgba=[0.05, 0.9, 0.05, 1]
    )
    spec.worldbody.add_camera(name="ahead", pos=[0, 0, 1], quat=list(look_along([1, 0.1, 0.05])), fovy=60)
    spec.worldbody.add_camera(name="above", pos=[1, 0.3, 3], quat=list(look_along([1, 0, -1.5])), fovy=50)
    return spec


def cart() -> mujoco.MjSpec:
    """A free body with a camera on it."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="base")
    body.add_freejoint()
    body.add_geom(name="shell", type=GEOM.mjGEOM_BOX, size=[0.1, 0.1, 0.1])
    body.add_camera(name="eye", pos=[0.1, 0.05, 0.1], quat=list(look_along([1, 0, 0.1])), fovy=70)
    return spec


def world(n: int = 3) -> MujocoWorld:
    """Carts at different places and headings, all of which see the ball."""
    out = MujocoWorld(Scene(room).add(cart, "cart", pos=(0, 0, 0.9)), n)
    view = out.bodies(["cart/base"])
    state = view.state.clone()
    for i in range(n):
        state[i, 0, :3] = torch.tensor([-0.5 - 0.2 * i, 0.1 * i, 0.9 + 0.1 * i])
        turn = Rotation.from_euler("zyx", [0.1 * i, 0.05, 0.2 * i]).as_quat(scalar_first=True)
        state[i, 0, 3:7] = torch.from_numpy(turn)
    view.set_state(None, state)
    out.forward()
    return out


def depth(w: MujocoWorld, *names: str, **options: object) -> Cameras:
    return Cameras(w, names or ("ahead",), 64, 48, "depth", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [("ahead",), ("ahead", "above"), ("cart/eye",)])
@pytest.mark.parametrize("subsample", ["random", "farthest"])
def test_a_balls_points_lie_on_it_and_a_walls_on_the_wall(names, subsample):
    w = world()
    cloud = PointCloud(depth(w, *names), 1000, Streams(3, 0), subsample=subsample).read()
    away = (cloud - torch.tensor(BALL)).norm(dim=-1) - RADIUS
    behind = cloud[..., 0] - WALL
    assert torch.minimum(away.abs(), behind.abs()).max() < 1e-4
    for i in range(3):
        assert (away[i].abs() < 1e-4).sum() > 5
        assert (behind[i].abs() < 1e-4).sum() > 10


def test_a_bodys_frame_is_the_worlds_seen_from_it():
    w = world()
    camera = depth(w)
    there = PointCloud(camera, 200, subsample="farthest", frame="cart/base").read().clone()
    here = PointCloud(camera, 200, subsample="farthest").read()
    state = w.bodies(["cart/base"]).state
    for i in range(3):
        turn = torch.from_numpy(Rotation.from_quat(state[i, 0, 3:7].numpy(), scalar_first=True).as_matrix()).float()
        assert torch.allclose(there[i] @ turn.T + state[i, 0, :3], here[i], atol=1e-5)


def test_a_bodys_own_camera_sees_the_same_in_its_frame_wherever_it_goes():
    w = world(1)
    view = w.bodies(["cart/base"])
    cloud = PointCloud(depth(w, "cart/eye"), 64, subsample="farthest", box=FRONT)
    first = cloud.read().clone()
    state = view.state.clone()
    state[0, 0, 1] += 0.2
    view.set_state(None, state)
    w.forward()
    second = cloud.read()
    assert not torch.equal(first, second)
    for points in (first, second):
        assert ((points - torch.tensor(BALL)).norm(dim=-1) - RADIUS).abs().max() < 1e-4


def test_unproject_gives_every_pixel_its_point():
    w = world()
    camera = depth(w, "ahead", "cart/eye")
    points = unproject(camera.read(), camera.intrinsics(), *camera.poses())
    assert points.shape == (3, 2, 48, 64, 3)
    cloud = PointCloud(camera, 64 * 48 * 2, subsample="farthest").read()
    assert torch.allclose(cloud.sum(1), points.flatten(1, 3).sum(1), rtol=1e-4)
    right = points[:, 0, :, 1:] - points[:, 0, :, :-1]  # along a row the y axis falls: the camera looks along x
    assert (right[..., 1] < 0).float().mean() > 0.9
    assert (points[:, 0, 1:, :, 2] - points[:, 0, :-1, :, 2] < 0).float().mean() > 0.9


def test_the_box_crops_and_few_points_are_repeated():
    w = world()
    box = ((1.7, 0.0, 0.8), (1.9, 0.6, 1.4))
    cloud = PointCloud(depth(w), 1000, Streams(3, 1), box=box)
    points = cloud.read()
    assert (cloud.count > 10).all()
    assert (cloud.count < 1000).all()
    assert ((points >= torch.tensor(box[0]) - 1e-6) & (points <= torch.tensor(box[1]) + 1e-6)).all()
    for i, count in enumerate(cloud.count.tolist()):
        assert len(points[i].unique(dim=0)) == count
        assert torch.equal(points[i, :-count], points[i, count:])
    empty = PointCloud(depth(w), 10, Streams(3, 1), box=((50, 50, 50), (51, 51, 51)))
    assert (empty.read() == 0).all()
    assert (empty.count == 0).all()


def test_what_is_beyond_the_range_is_no_point():
    cloud = PointCloud(depth(world(), max_range=3.0), 2000, Streams(3, 1))
    assert cloud.read()[..., 0].max() < 3.2
    assert (cloud.count < 64 * 48).all()


def test_random_points_are_distinct_reproducible_and_new_at_every_read():
    w = world()
    clouds = [PointCloud(depth(w), 400, Streams(3, 7), threads=t) for t in (1, 3)]
    first = [c.read().clone() for c in clouds]
    assert torch.equal(*first)
    assert all(len(p.unique(dim=0)) == 400 for p in first[0])
    second = [c.read().clone() for c in clouds]
    assert torch.equal(*second)
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0], PointCloud(depth(w), 400, Streams(3, 8)).read())


def test_random_points_are_even_over_the_picture():
    cloud = PointCloud(depth(world(1)), 600, Streams(1, 0))
    left = sum((cloud.read()[0, :, 1] > 0.4).float().mean() for _ in range(20)) / 20
    whole = PointCloud(depth(world(1)), 64 * 48, Streams(1, 0)).read()
    assert float(left) == pytest.approx(float((whole[0, :, 1] > 0.4).float().mean()), abs=0.02)


def test_farthest_points_cover_better_than_random_ones():
    w = world()
    everything = PointCloud(depth(w), 64 * 48, Streams(3, 0)).read().clone()
    gaps = {}
    for way in ("random", "farthest"):
        few = PointCloud(depth(w), 60, Streams(3, 0), subsample=way).read()
        gaps[way] = torch.cdist(everything, few).amin(-1).amax(-1)
    assert (gaps["farthest"] < 0.7 * gaps["random"]).all()


def test_features_are_those_of_the_points_pixels():
    w = world()
    features = [Cameras(w, ["ahead"], 64, 48, kind) for kind in ("rgb", "segmentation")]
    cloud = PointCloud(depth(w), 300, Streams(3, 0), features=features)
    points = cloud.read()
    assert cloud.size == 7
    assert points.shape == (3, 300, 7)
    on_ball = ((points[..., :3] - torch.tensor(BALL)).norm(dim=-1) - RADIUS).abs() < 1e-4
    assert torch.equal(points[..., 3] > points[..., 4], on_ball)  # red, not green
    assert torch.equal(points[..., 6] == 3, on_ball)  # the class "ball"
    assert points[..., 3:6].max() <= 1.0


def test_randomized_cameras_give_true_or_nominal_points():
    w = world()
    camera = depth(w, max_range=30.0)
    camera.look.pos[1, 0] += torch.tensor([0.1, 0.0, 0.05])
    camera.look.zoom[1] = 1.2
    camera.redraw()
    true = PointCloud(camera, 500, Streams(3, 0), box=FRONT).read()
    assert ((true - torch.tensor(BALL)).norm(dim=-1) - RADIUS).abs().max() < 1e-4
    away = (PointCloud(camera, 500, Streams(3, 0), nominal=True, box=FRONT).read() - torch.tensor(BALL)).norm(dim=-1)
    off = (away - RADIUS).abs().amax(-1)
    assert off[0] < 1e-4
    assert off[1] > 0.02
    assert off[2] < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subsample": "rndom"}, "did you mean 'random'"),
        ({"points": 0}, "at least one point"),
        ({"rng": None}, "needs streams"),
        ({"frame": "cart/bas"}, "did you mean 'cart/base'"),
        ({"box": ((0, 0, 0), (1, 0, 1))}, "lowest and its highest corner"),
        ({"box": ((0, 0), (1, 1))}, "lowest and its highest corner"),
    ],
)
def test_refusals(change, message):
    w = world(1)
    with pytest.raises(RookeryError, match=message):
        PointCloud(**{"depth": depth(w), "points": 10, "rng": Streams(1, 0), **change})


def test_refused_cameras():
    w = world(1)
    color = Cameras(w, ["ahead"], 64, 48, "rgb")
    with pytest.raises(RookeryError, match='kind "depth"'):
        PointCloud(color, 10, Streams(1, 0))
    with pytest.raises(RookeryError, match="same world"):
        PointCloud(depth(w), 10, Streams(1, 0), features=[Cameras(w, ["above"], 64, 48, "rgb")])
