"""Pictures are not black, show what they should, and videos last as long as what they show."""

from __future__ import annotations

import math
from pathlib import Path

import imageio_ffmpeg
import mujoco
import numpy as np
import pytest
import torch
from PIL import Image
from sampled import slow_but

import rookery
from rookery.assets import scenery
from rookery.assets.drones import quadrotor_spec
from rookery.sim.deployment import Deployment
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.gauge import Gauge
from rookery.sim.rendering import opengl
from rookery.sim.rendering.mosaic import grid
from rookery.sim.rendering.overlay import Overlay, layout
from rookery.sim.rendering.renderer import Renderer
from rookery.sim.rendering.takes import Take
from rookery.sim.rendering.video import contact_sheet, record_video
from rookery.sim.scene import Scene

SIZE = {"width": 96, "height": 64}


def drone():
    places = [(0.03, -0.03, 0), (-0.03, -0.03, 0), (-0.03, 0.03, 0), (0.03, 0.03, 0)]
    return quadrotor_spec(
        mass=0.03,
        inertia=(1e-5, 1e-5, 2e-5),
        rotor_positions=places,
        propeller_radius=0.023,
        rotor_directions=(-1, 1, -1, 1),
        body_radius=0.06,
        body_height=0.025,
    )


def scene() -> Scene:
    return Scene(scenery.ground).add(drone, "drone", pos=(0, 0, 1)).add(lambda: scenery.ball(0.1, 0.05), "ball")


@pytest.fixture(scope="module")
def model():
    return scene().compile(visual=True)


@pytest.fixture(params=["opengl", "software"])
def backend(request):
    if request.param == "opengl" and opengl.find_backend() is None:
        pytest.skip(opengl.describe())
    return request.param


class FlyingCircle(Env):
    """A drone led around a circle, one episode a second."""

    num_envs = 2
    control_dt = 0.01
    task_id = "circle"

    def __init__(self):
        self.model = scene().compile()
        self.steps = 0

    def reset(self, seed=None):
        self.steps = 0
        return {}, {}

    def step(self, actions):
        assert actions == "action"
        self.steps += 1
        info = {}
        if self.steps % 100 == 0:
            info["episode"] = {"ids": torch.tensor([0]), "metrics": {"success": torch.ones(1)}}
        return {}, {}, None, None, info

    def close(self):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def visual_model(self, i=0):
        return scene().compile(visual=True)

    def mj_data(self, i, data=None):
        data = mujoco.MjData(self.model)
        angle = 2 * math.pi * 0.01 * self.steps
        data.qpos[:3] = [0.4 * math.cos(angle), 0.4 * math.sin(angle), 1 + 0.2 * i]
        data.time = 0.01 * (self.steps % 100)
        mujoco.mj_forward(self.model, data)
        return data

    def markers(self, i):
        return [{"pos": [0.4, 0.0, 1.0], "size": 0.03, "rgba": [0.1, 0.9, 0.2, 0.6], "trail": True}]

    def metrics(self):
        return {"success": torch.zeros(2), "position_error": torch.full((2,), 0.123)}

    def deployment(self):
        return Deployment(metrics={"position_error": "m, distance from the circle"})


def shoot(model, markers=(), **options):
    data = mujoco.MjData(model)
    with Renderer(model, **{**SIZE, **options}) as renderer:
        return renderer.render(data, markers).astype(int)


def read(path):
    frames = imageio_ffmpeg.read_frames(str(path))
    meta = next(frames)
    return meta, [np.frombuffer(f, np.uint8) for f in frames]


@pytest.mark.parametrize("camera", ["chase", "fixed", "drone/chase", "drone/onboard", ((1, 1, 1), (0, 0, 0.5))])
def test_pictures_are_not_black(model, backend, camera):
    picture = shoot(model, camera=camera, backend=backend)
    assert picture.shape == (64, 96, 3)
    assert 60 < picture.mean() < 230
    assert picture.std() > 5


