"""Stage times add up to the step, each to its own stage, and the environment is left as it was."""

from __future__ import annotations

import time

import pytest
import torch

import rookery
from rookery.experiments.step_times import STAGES, stage_clock


@pytest.fixture
def env():
    env = rookery.make("drone-hover", 4, randomize="default", config={"episode_s": 0.1, "settled_s": 0.02})
    env.reset(0)
    yield env
    env.close()


def steps(env, count=12):
    action = torch.zeros(4, 1, 4)
    for _ in range(count):
        last = env.step({"drone": action})
    return last[0]["drone"]


@pytest.mark.parametrize(
    ("owner", "method", "stage"),
    [
        ("world", "step", "physics"),
        ("task", "rewards", "task"),
        ("task", "observe", "observation"),
        ("task", "reset", "reset"),
        ("randomization", "draw", "reset"),
    ],
)
def test_a_slow_part_counts_for_its_stage(env, monkeypatch, owner, method, stage):
    part = getattr(env, owner)
    function = getattr(part, method)

    def slow(*args):
        time.sleep(0.05)
        return function(*args)

    steps(env, 1)
    monkeypatch.setattr(part, method, slow)
    with stage_clock(env) as clock:
        start = time.perf_counter()
        steps(env)
        shares = clock.shares(time.perf_counter() - start)
    assert tuple(shares) == STAGES
    assert sum(shares.values()) == pytest.approx(1.0)
    assert clock.seconds[stage] >= 0.05
    assert all(share >= 0.0 for share in shares.values())
    assert max(shares, key=lambda s: shares[s]) == stage


def test_the_environment_is_left_as_it_was(env):
    other = rookery.make("drone-hover", 4, randomize="default", config={"episode_s": 0.1, "settled_s": 0.02})
    other.reset(0)
    steps(env, 1)
    steps(other, 1)
    names = [set(vars(part)) for part in (env.world, env.task, env.randomization)]
    with stage_clock(env):
        measured = steps(env)
    assert [set(vars(part)) for part in (env.world, env.task, env.randomization)] == names
    assert torch.equal(measured, steps(other)), "timing changes no result"
    other.close()
