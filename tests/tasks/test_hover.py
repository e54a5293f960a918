"""drone-hover: starts, errors, success and crashes against what the task says of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import stats
from scipy.spatial.transform import Rotation

import rookery
from rookery.sim.envs.vec_env import VecEnv

GROUND = 1
COLLISION = 2
ASTRAY = 3


def make(n: int = 4, **config: Any) -> VecEnv:
    env = rookery.make("drone-hover", n, config=config)
    env.reset(seed=0)
    return env


def neutral(env: VecEnv) -> torch.Tensor:
    g = env.groups["drone"]
    return torch.tensor(g.action.neutral, dtype=torch.float32).expand(env.num_envs, g.count, 4)


def put(env: VecEnv, pos: torch.Tensor, ids: torch.Tensor | None = None) -> None:
    """Teleport drones, at rest and level, to pos [n, A, 3]."""
    state = torch.zeros(*pos.shape[:2], 13)
    state[..., :3] = pos
    state[..., 3] = 1.0
    env.task.drones.bodies.set_state(torch.arange(env.num_envs) if ids is None else ids, state)


def step(env: VecEnv) -> tuple:
    return env.step(neutral(env))


def seen(env: VecEnv, term: str, world: torch.Tensor) -> torch.Tensor:
    """A vector [N, A, 3] in world axes as the term's declared frame has it, by SciPy's rotations."""
    frame = next(t.frame for t in env.groups["drone"].observation if t.name == term)
    if frame.startswith("world"):
        return world
    quat = env.task.drones.bodies.quat.reshape(-1, 4).double().numpy()
    turned = Rotation.from_quat(quat, scalar_first=True).apply(world.reshape(-1, 3).double().numpy(), inverse=True)
    return torch.from_numpy(turned).float().view_as(world)


def tilt(quat: torch.Tensor) -> torch.Tensor:
    """Angle between body z and world z."""
    return torch.acos((1 - 2 * (quat[..., 1] ** 2 + quat[..., 2] ** 2)).clamp(-1, 1))


def test_starts_are_within_their_ranges_and_fill_them():
    env = make(2000)
    s = env.task.drones.bodies.state[:, 0]
    target = env.task.target[:, 0]
    for values, half in (
        (s[:, :3] - target, 1.0),
        (s[:, 7:10], 0.5),
        (s[:, 10:13], 1.0),
        (target - env.task.places, 0.5),
    ):
        assert values.abs().max() <= half + 1e-5
        for axis in range(3):
            assert stats.kstest(values[:, axis].numpy(), "uniform", args=(-half, 2 * half)).pvalue > 1e-3
    angle = tilt(s[:, 3:7])
    assert angle.max() <= math.radians(30) + 1e-3
    assert angle.max() > math.radians(29)
    heading = torch.atan2(2 * (s[:, 3] * s[:, 6] + s[:, 4] * s[:, 5]), 1 - 2 * (s[:, 5] ** 2 + s[:, 6] ** 2))
    assert stats.kstest(heading.numpy(), "uniform", args=(-math.pi, 2 * math.pi)).pvalue > 1e-3
    assert (s[:, 3:7].norm(dim=-1) - 1).abs().max() < 1e-5
    assert torch.allclose(env.task.drones.rotor_speed, torch.tensor(env.task.drone.hover_speed))
    around = torch.corrcoef(torch.cat((s[:, :3] - target, s[:, 7:13], target - env.task.places), 1).T)
    assert (around - torch.eye(12)).abs().max() < 0.12


def test_starts_follow_the_config():
    env = make(200, start_box_m=0.0, start_speed=0.0, start_tilt=0.0, start_spin=0.0, target_box_m=0.0, height_m=1.3)
    s = env.task.drones.bodies.state[:, 0]
    assert torch.allclose(s[:, :3], torch.tensor([0.0, 0.0, 1.3]))
    assert tilt(s[:, 3:7]).max() < 1e-3
    assert s[:, 7:].abs().max() == 0


def test_no_start_is_a_crash():
    """Of one or of several drones, wherever the ranges put them."""
    for drones in (1, 3):
        env = make(300, num_drones=drones)
        *_, terminated, _, _ = step(env)
        assert not terminated.any()


def test_three_drones_have_targets_of_their_own():
    env = make(50, num_drones=3)
    target = env.task.target
    assert target.shape == (50, 3, 3)
    places = torch.tensor([[0.0, 0, 2], [3, 0, 2], [6, 0, 2]])
    assert (target - places).abs().max() <= 0.5
    offsets = (target - places).transpose(0, 1).reshape(3, -1)
    assert torch.corrcoef(offsets).fill_diagonal_(0).abs().max() < 0.3
    pos = env.task.drones.bodies.pos
    assert (pos - target).abs().max() <= 1.0 + 1e-5
    obs = env.reset()[0]["drone"]
    at = env.groups["drone"].slices()["position_error"]
    error = env.task.target - env.task.drones.bodies.pos
    assert torch.allclose(obs[..., at], seen(env, "position_error", error), atol=1e-5)


def test_the_observation_is_the_state():
    env = make(30)
    obs, *_ = step(env)
    s, at = env.task.drones.bodies.state, env.groups["drone"].slices()
    o = {name: obs["drone"][..., where] for name, where in at.items()}
    assert torch.allclose(o["position_error"], seen(env, "position_error", env.task.target - s[..., :3]), atol=1e-5)
    assert torch.allclose(o["linear_velocity"], 0.5 * seen(env, "linear_velocity", s[..., 7:10]), atol=1e-5)
    assert torch.allclose(o["angular_velocity"], 0.1 * s[..., 10:13])
    assert torch.allclose(o["last_action"], neutral(env))
    assert torch.allclose(o["up"], seen(env, "up", torch.tensor([0.0, 0, 1]).expand(30, 1, 3)), atol=1e-5)


@pytest.mark.parametrize("drones", [1, 2])
def test_error_and_success_against_own_sums(drones):
    """The mean distance over the last settled_s, all of the drones, of episodes of drones held at chosen distances."""
    env = make(5, num_drones=drones, episode_s=0.5, settled_s=0.2)
    target = env.task.target.clone()
    held = torch.tensor([0.0, 0.03, 0.049, 0.07, 0.3])
    rng = torch.Generator().manual_seed(0)
    distances = []
    for k in range(50):
        pos = target.clone()
        far = held if k >= 30 else torch.full((5,), 1.0)  # how it gets there does not count
        pos[:, 0, k % 2] += far * (1 + 0.2 * (-1) ** k)
        if drones == 2:
            pos[:, 1, 2] += 0.01 * torch.rand(5, generator=rng)
        put(env, pos)
        before = env.task.drones.bodies.pos.clone()
        *_, info = step(env)
        after = (
            info["final_observation"]["drone"][..., :3] if "episode" in info else target - env.task.drones.bodies.pos
        )
        assert torch.allclose(after, target - before, atol=2e-3)
        distances.append(after.norm(dim=-1))
    error = torch.stack(distances[30:]).mean(0)
    m = info["episode"]["metrics"]
    assert torch.allclose(m["error_m"], error.mean(1), atol=1e-6)
    assert m["success"].tolist() == (error < 0.05).all(1).float().tolist() == [1, 1, 1, 0, 0]
    assert m["crash"].tolist() == [0] * 5


def test_one_drone_off_its_target_spoils_success():
    env = make(2, num_drones=3, episode_s=0.2, settled_s=0.1)
    pos = env.task.target.clone()
    pos[1, 2, 0] += 0.2
    for _ in range(20):
        put(env, pos)
        *_, info = step(env)
    assert info["episode"]["metrics"]["success"].tolist() == [1, 0]


def test_crashed_episodes_are_no_success():
    env = make(2, episode_s=0.2, settled_s=0.1)
    for _ in range(20):
        pos = env.task.target.clone()
        if env.steps[0] == 19:
            pos[0, 0, 2] = 0.0  # into the ground in the very last step
        put(env, pos)
        *_, terminated, truncated, info = step(env)
    assert terminated.tolist() == [True, False]
    assert truncated.tolist() == [False, True]
    assert info["episode"]["metrics"]["success"].tolist() == [0, 1]
    assert info["episode"]["metrics"]["crash"].tolist() == [1, 0]


def test_causes_of_crashes():
    env = make(5, num_drones=2, spacing_m=1.0)
    pos = env.task.target.clone()
    radius = env.task.drone.body_radius
    height = env.task.drone.body_height
    pos[0, 0, 2] = 0.9 * height
    pos[1, 0, :2] += torch.tensor([3.1, 0.0]) * torch.tensor([-1.0, 1.0])
    pos[2, 1] = pos[2, 0] + torch.tensor([1.8 * radius, 0, 0])
    pos[3, 1] = pos[3, 0] + torch.tensor([0, 0, 2.3 * radius])  # close, but apart
    put(env, pos)
    _, reward, terminated, _, info = step(env)
    assert terminated.tolist() == [True, True, True, False, False]
    assert info["episode"]["cause"].tolist() == [GROUND, ASTRAY, COLLISION]
    assert [env.task.causes[c - 1] for c in (GROUND, COLLISION, ASTRAY)] == ["ground", "collision", "out_of_bounds"]
    crash = info["episode"]["reward_terms"]["drone/crash"] * 2 / env.task.cfg.reward["crash"]  # drones that crashed
    assert crash.tolist() == [1, 1, 2]  # both in a collision, else only the one that did it
    assert reward["drone"][0, 0] < reward["drone"][0, 1] - 10


def test_a_drone_at_rest_on_the_ground_has_crashed_and_one_above_it_has_not():
    for drone in ("crazyflie21", "iris"):
        env = make(2, drone=drone, height_m=0.6)
        pos = env.task.target.clone()
        height = env.task.drone.body_height
        pos[:, 0, 2] = torch.tensor([0.5 * height + 0.002, 2 * height])
        put(env, pos)
        assert step(env)[2].tolist() == [True, False]


@pytest.mark.parametrize("engine", ["rotor", "mujoco"])
def test_a_drone_that_lies_on_its_edge_has_crashed(engine: str):
    """Its middle stays as high as its radius, more than the body is high. One that hangs there, over the ground, has not."""
    env = rookery.make("drone-hover", 2, engine=engine)
    env.reset(seed=0)
    drone = env.task.drone
    state = torch.zeros(2, 1, 13)
    state[:, 0, 2] = drone.body_radius + torch.tensor([0.003, 0.1])
    state[:, 0, 3:5] = math.sqrt(0.5)  # a quarter turn about x
    env.task.drones.bodies.set_state(torch.arange(2), state)
    lowest = drone.body_radius
    for _ in range(5):
        height = env.task.drones.bodies.pos[0, 0, 2].item()
        lowest = min(lowest, height)
        _, _, terminated, _, info = step(env)
        if terminated[0]:
            break
    assert terminated.tolist() == [True, False] and info["episode"]["cause"].tolist() == [GROUND]
    assert lowest > 2.0 * drone.body_height


def test_bounds_are_a_ball_around_the_target():
    env = make(2, bounds_m=0.8)
    pos = env.task.target.clone()
    pos[:, 0] += torch.tensor([[0.45, 0.45, 0.45], [0.47, 0.47, 0.47]])  # 0.779 m and 0.814 m
    put(env, pos)
    assert step(env)[2].tolist() == [False, True]


def test_rewards_against_own_formulas():
    env = make(6)
    step(env)
    action = neutral(env) + 0.3
    _, reward, *_ = env.step(action)
    s, w = env.task.drones.bodies.state, env.task.cfg.reward
    terms = env.task.rewards()["drone"]
    d = (env.task.target - s[..., :3]).norm(dim=-1)
    assert torch.allclose(terms["distance"], d)
    assert torch.allclose(terms["speed"], s[..., 7:10].norm(dim=-1))
    assert torch.allclose(terms["ang_vel"], s[..., 10:13].square().sum(-1))
    assert torch.allclose(terms["action_rate"], torch.full((6, 1), 4 * 0.09), atol=1e-4)
    assert terms["crash"].abs().max() == 0
    assert torch.allclose(reward["drone"], sum(w[k] * v for k, v in terms.items()), atol=1e-5)
    near = [env.task.rewards()["drone"][k].clone() for k in ("near", "on_target")]
    put(env, env.task.target)
    step(env)
    for before, after in zip(near, (env.task.rewards()["drone"][k] for k in ("near", "on_target")), strict=True):
        assert (after > before).all()
        assert torch.allclose(after, torch.ones(6, 1), atol=0.05)


def test_being_at_the_target_pays_most():
    env = make(5)
    offset = torch.tensor([0.0, 0.02, 0.1, 0.5, 1.5])
    pos = env.task.target.clone()
    pos[:, 0, 0] += offset
    put(env, pos)
    _, reward, *_ = step(env)
    r = reward["drone"][:, 0]
    assert (r.diff() < -0.005).all()
