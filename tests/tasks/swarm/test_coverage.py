"""Coverage: links, fairness and propulsion power against closed forms; association, users, flight and success."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm import radio
from rookery.tasks.swarm.coverage import Coverage, CoverageConfig


def make(n: int = 2, seed: int = 0, engine: str = "mujoco", **config: Any) -> VecEnv:
    task = Coverage(CoverageConfig(**config))
    env = VecEnv(task, make_world(engine, task.scene(), n), seed=seed, task_id="uav-coverage")
    env.reset()
    return env


def links(
    stations: list[Any], users: list[Any], bias: list[float] | None = None, **channel: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates [U] bit/s, servers [U] and loads [A] of one world."""
    state = np.zeros((1, len(stations), 13), np.float32)
    state[0, :, :3] = stations
    where = np.array([users], np.float32)
    rate = np.zeros((1, len(users)), np.float32)
    server = np.zeros((1, len(users)), np.int64)
    load = np.zeros((1, len(stations)), np.float32)
    db = np.array([bias or [0.0] * len(stations)], np.float32)
    radio.serve(np.array([0]), state, where, db, radio.Channel(**channel), rate, server, load)
    return rate[0], server[0], load[0]


# the air


def test_line_of_sight() -> None:
    c = radio.URBAN
    assert radio.line_of_sight(math.radians(c.a), c) == pytest.approx(1 / (1 + 9.61))
    assert radio.line_of_sight(math.pi / 2, c) == pytest.approx(1 / (1 + 9.61 * math.exp(-0.16 * (90 - 9.61))))
    p = [radio.line_of_sight(math.radians(e), c) for e in range(0, 91, 5)]
    assert all(a < b for a, b in zip(p, p[1:], strict=False))


def test_path_loss() -> None:
    c = radio.URBAN
    free = 20 * math.log10(100.0) + 20 * math.log10(2e9) - 147.55  # Friis, with c = 299792458 m/s
    assert radio.path_loss(0.0, 100.0, c) == pytest.approx(free + 1.0, abs=0.01)  # overhead: always line of sight
    flat = radio.path_loss(1000.0, 0.0, c)
    p = 1 / (1 + 9.61 * math.exp(0.16 * 9.61))
    assert flat == pytest.approx(free + 20.0 + p * 1.0 + (1 - p) * 20.0, abs=0.01)
    # ten times the distance at one elevation: 20 dB
    assert radio.path_loss(300.0, 300.0, c) - radio.path_loss(30.0, 30.0, c) == pytest.approx(20.0, abs=1e-6)


def test_propulsion_power() -> None:
    craft = radio.AIRCRAFT
    assert radio.propulsion_power(0.0, 0.0, craft) == pytest.approx(168.49)
    power = [radio.propulsion_power(v, 0.0, craft) for v in np.arange(0.0, 30.0, 0.1)]
    assert 0.1 * int(np.argmin(power)) == pytest.approx(10.2, abs=0.3)  # the paper's speed of longest endurance
    assert min(power) == pytest.approx(126.0, abs=1.0)
    per_meter = [p / v for p, v in zip(power[1:], np.arange(0.1, 30.0, 0.1), strict=True)]
    assert 0.1 * (1 + int(np.argmin(per_meter))) == pytest.approx(18.3, abs=0.5)  # of longest range
    assert radio.propulsion_power(5.0, 2.0, craft) - radio.propulsion_power(5.0, -2.0, craft) == pytest.approx(40.0)
    # momentum theory: what the constants say about the aircraft agrees with its weight and disc
    assert math.sqrt(20.0 / (2 * 1.225 * 0.503)) == pytest.approx(craft.induced_speed, abs=0.01)


def test_fairness() -> None:
    assert radio.jain(np.full(7, 3.0)) == pytest.approx(1.0)
    assert radio.jain(np.array([0.0, 0.0, 5.0, 0.0])) == pytest.approx(0.25)
    rates = np.array([1.0, 2.0, 4.0])
    assert radio.jain(rates) == pytest.approx(49 / 63)
    assert radio.jain(1e6 * rates) == pytest.approx(49 / 63)
    assert radio.jain(np.zeros(3)) == 0.0
    env = make(1)
    assert env.task.fairness(torch.tensor([[1.0, 2.0, 4.0]])).item() == pytest.approx(49 / 63)


# who serves whom


def test_one_station_shares_its_band() -> None:
    users = [[0.0, 0.0], [100.0, 0.0], [0.0, 300.0]]
    rate, server, load = links([[0.0, 0.0, 80.0]], users)
    assert server.tolist() == [0, 0, 0]
    assert load.tolist() == [3.0]
    for r, u in zip(rate, users, strict=True):
        snr_db = 30.0 - radio.path_loss(math.hypot(*u), 80.0, radio.URBAN) - (-174.0 + 9.0 + 70.0)
        assert r == pytest.approx(10e6 / 3 * math.log2(1 + 10 ** (snr_db / 10)), rel=1e-4)


