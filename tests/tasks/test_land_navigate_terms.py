"""Rewards, metrics and observed places of drone-land and drone-navigate, against NumPy on states that are set by hand.

The oracle has the poses and SciPy's rotations, and reads nothing that the task computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from drift import without_drift
from scipy import stats
from scipy.spatial.transform import Rotation

import rookery
from rookery.robots.drones.table import DRONES

N = 16


def turned(draw: np.random.Generator, most: float) -> Rotation:
    """N rotations by up to `most` rad about random axes."""
    axis = draw.normal(size=(N, 3))
    return Rotation.from_rotvec(draw.uniform(0.0, most, (N, 1)) * axis / np.linalg.norm(axis, axis=1, keepdims=True))


def pose(place: np.ndarray, turn: Rotation, velocity: np.ndarray, rates: np.ndarray) -> torch.Tensor:
    """[N, 1, 13] a body's state."""
    return torch.from_numpy(np.concatenate((place, turn.as_quat(scalar_first=True), velocity, rates), 1)).float()[
        :, None
    ]


def motion(rates: np.ndarray, change: float) -> dict[str, np.ndarray]:
    """Terms of a drone's own motion: squared rates, rate about its upward axis, squared change of four commands."""
    return {
        "ang_vel": (rates**2).sum(1), "yaw_rate": np.abs(rates[:, 2]), "action_rate": np.full(N, 4 * change**2),
        "crash": np.zeros(N),
    }  # fmt: skip


def compare(found: dict[str, torch.Tensor], wanted: dict[str, np.ndarray]) -> None:
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name].numpy().reshape(N), value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture
def landing() -> tuple[Any, dict[str, np.ndarray]]:
    """drone-land with drones and pads in random poses, and these."""
    draw = np.random.default_rng(3)
    env: Any = rookery.make("drone-land", N, seed=1)
    env.reset()
    for change in (0.0, 0.2):  # the last two actions differ by .2
        group = env.groups["drone"]
        env.step({"drone": (torch.tensor(group.action.neutral) + change).expand(N, 1, 4)})
    task = env.task
    s: dict[str, Any] = {
        "pad": draw.normal(0.0, 0.2, (N, 3)) + np.array([0.0, 0.0, 0.5]), "pad_turn": turned(draw, 0.2),
        "pad_velocity": draw.normal(0.0, 0.3, (N, 3)), "pad_rates": draw.normal(0.0, 0.4, (N, 3)),
        "turn": turned(draw, 0.5), "velocity": draw.normal(0.0, 0.5, (N, 3)), "rates": draw.normal(0.0, 1.0, (N, 3)),
    }  # fmt: skip
    s["drone"] = s["pad"] + draw.normal(0.0, 0.3, (N, 3)) + [0.0, 0.0, 0.4]
    task.pad.set_state(None, pose(s["pad"], s["pad_turn"], s["pad_velocity"], s["pad_rates"]))
    task.drones.bodies.set_state(None, pose(s["drone"], s["turn"], s["velocity"], s["rates"]))
    task._follow()
    return task, s


REST = 0.5 * (0.06 + DRONES["crazyflie21"].body_height)
"""m, of a standing drone's centre over the middle of its pad, which is 6 cm thick."""