def test_the_drone_is_in_the_middle(model, backend):
    """Where a chased drone stands, the picture differs from one of an empty floor, and its front is orange."""
    picture = shoot(model, backend=backend, width=192, height=128)
    empty = shoot(model, backend=backend, width=192, height=128, camera=((-0.8, -0.5, 3.4), (0.0, 0.0, 3.0)))
    middle = (slice(44, 84), slice(66, 126))
    assert np.abs(picture - empty)[middle].max(-1).max() > 100
    red, _, blue = np.moveaxis(picture[middle], -1, 0)
    assert ((red - blue) > 90).sum() > 10


@pytest.mark.parametrize("rgba", [(1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 1.0)])
def test_markers_show(model, backend, rgba):
    markers = [{"pos": [0.3, 0.0, 1.0], "size": 0.05, "rgba": rgba}]
    change = shoot(model, markers, backend=backend, camera=((-1, 0, 1.2), (0.3, 0, 1))) - shoot(
        model, backend=backend, camera=((-1, 0, 1.2), (0.3, 0, 1))
    )
    strong = change[np.abs(change).max(-1) > 40]
    assert len(strong) > 10
    assert (strong @ (np.array(rgba[:3]) - 1 / 3) > 0).mean() > 0.9


def test_trails_show_and_a_cut_forgets_them(model, backend):
    view = {"camera": ((-2.0, 0.0, 1.0), (0.0, 0.0, 1.0)), "trails": ["drone/base"], "backend": backend}
    data = mujoco.MjData(model)
    data.qpos[2] = 1.0
    with Renderer(model, **SIZE, **view) as renderer:
        for k in range(11):
            data.time = 0.05 * k
            data.qpos[1] = 0.05 * k
            long = renderer.render(data).astype(int)
        renderer.cut()
        short = renderer.render(data).astype(int)
    assert (np.abs(long - short).max(-1) > 15).sum() > 10


def test_physics_data_and_visual_data_give_the_same_picture(model, backend):
    physics = scene().compile()
    assert physics.ngeom < model.ngeom
    pictures = []
    for source in (model, physics):
        data = mujoco.MjData(source)
        data.qpos[:3] = [0.2, 0.1, 0.7]
        with Renderer(model, **SIZE, backend=backend) as renderer:
            pictures.append(renderer.render(data))
    assert np.array_equal(*pictures)


def test_the_chased_drone_never_leaves_the_picture(model):
    with Renderer(model, **SIZE, backend="software") as renderer:
        data = mujoco.MjData(model)
        for k in range(20):  # 9 m/s
            data.time = k / 30
            data.qpos[0] = 0.3 * k
            data.qpos[2] = 1.0
            renderer.render(data)
            view = renderer._cameraman.view(renderer._data, [])
            off = np.linalg.norm(renderer._data.body("drone/base").xpos - view.target)
            assert off <= 0.26 * np.linalg.norm(view.eye - view.target)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"camera": "drone/onbord"}, "did you mean 'drone/onboard'"),
        ({"camera": ((0, 0, 1), (0, 0, 1))}, "two different points"),
        ({"focus": "drone/bas"}, "did you mean 'drone/base'"),
        ({"trails": ["x"]}, "unknown body"),
        ({"backend": "vulkan"}, "unknown rendering back end"),
        ({"width": 2}, "too small"),
    ],
)
def test_renderer_refuses(model, options, message):
    with pytest.raises(RookeryError, match=message):
        Renderer(model, **options)


def test_renderer_refuses_another_scene(model):
    other = Scene(scenery.ground).add(drone, "drone").compile()
    with Renderer(model, **SIZE, backend="software") as renderer, pytest.raises(RookeryError, match="same scene"):
        renderer.render(mujoco.MjData(other))


def test_no_renderer_at_all(model, monkeypatch):
    monkeypatch.setattr(opengl, "find_backend", lambda: None)
    monkeypatch.setitem(__import__("sys").modules, "pybullet", None)
    with pytest.raises(RookeryError, match="nothing to draw with"):
        Renderer(model)
    with pytest.raises(RookeryError, match="OpenGL"):
        Renderer(model, backend="opengl")


def test_software_takes_over(model, monkeypatch):
    monkeypatch.setattr(opengl, "find_backend", lambda: None)
    with Renderer(model, **SIZE) as renderer:
        assert renderer.backend == "software"