def test_interference_costs_and_own_bands_do_not() -> None:
    stations = [[-100.0, 0.0, 80.0], [100.0, 0.0, 80.0]]
    users = [[-120.0, 0.0], [0.0, 0.0], [90.0, 0.0]]
    shared = links(stations, users)[0]
    own = links(stations, users, interference=False)[0]
    assert (shared < own).all()
    middle = links(stations, [[0.0, 0.0]])[0]  # as near to both: signal as strong as interference
    assert middle[0] == pytest.approx(10e6 * math.log2(2.0), rel=1e-3)


def test_a_bid_takes_users_from_the_neighbor() -> None:
    stations = [[-100.0, 0.0, 80.0], [100.0, 0.0, 80.0]]
    users = [[x, 0.0] for x in range(-150, 151, 20)]
    even = links(stations, users)[1]
    assert even.tolist() == [0] * 8 + [1] * 8
    assert links(stations, users, [7.0, 7.0])[1].tolist() == even.tolist()  # only differences count
    loads = [links(stations, users, [db, 0.0])[2][0] for db in (-10.0, -5.0, 0.0, 5.0, 10.0)]
    assert loads == sorted(loads)
    assert loads[0] < 8 < loads[-1]
    assert all(links(stations, users, [db, 0.0])[2].sum() == len(users) for db in (-10.0, 3.0))


def test_the_bid_is_part_of_the_action() -> None:
    env = make(4, seed=2)
    bid = torch.zeros(4, 4, 4)
    env.step(bid)
    before = env.task.load.clone()
    bid[:, 0, 3] = 1.0
    env.step(bid)
    assert (env.task.load[:, 0] >= before[:, 0]).all()
    assert env.task.load[:, 0].sum() > before[:, 0].sum()
    assert env.groups["drone"].action.high == (12.0, 12.0, 3.0, 10.0)
    assert env.groups["drone"].action.names[3] == "association_bias"


# users, flight, rewards


def test_users_walk_within_the_area() -> None:
    env = make(8, walk_speed=2.0)
    task = env.task
    last = task.users.clone()
    moved = torch.zeros(8, 20)
    for _ in range(300):
        task.advance()
        step = (task.users - last).norm(dim=-1)
        assert step.max() <= 2.0 * 0.1 + 1e-4
        last = task.users.clone()
        moved = moved + step
    assert task.users.abs().max() <= 250.0
    assert moved.min() > 0.9 * 300 * 2.0 * 0.1 / 3  # the slowest makes a third of it, and nobody stops
    a, b, c = (make(2, seed=s).task.users for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)


def test_stations_fly_at_the_speeds_of_their_actions() -> None:
    env = make(2, num_drones=2, start_speed=0.0)
    action = torch.zeros(2, 2, 4)
    action[:, 0, 0] = 1.0
    action[:, 1, 2] = -1.0
    for _ in range(80):
        _, _, terminated, *_ = env.step(action)
        if terminated.any():
            break
        velocity = env.task.drones.bodies.lin_vel.clone()
    assert velocity[:, 0, 0] == pytest.approx(torch.full((2,), 12.0), rel=0.1)
    assert velocity[:, 1, 2] == pytest.approx(torch.full((2,), -3.0), rel=0.1)
    assert velocity[:, 1, :2].abs().max() < 0.5


def test_the_objectives() -> None:
    env = make(3)
    _, reward, _, _, _ = env.step(torch.zeros(3, 4, 4))
    task = env.task
    assert env.objectives == ("rate", "fairness", "energy")
    want = [
        (1e-6 * task.rate.mean(1) * 0.1)[:, None].expand(3, 4),
        (0.1 * torch.tensor([radio.jain(r.numpy()) for r in task.rate]))[:, None].expand(3, 4),
        -0.1 * task.power / 168.49,
    ]
    assert torch.allclose(reward["drone"], torch.stack(want, -1), rtol=1e-4)
    v = task.drones.bodies.lin_vel[1, 2]
    power = radio.propulsion_power(float(v[:2].norm()), float(v[2]), radio.AIRCRAFT)
    assert task.power[1, 2].item() == pytest.approx(power, rel=1e-4)


