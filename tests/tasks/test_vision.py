"""Onboard pictures as observations: a hovering task that sees, wired as every drone task is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import rookery
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.sensors.cameras import CLASSES, Cameras
from rookery.sim.sensors.pictures import Marks, PictureConfig, beacon, picture_terms
from rookery.tasks.drones.hover import Hover, HoverConfig

TARGET = CLASSES.index("target")
WIDTH = 24
HEIGHT = 18
KINDS = ("depth", "rgb", "segmentation")


@dataclass(frozen=True)
class SeeingConfig(HoverConfig):
    """Hover with pictures."""

    image_width: int = WIDTH
    image_height: int = HEIGHT


class SeeingHover(Hover):
    """Hover before a beacon that is only to be seen."""

    Config: ClassVar[type] = SeeingConfig
    cfg: Any
    shared = False

    def marks(self) -> Marks:
        return super().marks()._replace(own=not self.shared)


def make(obs: str, n: int = 3, engine: str = "mujoco", **config: Any) -> VecEnv:
    task = SeeingHover(SeeingConfig(obs=obs, **config))
    env = VecEnv(task, make_world(engine, task.scene(), n))
    env.reset(seed=3)
    return env


def neutral(env: VecEnv) -> Tensor:
    group = env.groups["drone"]
    return torch.tensor(group.action.neutral, dtype=torch.float32).expand(env.num_envs, group.count, 4)


def put(env: VecEnv, pos: Tensor, quat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)) -> None:
    """Teleport all drones to pos [N, A, 3], at rest."""
    state = torch.zeros(*pos.shape[:2], 13)
    state[..., :3] = pos
    state[..., 3:7] = torch.tensor(quat)
    env.task.drones.bodies.set_state(None, state)
    env.world.forward()


def picture(env: VecEnv, obs: Tensor) -> Tensor:
    """The picture's part of observations [N, A, O]."""
    name = env.task.cfg.obs
    return obs[..., env.groups["drone"].slices()[name]]


def test_state_stays_as_it_was():
    assert picture_terms(PictureConfig(), [("onboard",)], "camera") == ()
    seeing = make("state")
    plain = VecEnv(Hover(), make_world("mujoco", Hover().scene(), 3))
    assert not seeing.task.sees and not seeing.sensors.on
    assert torch.equal(seeing.reset(seed=1)[0]["drone"], plain.reset(seed=1)[0]["drone"])


