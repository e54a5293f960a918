"""Observation and reward terms of hand-grasp and hand-reorient, on states set by hand: value, sign, axes, order and unit.

The oracle is NumPy on the numbers that were set, MuJoCo's kinematics for the hand and SciPy's rotations; it reads nothing of
the task.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import rookery

N = 4
FORCE = np.array([[0.0, 0.04, 0.06, 0.3, 0.0], [0.2, 0.0, 0.0, 0.0, 0.0], [0.0] * 5, [1.0, 0.5, 0.06, 0.0, 0.3]])
"""N, on the four tips and the palm; from 0.05 on it counts as touched."""


def bodies(rng: np.random.Generator, pos: np.ndarray, turn: Rotation) -> torch.Tensor:
    state = np.zeros((N, 1, 13))
    state[:, 0, :3] = pos
    state[:, 0, 3:7] = turn.as_quat(scalar_first=True)
    return torch.from_numpy(state).float()


def feel(task: Any, force: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(task.hand), "touch", property(lambda hand: torch.from_numpy(force).float()))


def hand_of(task: Any, joints: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joint angles, speeds and targets of the hand, drawn and set."""
    pos = draw.uniform(0.1, 0.6, (N, joints))
    pos[:, 16:19] = draw.uniform(-0.05, 0.05, pos[:, 16:19].shape)  # m, of the wrist
    vel, target = draw.uniform(-1.0, 1.0, (2, N, joints))
    task.hand.joints.set_state(None, torch.from_numpy(pos).float(), torch.from_numpy(vel).float())
    task.hand.target.copy_(torch.from_numpy(target))
    return pos, vel, target


def check(got: dict[str, torch.Tensor], expected: dict[str, np.ndarray]) -> None:
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name][:, 0], value, rtol=1e-3, atol=3e-5, err_msg=name)


def axes_of(turn: Rotation) -> np.ndarray:
    """[N, 6] x and y axis of each."""
    m = turn.as_matrix()
    return np.concatenate((m[:, :, 0], m[:, :, 1]), axis=1)


def test_grasp(monkeypatch):
    draw = np.random.default_rng(19)
    env = rookery.make("hand-grasp", N, config={"object": "cube_50"})
    env.reset(seed=0)
    task: Any = env.task
    pos, vel, target = hand_of(task, 22, draw)
    at = draw.uniform(-0.1, 0.1, (N, 3)) + np.array([0.0, 0.0, 0.25])
    at[0, 2], at[1, 0], at[3, 2] = 0.13, 2.0, 0.05  # above 12.5 cm, half of the edge of 5 cm and 10; lost; under it
    turn = Rotation.random(N, rng=2)
    task.thing.set_state(None, bodies(draw, at, turn))
    env.world.forward()
    feel(task, FORCE, monkeypatch)
    action = draw.uniform(-1.0, 1.0, (N, 22))
    centre = np.array([0.003, -0.004, 0.006])  # of the superquadric, in the object's frame
    task.grasps.__dict__["centre"] = torch.from_numpy(centre).float()
    share, height, away = draw.uniform(0.0, 0.5, N), draw.uniform(0.0, 0.1, N), draw.uniform(0.1, 0.3, N)
    height[2] = 0.2  # above the goal before
    touched = np.array([False, False, False, True])
    for buffer, value in (
        (task.last_action, action), (task.touch_share, share), (task.height, height), (task.centre_distance, away),
        (task.touched_once, touched),
    ):  # fmt: skip
        buffer.copy_(torch.from_numpy(value))
    task.advance()
    sites = [env.mj_data(i) for i in range(N)]
    palm = [task.hand.grasp.names[0]] * N
    hand, frame = (
        np.stack([getattr(d.body(name), k) for d, name in zip(sites, palm, strict=True)]) for k in ("xpos", "xquat")
    )
    grip = Rotation.from_quat(frame, scalar_first=True)
    middle = at + turn.apply(centre)
    check(task.observe()["hand"], {
        "joint_position": pos[:, :16], "joint_velocity": vel[:, :16], "wrist": pos[:, 16:], "command": target - pos,
        "touch": FORCE > 0.05, "force": FORCE, "object_position": grip.inv().apply(at - hand),
        "object_axes": axes_of(grip.inv() * turn), "superquadric_centre": grip.inv().apply(middle - hand),
        "lifted": at[:, 2:] - 0.025, "last_action": action,
    })  # fmt: skip
    shares = np.array([0.4, 0.0, 0.0, 0.8])  # of five; one alone does not count
    far = np.linalg.norm(hand - middle, axis=1)
    check(task.rewards()["hand"], {
        "contacts": shares - share, "lift": np.minimum(at[:, 2] - 0.025, 0.1) - np.minimum(height, 0.1),  # up to the goal
        "near": np.where([0, 0, 1, 0], away - far, 0.0),  # up to the first touch
        "goal": at[:, 2] - 0.025 >= 0.1, "failure": np.array([0, 1, 0, 0]),
    })  # fmt: skip


