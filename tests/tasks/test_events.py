"""Events of a control step against what the episode's end, the rewards and the state say."""

from __future__ import annotations

import pytest
import torch

import rookery
from rookery.assets.go2 import LEGS

DRONE_TASKS = (
    "drone-hover", "drone-track", "drone-swap", "drone-formation", "drone-race", "drone-downwash", "swarm-surround",
    "uav-coverage", "drone-land", "drone-navigate",
)  # fmt: skip


def play(env, steps: int, scale: float, seed: int = 0):
    """Yield (info, rewards by term, causes) of steps with random actions around neutral, `scale` wide."""
    generator = torch.Generator().manual_seed(seed)
    env.reset(seed=seed)
    for _ in range(steps):
        actions = {}
        for name, group in env.groups.items():
            noise = torch.randn(env.num_envs, group.count, group.action.size, generator=generator)
            actions[name] = (torch.tensor(group.action.neutral) + scale * noise).clamp(-1.0, 1.0)
        yield env.step(actions)


def test_every_task_declares_the_events_that_it_gives():
    for name in (
        *DRONE_TASKS,
        "volley-hit",
        "volley-back-and-forth",
        "volley-bump-and-pass",
        "volley-3v3",
        "go2-velocity",
    ):
        env = rookery.make(name, num_envs=3)
        for _, _, _, _, info in play(env, 2, 0.1):
            assert tuple(info["events"]) == env.event_names
            count = sum(g.count for g in env.groups.values())
            for event in info["events"].values():
                assert event.dtype == torch.bool
                assert tuple(event.shape) in ((3,), (3, count))
        env.close()


@pytest.mark.parametrize("task", DRONE_TASKS)
def test_a_drone_task_ends_where_a_drone_crashes(task):
    config = {"action": "ctbr"} if task == "drone-navigate" else {}  # random velocities keep a drone where it is
    env = rookery.make(task, num_envs=16, config=config)
    crashes = 0
    for _, _, terminated, _, info in play(env, 150, 1.0):
        crash = info["events"]["crash"]
        if task == "drone-downwash":  # the drones above, which are no agents, may crash too
            assert not (crash.any(1) & ~terminated).any()
        else:
            assert torch.equal(crash.any(1), terminated)
        crashes += int(crash.sum())
    assert crashes > 0
    env.close()


@pytest.mark.slow
def test_hits_count_up_to_the_episode_total():
    env = rookery.make("volley-solo-bump", num_envs=8)
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    hits = torch.zeros(8)
    down = 0
    for _ in range(400):
        obs, _, terminated, _, info = env.step(controller(obs))
        events = info["events"]
        hits += events["hit"][:, 0]
        landed = env.causes.index("ball_landed") + 1
        if "episode" in info:
            ids = info["episode"]["ids"] if "ids" in info["episode"] else terminated.nonzero().squeeze(1)
            hits[ids] = 0.0
        down += int(events["ball_down"].sum())
        assert landed > 0
        assert not (events["ball_down"] & ~terminated).any()
        assert torch.equal(hits, env.task.referee.total.float())
    assert hits.sum() > 8
    env.close()


def test_a_rally_point_goes_to_the_other_side():
    env = rookery.make("volley-1v1", num_envs=32)
    points = torch.zeros(2)
    for _, reward, _, _, info in play(env, 200, 0.3):
        events = info["events"]
        assert not (events["point_near"] & events["point_far"]).any()
        won = events["point_near"].float() - events["point_far"].float()
        big = reward["drone"][:, 0] - reward["drone"][:, 1]
        decided = (won != 0) & ~events["crash"].any(1)
        assert torch.equal(big[decided].sign(), won[decided])
        points += torch.stack((events["point_near"].sum(), events["point_far"].sum()))
    assert (points > 0).all()
    env.close()


def test_falls_end_episodes_and_feet_touch_down_once():
    env = rookery.make("go2-velocity", num_envs=8)
    task = env.task
    falls = touchdowns = 0
    before = None
    for _, _, terminated, truncated, info in play(env, 120, 0.6):
        events = info["events"]
        assert torch.equal(events["fall"], terminated)
        falls += int(events["fall"].sum())
        feet = torch.stack([events[f"touchdown_{leg}"] for leg in LEGS], dim=1)
        running = ~(terminated | truncated)
        if before is not None:
            assert torch.equal(feet[running], (task.contact & ~before)[running])
        before = task.contact.clone()
        touchdowns += int(feet.sum())
    assert falls > 0 and touchdowns > 20
    env.close()