@pytest.mark.parametrize(("suffix", "fps"), slow_but([(".gif", 20)], [(".mp4", 30), (".mp4", 25), (".gif", 20)]))
def test_video_lasts_as_long_as_what_it_shows(tmp_path, backend, suffix, fps):
    env = FlyingCircle()
    path = tmp_path / "deep" / f"video{suffix}"
    made = record_video(env, lambda obs: "action", path, seconds=1.2, fps=fps, backend=backend, **SIZE)
    assert made.path == path
    assert made.frames == round(1.2 * fps)
    assert made.seconds == pytest.approx(1.2)
    assert made.episodes == 1
    assert env.steps == math.ceil((made.frames - 1) / fps / env.control_dt - 1e-6)
    meta, frames = read(path)
    assert len(frames) == made.frames
    assert meta["size"] == (96, 64)
    assert meta["fps"] == pytest.approx(fps, rel=0.01)
    assert np.mean(frames[0]) > 40
    assert not np.array_equal(frames[0], frames[-1])
    assert [f.name for f in path.parent.iterdir()] == [path.name]  # nothing half-written is left


def test_slow_control_repeats_frames(tmp_path):
    env = FlyingCircle()
    env.control_dt = 0.1
    made = record_video(env, lambda obs: "action", tmp_path / "f.mp4", seconds=0.5, fps=30, backend="software", **SIZE)
    assert made.frames == 15
    assert env.steps == 5


@pytest.mark.parametrize(
    ("metric", "definition", "line"),
    [
        ("position_error", "m, distance from the circle", "position error 0.123 m"),
        ("velocity_error", "m/s, the same of the velocity", "velocity error 0.123 m/s"),
        ("error_m", "m, mean distance", "error 0.123 m"),
        ("rate_mbit", "Mbit/s, mean of all users", "rate 0.123 Mbit/s"),
        ("torque_peak", "N m, the largest", "torque peak 0.123 N m"),
        ("hits", "hits of the ball, all together", "hits 0.123"),
        ("around", "1, of the way", "around 0.123"),
        ("error_m", "", "error m 0.123"),
    ],
)
def test_overlay_says_the_unit_of_the_definition(metric, definition, line):
    """Whatever the metric's name ends in."""
    env = FlyingCircle()
    env.metrics = lambda: {"success": torch.zeros(2), metric: torch.full((2,), 0.123)}
    env.deployment = lambda: Deployment(metrics={metric: definition} if definition else {})
    assert Overlay(env, 0).lines(0.5, env.metrics())[1].text == line


def test_overlay_is_drawn_inside_the_picture(tmp_path):
    frames = {}
    for overlay in (True, False):
        path = tmp_path / f"{overlay}.mp4"
        record_video(
            FlyingCircle(), lambda obs: "action", path, seconds=0.1, overlay=overlay, backend="software",
            width=320, height=240,
        )  # fmt: skip
        frames[overlay] = read(path)[1][-1].reshape(240, 320, 3).astype(int)
    changed = np.abs(frames[True] - frames[False]).max(-1) > 60
    y, x = np.nonzero(changed)
    assert len(y) > 300
    assert x.max() < 200
    assert y.max() < 80


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("video.avi", {}, "a video is a .mp4 or .gif file"),
        ("video.mp4", {"camera": "chaes"}, "did you mean 'chase'"),
        ("video.mp4", {"width": 97}, "even"),
        ("video.mp4", {"seconds": 0}, "needs a length"),
        ("video.mp4", {"seconds": float("nan")}, "needs a length"),
        ("video.mp4", {"seconds": 1e300}, "needs a length"),
        ("video.mp4", {"fps": 0}, "fps"),
        ("video.mp4", {"world": 2}, "no world 2"),
        ("file/video.mp4", {}, "cannot write"),
    ],
)
def test_video_refuses(tmp_path, name, options, message):
    (tmp_path / "file").touch()
    with pytest.raises(RookeryError, match=message):
        record_video(
            FlyingCircle(), lambda obs: "action", tmp_path / name, **{"backend": "software", **SIZE, **options}
        )
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


