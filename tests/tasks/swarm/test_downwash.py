"""drone-downwash: stations, scripted drones above, and what the wake does to the PID cascade."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError


def make(n: int = 4, engine: str = "mujoco", randomize: str = "none", **config: Any) -> VecEnv:
    env = rookery.make("drone-downwash", n, engine=engine, randomize=randomize, config=config)
    env.reset(seed=0)
    return env


def fly(env: VecEnv, steps: int) -> dict[str, torch.Tensor]:
    """The baseline for some steps; metrics of the episodes that ended last, or of now."""
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    metrics = {}
    for _ in range(steps):
        obs, *_, info = env.step(controller(obs))
        metrics = info["episode"]["metrics"] if "episode" in info else metrics
    return metrics or env.task.metrics()


def test_half_of_the_drones_are_agents():
    env = make(3, num_drones=6)
    assert env.groups["drone"].count == 3
    obs, reward, *_ = env.step(torch.zeros(3, 3, 4))
    assert obs["drone"].shape[1] == reward["drone"].shape[1] == 3


def test_stations_are_below_the_drone_above_wherever_it_is():
    env = make(100, num_drones=4, start_tilt=0.0)
    t = env.task
    for _ in range(5):
        env.step(torch.zeros(100, 2, 4))
        down = t.drones.bodies.pos[:, 2:] - t.target[:, :2]
        assert torch.allclose(down[..., 2], t.swing[..., 6], atol=1e-5)
        assert torch.allclose(down[..., :2].norm(dim=-1), t.side, atol=1e-5)
    assert t.swing[..., 6].min() >= 0.4
    assert t.swing[..., 6].max() <= 0.8


def test_keep_is_beside_in_one_half_and_beneath_in_the_other():
    env = make(40, station="keep", episode_s=0.4)
    t = env.task
    seen = []
    for _ in range(39):
        env.step(torch.zeros(40, 1, 4))
        seen.append(t.side.clone())
    first = torch.stack(seen[:19])
    second = torch.stack(seen[19:])
    assert first.unique().tolist() == pytest.approx([0.0, 0.8])
    assert ((first > 0.4) == (first[0] > 0.4)).all()
    assert ((second > 0.4) != (first[0] > 0.4)).all()
    assert 0.2 < (first[0] > 0.4).float().mean() < 0.8


@pytest.mark.parametrize("upper", ["hover", "line"])
@pytest.mark.parametrize("station", ["keep", "cross"])
def test_velocities_are_those_of_the_places(upper, station):
    """Of the upper drones' references and of the stations, while the drones above stand still."""
    env = make(20, upper=upper, station=station)
    t, dt = env.task, env.control_dt
    t.drones.bodies.set_state(torch.arange(20), torch.tensor([0, 0, 1.0, 1, *[0] * 9]).expand(20, 2, 13).clone())
    places = []
    speeds = []
    for k in range(100, 103):
        t.clock.fill_(k)
        t._move()
        places.append(t.target.clone())
        speeds.append(t.velocity.clone())
    assert torch.allclose((places[2] - places[0]) / (2 * dt), speeds[1], atol=2e-3)
    moves = speeds[1].norm(dim=-1).amax(0) > 0.1
    assert moves.tolist() == [station == "cross", upper == "line"]


def test_errors_are_sorted_by_where_the_station_is():
    """Agents held at chosen distances from their stations, beneath and beside."""
    env = make(12, station="keep", upper="hover", episode_s=1.0, settle_s=0.1)
    t = env.task
    near = 0.04
    far = 0.13
    t.target[:, 1] = t.places
    info: dict[str, Any] = {}
    for _ in range(100):
        state = t.drones.bodies.state.clone()
        off = torch.where(t.side < 0.4, near, far)
        state[:, 0, :3] = t.target[:, 0] + torch.stack((off[:, 0], *[torch.zeros(12)] * 2), -1)
        state[:, 0, 3:] = torch.tensor([1.0] + [0] * 9)
        state[:, 0, 7:10] = t.velocity[:, 0]
        t.drones.bodies.set_state(torch.arange(12), state)
        t.before.copy_(state[..., :3])
        *_, info = env.step(torch.tensor(env.groups["drone"].action.neutral).float().expand(12, 1, 4))
    m = info["episode"]["metrics"]
    assert m["beneath_error_m"].tolist() == pytest.approx([near] * 12, abs=5e-3)
    assert m["beside_error_m"].tolist() == pytest.approx([far] * 12, abs=5e-3)
    assert m["success"].tolist() == [0] * 12  # beside is too far


