"""go2-navigate: where pillars stand, what the lidar sees, how episodes end, and the zoo's walking policy as a skill."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import rookery
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


@pytest.fixture(scope="module")
def env() -> Env:
    return rookery.make("go2-navigate", 12, seed=2)


def test_pillars_leave_ways_and_stand_elsewhere_in_every_episode(env: Env) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    seen = []
    for _ in range(2):
        env.reset()
        places = task.pillars.pos[..., :2].clone()
        seen.append(places)
        radii = torch.from_numpy(task.radii).float()
        gaps = (places[:, :, None] - places[:, None]).norm(dim=-1) - radii - radii[:, None]
        gaps += 1e9 * torch.eye(len(radii))
        assert float(gaps.min()) > 2.0 * task.cfg.body_m
        start = task.robot.base.pos[:, 0, :2]
        assert torch.allclose(start[:, 0], torch.tensor(-task.cfg.way_m))
        assert float(((start[:, None] - places).norm(dim=-1) - radii).min()) > task.cfg.body_m
    assert not torch.equal(*seen)


def test_the_lidar_and_the_goal_are_those_of_geometry(env: Env) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    env.reset(3)
    terms = env.unwrapped.observe_terms()["robot"]  # type: ignore[attr-defined]
    state = task.robot.base.state[:, 0].numpy().astype(float)
    pillars = task.pillars.pos[..., :2].numpy().astype(float)
    for w in range(env.num_envs):
        yaw = 2.0 * math.atan2(state[w, 6], state[w, 3])  # level at the start
        for r in range(task.cfg.rays):
            angle = yaw + 2.0 * math.pi * r / task.cfg.rays
            ray = np.array([math.cos(angle), math.sin(angle)])
            hits = [task.cfg.lidar_range_m]
            for at, radius in zip(pillars[w], task.radii, strict=True):
                to = at - state[w, :2]
                along, off = to @ ray, abs(to[0] * ray[1] - to[1] * ray[0])
                if off < radius and along > 0.0:
                    hits.append(along - math.sqrt(radius**2 - off**2))
            assert float(terms["lidar"][w, 0, r]) == pytest.approx(min(hits), abs=1e-3)
        dx, dy = task.goal[w, :2].numpy() - state[w, :2]
        wanted = [math.cos(yaw) * dx + math.sin(yaw) * dy, math.cos(yaw) * dy - math.sin(yaw) * dx]
        assert terms["goal"][w, 0, :2].tolist() == pytest.approx(wanted, abs=1e-4)


def test_who_comes_too_near_to_a_pillar_or_reaches_the_goal(env: Env) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    env.reset(4)
    still = torch.zeros(env.num_envs, 1, 12)
    state = task.robot.base.state.clone()
    radius = float(task.radii[0])
    state[0, 0, 0] = task.pillars.pos[0, 0, 0] - radius - task.cfg.body_m + 0.02
    state[0, 0, 1] = task.pillars.pos[0, 0, 1]
    state[1, 0, :2] = task.goal[1, :2]
    task.robot.base.set_state(None, state)
    *_, terminated, _, info = env.step(still)
    assert terminated.nonzero().flatten().tolist() == [0]
    episode = info["episode"]
    assert (episode["ids"].tolist(), episode["cause"].tolist()) == ([0], [1 + task.causes.index("obstacle")])
    assert float(episode["metrics"]["collision"]) == 1.0 and float(episode["metrics"]["success"]) == 0.0
    assert bool(info["events"]["there"][1])
    assert env.metrics()["success"].tolist() == [0.0, 1.0] + [0.0] * 10
    assert float(env.metrics()["time_s"][1]) == pytest.approx(0.02)


def test_the_walking_policy_goes_where_it_is_commanded() -> None:
    env = rookery.make("go2-navigate", 4, seed=0, config={"push_s": 0.0, "start_yaw": 0.0}, skills="go2-navigate")
    task = env.unwrapped.task  # type: ignore[attr-defined]
    assert env.groups["robot"].action.high == (0.9, 0.3, 0.8)
    env.reset()
    start = task.robot.base.pos[:, 0].clone()
    neutral = torch.tensor(env.groups["robot"].action.neutral)
    action = neutral.expand(4, 1, 3).clone()  # stands still
    action[0, 0, 0] = 2.0 * (0.6 + 0.3) / 1.2 - 1.0  # 0.6 m/s forward
    action[1, 0, 2] = 1.0  # turns left by 0.8 rad/s
    action[2, 0, 1] = 1.0  # 0.3 m/s to the left
    for _ in range(100):
        env.step(action)
    moved = task.robot.base.pos[:, 0] - start
    assert float(moved[0, 0]) == pytest.approx(1.2, abs=0.25)
    assert float(task.robot.yaw[1]) == pytest.approx(1.6, abs=0.35)
    assert float(moved[2, 1]) == pytest.approx(0.6, abs=0.2)
    assert float(moved[3, :2].norm()) < 0.15
    env.close()


@pytest.mark.slow
def test_the_scripted_walk_reaches_goals() -> None:
    from rookery.policies.training.evaluate import evaluate

    env = rookery.make("go2-navigate", 8, seed=1)
    pilot = env.controller()
    assert pilot is not None
    assert evaluate(env, pilot, 8, seed=1)["success_rate"] >= 0.5
    env.close()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"arm": "arx5"}, "without an arm on flat ground"),
        ({"pillar_gap_m": 1.0}, "pillars must leave gaps"),
        ({"way_m": 1.0}, "among the pillars"),
        ({"bounds_m": 5.0}, "out of bounds"),
        ({"rays": 0}, "a lidar ray"),
        ({"radius_least_m": 0.5}, "the least one first"),
    ],
)
def test_fields_that_cannot_be_are_refused(config: dict, message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        rookery.make("go2-navigate", config=config)