def test_a_broken_policy_leaves_no_video(tmp_path):
    path = tmp_path / "video.mp4"
    path.write_bytes(b"the old one")

    def act(obs):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        record_video(FlyingCircle(), act, path, backend="software", **SIZE)
    assert path.read_bytes() == b"the old one"
    assert [f.name for f in tmp_path.iterdir()] == ["video.mp4"]


def test_contact_sheet_of_frames_and_of_a_video(tmp_path):
    frames = [np.full((48, 64, 3), 10 * k, np.uint8) for k in range(24)]
    sheet = contact_sheet(frames, tmp_path / "sheet.png", columns=3, rows=2, width=80)
    picture = np.asarray(Image.open(sheet))
    assert picture.shape == (2 * (60 + 4) + 4, 3 * (80 + 4) + 4, 3)
    assert picture[14, 74].tolist() == [0, 0, 0]
    assert abs(int(picture[78, 242, 0]) - 230) <= 1

    record_video(
        FlyingCircle(), lambda obs: "action", tmp_path / "f.gif", seconds=0.5, fps=10, backend="software", **SIZE
    )
    sheet = contact_sheet(str(tmp_path / "f.gif"), tmp_path / "sheet2.png")
    assert Image.open(sheet).size == (4 * 324 + 4, 3 * (213 + 4) + 4)


def test_contact_sheet_refuses(tmp_path: Path):
    (tmp_path / "bad.mp4").write_bytes(b"no video at all")
    frames = [np.zeros((48, 64, 3), np.uint8)]
    cases = [
        (tmp_path / "missing.mp4", "s.png", {}, "no video"),
        (tmp_path / "bad.mp4", "s.png", {}, "cannot be read as a video"),
        ([], "s.png", {}, "no frames"),
        (frames, "s.jpg", {}, "png file"),
        (frames, "s.png", {"columns": 0}, "columns"),
        (frames, "bad.mp4/s.png", {}, "cannot write"),
    ]
    for source, name, options, message in cases:
        with pytest.raises(RookeryError, match=message):
            contact_sheet(source, tmp_path / name, **options)


def test_worlds_stand_in_a_grid_and_policies_side_by_side(tmp_path):
    """World 1 flies 20 cm above world 0; each tile has the picture that its world has alone."""
    options = {"seconds": 0.1, "backend": "software", "overlay": False, "width": 196, "height": 64}
    record_video(FlyingCircle(), lambda obs: "action", tmp_path / "two.mp4", worlds=2, **options)
    meta, frames = read(tmp_path / "two.mp4")
    assert meta["size"] == (196, 64)
    whole = frames[-1].reshape(64, 196, 3).astype(int)
    for world in range(2):
        path = tmp_path / f"{world}.mp4"
        record_video(FlyingCircle(), lambda obs: "action", path, world=world, **(options | SIZE))
        alone = read(path)[1][-1].reshape(64, 96, 3).astype(int)
        tile = whole[:, 100 * world : 100 * world + 96]
        assert np.abs(tile - alone).mean() < 4.0
    beside = (FlyingCircle(), lambda obs: "action")
    made = record_video(FlyingCircle(), lambda obs: "action", tmp_path / "b.mp4", beside=beside, **options)
    assert made.frames == 3
    both = read(tmp_path / "b.mp4")[1][-1].reshape(64, 196, 3).astype(int)
    assert np.abs(both[:, :96] - both[:, 100:]).mean() < 4.0  # they do the same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worlds": 3, "width": 320, "height": 240}, "no world 2"),
        ({"worlds": 0}, "1 world or more"),
        ({"slow": 0.5}, "1 to 100 times slower"),
        ({"slow": 2.0, "worlds": 2}, "contacts of one world alone"),
    ],
)
def test_grids_and_slow_motion_that_cannot_be(tmp_path, options, message):
    with pytest.raises(RookeryError, match=message):
        record_video(FlyingCircle(), lambda obs: "action", tmp_path / "v.mp4", backend="software", **(SIZE | options))


def test_grid_is_nearly_square_and_refuses_tiny_tiles():
    assert [(g.columns, g.rows) for g in (grid(n, 1280, 720) for n in (1, 2, 4, 9, 10))] == [
        (1, 1), (2, 1), (2, 2), (3, 3), (4, 3),
    ]  # fmt: skip
    assert grid(9, 1280, 720).size == (424, 237)
    with pytest.raises(RookeryError, match="too many"):
        grid(400, 640, 480)