@pytest.mark.slow
def test_the_drones_above_fly_whatever_the_agents_do():
    env = make(16, upper="line", randomize="default", episode_s=4.0)
    t = env.task
    ended = torch.zeros(16, dtype=torch.bool)
    for k in range(300):
        _, _, terminated, _, _ = env.step(torch.full((16, 1, 4), -1.0))  # agents fall
        ended |= terminated
        fresh = t.clock > 200
        if k > 200 and fresh.any():
            assert (t.distances()[fresh, 1] < 0.4).all()
    # one that lies on its edge stands higher than a crash is seen at
    down = t.drones.bodies.pos[:, 0, 2] - t.ground_height < 2.0 * t.drone.body_radius
    assert (ended | down).all()


def test_a_crash_of_an_agent_ends_its_world():
    env = make(2)
    t = env.task
    state = t.drones.bodies.state.clone()
    state[1, 0, :3] = t.drones.bodies.pos[1, 1] - torch.tensor([0.0, 0.0, 0.1])
    t.drones.bodies.set_state(torch.arange(2), state)
    t.before.copy_(state[..., :3])
    _, _, terminated, _, info = env.step(torch.zeros(2, 1, 4))
    assert terminated.tolist() == [False, True]
    assert t.causes[int(info["episode"]["cause"][0]) - 1] == "collision"


@pytest.mark.slow
def test_the_wake_makes_it_harder_to_stay_beneath():
    """With the PID cascade, stations that do not move: as large errors beneath as beside without the wake, larger with it."""
    options = {"station": "keep", "upper": "hover"}
    still, wake = (fly(make(8, "rotor", effects=e, **options), 1000) for e in ("none", "realistic"))
    assert still["crash"].sum() == wake["crash"].sum() == 0
    assert wake["beneath_error_m"].mean() > 1.5 * wake["beside_error_m"].mean()
    assert wake["beneath_error_m"].mean() > 1.3 * still["beneath_error_m"].mean()
    assert still["beneath_error_m"].mean() < 1.2 * still["beside_error_m"].mean()


@pytest.mark.slow
def test_the_published_wake_needs_depth():
    options = {"station": "keep", "upper": "hover", "effects": "volleybots", "episode_s": 6.0}
    near = fly(make(4, "rotor", **options), 600)
    far = fly(make(4, "rotor", depth_low_m=2.5, depth_high_m=3.0, height_m=4.0, sight_m=4.0, **options), 600)
    assert near["crash"].mean() == 1
    assert far["crash"].mean() == 0
    assert far["beneath_error_m"].max() < 0.2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_drones": 3}, "even number of drones"),
        ({"num_drones": 1}, "at least 2 drones"),
        ({"upper": "hoover"}, "unknown value of upper 'hoover': did you mean 'hover'"),
        ({"station": "kept"}, "unknown value of station"),
        ({"depth_low_m": 0.3}, "start in collision: stations and the drones above them are 0.3 m apart"),
        ({"depth_low_m": 0.9}, "depth_low_m must be above 0 and at most depth_high_m"),
        ({"period_low_s": 0.0}, "period_low_s must be above 0"),
        ({"beside_m": 0.2}, "beside_m, 0.2 m, must exceed beneath_m"),
        ({"height_m": 0.9}, "raise height_m"),
        ({"spacing_m": 2.0}, "start in collision: pairs"),
        ({"effects": "realstic"}, "did you mean 'realistic'"),
    ],
)
def test_downwash_that_cannot_be(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)
