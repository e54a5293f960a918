"""Every observation and reward term of the tasks of several drones, on states set by hand: value, sign, axes, order and unit.

The oracle is NumPy on the numbers that were set, with SciPy's rotations; it reads nothing of the task.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import rookery
from rookery.assets.gates import COURSES

N, A = 3, 4
TASKS = ("drone-track", "drone-formation", "drone-swap", "drone-race", "drone-downwash")
AGENTS = {"drone-downwash": 2}
SLOTS = np.array([[0.6, 0.0, 0.0], [0.0, 0.6, 0.0], [-0.6, 0.0, 0.0], [0.0, -0.6, 0.0]])  # m, from the middle
CENTRE = np.array([0.2, -0.3, 1.9])  # m
COURSE = COURSES["figure-eight"]
NEAREST = 3  # neighbours that are seen


class Scene:
    """A task with drones, targets and actions drawn once."""

    def __init__(self, name: str) -> None:
        draw = np.random.default_rng(7)
        self.name = name
        config: dict[str, Any] = {"num_drones": A} | ({} if name == "drone-track" else {"neighbours": NEAREST})
        self.env = rookery.make(name, N, config=config)
        self.env.reset(seed=0)
        task = self.task = self.env.task
        # each near a place of its own, so that it is clear which is whose
        self.pos = CENTRE + SLOTS[[2, 0, 3, 1]] + draw.uniform(-0.15, 0.15, (N, A, 3))
        self.turn = Rotation.random(N * A, rng=3)
        quat = self.turn.as_quat(scalar_first=True).reshape(N, A, 4)
        self.velocity = draw.uniform(-1.0, 1.0, (N, A, 3))
        self.rates = draw.uniform(-2.0, 2.0, (N, A, 3))
        self.target = self.pos + draw.uniform(-0.4, 0.4, (N, A, 3))
        self.action, self.before = draw.uniform(-1.0, 1.0, (2, N, A, 4))
        self.crashed = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]], bool)
        self.gap = draw.uniform(0.1, 0.6, (N, A))
        self.gap[0, 0] = 0.12  # nearer than is safe in any task
        self.gap[1] = 0.9  # nobody is near
        self.aim = draw.uniform(-1.0, 1.0, (N, A, 3))  # m/s, of the references
        state = np.concatenate((self.pos, quat, self.velocity, self.rates), axis=-1)
        task.drones.bodies.set_state(None, torch.from_numpy(state).float())
        self.set(target=self.target, last_action=self.action, previous_action=self.before, crashed=self.crashed)
        if name != "drone-track":
            self.set(gap=self.gap)
        getattr(self, f"set_{name.removeprefix('drone-')}")(draw)

    def set(self, **values: Any) -> None:
        for name, value in values.items():
            getattr(self.task, name).copy_(torch.as_tensor(value))

    def set_track(self, draw: np.random.Generator) -> None:
        """One sine an axis, 1.5 s on its way (150 steps of 0.01 s), of which the second harmonic is another."""
        shape = self.task.amplitude.shape
        size, rate, phase = (draw.uniform(0.2, 0.9, shape) for _ in range(3))
        self.task.clock.fill_(150)
        middles = np.array([[3.0 * a, 0.0, 2.0] for a in range(A)])  # the drones' own places, 3 m apart
        places = [middles + (size * np.sin(rate * (1.5 + s) + phase)).sum(-1) for s in (0.0, 0.1, 0.2, 0.3, 0.4)]
        self.target, self.aim = places[0], (size * rate * np.cos(rate * 1.5 + phase)).sum(-1)
        self.ahead = np.concatenate([p - places[0] for p in places[1:]], axis=-1)
        self.set(amplitude=size, frequency=rate, phase=phase)
        self.task.load_state_dict(self.task.state_dict())
        self.distance = np.linalg.norm(self.pos - self.target, axis=-1)
        self.set(distance=self.distance)

    def set_formation(self, draw: np.random.Generator) -> None:
        self.hausdorff, self.astray = draw.uniform(0.1, 0.8, (2, N))
        self.set(slots=np.tile(SLOTS, (N, 1, 1)), centre=np.tile(CENTRE, (N, 1)))
        self.set(hausdorff=self.hausdorff, astray=self.astray)

    def set_swap(self, draw: np.random.Generator) -> None:
        self.set(distance=np.linalg.norm(self.pos - self.target, axis=-1))

    def set_race(self, draw: np.random.Generator) -> None:
        self.following = np.array([[0, 1, len(COURSE) - 1, 2]] * N)
        self.progress = draw.uniform(-0.02, 0.02, (N, A))
        self.when = np.array([[0.0, -1.0, 0.4, -1.0]] * N)
        self.set(following=self.following, progress=self.progress, when=self.when)

    def set_downwash(self, draw: np.random.Generator) -> None:
        self.set(velocity=self.aim)

    # What the terms should be

    def in_body(self, world: np.ndarray) -> np.ndarray:
        """Vectors [N, A, 3 k] in world axes, in those of the drones."""
        parts = [
            self.turn.inv().apply(v.reshape(-1, 3)).reshape(N, A, 3) for v in np.split(world, world.shape[-1] // 3, -1)
        ]
        return np.concatenate(parts, axis=-1)

    def neighbours(self) -> dict[str, np.ndarray]:
        """The three others, all in sight, nearest first."""
        sight = {"drone-swap": 2.0, "drone-downwash": 2.0}.get(self.name, 3.0)  # m
        offset, velocity = np.zeros((2, N, A, NEAREST, 3))
        for w in range(N):
            for a in range(A):
                others = [b for b in range(A) if b != a]
                others.sort(key=lambda b, w=w, a=a: np.linalg.norm(self.pos[w, b] - self.pos[w, a]))
                offset[w, a] = self.pos[w, others] - self.pos[w, a]
                velocity[w, a] = self.velocity[w, others] - self.velocity[w, a]
        return {
            "neighbour_offset": self.in_body(offset.reshape(N, A, -1)),
            "neighbour_velocity": self.in_body(velocity.reshape(N, A, -1)),
            "neighbour_closeness": 1.0 - np.linalg.norm(offset, axis=-1) / sight,
        }

    def observations(self) -> dict[str, np.ndarray]:
        error = self.in_body(self.target - self.pos)
        out = {
            "up": self.in_body(np.tile([0.0, 0.0, 1.0], (N, A, 1))),
            "linear_velocity": self.in_body(self.velocity),
            "angular_velocity": self.rates,
            "last_action": self.action,
        }
        if self.name != "drone-track":
            out |= self.neighbours()
        if self.name == "drone-track":
            out |= {"position_error": error, "reference_ahead": self.in_body(self.ahead)}
        elif self.name == "drone-formation":
            own = CENTRE + SLOTS[[2, 0, 3, 1]]
            out["corner_offset"] = self.in_body(own - self.pos)
        elif self.name == "drone-swap":
            out["goal_offset"] = error
        elif self.name == "drone-race":
            gates = np.array([[p.x, p.y, p.z] for p in COURSE])
            ways = np.array([[math.cos(p.yaw), math.sin(p.yaw), 0.0] for p in COURSE])
            ahead = np.stack((self.following, (self.following + 1) % len(gates)), -1)
            out["gate_offset"] = self.in_body((gates[ahead] - self.pos[:, :, None]).reshape(N, A, 6))
            out["gate_direction"] = self.in_body(ways[ahead].reshape(N, A, 6))
        else:
            out |= {"station_offset": error, "station_velocity": self.in_body(self.aim)}
        return self.of_agents(out)

    def rewards(self) -> dict[str, np.ndarray]:
        distance = np.linalg.norm(self.pos - self.target, axis=-1)
        out = {
            "alive": np.ones((N, A)),
            "distance": distance,
            "near": np.exp(-5.0 * distance),
            "on_target": np.exp(-20.0 * distance),
            "ang_vel": (self.rates**2).sum(-1),
            "yaw_rate": np.abs(self.rates[..., 2]),
            "action_rate": ((self.action - self.before) ** 2).sum(-1),
            "crash": self.crashed.astype(float),
        }
        if self.name != "drone-track":
            safe = 0.2 if self.name == "drone-downwash" else 0.4  # m
            out["proximity"] = np.maximum(1.0 - self.gap / safe, 0.0) ** 2
        if self.name in ("drone-track", "drone-downwash"):
            out["velocity_error"] = np.linalg.norm(self.velocity - self.aim, axis=-1)
        if self.name == "drone-race":
            for term in ("alive", "distance", "near", "on_target"):
                del out[term]
            out |= {"progress": self.progress, "gate_passed": (self.when >= 0.0).astype(float)}
        if self.name == "drone-formation":
            apart = np.minimum(self.gap.min(1) / 0.4, 1.0) ** 2
            shape = apart / (1.0 + (1.6 * self.hausdorff) ** 2)
            place = np.exp(-self.astray)
            shared = {"formation": shape, "centre": apart * place, "placed": shape * place}
            out |= {name: np.tile(value[:, None], A) for name, value in shared.items()}
        return self.of_agents(out)

    def of_agents(self, terms: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: value[:, : AGENTS.get(self.name, A)] for name, value in terms.items()}


@pytest.fixture(scope="module", params=TASKS)
def scene(request) -> Scene:
    return Scene(request.param)


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
        assert name == "alive" or np.ptp(value) > 0, f"the states do not tell faults of {name}"
