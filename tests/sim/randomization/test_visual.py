"""Each visual switch changes what it names and nothing else, in its own worlds, and the same seed gives the same pictures."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from rookery.assets import scenery
from rookery.assets.drones import look_along
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.ranges import Randomization, Range
from rookery.sim.randomization.visual import SPREAD, VisualRandomization
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import Cameras
from rookery.sim.sensors.shading import AMBIENT, BRIGHTNESS, HORIZON, SUN, TINT, ZENITH

GEOM = mujoco.mjtGeom
N, W, H = 6, 48, 36
EVERY = torch.arange(N)
WHAT = ("paint", "texture", "light", "pos", "mat", "zoom")


def room() -> mujoco.MjSpec:
    spec = scenery.ground()
    for i, kind in enumerate((GEOM.mjGEOM_BOX, GEOM.mjGEOM_SPHERE, GEOM.mjGEOM_CYLINDER)):
        spec.worldbody.add_geom(name=f"thing_{i}", type=kind, size=[0.3, 0.3, 0.3], pos=[2, i - 1.0, 0.6])
    spec.worldbody.add_camera(name="ahead", pos=[0, 0, 1], quat=list(look_along([1, 0, -0.1])), fovy=60)
    spec.worldbody.add_camera(name="above", pos=[1.5, 0.2, 3], quat=list(look_along([0.3, 0, -1])), fovy=50)
    return spec


def arm() -> mujoco.MjSpec:
    """A hand with a camera on a joint."""
    spec = mujoco.MjSpec()
    hand = spec.worldbody.add_body(name="hand")
    hand.add_joint(name="hinge", axis=[0, 0, 1])
    hand.add_geom(name="palm", type=GEOM.mjGEOM_SPHERE, size=[0.1, 0, 0])
    hand.add_camera(name="wrist", pos=[0.1, 0, 0.05], quat=list(look_along([1, 0, 0])), fovy=60)
    return spec


def world() -> MujocoWorld:
    return MujocoWorld(Scene(room).add(arm, "arm", pos=(0.5, 0, 0.8)), N)


def draw(cameras: list[Cameras], ranges: dict[str, Range], seed: int = 0, times: int = 1) -> VisualRandomization:
    rng = Streams(N, seed)
    visual = VisualRandomization(cameras, rng)
    randomization = Randomization(visual.parameters(), ranges, N, rng)
    for _ in range(times):
        randomization.draw(EVERY)
    return visual


def camera(kind: str = "rgb", *names: str) -> Cameras:
    return Cameras(world(), names or ("ahead",), W, H, kind)


SWITCHES = {
    # switch: a value, what of the look it writes, and which columns of the light
    "visual_color": (1.0, "paint", None),
    "visual_texture": (1.0, "texture", None),
    "visual_light_direction": (1.0, "light", slice(SUN, SUN + 3)),
    "visual_brightness": (0.5, "light", slice(BRIGHTNESS, BRIGHTNESS + 1)),
    "visual_ambient": (0.9, "light", slice(AMBIENT, AMBIENT + 1)),
    "visual_light_color": (0.5, "light", slice(TINT, TINT + 3)),
    "visual_sky": (1.0, "light", slice(ZENITH, HORIZON + 3)),
    "visual_camera_shift": (0.1, "pos", None),
    "visual_camera_tilt": (0.1, "mat", None),
    "visual_fov": (1.2, "zoom", None),
}


def test_there_is_a_test_and_a_spread_for_every_switch():
    assert set(SWITCHES) == set(SPREAD) == set(VisualRandomization([camera()], Streams(N, 0)).parameters())


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_changes_what_it_names_and_nothing_else(name):
    value, what, columns = SWITCHES[name]
    eye = camera()
    before = {key: getattr(eye.look, key).clone() for key in WHAT}
    plain = eye.read().clone()
    draw([eye], {name: Range(value, value)})
    for key in WHAT:
        now = getattr(eye.look, key)
        old = before[key]
        if key != what:
            assert torch.equal(now, old), key
            continue
        changed = (now != old).flatten(1).any(1)
        assert changed.all(), key
        if columns is not None:
            mask = torch.ones(now.shape[-1], dtype=torch.bool)
            mask[columns] = False
            assert torch.equal(now[:, mask], old[:, mask])
    picture = eye.read()
    assert all((picture[i] != plain[i]).float().mean() > 0.01 for i in range(N))


@pytest.mark.parametrize("name", SWITCHES)
def test_the_nominal_value_leaves_the_pictures_as_the_scene_has_them(name):
    eye = camera()
    plain = eye.read().clone()
    nominal = VisualRandomization([eye], Streams(N, 0)).parameters()[name].nominal
    draw([eye], {name: Range(nominal, nominal)})
    assert (eye.read().int() - plain.int()).abs().max() <= 1  # a rounding of colors


@pytest.mark.parametrize("name", SWITCHES)
def test_only_switches_of_the_camera_move_depths(name):
    eye = camera("depth")
    plain = eye.read().clone()
    draw([eye], {name: Range(SWITCHES[name][0], SWITCHES[name][0])})
    assert torch.equal(eye.read(), plain) != (name in ("visual_camera_shift", "visual_camera_tilt", "visual_fov"))


def test_seeds_reproduce_and_worlds_and_episodes_differ():
    pictures = []
    for seed in (0, 0, 1):
        eye = camera()
        draw([eye], SPREAD, seed)
        pictures.append(eye.read().clone())
    assert torch.equal(pictures[0], pictures[1])
    assert not torch.equal(pictures[0], pictures[2])
    for i in range(1, N):
        assert not torch.equal(pictures[0][0], pictures[0][i])
    eye = camera()
    draw([eye], SPREAD, times=2)
    assert not torch.equal(eye.read(), pictures[0])


def test_other_worlds_keep_their_look():
    eye = camera()
    rng = Streams(N, 0)
    randomization = Randomization(VisualRandomization([eye], rng).parameters(), SPREAD, N, rng)
    randomization.draw(EVERY)
    before = eye.read().clone()
    randomization.draw(torch.tensor([1, 4]))
    changed = [bool((eye.read()[i] != before[i]).any()) for i in range(N)]
    assert changed == [False, True, False, False, True, False]


def test_a_camera_that_two_share_is_moved_once():
    w = world()
    color, depth = (Cameras(w, ["above", "ahead"], W, H, kind) for kind in ("rgb", "depth"))
    wrist = Cameras(w, ["arm/wrist"], W, H, "rgb")
    draw([color, depth, wrist], SPREAD)
    for key in WHAT:
        assert torch.equal(getattr(color.look, key), getattr(depth.look, key)), key
    assert torch.equal(color.look.paint, wrist.look.paint)
    assert not torch.equal(color.look.pos[:, 0] - color.look.pos[:1, 0], color.look.pos[:, 1] - color.look.pos[:1, 1])


def test_shift_tilt_and_angles_have_the_size_that_is_asked_for():
    eye = camera("rgb", "ahead", "above")
    nominal = eye.look.pos[0].clone(), eye.look.mat[0].view(-1, 3, 3).clone()
    sun = eye.look.light[0, SUN : SUN + 3].clone()
    fixed = {"visual_camera_shift": 0.07, "visual_camera_tilt": 0.2, "visual_light_direction": 0.9, "visual_fov": 1.25}
    draw([eye], {k: Range(v, v) for k, v in fixed.items()})
    assert torch.allclose((eye.look.pos - nominal[0]).norm(dim=-1), torch.tensor(0.07), atol=1e-6)
    turn = eye.look.mat.view(N, 2, 3, 3) @ nominal[1].transpose(-1, -2)
    angle = torch.acos((turn.diagonal(dim1=-2, dim2=-1).sum(-1) - 1.0) / 2.0)
    assert torch.allclose(angle, torch.tensor(0.2), atol=1e-3)
    between = torch.nn.functional.cosine_similarity(eye.look.light[:, SUN : SUN + 3], sun[None])
    assert torch.allclose(between, torch.tensor(math.cos(0.9)), atol=1e-4)
    focal = eye.intrinsics()[..., 0]
    assert torch.allclose(2 * torch.atan(0.5 * H / focal), 1.25 * torch.tensor([60.0, 50.0]).deg2rad(), atol=1e-4)
    assert torch.allclose(eye.intrinsics(nominal=True)[..., 0], 0.5 * H / torch.tensor([30.0, 25.0]).deg2rad().tan())


def test_a_wider_angle_is_the_wider_cameras_picture():
    """Depths with a factor on the angle of view are those of a camera that the scene has with that angle."""

    def wide() -> mujoco.MjSpec:
        spec = room()
        spec.worldbody.add_camera(name="wide", pos=[0, 0, 1], quat=list(look_along([1, 0, -0.1])), fovy=75)
        return spec

    w = MujocoWorld(Scene(wide), N)
    normal, wanted = (Cameras(w, [name], W, H, "depth") for name in ("ahead", "wide"))
    draw([normal], {"visual_fov": Range(1.25, 1.25)})
    off = (normal.read() - wanted.read()).abs()
    assert (off > 1e-3).float().mean() < 0.005


def test_a_wrist_camera_stays_shifted_in_the_hands_frame():
    w = world()
    wrist = Cameras(w, ["arm/wrist"], W, H, "depth")
    draw([wrist], {"visual_camera_shift": Range(0.05, 0.05), "visual_camera_tilt": Range(0.1, 0.1)})
    hinge = w.joints(["arm/hinge"])
    hand = w.bodies(["arm/hand"])
    for angle in (0.0, 0.7):
        hinge.set_state(None, torch.full((N, 1), angle))
        w.forward()
        pos, mat = wrist.poses()
        own = (pos - hand.pos)[..., :2].squeeze(1)
        c, s = math.cos(angle), math.sin(angle)
        assert torch.allclose(own @ torch.tensor([[c, -s], [s, c]]), wrist.look.pos[:, 0, :2], atol=1e-5)
        assert torch.allclose(mat.transpose(-1, -2) @ mat, torch.eye(3).expand(N, 1, 3, 3), atol=1e-5)
        before = wrist.read().clone()
    hinge.set_state(None, torch.full((N, 1), -0.7))
    w.forward()
    assert all(not torch.equal(wrist.read()[i], before[i]) for i in range(N))


def test_a_resumed_run_sees_the_same():
    eye = camera()
    visual = draw([eye], SPREAD)
    pictures = eye.read().clone()
    saved = visual.state_dict()
    other = camera()
    fresh = VisualRandomization([other], Streams(N, 5))
    other.read()
    fresh.load_state_dict(saved)
    assert torch.equal(other.read(), pictures)


def test_refusals():
    with pytest.raises(RookeryError, match="cameras of one world"):
        VisualRandomization([], Streams(N, 0))
    with pytest.raises(RookeryError, match="cameras of one world"):
        VisualRandomization([camera(), camera()], Streams(N, 0))
    eye = camera()
    with pytest.raises(RookeryError, match="did you mean 'visual_color'"):
        draw([eye], {"visual_colour": Range(0.0, 1.0)})
    with pytest.raises(RookeryError, match="must be a range within"):
        draw([eye], {"visual_fov": Range(0.1, 1.0)})