def placed(stations: list[Any], users: list[Any], velocities: list[Any]) -> Coverage:
    """The task of one world whose stations and users have been put somewhere, and its links there."""
    env = make(1, num_drones=len(stations), num_users=len(users))
    task = env.task
    assert isinstance(task, Coverage)
    state = task.drones.bodies.state.clone()
    state[..., 7:] = 0.0
    state[0, :, :3] = torch.tensor(stations)
    state[0, :, 7:10] = torch.tensor(velocities)
    task.drones.reset(torch.arange(1), state)
    env.world.forward()
    task.users[0] = torch.tensor(users)
    task.last_action.zero_()
    task._serve(task._all)
    return task


def test_reward_terms_of_stations_put_somewhere() -> None:
    """Two stations, one over its user and one far from it: all by the closed forms of the papers."""
    stations = [[-150.0, 0.0, 50.0], [150.0, 0.0, 150.0]]
    users = [[-150.0, 0.0], [30.0, 160.0]]
    task = placed(stations, users, [[0.0, 0.0, 0.0], [3.0, -4.0, 2.0]])

    def watts(i: int, j: int) -> float:
        """Received by user i from station j, of 1 W: Friis, and 1 dB or 20 dB more with or without line of sight."""
        x, y, height = stations[j]
        across = math.hypot(users[i][0] - x, users[i][1] - y)
        distance = math.hypot(across, height)
        degrees = math.degrees(math.atan2(height, across))
        p = 1.0 / (1.0 + 9.61 * math.exp(-0.16 * (degrees - 9.61)))
        decibel = p * 1.0 + (1.0 - p) * 20.0
        return (299_792_458.0 / (4.0 * math.pi * 2e9 * distance)) ** 2 * 10.0 ** (-decibel / 10.0)

    noise = 10.0 ** ((-174.0 + 9.0) / 10.0) * 1e-3 * 10e6  # W in 10 MHz
    rates = [10.0 * math.log2(1.0 + watts(i, i) / (noise + watts(i, 1 - i))) for i in range(2)]  # Mbit/s
    assert task.server[0].tolist() == [0, 1] and rates[0] > 1.5 * rates[1]
    reward = {name: value[0].tolist() for name, value in task.rewards()["drone"].items()}
    assert reward["rate"] == pytest.approx([sum(rates) / 2] * 2, rel=1e-4)
    assert reward["fairness"] == pytest.approx([sum(rates) ** 2 / (2 * sum(r * r for r in rates))] * 2, rel=1e-4)
    ratio = 25.0 / (2 * 4.03**2)
    power = 79.86 * (1 + 3 * 25.0 / 120.0**2) + 88.63 * math.sqrt(math.sqrt(1 + ratio**2) - ratio)
    power += 0.5 * 0.6 * 1.225 * 0.05 * 0.503 * 5.0**3 + 20.0 * 2.0
    assert reward["energy"] == pytest.approx([1.0, power / 168.49], rel=1e-4)
    assert reward["crash"] == [0.0, 0.0]
    task.crashed[0, 1] = True
    assert task.rewards()["drone"]["crash"][0].tolist() == [0.0, 1.0]


def test_observation_terms_of_stations_put_somewhere() -> None:
    users = [[10.0, 0.0], [30.0, 40.0], [-200.0, 100.0]]
    task = placed([[0.0, 0.0, 60.0]], users, [[1.0, -2.0, 3.0]])
    task.last_action[0, 0] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    seen = {name: value[0, 0] for name, value in task.observe()["drone"].items()}
    weight = [1.0 / (1.0 + 1e-6 * r) for r in task.rate[0].tolist()]  # a user needs 1 Mbit/s
    middle = [sum(w * u[k] for w, u in zip(weight, users, strict=True)) / sum(weight) for k in range(2)]
    assert seen["poor_users"].tolist() == pytest.approx(middle, rel=1e-3)
    assert seen["own_users"].tolist() == pytest.approx([-160.0 / 3, 140.0 / 3], rel=1e-4)
    assert seen["place"].tolist() == pytest.approx([0.0, 0.0, -20.0], abs=1e-4)  # starts are at 80 m
    assert seen["linear_velocity"].tolist() == pytest.approx([1.0, -2.0, 3.0])
    assert seen["last_action"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert seen["user_offset"][6:].tolist() == [0.0] * 6 and seen["neighbour_seen"].tolist() == [0.0] * 3


def test_success_takes_the_whole_episode_enough_users_and_no_crash() -> None:
    env = make(5)
    task = env.task
    assert isinstance(task, Coverage)
    task.steps.fill_(task.max_steps)
    task.count.fill_(100.0)
    task.clock.fill_(float(task.max_steps))
    task.share_sum.fill_(95.5)
    task.steps[1] -= 1
    task.share_sum[2] = 94.5
    task.crashed[3, 2] = True
    task.count[4] = 50.0  # a world that began in the middle: over the steps that it has
    metrics = task.metrics()
    assert metrics["success"].tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert metrics["served"].tolist() == pytest.approx([0.955, 0.955, 0.945, 0.955, 1.91])
    assert metrics["crash"].tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("cause", "place"),
    [("out_of_bounds", [301.0, 0.0, 80.0]), ("out_of_bounds", [0.0, 0.0, 151.0]), ("out_of_bounds", [0.0, 0.0, 19.0])],
)
def test_where_stations_may_not_be(cause: str, place: list[float]) -> None:
    env = make(2)
    state = env.task.drones.bodies.state.clone()
    state[:, 1, :3] = torch.tensor(place)
    env.task.drones.reset(torch.arange(2), state)
    env.world.forward()
    _, reward, terminated, _, info = env.step(torch.zeros(2, 4, 4))
    assert terminated.all()
    assert {env.task.causes[c - 1] for c in info["episode"]["cause"]} == {cause}
    assert (reward["drone"][:, 1] < -9.0 + 1.0).all()
    assert (reward["drone"][:, 0] > -1.0).all()


