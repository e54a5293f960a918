"""Catch: the evader's rule, its randomness, and that it can be cornered."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm.catch import Catch, CatchConfig


def make(n: int = 2, seed: int = 0, engine: str = "mujoco", **config: Any) -> VecEnv:
    task = Catch(CatchConfig(**config))
    env = VecEnv(task, make_world(engine, task.scene(), n), seed=seed, task_id="swarm-catch")
    env.reset()
    return env


def test_the_evader_flees_the_mean_of_the_drones() -> None:
    env = make(64, seed=3)
    task = env.task
    mean = task.drones.bodies.pos.mean(1)
    goal = task.goal.clone()
    task.advance()
    away = goal - mean
    distance = away.norm(dim=-1, keepdim=True)
    sure = distance[:, 0] > 0.2
    assert sure.sum() > 50
    want = (goal + 0.1 * away / distance)[sure]  # the published step
    assert torch.allclose(task.goal[sure], want, atol=1e-5)
    assert torch.allclose(task.goal_velocity[sure], (want - goal[sure]) / 0.05, atol=1e-3)


def test_the_evader_stays_in_the_arena() -> None:
    env = make(16)
    for _ in range(100):
        env.task.advance()
    goal = env.task.goal
    assert goal[:, :2].abs().max() <= 3.0
    assert 0.2 - 1e-6 <= goal[:, 2].min() <= goal[:, 2].max() <= 3.0
    at_wall = (goal[:, :2].abs() == 3.0).any(1) | (goal[:, 2] == 3.0) | (goal[:, 2] < 0.2 + 1e-6)
    assert at_wall.all()


def test_the_evader_hesitates_in_the_midst_of_the_drones() -> None:
    env = make(8)
    task = env.task
    task.goal.copy_(task.before.mean(1) + torch.tensor([0.1, 0.0, 0.0]))
    goal = task.goal.clone()
    task.advance()
    step = task.goal - goal
    assert (step >= -1e-6).all()  # each axis by up to a tenth of a step
    assert (step <= 0.01 + 1e-6).all()
    assert step.std(0).min() > 5e-4


def test_its_randomness_is_seeded() -> None:
    ends = []
    for seed in (1, 1, 2):
        env = make(4, seed=seed)
        for _ in range(5):
            env.task.goal.copy_(env.task.before.mean(1))
            env.task.advance()
        ends.append(env.task.goal - env.task.before.mean(1))
    assert torch.equal(ends[0], ends[1])
    assert not torch.allclose(ends[0], ends[2])


def test_caught_is_within_the_capture_distance_of_one_drone() -> None:
    env = make(3, evader_speed=1e-6)
    task = env.task
    found = set()
    for away in (0.3, 0.49, 0.51, 0.8):
        task.goal.copy_(task.drones.bodies.pos[:, 2] - torch.tensor([0.0, 0.0, away]))
        task.advance()
        nearest = (task.drones.bodies.pos - task.goal[:, None]).norm(dim=-1).amin(1)
        assert task.met().tolist() == (nearest < 0.5).tolist()
        found |= set(task.met().tolist())
    assert found == {True, False}


@pytest.mark.parametrize(("engine", "number"), [("mujoco", 4), ("rotor", 4), ("rotor", 2)])
def test_the_baseline_catches(engine: str, number: int) -> None:
    env = make(12, engine=engine, num_drones=number)
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    ended = torch.zeros(12, dtype=torch.bool)
    for _ in range(env.max_episode_steps):
        obs, _, terminated, _, info = env.step(controller(obs))
        ended |= terminated
    assert ended.float().mean() <= 0.1
    assert info["episode"]["metrics"]["success"].mean() >= 0.7


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"evader_speed": 0.0}, "evader_speed must be above 0 m/s"),
        ({"capture_m": 0.1}, r"capture_m must exceed touch_m 0\.1 m"),
    ],
)
def test_configs_that_make_no_sense(config: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        Catch(CatchConfig(**config))
