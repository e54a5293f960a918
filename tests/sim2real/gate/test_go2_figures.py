"""Bounds of `go2-lab` beside success: a robot on its shins fails, one that trots on its feet does not."""

from __future__ import annotations

import pytest
import torch

import rookery
from rookery.sim2real.gate.profile import load_profile
from rookery.sim2real.gate.trials import Trials

CONFIG = {"episode_s": 3.0, "push_s": 0.0, "max_vy": 0.1, "max_yaw_rate": 0.2}
POSTURE = {"knee_height", "height_error"}


def outside(env, act) -> set[str]:
    """Figures of the profile that the mean of two episodes violates."""
    means = Trials(env, act, 2).run([{}])[0].means
    bounds = load_profile("go2-lab").figures
    return {name for name, b in bounds.items() if not b.least <= means[name] <= b.most}


@pytest.fixture
def env():
    env = rookery.make("go2-velocity", 2, config=CONFIG, randomize="none", starts=2)
    yield env.unwrapped
    env.close()


def test_a_trot_on_its_feet_is_within_all_bounds(env):
    controller = env.controller()
    assert not outside(env, controller)


def test_a_robot_on_its_front_shins_is_not(env):
    robot = env.task.robot
    kneeling = robot.home.clone()
    kneeling[[1, 4]] = 0.1  # front thighs upright, shins flat on the floor, feet ahead
    kneeling[[2, 5]] = -1.7
    action = robot.normalized(kneeling[None])[:, None].expand(2, 1, -1)
    assert outside(env, lambda obs: {"robot": action.clone()}) & POSTURE
    stand = torch.tensor(env.groups["robot"].action.neutral).expand(2, 1, -1)
    assert not outside(env, lambda obs: {"robot": stand.clone()}) & POSTURE
