"""drone-formation: errors of the shape against SciPy, what counts as success, and what drones see of the slots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but
from scipy.spatial.distance import cdist, directed_hausdorff

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm import formation_kernels, kernels


def make(n: int = 4, **config: Any) -> VecEnv:
    env = rookery.make("drone-formation", n, config=config)
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


def corners(env: VecEnv) -> torch.Tensor:
    return env.task.slots + env.task.centre[:, None]


@pytest.mark.parametrize("drones", [3, 5, 8])
def test_the_polygon_is_regular_level_and_of_the_declared_size(drones):
    env = make(200, num_drones=drones)
    t = env.task
    side = (t.slots - t.slots.roll(1, 1)).norm(dim=-1)
    assert torch.allclose(side, side[:, :1].expand_as(side), atol=1e-5)
    assert side.min() >= 0.64 - 1e-5
    assert side.max() <= 0.96 + 1e-5
    assert side.max() - side.min() > 0.28
    assert t.slots[..., 2].abs().max() == 0
    assert t.slots.mean(1).abs().max() < 1e-5
    assert torch.allclose(t.slots.norm(dim=-1), 0.5 * side / math.sin(math.pi / drones), atol=1e-5)
    assert env.groups["drone"].observation_size == make(1).groups["drone"].observation_size
    first = torch.atan2(t.slots[:, 0, 1], t.slots[:, 0, 0])
    assert first.min() < -3
    assert first.max() > 3


def test_shape_errors_against_scipy():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(30, 5, 13)).astype(np.float32)
    slots = rng.normal(size=(30, 5, 3)).astype(np.float32)
    slots -= slots.mean(1, keepdims=True)
    centre = rng.normal(size=(30, 3)).astype(np.float32)
    hausdorff = np.empty(30, np.float32)
    offset = np.empty(30, np.float32)
    formation_kernels.shape_errors(state, slots, centre, hausdorff, offset)
    for w in range(30):
        drones = state[w, :, :3]
        centred = drones - drones.mean(0)
        want = max(directed_hausdorff(centred, slots[w])[0], directed_hausdorff(slots[w], centred)[0])
        assert hausdorff[w] == pytest.approx(want, abs=1e-5)
        assert offset[w] == pytest.approx(np.linalg.norm(drones.mean(0) - centre[w]), abs=1e-5)


def test_errors_do_not_ask_who_stands_where():
    env = make(3, num_drones=5)
    t = env.task
    put(env, corners(env)[:, [3, 0, 4, 1, 2]] + torch.tensor([0.0, 0.3, 0.0]))
    t._evaluate()
    assert t.hausdorff.max() < 1e-5
    assert torch.allclose(t.astray, torch.tensor(0.3), atol=1e-5)
    assert (t.own == torch.tensor([3, 0, 4, 1, 2])).all()
    assert torch.allclose(t.distances(), torch.tensor(0.3), atol=1e-5)


def nearest_pairs(far: np.ndarray, drones: list[int]) -> dict[int, int]:
    """Of the drones and corners that are left the nearest pair, again and again."""
    cost = far.copy()
    out = {}
    for _ in drones:
        a, corner = min(((a, s) for a in drones for s in range(far.shape[1])), key=lambda pair: cost[pair])
        out[a] = corner
        cost[a] = math.inf
        cost[:, corner] = math.inf
    return out


@pytest.mark.parametrize("sight", [0.7, 1.5, 100.0])
def test_a_drone_claims_the_corner_that_falls_to_it_among_those_it_sees(sight):
    rng = np.random.default_rng(1)
    state = rng.normal(size=(20, 5, 13)).astype(np.float32)
    places = rng.normal(size=(20, 5, 3)).astype(np.float32)
    claim = np.empty((20, 5, 3), np.float32)
    kernels.claims(state, places, sight, claim)
    for w in range(20):
        far = cdist(state[w, :, :3], places[w])
        apart = cdist(state[w, :, :3], state[w, :, :3])
        for a in range(5):
            own = nearest_pairs(far, [b for b in range(5) if apart[a, b] <= sight])[a]
            assert np.allclose(claim[w, a], places[w, own] - state[w, a, :3], atol=1e-5)


def test_of_two_at_one_corner_the_farther_one_is_shown_the_empty_corner():
    env = make(50, num_drones=6, sight_m=100.0)
    t = env.task
    assert torch.allclose(t.observe()["drone"]["corner_offset"].norm(dim=-1), t.distances(), atol=1e-5)
    pos = corners(env)[:, [0, 0, 2, 3, 4, 5]]
    pos[:, 1] += torch.tensor([0.1, 0.0, 0.0])
    put(env, pos)
    way = t.observe()["drone"]["corner_offset"]  # level and facing x: body axes are the world's
    assert torch.allclose(way[:, 1], corners(env)[:, 1] - pos[:, 1], atol=1e-5)
    assert way[:, [0, 2, 3, 4, 5]].abs().max() < 1e-5


def test_success_asks_for_shape_place_and_no_crash():
    env = make(4, num_drones=4, episode_s=0.3, settled_s=0.1)
    pos = corners(env)
    pos[1] += torch.tensor([0.12, 0.0, 0.0])  # in shape, but elsewhere
    pos[2, 0] += torch.tensor([0.0, 0.0, 0.3])  # not in shape
    for k in range(30):
        if k == 29:
            pos[3, 1, 2] = 0.0
        put(
            env, pos if k >= 20 else corners(env) + torch.tensor([0.0, 0.0, 0.5])
        )  # before the last 0.1 s all is allowed
        *_, info = step(env)
    m = info["episode"]["metrics"]
    assert m["success"].tolist() == [1, 0, 0, 0]
    assert m["crash"].tolist() == [0, 0, 0, 1]
    assert m["centre_error_m"][:2].tolist() == pytest.approx([0.0, 0.12], abs=2e-3)
    # one of four displaced by h from its corner moves the mean by h/4: it is left with 3/4 h
    assert m["hausdorff_m"][:3].tolist() == pytest.approx([0.0, 0.0, 0.225], abs=2e-3)


def test_rewards_are_those_of_omnidrones():
    env = make(3, num_drones=3)
    t = env.task
    put(env, corners(env) + torch.tensor([0.2, 0.0, 0.0]))
    step(env)
    terms = t.rewards()["drone"]
    h, c = t.hausdorff, t.astray
    assert torch.allclose(terms["formation"][:, 1], 1 / (1 + (1.6 * h) ** 2), atol=1e-6)
    assert torch.allclose(terms["centre"][:, 1], torch.exp(-c), atol=1e-6)
    assert torch.allclose(terms["placed"], terms["formation"] * terms["centre"], atol=1e-6)
    t.gap.fill_(1.0)
    t.gap[:, 2] = 0.5 * t.cfg.safe_m  # two of them half the safe distance apart spoil it for all
    damped = t.rewards()["drone"]
    for name in ("formation", "centre", "placed"):
        assert torch.allclose(damped[name], 0.25 * terms[name], atol=1e-6)


@pytest.mark.parametrize("drones", [3, 8, 20])
def test_starts_are_apart_and_none_is_a_crash(drones):
    env = make(50, num_drones=drones)
    pos = env.task.drones.bodies.pos
    assert (torch.cdist(pos, pos) + 9 * torch.eye(drones)).min() >= 0.8 - 2 * math.sqrt(3) * 0.2
    assert pos[..., :2].abs().max() <= env.task.cfg.arena_m
    assert not step(env)[2].any()


def test_far_from_the_middle_is_out_of_bounds():
    env = make(2, num_drones=3)
    t = env.task
    pos = corners(env)
    limit = t.cfg.bounds_m + t._reach
    direction = torch.tensor([0.6, 0.0, 0.8])
    pos[:, 0] = t.centre + torch.tensor([[limit - 0.1], [limit + 0.1]]) * direction
    put(env, pos)
    _, _, terminated, _, info = step(env)
    assert terminated.tolist() == [False, True]
    assert t.causes[int(info["episode"]["cause"][0]) - 1] == "out_of_bounds"


@pytest.mark.parametrize("drones", slow_but([3], [3, 7]))
def test_the_baseline_gets_there(drones):
    env = rookery.make("drone-formation", 16, engine="rotor", config={"num_drones": drones, "episode_s": 8.0})
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    for _ in range(env.max_episode_steps):
        obs, *_, info = env.step(controller(obs))
    assert info["episode"]["metrics"]["success"].mean() >= 0.9


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_drones": 2}, "at least 3 drones"),
        ({"spacing_m": 0.5}, "start in collision: places 0.5 m apart"),
        ({"num_drones": 40}, "do not fit into the arena: it has 25 places"),
        ({"arena_m": 0.1}, "do not fit into the arena: it has 0 places"),
        ({"side_m": 0.45}, "smallest edge of the polygon"),
        ({"side_spread": 1.0}, "smallest edge of the polygon"),
        ({"height_m": 0.5}, "raise height_m"),
    ],
)
def test_formations_that_cannot_be(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)


def test_pictures_show_every_corner_to_everybody():
    """A picture depends on where a drone is, not on its number: corners belong to nobody."""
    env = make(1, obs="depth", num_drones=3, image_width=24, image_height=18)
    offsets = torch.tensor([[-1.5, -0.4, 0.0], [-1.5, 0.4, 0.0], [-1.5, 1.2, 0.0]])
    seen = []
    for order in ([0, 1, 2], [1, 2, 0]):
        env.reset(seed=0)
        put(env, env.task.centre[:, None] + offsets[order])
        picture = step(env)[0]["drone"][:, :, -24 * 18 :]
        seen.append(torch.empty_like(picture).index_copy_(1, torch.tensor(order), picture))
    assert (seen[0] < seen[0].max()).float().mean() > 0.02
    torch.testing.assert_close(seen[0], seen[1], rtol=0.0, atol=1e-3)
