"""Escort: how the target travels, and that it can be escorted."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm.escort import Escort, EscortConfig


def make(n: int = 2, seed: int = 0, engine: str = "mujoco", **config: Any) -> VecEnv:
    task = Escort(EscortConfig(**config))
    env = VecEnv(task, make_world(engine, task.scene(), n), seed=seed, task_id="swarm-escort")
    env.reset()
    return env


def journey(env: VecEnv, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places and velocities of the target, [steps, N, 3], without the physics."""
    places = []
    velocities = []
    for _ in range(steps):
        env.task.advance()
        places.append(env.task.goal.clone())
        velocities.append(env.task.goal_velocity.clone())
    return torch.stack(places), torch.stack(velocities)


def test_the_published_journey() -> None:
    env = make(1, starts="published")
    places, velocity = journey(env, 60)
    start = torch.tensor([1.0, 1.0, 2.5])
    end = torch.tensor([-2.0, -2.0, 3.0])
    for i in (0, 24, 50):  # 52 places, both ends among them
        assert torch.allclose(places[i, 0], start + (end - start) * (i + 1) / 51, atol=1e-4)
    assert torch.allclose(places[51:], end.expand(9, 1, 3), atol=1e-4)
    assert velocity[:50, 0].norm(dim=-1) == pytest.approx(torch.full((50,), math.sqrt(18.25) / 2.55), abs=1e-3)
    assert velocity[52:].abs().max() < 1e-3


def test_the_target_travels_at_its_speed_between_places_in_the_arena() -> None:
    env = make(16, target_speed=0.9)
    places, velocity = journey(env, 200)
    step = (places[1:] - places[:-1]).norm(dim=-1)
    assert step.max() <= 0.9 * 0.05 + 1e-5
    assert (step > 0.9 * 0.05 - 1e-5).float().mean() > 0.9  # less only in the step of an arrival
    assert torch.allclose((places[1:] - places[:-1]) / 0.05, velocity[1:], atol=1e-4)
    assert places[..., :2].abs().max() <= 1.5 + 1e-5
    assert 1.3 - 1e-5 <= places[..., 2].min() <= places[..., 2].max() <= 1.8 + 1e-5
    turns = ((velocity[1:] - velocity[:-1]).norm(dim=-1) > 0.05).sum(0)
    assert turns.min() >= 2  # it does not stay where it arrived


def test_journeys_are_seeded() -> None:
    a, b, c = (journey(make(3, seed=s), 120)[0] for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)
    assert (a[-1, 0] - a[-1, 1]).norm() > 1e-3


def test_the_drones_see_how_the_target_moves() -> None:
    env = make(4)
    env.step(torch.zeros(4, 4, 4))
    seen = env.task.observe()["drone"]
    task = env.task
    assert torch.allclose(seen["target_velocity"], task.goal_velocity[:, None] - task.drones.bodies.lin_vel, atol=1e-6)
    assert task.goal_velocity.norm(dim=-1) == pytest.approx(torch.full((4,), 0.6), abs=1e-4)


def test_closeness_is_measured_from_where_the_target_was() -> None:
    env = make(2)
    task = env.task
    before = task.drones.bodies.pos.clone()
    goal = task.goal.clone()
    _, reward, *_ = env.step(torch.zeros(2, 4, 4))
    want = (before - goal[:, None]).norm(dim=-1) - (task.drones.bodies.pos - goal[:, None]).norm(dim=-1)
    assert torch.allclose(reward["drone"][..., 0], want, atol=1e-5)


@pytest.mark.parametrize("engine", ["mujoco", "rotor"])
def test_the_baseline_escorts(engine: str) -> None:
    env = make(8, engine=engine, episode_s=7.0)
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    for _ in range(env.max_episode_steps):
        obs, _, terminated, _, info = env.step(controller(obs))
        assert not terminated.any()
    assert info["episode"]["metrics"]["success"].mean() >= 0.85


def test_a_target_that_does_not_travel_is_refused() -> None:
    with pytest.raises(RookeryError, match=r"target_speed must be above 0 m/s, got 0\.0: use swarm-surround"):
        Escort(EscortConfig(target_speed=0.0))
