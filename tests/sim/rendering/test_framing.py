"""What has to be seen is in the picture, and large enough; markers appear where they are."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import rookery
from rookery.assets import scenery
from rookery.sim.errors import RookeryError
from rookery.sim.rendering import opengl
from rookery.sim.rendering.camera import BORDER, RATIO, Follow, Lens, cameraman
from rookery.sim.rendering.frame import Frame, View
from rookery.sim.rendering.markers import marker_shape
from rookery.sim.rendering.renderer import Composer, Renderer
from rookery.sim.scene import Scene

STAND = ((-2.0, -0.5, 1.0), (0.0, 0.0, 0.5))


@pytest.fixture(params=["opengl", "software"])
def backend(request):
    if request.param == "opengl" and opengl.find_backend() is None:
        pytest.skip(opengl.describe())
    return request.param


def pixel(frame: Frame, point, width: int, height: int) -> np.ndarray:
    """x and y of a point in the picture of a frame."""
    view = frame.view
    forward = (view.target - view.eye) / np.linalg.norm(view.target - view.eye)
    right = np.cross(forward, view.up)
    right /= np.linalg.norm(right)
    away = np.asarray(point) - view.eye
    scale = 0.5 * height / np.tan(np.radians(view.fovy) / 2) / (away @ forward)
    return np.array([0.5 * width + scale * (away @ right), 0.5 * height - scale * (away @ np.cross(right, forward))])


@pytest.fixture(scope="module")
def room():
    return Scene(scenery.ground).add(lambda: scenery.ball(0.1, 0.05), "ball", pos=(0, 0, 0.1)).compile(visual=True)


@pytest.mark.parametrize(
    ("marker", "middle"),
    [
        ({"pos": (0.0, 0.3, 0.6), "size": 0.06}, (0.0, 0.3, 0.6)),
        ({"pos": (0.2, -0.3, 0.6), "size": (0.05, 0.1, 0.02), "shape": "box"}, (0.2, -0.3, 0.6)),
        ({"pos": (0.2, -0.3, 0.6), "size": 0.05, "shape": "box", "quat": (0.9, 0.1, 0.3, 0.0)}, (0.2, -0.3, 0.6)),
        ({"pos": (0.0, 0.2, 0.5), "end": (0.0, 0.4, 0.7), "size": 0.04, "shape": "cylinder"}, (0.0, 0.3, 0.6)),
        ({"pos": (0.0, 0.2, 0.5), "end": (0.1, 0.2, 0.9), "size": 0.02, "shape": "arrow"}, (0.05, 0.2, 0.7)),
    ],
)
def test_a_marker_appears_where_its_place_is_projected(room, backend, marker, middle):
    width, height = 240, 160
    data = mujoco.MjData(room)
    marker = marker | {"rgba": (1.0, 0.0, 0.0, 1.0)}
    options = {"width": width, "height": height, "camera": STAND, "backend": backend}
    with Renderer(room, **options) as renderer:
        without = renderer.render(data).astype(int)
        seen = renderer.render(data, [marker]).astype(int)
    change = seen - without
    y, x = np.nonzero((np.abs(change).max(-1) > 40) & (change[..., 0] >= change[..., 2]))
    expected = pixel(Composer(room, height, camera=STAND).compose(data), middle, width, height)
    assert len(x) > 30
    assert np.linalg.norm([x.mean() + 0.5 - expected[0], y.mean() + 0.5 - expected[1]]) < 5.0


def test_an_arrow_is_wider_at_its_end(room, backend):
    marker = {"pos": (0.0, -0.3, 0.5), "end": (0.0, 0.3, 0.5), "size": 0.03, "shape": "arrow", "rgba": (1, 0, 0, 1)}
    options = {"width": 240, "height": 160, "camera": ((-2.0, 0.0, 0.6), (0.0, 0.0, 0.5)), "backend": backend}
    with Renderer(room, **options) as renderer:
        data = mujoco.MjData(room)
        change = np.abs(renderer.render(data, [marker]).astype(int) - renderer.render(data)).max(-1) > 40
    columns = change.sum(0)
    used = np.flatnonzero(columns)  # +y is to the left
    assert columns[used[: len(used) // 3]].max() > 1.3 * columns[used[-len(used) // 3 :]].max()


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ({"pos": (0, 0, 0), "shape": "bx"}, "did you mean 'box'"),
        ({"pos": (0, 0, 0), "shape": "arrow"}, 'from "pos" to "end"'),
        ({"pos": (0, 0, 0), "end": (0, 0, 0), "shape": "cylinder"}, "two different points"),
    ],
)
def test_markers_that_cannot_be_drawn(marker, message):
    with pytest.raises(RookeryError, match=message):
        marker_shape(marker)


def test_all_drones_of_a_swarm_are_in_the_picture_and_large_enough():
    """At 720p, from corner to corner of the place where they start, a drone of 9 cm is at least 9 pixels wide."""
    env = rookery.make("swarm-surround", 1, seed=3)
    env.reset(3)
    model = env.visual_model()
    frame = Composer(model, 720, camera=env.camera).compose(env.mj_data(0), env.markers(0))
    data = mujoco.MjData(model)
    data.qpos[:] = frame.qpos
    mujoco.mj_kinematics(model, data)
    bases = [i for i in range(model.nbody) if model.body(i).name.endswith("/base")]
    assert len(bases) == 4
    for body in bases:
        x, y = pixel(frame, data.xpos[body], 1280, 720)
        assert 20 < x < 1260 and 20 < y < 700
        left, right = (pixel(frame, data.xpos[body] + [0, s * 0.046, 0], 1280, 720)[0] for s in (1, -1))
        assert abs(right - left) > 9.0
    env.close()


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_place_with_all_points_in_the_picture(seed):
    """All are inside by the border, and from 1 % nearer one is not, or one is more than RATIO times as near as another."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(rng.integers(1, 7), 3)) * rng.uniform(0.1, 3.0, 3)
    back = np.append(rng.normal(size=2), rng.uniform(0.1, 1.0))
    back /= np.linalg.norm(back)
    margin, (width, height) = 0.1, (1280, 720)
    target, distance = Lens(back, 45.0, width / height).fit(points, margin)

    def kept(distance: float) -> bool:
        eye = target + distance * back
        depths = (eye - points) @ back
        if depths.min() <= 0.0 or depths.max() > (RATIO + 1e-6) * depths.min():
            return False
        frame = Frame(*4 * [np.zeros(1)], View(eye, target, np.array([0.0, 0.0, 1.0]), 45.0), [])
        away = np.array([pixel(frame, p, width, height) for p in points]) - 0.5 * np.array([width, height])
        room = 0.5 * height / np.tan(np.radians(22.5)) * margin / depths
        return bool((np.abs(away) + room[:, None] <= (1 - BORDER) * np.array([640, 360]) + 1e-6).all())

    assert kept(distance)
    assert not kept(0.99 * distance)


