"""Every observation and reward term of the swarms around one target, on states set by hand: value, sign, axes, order and unit.

The oracle is NumPy on the numbers that were set, with SciPy's rotations; it reads nothing of the task.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from drift import without_drift
from scipy.spatial.transform import Rotation

import rookery

N, A = 2, 4
NEAREST = 3
GOAL_BEFORE = np.array([[0.2, -0.1, 1.5], [-0.3, 0.4, 1.4]])  # m
GOAL = np.array([[0.25, -0.13, 1.52], [-0.34, 0.42, 1.43]])
GOAL_VELOCITY = np.array([[1.0, -0.6, 0.4], [-0.8, 0.4, 0.6]])  # m/s
WORLD_AXES = ("velocity", "position")  # action kinds whose observations are not turned


class Scene:
    """A task with drones and target drawn once; drone 1 of world 1 has left the arena."""

    def __init__(self, name: str, action: str) -> None:
        draw = np.random.default_rng(11)
        self.action_kind = action
        self.env = rookery.make(name, N, config={"num_drones": A, "neighbours": NEAREST, "action": action})
        self.env.reset(seed=0)
        task = self.task = self.env.task
        around = np.array([[1.0, 0.2, 0.1], [-0.5, 0.6, 0.2], [-0.2, -0.9, -0.3], [0.3, 0.5, 0.9]])
        self.pos = GOAL[:, None] + around + draw.uniform(-0.1, 0.1, (N, A, 3))
        self.pos[1, 1] = 4.2, 0.5, 1.0  # more than 1 m outside the arena of 3 m
        self.old = self.pos + draw.uniform(-0.05, 0.05, (N, A, 3))
        self.turn = Rotation.random(N * A, rng=5)
        self.velocity = draw.uniform(-1.0, 1.0, (N, A, 3))
        self.rates = draw.uniform(-2.0, 2.0, (N, A, 3))
        self.action = draw.uniform(-1.0, 1.0, (N, A, 4))
        quat = self.turn.as_quat(scalar_first=True).reshape(N, A, 4)
        state = np.concatenate((self.pos, quat, self.velocity, self.rates), axis=-1)
        task.drones.bodies.set_state(None, torch.from_numpy(state).float())
        task.load_state_dict(task.state_dict())
        for buffer, value in ((task.goal, GOAL), (task.goal_before, GOAL_BEFORE), (task.goal_velocity, GOAL_VELOCITY),
                              (task.before, self.old), (task.last_action, self.action)):  # fmt: skip
            buffer.copy_(torch.from_numpy(value))
        task.figures[:, -1] = math.inf
        task._evaluate(torch.arange(N))
        task.held.copy_(torch.tensor([25, 7]))  # control steps of 0.05 s

    def in_axes(self, world: np.ndarray) -> np.ndarray:
        """Vectors [N, A, 3] in world axes, in those of the observation."""
        return world if self.action_kind in WORLD_AXES else self.in_body(world)

    def in_body(self, world: np.ndarray) -> np.ndarray:
        return self.turn.inv().apply(world.reshape(-1, 3)).reshape(N, A, 3)

    def observations(self) -> dict[str, np.ndarray]:
        offset, velocity = np.zeros((2, NEAREST, N, A, 3))
        seen = np.zeros((N, A, NEAREST))
        for w in range(N):
            for a in range(A):
                away = np.linalg.norm(self.pos[w] - self.pos[w, a], axis=-1)
                others = [b for b in np.argsort(away) if b != a and away[b] <= 3.5]
                for k, b in enumerate(others):
                    offset[k, w, a], velocity[k, w, a] = (
                        self.pos[w, b] - self.pos[w, a],
                        self.velocity[w, b] - self.velocity[w, a],
                    )
                    seen[w, a, k] = 1.0
        return {
            "target_offset": self.in_axes(GOAL[:, None] - self.pos),
            "target_velocity": self.in_axes(GOAL_VELOCITY[:, None] - self.velocity),
            "middle_offset": self.in_axes(np.array([0.0, 0.0, 1.5]) - self.pos),
            "up": self.in_body(np.tile([0.0, 0.0, 1.0], (N, A, 1))),
            "linear_velocity": self.in_axes(self.velocity),
            "angular_velocity": self.rates,
            "neighbour_offset": np.concatenate([self.in_axes(v) for v in offset], axis=-1),
            "neighbour_velocity": np.concatenate([self.in_axes(v) for v in velocity], axis=-1),
            "neighbour_seen": seen,
            "last_action": self.action,
        }

    def rewards(self) -> dict[str, np.ndarray]:
        alive = np.ones((N, A))
        alive[1, 1] = 0.0
        nearer = np.linalg.norm(self.old - GOAL_BEFORE[:, None], axis=-1)
        nearer -= np.linalg.norm(self.pos - GOAL_BEFORE[:, None], axis=-1)
        gaps = np.linalg.norm(self.pos[:, :, None] - self.pos[:, None], axis=-1)
        ray = self.pos - GOAL[:, None]
        distance = np.linalg.norm(ray, axis=-1)
        ray /= distance[..., None]
        angle = np.arccos(np.einsum("wai,wbi->wab", ray, ray).clip(-1.0, 1.0)) + 9.0 * np.eye(A)
        self.around = np.minimum(angle.min(-1) / math.sqrt(4.0 * math.pi / A), 1.0)
        self.distance = distance
        return {
            "approach": alive * nearer,
            "apart": alive * gaps.sum(-1) / (A - 1),
            "shell": alive * np.exp(-2.0 * np.abs(distance - 0.8)),
            "around": alive * self.around,
            "yaw_rate": alive * np.abs(self.rates[..., 2]),
            "crash": 1.0 - alive,
        }


@pytest.fixture(
    scope="module", params=[("swarm-surround", "ctbr"), ("swarm-escort", "velocity"), ("swarm-catch", "ctbr")]
)
def scene(request) -> Scene:
    return Scene(*request.param)


def test_observation_terms(scene):
    expected, got = scene.observations(), scene.task.observe()["drone"]
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=2e-5, err_msg=name)


def test_reward_terms(scene):
    expected, got = scene.rewards(), scene.task.rewards()["drone"]
    assert set(got) == set(expected) == set(scene.task.cfg.reward)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-4, atol=1e-5, err_msg=name)
        assert np.ptp(value) > 0, f"the states do not tell faults of {name}"


def test_metrics(scene):
    scene.rewards()
    start, moved = scene.old[:, :, None] - scene.old[:, None], scene.pos[:, :, None] - scene.pos[:, None]
    share = np.linspace(0.0, 1.0, 201)[:, None, None, None, None]
    gaps = np.linalg.norm((1.0 - share) * start + share * moved, axis=-1) + 9.0 * np.eye(A)
    got = without_drift(scene.task.metrics())
    expected = {
        "success": [1.0, 0.0],  # a second has 20 control steps
        "held_s": [1.25, 0.35],
        "distance_m": scene.distance.mean(1),
        "nearest_m": scene.distance.min(1),
        "around": scene.around.min(1),
        "gap_m": gaps.min((0, 2, 3)),
        "crash": [0.0, 1.0],
    }
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