@pytest.mark.parametrize("obs", KINDS)
def test_the_policy_gets_every_pixel_between_0_and_1(obs):
    env = make(obs)
    pixels = WIDTH * HEIGHT * (3 if obs == "rgb" else 1)
    assert env.groups["drone"].observation_size == 13 + pixels
    seen = picture(env, env.step(neutral(env))[0]["drone"])
    assert seen.shape == (3, 1, pixels)
    assert seen.min() >= 0.0
    assert seen.max() <= 1.0
    assert seen.std() > 0.05
    camera = Cameras(env.world, ["drone_0/onboard"], WIDTH, HEIGHT, obs, 10.0)
    camera.spheres(*beacon(env.task.target)[:2])
    whole = {"depth": 10.0, "rgb": 255.0, "segmentation": len(CLASSES) - 1}[obs]
    assert torch.allclose(seen, camera.read().flatten(2) / whole, atol=1e-6)
    (term,) = env.task.pictures()
    shaped = seen.view(3, 1, *term.shape)[:, 0]
    assert torch.allclose(shaped, camera.read().view(shaped.shape) / whole, atol=1e-6)
    assert term.shape == (1, HEIGHT, WIDTH, pixels // (WIDTH * HEIGHT))


@pytest.mark.parametrize("obs", KINDS)
def test_every_engine_shows_the_same(obs):
    pictures = []
    pos = torch.tensor([[[0.2, -0.1, 2.1], [-0.5, 0.4, 1.5]]]).expand(2, 2, 3)
    for engine in ("mujoco", "rotor", "pybullet"):
        env = make(obs, 2, engine, num_drones=2)
        put(env, pos, (0.96, 0.0, 0.0, 0.28))
        env.task.target.copy_(torch.tensor([0.5, 0.5, 2.0]))
        pictures.append(env.observe_terms()["drone"][obs].clone())
        env.close()
    for other in pictures[1:]:
        assert ((other - pictures[0]).abs() > 1e-3).float().mean() < 2e-3


def test_at_its_target_a_drone_sees_all_of_its_beacon():
    env = make("segmentation", 1, image_width=80, image_height=60)
    put(env, env.task.target)
    seen = env.observe_terms()["drone"]["segmentation"].view(60, 80) == TARGET
    columns = seen.any(0).nonzero().flatten()
    rows = seen.any(1).nonzero().flatten()
    assert columns[0] > 0
    assert columns[-1] < 79
    assert rows[0] > 0
    left = seen[:, :32]
    middle = seen[:, 32:48]
    right = seen[:, 48:]
    assert left.any()
    assert right.any()
    assert middle[: 60 // 2].any()  # the third ball stands above
    assert torch.equal(seen, seen.flip(1))  # straight ahead: the picture is its own mirror image


def test_the_beacon_grows_as_a_drone_nears_it_and_leaves_the_picture_when_it_turns_away():
    env = make("segmentation", 1)
    sizes = []
    for ahead in (-0.8, 0.0, 0.6):
        put(env, env.task.target + torch.tensor([ahead, 0.0, 0.0]))
        sizes.append(int((env.observe_terms()["drone"]["segmentation"] == TARGET).sum()))
    assert 0 < sizes[0] < sizes[1] < sizes[2]
    put(env, env.task.target, (0.0, 0.0, 0.0, 1.0))
    assert not (env.observe_terms()["drone"]["segmentation"] == TARGET).any()


def test_drones_see_each_other_and_only_their_own_marks():
    env = make("segmentation", 1, num_drones=2)
    target = torch.tensor([[[0.0, 0.0, 2.0], [0.0, 8.0, 2.0]]])
    env.task.target.copy_(target)
    put(env, torch.tensor([[[0.0, 0.0, 2.0], [0.25, 0.0, 1.97]]]))
    first, second = env.observe_terms()["drone"]["segmentation"][0]
    assert (first == TARGET).any()
    assert (first == CLASSES.index("drone")).any()
    assert not (second == TARGET).any()
    assert not (second == CLASSES.index("drone")).any()
    env.task.shared = True
    assert (env.observe_terms()["drone"]["segmentation"][0, 1] == TARGET).any()


def test_a_new_episode_begins_with_its_own_picture():
    env = make("depth", 4, episode_s=0.05)
    for _ in range(4):
        env.step(neutral(env))
    obs, _, _, truncated, info = env.step(neutral(env))
    assert truncated.all()
    first = picture(env, obs["drone"])
    last = picture(env, info["final_observation"]["drone"])
    assert (first - last).abs().amax(dim=(1, 2)).min() > 0.05
    assert torch.equal(first, env.observe_terms()["drone"]["depth"] * env.groups["drone"].observation[-1].scale)


def test_seed_and_resume_give_the_same_pictures():
    env = make("rgb")
    other = make("rgb")
    env.step(neutral(env))
    saved = env.state_dict()
    expected = env.step(neutral(env))[0]["drone"]
    other.load_state_dict(saved)
    assert torch.equal(other.step(neutral(other))[0]["drone"], expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"obs": "dept"}, "did you mean 'depth'"),
        ({"obs": "rgb", "image_width": 0}, "must be positive"),
        ({"obs": "depth", "image_range_m": 0.0}, "must be positive"),
    ],
)
def test_refusals(config, message):
    with pytest.raises(RookeryError, match=message):
        Hover(HoverConfig(**config))


def test_the_cameras_of_drones_differ_where_that_is_drawn():
    env = rookery.make("drone-hover", 4, config={"obs": "depth"}, randomize="all", seed=1)
    env.reset()
    names = env.randomization.names
    assert {"visual_camera_shift", "visual_camera_tilt", "visual_fov"} <= set(names)
    (reader,) = env.sensors.readers["drone"].values()
    look = reader.cameras.look
    fov = env.randomization.values[:, names.index("visual_fov")]
    half = 0.5 * float(reader.cameras.fovy[0])
    torch.testing.assert_close(look.zoom[:, 0], torch.tan(fov * half) / math.tan(half), rtol=1e-5, atol=1e-6)
    assert len(look.pos[:, 0, 0].unique()) == 4
    nominal = rookery.make("drone-hover", 4, config={"obs": "depth"}, seed=1)
    assert "visual_fov" in nominal.randomization.parameters and not nominal.randomization.names