def test_terms_of_a_landing(landing):
    task, s = landing
    assert task.drone.name == "crazyflie21"
    up = s["pad_turn"].apply([0.0, 0.0, 1.0])
    target = s["pad"] + REST * up
    distance = np.linalg.norm(target - s["drone"], axis=1)
    surface = s["pad_velocity"] + np.cross(s["pad_turn"].apply(s["pad_rates"]), s["drone"] - s["pad"])
    speed = np.linalg.norm(s["velocity"] - surface, axis=1)
    task.touching_now.copy_(torch.arange(N) % 2 == 0)
    touch = np.linspace(0.1, 1.0, N)
    task.touchdown_speed.copy_(torch.from_numpy(touch))
    task.resting.copy_(torch.arange(N) % 3)
    compare(
        task.rewards()["drone"],
        {
            "alive": np.ones(N), "distance": distance, "near": np.exp(-5.0 * distance),
            "landed": (np.arange(N) % 3 > 0).astype(float), "impact": touch * (np.arange(N) % 2 == 0), "speed": speed,
            **motion(s["rates"], 0.2),
        },
    )  # fmt: skip
    seen = task.observe()["drone"]
    for term, world in (
        ("pad_offset", target - s["drone"]), ("pad_velocity", s["pad_velocity"] - s["velocity"]), ("pad_up", up)
    ):  # fmt: skip
        np.testing.assert_allclose(seen[term].numpy()[:, 0], s["turn"].inv().apply(world), atol=1e-5, err_msg=term)


def test_metrics_of_a_landing(landing):
    task, s = landing
    touch = np.linspace(0.05, 0.95, N)
    resting = np.arange(N) * 10
    crashed = np.arange(N) == N - 1
    task.touchdown_speed.copy_(torch.from_numpy(touch))
    task.resting.copy_(torch.from_numpy(resting))
    task.crashed.copy_(torch.from_numpy(crashed)[:, None])
    along = s["pad_turn"].inv().apply(s["drone"] - s["pad"])
    seconds = resting * task.cfg.control_dt
    compare(
        without_drift(task.metrics()),
        {
            "success": ((seconds >= 1.0 - 1e-9) & (touch <= 0.5) & ~crashed).astype(float), "touchdown_speed": touch,
            "lateral_m": np.hypot(along[:, 0], along[:, 1]), "rest_s": seconds, "crash": crashed.astype(float),
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "lean", "rests"),
    [
        ((0.29, 0.0, 0.0), 0.0, True), ((0.31, 0.0, 0.0), 0.0, False), ((0.0, -0.31, 0.0), 0.0, False),
        ((0.0, 0.0, 0.029), 0.0, True), ((0.0, 0.0, 0.031), 0.0, False), ((0.0, 0.0, 0.0), 0.34, True),
        ((0.0, 0.0, 0.0), 0.36, False),
    ],
)  # fmt: skip
def test_where_a_drone_stands_on_its_pad(place, lean, rests):
    """Within the edges of 60 cm, at most 3 cm over where it stands, and upright within 20 degrees."""
    env: Any = rookery.make("drone-land", 2, seed=1, config={"heave_m": 0.0, "sway_m": 0.0, "tilt": 0.0})
    env.reset()
    task = env.task
    state = torch.zeros(2, 1, 13)
    state[..., :3] = task.pad.pos + torch.tensor([0.0, 0.0, REST]) + torch.tensor(place)
    state[..., 3:7] = torch.from_numpy(Rotation.from_rotvec([lean, 0.0, 0.0]).as_quat(scalar_first=True)).float()
    task.drones.bodies.set_state(None, state)
    task.touched[0] = True
    task.advance()
    assert task.resting.tolist() == [int(rests), 0]


@pytest.fixture
def field() -> tuple[Any, dict[str, np.ndarray]]:
    """drone-navigate with drones and pillars at random places, and these."""
    draw = np.random.default_rng(4)
    env: Any = rookery.make("drone-navigate", N, seed=1)
    env.reset()
    for change in (0.0, 0.2):
        group = env.groups["drone"]
        env.step({"drone": (torch.tensor(group.action.neutral) + change).expand(N, 1, 4)})
    task = env.task
    pillars = task.pillars.pos.double().numpy()  # [N, P, 3]
    place = pillars[np.arange(N), np.arange(N) % 9] + draw.normal(0.0, 0.35, (N, 3))
    place[:, 2] = draw.uniform(0.6, 2.0, N)
    s = {"turn": turned(draw, 0.4), "velocity": draw.normal(0.0, 0.5, (N, 3)), "rates": draw.normal(0.0, 1.0, (N, 3))}
    goal = place + draw.normal(0.0, 0.4, (N, 3))
    task.target[:, 0] = torch.from_numpy(goal).float()
    radii = np.linspace(0.1, 0.25, 9)
    s |= {"place": place, "goal": goal, "pillars": pillars, "radii": radii}
    task.drones.bodies.set_state(None, pose(place, s["turn"], s["velocity"], s["rates"]))
    return task, s


