"""drone-navigate: pillars drawn anew, collisions with them, the goal, and what the drone observes of both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.sensors.cameras import CLASSES


def make(n: int = 4, engine: str = "rotor", **config: Any) -> VecEnv:
    env = rookery.make("drone-navigate", n, engine=engine, seed=0, config=config)
    env.reset()
    return env


def neutral(env: VecEnv) -> dict[str, torch.Tensor]:
    return {"drone": torch.tensor(env.groups["drone"].action.neutral).float().expand(env.num_envs, 1, 4)}


def put(env: VecEnv, pos: torch.Tensor) -> None:
    """All drones at rest, level and facing world x, at pos [N, 3] m."""
    state = torch.zeros(env.num_envs, 1, 13)
    state[:, 0, :3] = pos
    state[..., 3] = 1.0
    env.task.drones.bodies.set_state(None, state)
    env.world.forward()


def test_every_episode_has_pillars_of_its_own_with_room_between_them():
    env = make(64)
    task = env.task
    first = task.pillars.pos.clone()
    flat = first[..., :2]
    apart = torch.cdist(flat, flat) - torch.from_numpy(task.radii[:, None] + task.radii).float()
    apart[:, torch.eye(9, dtype=torch.bool)] = 9.0
    assert apart.min() > 0.4 + 2.0 * task.drone.body_radius  # m, wide enough for the drone
    assert task.gap.min() > 0.5  # m, of starts
    assert (task.target[:, 0, None, :2] - flat).norm(dim=-1).min() > 0.5  # m, of goals
    assert flat.std(0).min() > 0.1  # m, between worlds
    env.task.reset(torch.arange(32))
    assert (task.pillars.pos[32:] == first[32:]).all() and (
        (task.pillars.pos - first)[:32, :, :2].norm(dim=-1) > 0
    ).all()


def test_the_straight_way_is_mostly_blocked():
    task = make(256).task
    start, goal = task.drones.bodies.pos[:, 0, :2], task.target[:, 0, :2]
    share = torch.linspace(0.0, 1.0, 200)[:, None, None]
    way = (start + share * (goal - start))[:, :, None]  # [200, N, 1, 2]
    clear = (way - task.pillars.pos[..., :2]).norm(dim=-1) - torch.from_numpy(task.radii).float()
    assert (clear.amin((0, 2)) < task.drone.body_radius).float().mean() > 0.5


@pytest.mark.parametrize("engine", ["rotor", "mujoco", "pybullet"])
def test_who_touches_a_pillar_has_crashed_and_who_flies_past_has_not(engine):
    env = make(2, engine, effects="none")
    task = env.task
    beside = task.pillars.pos[:, 4].clone()
    beside[:, 2] = 1.2
    beside[:, 1] -= float(task.radii[4])  # on the surface
    away = torch.tensor([0.0, task.drone.body_radius + 0.02, 0.0])
    put(env, beside - away)
    env.step(neutral(env))
    assert not task.crashed.any()
    assert task.gap.tolist() == pytest.approx([float(away[1])] * 2, abs=2e-3)
    put(env, beside)
    *_, terminated, _, info = env.step(neutral(env))
    assert terminated.all() and info["episode"]["metrics"]["crash"].tolist() == [1.0, 1.0]
    assert [task.causes[c - 1] for c in info["episode"]["cause"].tolist()] == ["obstacle", "obstacle"]
    assert info["episode"]["metrics"]["success"].tolist() == [0.0, 0.0]


def test_the_first_time_at_the_goal_counts_and_a_later_crash_takes_it_back():
    env = make(2)
    task = env.task
    env.step(neutral(env))
    put(env, task.target[:, 0] + torch.tensor([[0.0, 0.28, 0.0], [0.0, 0.33, 0.0]]))
    env.step(neutral(env))
    assert task.events()["there"].tolist() == [True, False]
    metrics = task.metrics()
    assert metrics["success"].tolist() == [1.0, 0.0]
    assert metrics["time_s"].tolist() == pytest.approx([0.02, task.cfg.episode_s])
    put(env, torch.tensor([[0.0, 0.0, -0.1]]).expand(2, 3))
    *_, info = env.step(neutral(env))
    assert info["episode"]["metrics"]["success"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", slow_but(["drone-navigate"], ["drone-navigate", "go2-navigate"]))
def test_a_robot_finds_out_that_it_comes_to_its_goal(name):
    """The expression that contracts have, of what is measured, is the event of the task: each time that it comes near."""
    env = rookery.make(name, num_envs=3)
    task = env.task
    how = env.deployment().events["there"]
    env.reset(seed=0)
    happened = torch.zeros(3)
    group = next(iter(env.groups))
    before = {k: v.clone() for k, v in task.measured()[group].items()}
    for distance in (2.0, 0.12, 0.1, 0.9, 0.25, 0.25):
        body = task.drones.bodies if name == "drone-navigate" else task.robot.base
        state = body.state.clone()
        away = torch.tensor([distance, 2.0 * distance, 0.5 * distance])
        state[:, 0, :3] = task.goal_place + torch.stack((away, torch.zeros(3), torch.zeros(3)), 1)
        body.set_state(torch.arange(3), state)
        env.world.forward(torch.arange(3))
        *_, info = env.step(neutral(env) if name == "drone-navigate" else {group: torch.zeros(3, 1, 12)})
        assert "episode" not in info
        now = {k: v.clone() for k, v in task.measured()[group].items()}
        wanted = info["events"]["there"]
        assert torch.equal(how.evaluate(now, before)[:, 0, 0] != 0.0, wanted)
        happened += wanted
        before = now
    assert happened.tolist() == [2.0, 1.0, 2.0]


def test_above_the_pillars_is_out_of_bounds():
    env = make(2)
    task = env.task
    high = task.target[:, 0].clone()
    high[:, 2] = torch.tensor([2.9, 3.0])
    put(env, high)
    *_, terminated, _, info = env.step(neutral(env))
    assert terminated.tolist() == [False, True]
    assert task.causes[int(info["episode"]["cause"][0]) - 1] == "out_of_bounds"


def test_the_lidar_has_pillars_where_they_are():
    """Ahead, to the left, behind, to the right of a drone half a meter from a pillar's surface."""
    env = make(4)
    task = env.task
    pillar = torch.zeros(4, 9, 13)
    pillar[..., 3] = 1.0
    pillar[..., 0] = 50.0
    pillar[..., 2] = 1.52
    radius = float(task.radii[3])
    sides = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    pillar[:, 3, :2] = (0.5 + radius) * sides
    task.pillars.set_state(None, pillar)
    put(env, torch.tensor([[0.0, 0.0, 1.2]]).expand(4, 3))
    ring = env.observe_terms()["drone"]["lidar"][:, 0]
    assert ring.argmin(1).tolist() == [0, 6, 12, 18]
    assert ring.amin(1).tolist() == pytest.approx([0.5] * 4, abs=1e-5)
    assert (ring == task.cfg.lidar_range_m).sum(1).min() > 12


