"""drone-swap: who goes where, and what counts as arrived."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError


def make(n: int = 4, **config: Any) -> VecEnv:
    env = rookery.make("drone-swap", n, config=config)
    env.reset(seed=0)
    return env


def put(env: VecEnv, pos: torch.Tensor) -> None:
    """All drones at rest and level at pos [N, A, 3]."""
    state = torch.zeros(*pos.shape[:2], 13)
    state[..., :3] = pos
    state[..., 3] = 1.0
    env.task.drones.bodies.set_state(torch.arange(env.num_envs), state)
    env.task.before.copy_(pos)


def step(env: VecEnv) -> tuple:
    g = env.groups["drone"]
    return env.step(torch.tensor(g.action.neutral, dtype=torch.float32).expand(env.num_envs, g.count, 4))


def places(env: VecEnv) -> torch.Tensor:
    """The middles of the start boxes [N, A, 3], from starts without spread."""
    return env.task.drones.bodies.pos.clone()


def level(**config: Any) -> dict[str, Any]:
    return {"start_box_m": 0.0, "start_speed": 0.0, "start_tilt": 0.0, "start_spin": 0.0, **config}


@pytest.mark.parametrize("drones", [2, 5, 6])
def test_antipodal_goals_are_opposite(drones):
    env = make(30, **level(num_drones=drones, exchange="antipodal"))
    start = places(env)
    goal = env.task.target
    assert torch.allclose(start[..., :2], -goal[..., :2], atol=1e-5)
    assert torch.allclose(goal[..., 2], torch.tensor(2.0))
    assert torch.allclose(start[..., :2].norm(dim=-1), torch.tensor(1.2), atol=1e-5)
    assert torch.atan2(start[:, 0, 1], start[:, 0, 0]).std() > 1


@pytest.mark.parametrize("drones", [2, 5, 6])
def test_permutations_are_one_cycle_in_which_nobody_stays(drones):
    env = make(200, **level(num_drones=drones, exchange="permutation"))
    start = places(env)
    goal = env.task.target
    gap, onto = torch.cdist(goal, start).min(-1)
    assert gap.max() < 2e-3
    seen = torch.zeros(200, drones, dtype=torch.bool)
    at = torch.zeros(200, 1, dtype=torch.int64)
    for _ in range(drones):
        at = onto.gather(1, at)
        seen.scatter_(1, at, True)
    assert seen.all()  # from any place the way round visits all
    assert (at == 0).all()
    if drones > 2:
        assert len(onto.unique(dim=0)) > 10


def test_mixed_has_both():
    env = make(60, **level(exchange="mixed"))
    antipodal = (places(env)[..., :2] + env.task.target[..., :2]).norm(dim=-1).amax(1) < 1e-4
    assert 0.3 < antipodal.float().mean() < 0.7


def test_success_and_arrival_against_a_chosen_story():
    """World 0: all arrive in steps 11 and 21 and stay; 1: one leaves for a moment near the end; 2: one never comes;
    3: all as in 0, but a crash at the end."""
    env = make(4, num_drones=3, exchange="antipodal", episode_s=0.4, control_dt=0.01, hold_s=0.1)
    goal = env.task.target.clone()
    away = places(env)
    last = []
    for k in range(1, 41):
        pos = away.clone()
        pos[:, 0] = goal[:, 0] if k > 10 else pos[:, 0]
        pos[:, 1:] = goal[:, 1:] if k > 20 else pos[:, 1:]
        pos[2, 1] = away[2, 1]
        if k == 35:
            pos[1, 0, 2] += 0.2
        if k == 40:
            pos[3, 0, 2] = 0.0
        put(env, pos)
        *_, info = step(env)
        last.append(env.task.metrics())
    m = info["episode"]["metrics"]
    assert m["success"].tolist() == [1, 0, 0, 0]
    assert m["arrival_s"][:3].tolist() == pytest.approx([0.21, 0.36, 0.40], abs=1e-4)
    assert m["arrived"][:3].tolist() == pytest.approx([1, 1, 2 / 3])
    assert m["crash"].tolist() == [0, 0, 0, 1]
    assert last[14]["arrived"].tolist() == pytest.approx([1 / 3] * 4)
    assert last[14]["arrival_s"].tolist() == pytest.approx([0.15] * 4)


def test_the_way_flown_over_the_straight_way():
    env = make(2, **level(num_drones=2, exchange="antipodal", episode_s=0.5))
    t = env.task
    start = places(env)
    corner = torch.stack((start[..., 1], -start[..., 0], start[..., 2]), -1)  # a quarter round
    put(env, start)
    for target in (corner, t.target.clone()):
        t.before.copy_(t.drones.bodies.pos)
        before = t.before.clone()
        put(env, target)
        t.before.copy_(before)
        step(env)
    assert t.metrics()["path_ratio"].tolist() == pytest.approx([2**0.5] * 2, rel=2e-3)


def test_neighbors_out_of_sight_are_not_seen():
    env = make(3, num_drones=2, sight_m=2.0, exchange="antipodal")
    assert env.task.observe()["drone"]["neighbour_closeness"].max() == 0  # 2.4 m apart
    assert env.task.observe()["drone"]["neighbour_offset"].abs().max() == 0
    pos = places(env)
    pos[..., :2] *= 0.5
    put(env, pos)
    seen = env.task.observe()["drone"]
    assert seen["neighbour_closeness"][..., 0].min() > 0.3
    assert seen["neighbour_closeness"][..., 1:].max() == 0


@pytest.mark.parametrize("exchange", ["antipodal", "permutation"])
def test_the_baseline_gets_there(exchange):
    env = rookery.make("drone-swap", 16, engine="rotor", config={"exchange": exchange, "num_drones": 4})
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    for _ in range(env.max_episode_steps):
        obs, *_, info = env.step(controller(obs))
    assert info["episode"]["metrics"]["success"].mean() >= 0.9


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_drones": 40}, "start in collision: 40 places on the circle 0.188 m apart"),
        ({"radius_m": 0.1}, "start in collision"),
        ({"radius_m": 2.0}, "diameter, 4 m, and the start boxes do not fit into bounds_m"),
        ({"exchange": "antipodel"}, "unknown exchange 'antipodel': did you mean 'antipodal'"),
        ({"arrive_m": 0.0}, "arrive_m must be above 0"),
        ({"height_m": 0.1}, "start on the ground"),
    ],
)
def test_swaps_that_cannot_be(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)