def clearance(s: dict[str, Any]) -> np.ndarray:
    """m, from the drone's middle to the nearest pillar's side; pillars reach higher than all drones here."""
    off = np.linalg.norm(s["place"][:, None, :2] - s["pillars"][..., :2], axis=-1) - s["radii"]
    return off.min(1)


def test_terms_of_a_flight_between_pillars(field):
    task, s = field
    before = task.distance.double().numpy().copy()
    task.advance()
    task.crashed.zero_()
    distance = np.linalg.norm(s["goal"] - s["place"], axis=1)
    gap = clearance(s) - DRONES["crazyflie21"].body_radius
    outside = clearance(s) > 0.0
    wanted = {
        "alive": np.ones(N), "progress": before - distance, "near": np.exp(-5.0 * distance),
        "there": (distance <= 0.3).astype(float), "proximity": np.clip(1.0 - gap / 0.3, 0.0, 1.0), **motion(s["rates"], 0.2),
    }  # fmt: skip
    found = task.rewards()["drone"]
    for terms in (found, wanted):
        del terms["crash"]
    compare(found, wanted)
    assert 0 < wanted["there"].sum() < N and outside.sum() > N // 2
    goal = task.observe()["drone"]["goal_offset"].numpy()[:, 0]
    np.testing.assert_allclose(goal, s["turn"].inv().apply(s["goal"] - s["place"]), atol=1e-5)


def test_metrics_of_a_flight_between_pillars(field):
    task, s = field
    least = task.least_clearance.double().numpy().copy()
    there_at = np.where(np.arange(N) % 2 == 0, 1.5, -1.0)
    task.there_at.copy_(torch.from_numpy(there_at))
    task.steps.fill_(200)
    task.advance()
    crashed = np.arange(N) % 4 == 0
    task.crashed.copy_(torch.from_numpy(crashed)[:, None])
    distance = np.linalg.norm(s["goal"] - s["place"], axis=1)
    now = 200 * task.cfg.control_dt
    at = np.where(there_at >= 0.0, there_at, np.where(distance <= 0.3, now, -1.0))
    compare(
        without_drift(task.metrics()),
        {
            "success": ((at >= 0.0) & ~crashed).astype(float), "time_s": np.where(at >= 0.0, at, task.cfg.episode_s),
            "distance_m": distance, "clearance_m": np.minimum(least, clearance(s)), "crash": crashed.astype(float),
        },
    )  # fmt: skip


def test_what_is_drawn_of_a_pads_motion_is_independent():
    """Amplitude, period and phase of each of five motions, over 2,000 episodes: uniform in their ranges, uncorrelated."""
    env: Any = rookery.make("drone-land", 2000, seed=4)
    env.reset()
    task, c = env.unwrapped.task, env.unwrapped.task.cfg
    amplitude, rate, phase = task.wave.unbind(-1)
    most = np.array([c.sway_m, c.sway_m, c.heave_m, c.tilt, c.tilt])
    period = 2.0 * np.pi / rate.numpy()
    slow = (period - c.period_least_s) / (c.period_most_s - c.period_least_s)
    shares = np.concatenate((amplitude.numpy() / most, slow, phase.numpy() / (2.0 * np.pi)), 1)
    assert shares.min() >= 0.0 and shares.max() <= 1.0
    for share in shares.T:
        assert stats.kstest(share, "uniform").pvalue > 1e-4
    related = np.corrcoef(shares.T) - np.eye(15)
    assert np.abs(related).max() < 5.0 / np.sqrt(2000)