def cameras_of(env):
    (reader,) = env.sensors.readers["drone"].values()
    return reader.cameras


def test_a_camera_shows_the_pillars_ahead():
    env = make(8, obs="segmentation")
    obs = cameras_of(env).read()
    assert (obs == CLASSES.index("obstacle")).flatten(1).any(1).all()
    assert "lidar" not in env.groups["drone"].slices()


@pytest.mark.parametrize("height", [0.1, 0.3])
def test_pillars_stand_on_raised_ground(height):
    env = make(2, "mujoco")
    ids = torch.arange(2)
    env.randomization.parameters["ground_height"].write(ids, torch.tensor([0.0, height]))
    env.task.reset(ids)
    assert env.task.pillars.pos[:, 0, 2].tolist() == pytest.approx([1.52, 1.52 + height])
    before = env.task.pillars.pos.clone()
    for _ in range(10):
        env.step(neutral(env))
    assert (env.task.pillars.pos - before).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_drones": 2}, "one drone flies"),
        ({"rays": 0}, "a lidar ray"),
        ({"radius_least_m": 0.0}, "must be positive"),
        ({"pillar_gap_m": 0.8}, "must leave gaps"),
        ({"way_m": 2.0}, "among the pillars"),
        ({"bounds_m": 7.5}, "out of bounds"),
        ({"pillar_height_m": 1.4}, "out of bounds"),
    ],
)
def test_fields_that_cannot_be_are_refused(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)


@pytest.mark.parametrize("engine", ["rotor", "mujoco", "pybullet"])
@pytest.mark.parametrize(("speed", "beside"), [(2.5, 0.2), (8.0, 0.17), (8.0, 0.0), (20.0, 0.15)])
def test_a_drone_that_strikes_a_pillar_and_bounces_off_has_crashed(engine, speed, beside):
    """Struck beside its middle, it is on its way past, turning, by the end of the control step."""
    env = make(1, engine)
    task = env.task
    pillar, radius = task.pillars.pos[0, 4], float(task.radii[4])
    state = torch.zeros(1, 1, 13)
    state[0, 0, :2] = pillar[:2] + torch.tensor([-radius - 0.3, beside])
    state[0, 0, 2], state[0, 0, 3], state[0, 0, 7] = 1.5, 1.0, speed
    task.drones.bodies.set_state(None, state)
    env.world.forward()
    for _ in range(25):
        info = env.step(neutral(env))[4]
        if "episode" in info and len(info["episode"]["ids"]):
            break
    assert info["episode"]["cause"].tolist() == [4]  # obstacle
    assert info["episode"]["metrics"]["success"].tolist() == [0.0]