def test_metrics_of_grasp():
    """Half a second of 0.02 s each at the end, and not lost."""
    env = rookery.make("hand-grasp", N)
    env.reset(seed=0)
    task: Any = env.task
    for name, value in (("held_steps", [25, 24, 30, 0]), ("lost", [False, False, True, False]), ("steps", [100, 150, 50, 200]),
                        ("ever_done", [True, True, True, False]), ("first_done_s", [1.0, 2.0, 0.5, 0.0]),
                        ("height", [0.1, 0.2, 0.3, 0.0])):  # fmt: skip
        getattr(task, name).copy_(torch.tensor(value))
    got = task.metrics()
    assert got["success"].tolist() == [1, 0, 0, 0]
    assert got["lifted_at_any_time"].tolist() == [1, 1, 1, 0]
    assert got["seconds"].tolist() == pytest.approx([1.0, 2.0, 0.5, 4.0])
    assert got["height"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.0])


def test_reorient(monkeypatch):
    draw = np.random.default_rng(23)
    env = rookery.make("hand-reorient", N)
    env.reset(seed=0)
    task: Any = env.task
    pos, vel, target = hand_of(task, 16, draw)
    rest = rest_of_the_cube(env)
    at = rest + np.array([[0.01, 0.0, 0.0], [0.03, -0.02, 0.01], [0.0, 0.05, -0.04], [0.0, 0.0, -0.13]])
    turn = Rotation.random(N, rng=4)
    error = np.array([[0.05, 0.0, 0.0], [0.0, 0.9, 0.3], [0.2, -0.1, 0.15], [0.0, 0.0, -2.0]])  # rad, world
    goal = Rotation.from_rotvec(error) * turn
    task.cube.set_state(None, bodies(draw, at, turn))
    env.world.forward()
    feel(task, FORCE, monkeypatch)
    action, change = draw.uniform(-1.0, 1.0, (2, N, 16))
    for buffer, value in (
        (task.last_action, action),
        (task.change, change),
        (task.goal, goal.as_quat(scalar_first=True)),
    ):
        buffer.copy_(torch.from_numpy(value))
    force = draw.uniform(-0.5, 0.5, (N, 16))  # N m
    monkeypatch.setattr(task.hand, "actuators", SimpleNamespace(force=torch.from_numpy(force).float()))
    task._new_goals = lambda ids: None
    task.advance()
    check(task.observe()["hand"], {
        "joint_position": pos, "joint_velocity": vel, "command": target - pos, "force": FORCE, "cube_position": at - rest,
        "cube_rotation": error, "cube_axes": axes_of(turn), "last_action": action,
    })  # fmt: skip
    angle, off, dt = np.linalg.norm(error, axis=1), np.linalg.norm(at - rest, axis=1), 0.05
    cradle = np.array([0.0, 0.8, 0.7, 0.6] * 3 + [0.9, 0.5, 0.3, 0.5])  # rad
    check(task.rewards()["hand"], {
        "orientation": dt * np.clip(1.0 - (angle - 0.2) / math.pi, 0.0, 1.0),
        "position": dt * np.clip(1.0 - (off - 0.02) / 0.05, 0.0, 1.0), "termination": dt * np.array([0, 0, 0, 1]),
        "hand_pose": dt * ((pos - cradle) ** 2).sum(1), "action_rate": dt * (change**2).sum(1),
        "energy": dt * np.abs(force * vel).sum(1), "success": np.array([1, 0, 0, 0]),
    })  # fmt: skip
    task.steps.fill_(40)
    task.reached_count.copy_(torch.tensor([2, 0, 1, 0]))
    task.first_done_s.copy_(torch.tensor([0.5, 0.0, 1.5, 0.0]))
    got = {name: value.tolist() for name, value in task.metrics().items()}
    assert got == {
        "successes": [2, 0, 1, 0],
        "success": [1, 0, 1, 0],
        "seconds_to_first": pytest.approx([0.5, 2.0, 1.5, 2.0]),
    }


def rest_of_the_cube(env: Any) -> np.ndarray:
    """m, world: where the scene puts the cube, in the bowl of the hand."""
    return np.array(env.world.model.body("cube/base").pos)