def test_what_a_station_sees_of_users_and_others() -> None:
    env = make(3, num_drones=5, near_users=4, seed=4)
    task = env.task
    state = task.drones.bodies.state.clone()  # all begin around the middle
    state[..., :2] = torch.empty(3, 5, 2).uniform_(-150.0, 150.0, generator=torch.Generator().manual_seed(0))
    task.drones.reset(torch.arange(3), state)
    seen = env.task.observe()["drone"]
    pos = task.drones.bodies.pos
    for w in range(3):
        for a in range(5):
            offset = task.users[w] - pos[w, a, :2]
            near = offset.norm(dim=-1).argsort()[:4]
            assert torch.allclose(seen["user_offset"][w, a].view(4, 2), offset[near], atol=1e-3)
            assert torch.allclose(seen["user_rate"][w, a], 1e-6 * task.rate[w, near], rtol=1e-4)
            own = task.server[w] == a
            middle = offset[own].mean(0) if own.any() else torch.zeros(2)
            assert torch.allclose(seen["own_users"][w, a], middle, atol=1e-2)
            assert seen["own_share"][w, a].item() == pytest.approx(own.float().mean().item())
            others = sorted(((pos[w, b] - pos[w, a]).norm().item(), b) for b in range(5) if b != a)
            shown = [b for d, b in others if d <= 300.0][:3]
            assert seen["neighbour_seen"][w, a].sum() == len(shown)
            for i, b in enumerate(shown):
                assert torch.allclose(seen["neighbour_offset"][w, a].view(3, 3)[i], pos[w, b] - pos[w, a], atol=1e-3)
                assert seen["neighbor_share"][w, a, i].item() == pytest.approx(task.load[w, b].item() / 20)


@pytest.mark.parametrize(("stations", "users"), [(1, 3), (2, 40), (6, 20)])
def test_what_a_station_sees_has_one_size_for_any_number(stations: int, users: int) -> None:
    env = make(1, num_drones=stations, num_users=users)
    assert env.groups["drone"].observation_size == make(1).groups["drone"].observation_size
    obs, *_ = env.step(torch.zeros(1, stations, 4))
    assert torch.isfinite(obs["drone"]).all()


@pytest.mark.parametrize("engine", slow_but(["rotor"], ["mujoco", "rotor"]))
def test_the_baseline_covers(engine: str) -> None:
    env = make(16, engine=engine, episode_s=30.0)
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    start = env.task.metrics()
    for _ in range(env.max_episode_steps):
        obs, _, terminated, _, info = env.step(controller(obs))
        assert not terminated.any()
    metrics = info["episode"]["metrics"]
    # one layout in twenty keeps a base station from its users
    assert metrics["served"].median() > 0.97
    assert metrics["served"].mean() > 0.85
    assert metrics["rate_mbit"].mean() > start["rate_mbit"].mean()
    assert 120.0 < metrics["power_w"].mean() < 200.0
    assert torch.allclose(metrics["energy_kj"], 1e-3 * metrics["power_w"] * 30.0 * 4, rtol=1e-3)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"action": "ctbr"}, "flown by velocities, got action='ctbr'"),
        ({"num_drones": 0}, "num_drones must be from 1 to 200"),
        ({"num_drones": 100}, "100 stations do not fit on"),
        ({"spacing_m": 40.0}, "start in collision"),
        ({"height_m": 160.0}, "start at height_m"),
        ({"num_users": 0}, "num_users must be at least 1"),
        ({"speed": 0.0}, "speed must be above 0"),
    ],
)
def test_configs_that_make_no_sense(config: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        Coverage(CoverageConfig(**config))