class FallingBall(FlyingCircle):
    """A ball that hits the floor after half a second, in control steps of 20 ms."""

    control_dt = 0.02

    def mj_data(self, i, data=None):
        data = mujoco.MjData(self.model)
        time = 0.02 * self.steps
        data.time = time
        data.qpos[:3] = (0.0, 0.5, 1.0)
        ball = self.model.jnt_qposadr[self.model.joint("ball/root").id]
        data.qpos[ball : ball + 3] = (0.0, 0.0, 0.1 + abs(0.5 - time))
        return data


def test_slow_motion_stretches_the_time_around_a_contact():
    take = Take(FallingBall(), lambda obs: "action", [0], "", None, True, (96, 64), touches=True)
    take.begin(0)
    shown = [frame for frame, _ in take.slowed_frames(30, 1.0, 4.0)]
    times = np.array([frame.time for frame in shown])
    steps = np.diff(times)
    assert times[0] == 0.0 and times[-1] > 0.95
    near = np.abs(times[:-1] - 0.5) < 0.1
    assert np.allclose(steps[near], 1 / 120, atol=1e-6)
    far = (times[:-1] < 0.3) | (times[:-1] > 0.75)
    assert np.allclose(steps[far], 1 / 30, atol=1e-6)
    ball = take.model.jnt_qposadr[take.model.joint("ball/root").id]
    heights = np.array([frame.qpos[ball + 2] for frame in shown])
    assert np.allclose(heights, 0.1 + np.abs(0.5 - times), atol=2e-3)  # between control steps too


@pytest.mark.slow
def test_a_hit_that_begins_and_ends_between_control_steps_is_shown_slowly():
    env = rookery.make("volley-solo-bump", 1)
    take = Take(env, env.controller(), [0], "", None, False, (96, 64), touches=True)
    take.begin(3)
    times = np.array([frame.time for frame, _ in take.slowed_frames(30, 1.0, 4.0)])
    hits = [float(line.split()[0]) for line in env.event_log(0) if "hits the ball" in line]
    near = np.abs(times[:-1] - hits[0]) < 0.1
    assert near.sum() > 15
    assert np.allclose(np.diff(times)[near], 1 / 120, atol=1e-6)
    assert np.allclose(np.diff(times)[times[:-1] < hits[0] - 0.2], 1 / 30, atol=1e-6)
    env.close()


@pytest.mark.parametrize("size", [(1280, 720), (424, 237), (200, 150)])
def test_texts_do_not_overlap_and_stay_inside(size):
    lines = ["go2-velocity   12.3 s", "velocity error 0.052 m/s of at most 0.300 m/s", "episode 3: no success"]
    top, bottom = (layout(lines, *size, corner) for corner in ("top", "bottom"))
    assert top.box[3] <= bottom.box[1]
    for panel in (top, bottom):
        left, upper, right, lower = panel.box
        assert left >= 0 and upper >= 0 and right <= size[0] and lower <= size[1]
        ys = [y for _, y in panel.places]
        assert all(b - a >= panel.size for a, b in zip(ys, ys[1:], strict=False))
        assert upper <= ys[0] and ys[-1] + panel.size <= lower


def test_gauges_judge_as_tasks_do_and_write_no_negative_zero():
    assert Gauge("served", float(torch.tensor(0.95)), 0.95, at_most=False).met  # 0.949999988
    assert str(Gauge("lifted", -0.0002, 0.12, "m", at_most=False)) == "lifted 0.000 m of at least 0.120 m"
    assert not Gauge("distance", 0.0501, 0.05, "m").met


def test_gauges_say_what_success_asks_for():
    env = FlyingCircle()
    env.gauges = lambda i: [Gauge("distance", 0.031, 0.05, "m"), Gauge("hits", 2.0, 3.0, at_most=False)]
    first, second = Overlay(env, 0).lines(0.5, env.metrics())[1:]
    assert (first.text, first.met) == ("distance 0.031 m of at most 0.050 m", True)
    assert (second.text, second.met) == ("hits 2 of at least 3", False)
