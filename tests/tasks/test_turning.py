"""`yaw_drift` of every drone task, against the turning of the raw states by scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import rookery
from rookery.tasks.drones.base import DroneTask
from rookery.tasks.registry import find, task_names
from rookery.tasks.volleyball.base import VolleyTask
from tests.tasks.test_hover import put

N, STEPS = 4, 12
ENTRIES = {name: find(name) for name in task_names()}
TASKS = [
    name
    for name, e in sorted(ENTRIES.items())
    if not (e.members or e.wrapper) and issubclass(e.load(), DroneTask | VolleyTask)
]


def turning(env: Any) -> np.ndarray:
    """[N, A] rad/s, angular velocity about the world's z axis."""
    state = env.task.drones.bodies.state.double().numpy()
    flat = state.reshape(-1, 13)
    rates = Rotation.from_quat(flat[:, 3:7], scalar_first=True).apply(flat[:, 10:13])
    return rates[:, 2].reshape(state.shape[:2])


def drifts(env: Any, steps: int, counted_from: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Fly at random: [N] rad/s that the task tells, and those of the states after `counted_from`; NaN of worlds that ended."""
    generator = torch.Generator().manual_seed(1)
    env.reset()
    total, whole = 0.0, np.ones(N, bool)
    for step in range(steps):
        actions = {}
        for g, s in env.groups.items():
            u = 2.0 * torch.rand((N, s.count, s.action.size), generator=generator) - 1.0
            actions[g] = torch.tensor(s.action.neutral) + 0.2 * u
        _, _, terminated, truncated, _ = env.step(actions)
        whole &= ~(terminated | truncated).numpy()
        np.testing.assert_allclose(env.task.turning.rate.numpy()[whole], turning(env)[whole], rtol=1e-4, atol=1e-4)
        total = total + turning(env) * (step >= counted_from)
    mean = np.abs(total / max(steps - counted_from, 1)).max(1)
    return env.metrics()["yaw_drift"].numpy()[whole], mean[whole]


def test_all_drone_tasks_are_here() -> None:
    assert {"drone-hover", "drone-land", "swarm-surround", "uav-coverage", "volley-back-and-forth", "volley-3v3"} <= {
        *TASKS
    }
    assert len(TASKS) > 20


@pytest.mark.parametrize("task", TASKS)
def test_yaw_drift_is_the_turning_of_the_drone_that_turns_most(task: str) -> None:
    config = {"settled_s": 5.0, "episode_s": 5.0} if task == "drone-hover" else {"episode_s": 5.0}
    env = rookery.make(task, N, seed=3, config={} if task == "drone-track" else config)
    told, computed = drifts(env, STEPS)
    assert "rad/s" in env.deployment().metrics["yaw_drift"]
    env.close()
    if task == "drone-track":
        computed = np.full_like(computed, np.nan)  # its first 2 s do not count
    else:
        assert computed.min() > 1e-3
    assert len(told) >= 2
    np.testing.assert_allclose(told, computed, rtol=1e-4, atol=1e-5)


def test_of_a_hover_only_the_part_that_counts() -> None:
    env = rookery.make("drone-hover", N, seed=3, config={"episode_s": 0.3, "settled_s": 0.2, "num_drones": 2})
    told, computed = drifts(env, 29, 10)
    env.close()
    assert len(told) == N
    np.testing.assert_allclose(told, computed, rtol=1e-4, atol=1e-5)


def test_an_episode_that_ends_before_a_step_counts_has_no_drift() -> None:
    """A drone put into the ground ends at once; the other flies to the end."""
    env = rookery.make("drone-hover", 2, seed=3, config={"episode_s": 0.3, "settled_s": 0.2})
    env.reset()
    put(env, env.task.target * torch.tensor([0.0, 1.0])[:, None, None])
    neutral = {"drone": torch.tensor(env.groups["drone"].action.neutral).expand(2, 1, 4)}
    ended: dict[int, float] = {}
    for _ in range(30):
        info = env.step(neutral)[-1]
        if "episode" in info:
            ids = info["episode"]["ids"].tolist()
            for i, drift in zip(ids, info["episode"]["metrics"]["yaw_drift"].tolist(), strict=True):
                ended.setdefault(i, drift)
    env.close()
    assert np.isnan(ended[0]) and np.isfinite(ended[1])


def test_a_drone_that_turns_has_turned_as_its_heading_says() -> None:
    """By quaternions alone."""
    env = rookery.make("drone-hover", N, seed=0, config={"settled_s": 10.0, "start_spin": 0.0, "start_tilt": 0.0})
    env.reset()
    heading = []
    for _ in range(60):
        quat = env.task.drones.bodies.quat[:, 0].double().numpy()
        heading.append(Rotation.from_quat(quat, scalar_first=True).as_euler("ZYX")[:, 0])
        action = torch.tensor(env.groups["drone"].action.neutral).expand(N, 1, 4).clone()
        action[..., 2] = 0.2
        env.step({"drone": action})
    quat = env.task.drones.bodies.quat[:, 0].double().numpy()
    heading.append(Rotation.from_quat(quat, scalar_first=True).as_euler("ZYX")[:, 0])
    turned = np.diff(np.unwrap(np.array(heading), axis=0), axis=0).sum(0) / (60 * env.control_dt)
    assert (turned > 0.3).all()
    np.testing.assert_allclose(env.metrics()["yaw_drift"].numpy(), turned, rtol=0.05)
    env.close()