def test_a_drone_that_leaves_the_swarm_stays_in_the_picture():
    """At 8 m/s, faster than the camera moves along."""
    env = rookery.make("swarm-surround", 1, seed=3)
    env.reset(3)
    composer = Composer(env.visual_model(), 720, camera=env.camera)
    data = env.mj_data(0)
    for k in range(40):
        data.time = k / 30
        data.qpos[1] += 8.0 / 30
        frame = composer.compose(data, env.markers(0))
        for place in data.qpos.reshape(-1, 7)[:, :3]:
            x, y = pixel(frame, place, 1280, 720)
            assert 0 < x < 1280 and 0 < y < 720
    env.close()


def test_a_camera_that_follows_the_ball_keeps_its_direction(room):
    composer = Composer(room, 360, camera=Follow((0.0, -5.0, 3.0), (0.0, 0.0, 1.0)))
    data = mujoco.MjData(room)
    for k in range(30):
        data.time = k / 30
        data.qpos[:3] = (0.2 * k, 0.0, 1.0 + 0.05 * k)
        frame = composer.compose(data)
        x, y = pixel(frame, data.qpos[:3], 640, 360)
        assert 0 < x < 640 and 0 < y < 360
        back = frame.view.eye - frame.view.target
        assert np.allclose(back / np.linalg.norm(back), np.array([0, -5, 2]) / np.hypot(5, 2))


def test_chase_left_stands_behind_on_the_left_whatever_the_heading(room):
    data = mujoco.MjData(room)
    for yaw in (0.0, 2.0):
        data.qpos[:7] = (0.0, 0.0, 1.0, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
        view = Composer(room, 360, camera="chase-left").compose(data).view
        away = view.eye - view.target
        ahead, left = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]]) @ away[:2]
        assert ahead < 0 < left and away[2] > 0


def test_chase_above_looks_steeply_down(room):
    data = mujoco.MjData(room)
    view = Composer(room, 360, camera="chase-above").compose(data).view
    away = view.eye - view.target
    assert away[2] > 1.5 * np.hypot(*away[:2]) > 0


def test_more_samples_smooth_edges_and_change_nothing_else(room):
    """The edge of a ball against the floor: in steps with one sample, with shades in between with four."""
    if opengl.find_backend() is None:
        pytest.skip(opengl.describe())
    data = mujoco.MjData(room)
    data.qpos[2] = 0.4
    pictures = []
    for samples in (1, 4):
        with Renderer(room, width=96, height=64, camera=STAND, samples=samples) as renderer:
            pictures.append(renderer.render(data).astype(int))
    rough, fine = pictures
    assert abs(rough.mean() - fine.mean()) < 1.0
    ball = np.argwhere(rough[..., 0] - rough[..., 2] > 80)
    assert len(ball) > 20
    assert np.abs(rough - fine).max() > 20
    y, x = ball.mean(0).astype(int)
    assert np.abs(rough - fine)[y, x].max() < 6


@pytest.mark.parametrize("camera", ["chase", "chase-left", "group", Follow((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))])
def test_the_first_picture_is_where_the_camera_rests(camera):
    """While nothing moves the camera does not either, wherever a marker is: the first picture has no place of its own."""
    body = "<body pos='{} 0 0'><freejoint/><geom size='.05' mass='1'/></body>"
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body.format(0)}{body.format(2)}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for markers in ([], [np.array([0.4, 0.0, 0.2])], [np.array([3.0, -2.0, 1.0])]):
        man = cameraman(model, camera, 1, 0.05, 16 / 9)
        views = []
        for k in range(50):
            data.time = k / 25
            views.append(man.view(data, markers))
        moved = max(np.abs([v.eye - views[0].eye, v.target - views[0].target]).max() for v in views)
        assert moved < 1e-6
