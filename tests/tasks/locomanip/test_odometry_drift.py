"""Goals in the room drift with the base's odometry: all of a robot's alike, in the observation alone."""

from __future__ import annotations

import math

import pytest
import torch

import rookery
from rookery.tasks.locomanip.loco_manipulation import ODOMETRY_DRIFT

N = 64
CONFIG = {"per_family": 1, "tasks": "pick-ball"}


def made(drift: float):
    return rookery.make("go2arm-loco-manipulation", N, seed=2, config=CONFIG, fixed={"observation_drift": drift})


@pytest.mark.slow
def test_goals_wander_with_the_base_and_nothing_else_does():
    still, drifting = made(0.0), made(0.5)
    terms = {t.name: t for t in still.groups["robot"].observation}
    places = still.groups["robot"].slices()
    steps = 25
    action = torch.tensor(still.groups["robot"].action.neutral).expand(N, 1, -1)
    for env in (still, drifting):
        env.reset()
    for _ in range(steps):
        a, b = (env.step({"robot": action}) for env in (still, drifting))
        assert torch.equal(a[1]["robot"], b[1]["robot"])  # the world and the rewards are the same
    error = {name: (b[0]["robot"] - a[0]["robot"])[:, 0, at] / terms[name].scale for name, at in places.items()}
    for name in ("to_goal_soon", "goal"):
        torch.testing.assert_close(error[name], error["to_goal"], atol=1e-5, rtol=0.0)
    spread = 0.5 * ODOMETRY_DRIFT * math.sqrt(steps * still.control_dt)
    assert abs(error["to_goal"].std().item() / spread - 1.0) < 4.0 / math.sqrt(2 * 3 * N)
    for name in places.keys() - {"to_goal", "to_goal_soon", "goal"}:
        assert (error[name] == 0.0).all(), name


def test_a_goal_in_the_frame_of_the_stance_does_not_drift():
    env = rookery.make("go2arm-reach", 1)
    assert all(t.drift == 0.0 and not t.drift_of for g in env.groups.values() for t in g.observation)
