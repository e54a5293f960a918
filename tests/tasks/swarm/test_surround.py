"""Swarms around a target: the published reward and rules against plain formulas, what drones see, starts, and success."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rookery.policies.algorithms.chains import encoder_links
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm import multi_objective_kernels as kernels
from rookery.tasks.swarm.surround import Surround, SurroundConfig

QUIET = {"start_speed": 0.0, "start_tilt": 0.0, "start_spin": 0.0}
TETRAHEDRON = torch.tensor([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]) / math.sqrt(3.0)


def make(n: int = 2, seed: int = 0, engine: str = "mujoco", **config: Any) -> VecEnv:
    task = Surround(SurroundConfig(**config))
    env = VecEnv(task, make_world(engine, task.scene(), n), seed=seed, task_id="swarm-surround")
    env.reset()
    return env


def put(env: VecEnv, pos: torch.Tensor, heading: float = 0.0, velocity: torch.Tensor | None = None) -> None:
    """Drones of all worlds at `pos` [A, 3], level."""
    n, a = env.num_envs, env.groups["drone"].count
    state = torch.zeros(n, a, 13)
    state[..., 0:3] = pos
    state[..., 3] = math.cos(heading / 2)
    state[..., 6] = math.sin(heading / 2)
    if velocity is not None:
        state[..., 7:10] = velocity
    ids = torch.arange(n)
    env.task.drones.reset(ids, state)
    env.world.forward()
    env.task.before.copy_(state[..., 0:3])
    env.task.load_state_dict(env.task.state_dict())


def still(env: VecEnv) -> dict[str, torch.Tensor]:
    group = env.groups["drone"]
    return {"drone": torch.tensor(group.action.neutral).expand(env.num_envs, group.count, 4)}


def test_the_reward_is_the_published_one() -> None:
    env = make(3, starts="published")
    rng = torch.Generator().manual_seed(1)
    goal = torch.tensor([1.0, 1.0, 2.5])
    for _ in range(15):
        before = env.task.drones.bodies.pos.clone()
        action = torch.rand(3, 4, 4, generator=rng) * 2 - 1
        _, reward, terminated, _, _ = env.step(action)
        assert not terminated.any()
        now = env.task.drones.bodies.pos
        closeness = (before - goal).norm(dim=-1) - (now - goal).norm(dim=-1)
        spread = torch.cdist(now, now).sum(-1) / 3
        assert torch.allclose(reward["drone"], torch.stack((closeness, spread), -1), atol=1e-5)


@pytest.mark.parametrize(
    ("cause", "who", "places"),
    [
        ("ground", [1], [[2.0, 2.0, 1.0], [-2.0, 2.0, 0.08], [-2.0, -2.0, 1.0]]),
        ("collision", [0, 2], [[2.0, 2.0, 1.0], [-2.0, 2.0, 1.0], [2.0, 2.11, 1.0]]),
        ("target", [2], [[2.0, 2.0, 1.0], [-2.0, 2.0, 1.0], [0.0, 0.05, 1.5]]),
        ("out_of_bounds", [0], [[4.1, 2.0, 1.0], [-2.0, 2.0, 1.0], [2.0, -2.0, 1.0]]),
        ("out_of_bounds", [1], [[2.0, 2.0, 1.0], [-2.0, 2.0, 4.1], [2.0, -2.0, 1.0]]),
    ],
)
def test_a_crash_is_minus_ten_in_both_for_those_who_had_it(cause: str, who: list[int], places: list[Any]) -> None:
    env = make(2, num_drones=3)
    env.task.goal[:] = torch.tensor([0.0, 0.0, 1.5])
    put(env, torch.tensor(places))
    _, reward, terminated, _, info = env.step(still(env))
    assert terminated.all()
    assert [env.task.causes[c - 1] for c in info["episode"]["cause"]] == [cause, cause]
    for i in range(3):
        crashed = (reward["drone"][:, i] == -10).all(-1)
        assert crashed.all() if i in who else not crashed.any()
        if i not in who:
            assert (reward["drone"][:, i, 1] > 0.5).all()
    assert (info["episode"]["metrics"]["crash"] == 1).all()
    assert (info["episode"]["metrics"]["success"] == 0).all()


def test_drones_see_the_nearest_others_in_sight_nearest_first() -> None:
    env = make(4, num_drones=6, neighbours=3, sight_m=2.0, seed=5)
    seen = env.task.observe()["drone"]
    pos = env.task.drones.bodies.pos
    vel = env.task.drones.bodies.lin_vel
    counts = set()
    for w in range(4):
        for a in range(6):
            others = sorted(((pos[w, b] - pos[w, a]).norm().item(), b) for b in range(6) if b != a)
            near = [b for d, b in others if d <= 2.0][:3]
            counts.add(len(near))
            want = [1.0] * len(near) + [0.0] * (3 - len(near))
            assert seen["neighbour_seen"][w, a].tolist() == want
            offsets, speeds = (seen[k][w, a].view(3, 3) for k in ("neighbour_offset", "neighbour_velocity"))
            for i in range(3):
                here = torch.zeros(3) if i >= len(near) else pos[w, near[i]] - pos[w, a]
                fast = torch.zeros(3) if i >= len(near) else vel[w, near[i]] - vel[w, a]
                assert torch.allclose(offsets[i], here, atol=1e-6)
                assert torch.allclose(speeds[i], fast, atol=1e-6)
            assert torch.allclose(seen["target_offset"][w, a], env.task.goal[w] - pos[w, a], atol=1e-6)
            assert torch.allclose(seen["target_velocity"][w, a], -vel[w, a], atol=1e-6)
    assert len(counts) > 1  # some saw more, some fewer


@pytest.mark.parametrize("number", [2, 4, 9])
def test_what_a_drone_sees_has_one_size_for_any_number(number: int) -> None:
    env = make(1, num_drones=number)
    assert env.groups["drone"].observation_size == make(1).groups["drone"].observation_size


def test_the_order_of_the_others_does_not_matter() -> None:
    env = make(1, **QUIET)
    places = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.2, 1.5], [-0.5, 0.0, 2.0]])
    put(env, places)
    first = env.task.observe()["drone"]
    a = torch.cat([v[0, 0] for v in first.values()]).clone()
    put(env, places[[0, 3, 1, 2]])
    b = torch.cat([v[0, 0] for v in env.task.observe()["drone"].values()])
    assert torch.equal(a, b)


@pytest.mark.parametrize(("action", "turns"), [("velocity", False), ("ctbr", True), ("rotor_thrust", True)])
def test_vectors_are_in_the_axes_in_which_the_drone_is_commanded(action: str, turns: bool) -> None:
    env = make(1, action=action)
    places = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.2, 1.5], [-0.5, 0.0, 2.0]])
    seen = []
    for heading in (0.0, math.pi / 2):
        put(env, places, heading, torch.tensor([0.5, 0.0, 0.0]))
        seen.append({k: v.clone() for k, v in env.task.observe()["drone"].items()})
    for name in ("target_offset", "middle_offset", "linear_velocity", "neighbour_offset"):
        a, b = (s[name].unflatten(-1, (-1, 3)) for s in seen)
        # facing y, what was ahead is to the right
        want = torch.stack((a[..., 1], -a[..., 0], a[..., 2]), -1) if turns else a
        assert torch.allclose(b, want, atol=1e-5)
    term = next(t for t in env.groups["drone"].observation if t.name == "target_offset")
    assert term.frame == ("body" if turns else "world")


@pytest.mark.parametrize("number", [2, 4, 12])
def test_random_starts_are_apart_from_each_other_and_the_target(number: int) -> None:
    env = make(128, num_drones=number)
    pos = env.task.drones.bodies.pos
    goal = env.task.goal
    apart = torch.cdist(pos, pos) + 9 * torch.eye(number)
    assert apart.min() >= 0.4  # places 1 m apart, boxes of +-0.3 m
    assert (pos - goal[:, None]).norm(dim=-1).min() > 0.8
    assert pos[..., :2].abs().max() <= 3.0
    assert pos[..., 2].min() > 0.3
    assert goal.std(0).min() > 0.1
    assert (env.task.terminated() == 0).all()


def test_the_published_starts() -> None:
    env = make(1, starts="published", start_box_m=0.0, **QUIET)
    want = torch.tensor([[0.0, 0, 1], [1, 1, 1], [0, 1, 1], [2, 2, 1]])
    assert torch.allclose(env.task.drones.bodies.pos[0], want)
    assert env.task.goal[0].tolist() == [1.0, 1.0, 2.5]
    assert env.max_episode_steps == 200


@pytest.mark.parametrize(
    ("places", "met"),
    [
        (0.8 * TETRAHEDRON, True),
        (1.1 * TETRAHEDRON, True),
        (1.3 * TETRAHEDRON, False),  # too far out
        (0.3 * TETRAHEDRON, False),  # too near
        (0.8 * TETRAHEDRON * torch.tensor([[1.0], [1.0], [1.0], [1.6]]), False),  # one too far out
        (0.8 * torch.nn.functional.normalize(TETRAHEDRON + torch.tensor([1.5, 0, 0]), dim=-1), False),  # on one side
        (0.8 * torch.nn.functional.normalize(TETRAHEDRON * torch.tensor([5.0, 1, 1]), dim=-1), False),  # in two clumps
    ],
)
def test_what_counts_as_surrounded(places: torch.Tensor, met: bool) -> None:
    env = make(1)
    env.task.goal[:] = torch.tensor([0.0, 0.0, 1.8])
    put(env, env.task.goal[0] + places)
    env.step(still(env))
    assert env.task.met().tolist() == [met]
    assert env.task.held.tolist() == [int(met)]


@pytest.mark.parametrize(
    ("number", "action", "engine"),
    [(2, "velocity", "rotor"), (4, "velocity", "mujoco"), (4, "velocity", "rotor"), (7, "velocity", "rotor"),
     (4, "ctbr", "rotor")],
)  # fmt: skip
def test_the_baseline_surrounds(number: int, action: str, engine: str) -> None:
    env = make(8, engine=engine, num_drones=number, action=action, episode_s=6.0)
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    for _ in range(env.max_episode_steps):
        obs, _, terminated, _, info = env.step(controller(obs))
        assert not terminated.any()
    metrics = info["episode"]["metrics"]
    assert metrics["success"].mean() == 1.0
    assert metrics["held_s"].min() >= 1.0
    assert metrics["gap_m"].min() > 0.12


def test_success_needs_the_last_second() -> None:
    env = make(1, episode_s=2.0)
    for held, success in ((19, 0.0), (20, 1.0)):
        env.task.held[:] = held
        assert env.task.metrics()["success"].item() == success


def test_half_of_the_episodes_may_have_fewer_drones() -> None:
    env = make(64, engine="rotor", num_drones=6, fewest_drones=3, sight_m=9.0)
    number = env.task.number.clone()
    here = env.active["drone"].clone()
    assert set(number.tolist()) == {3, 6}
    assert 16 < (number == 3).sum() < 48
    assert torch.equal(here.sum(1), number)
    few = (number == 3).nonzero()[:, 0]
    rng = torch.Generator().manual_seed(0)
    for _ in range(10):
        _, reward, terminated, *_ = env.step(torch.rand(64, 6, 4, generator=rng) * 2 - 1)
    assert not terminated.any()
    pos = env.task.drones.bodies.pos[few]
    goal = env.task.goal[few]
    assert (pos[:, :3, :2].abs() < 4.0).all()
    assert (pos[:, 3:, 0] > 40.0).all()  # the others wait, neither seen nor counted
    assert (reward["drone"][few, 3:] == 0).all()
    seen = env.task.observe()["drone"]
    assert torch.equal(seen["neighbour_seen"][few, :3], torch.tensor([1.0, 1.0, 0.0]).expand(len(few), 3, 3))
    distance = (pos[:, :3] - goal[:, None]).norm(dim=-1)
    assert torch.allclose(env.task.metrics()["distance_m"][few], distance.mean(1), atol=1e-5)
    near = torch.cdist(pos[:, :3], pos[:, :3]).sum(-1) / 2
    assert torch.allclose(reward["drone"][few, :3, 1], near, atol=1e-4)


def test_fewer_drones_make_the_same_episode_as_a_swarm_of_that_number() -> None:
    """What the ones aside do concerns nobody: three of six fly as three alone from the same start."""
    few = make(8, engine="rotor", num_drones=6, fewest_drones=3)
    alone = make(8, engine="rotor", num_drones=3)
    here = (few.task.number == 3).nonzero()[:, 0]
    assert len(here) > 0
    alone.task.drones.bodies.set_state(torch.arange(8), few.task.drones.bodies.state[:, :3].clone())
    for name in ("goal", "goal_before"):
        getattr(alone.task, name).copy_(getattr(few.task, name))
    alone.task.before.copy_(few.task.before[:, :3])
    rng = torch.Generator().manual_seed(1)
    taught, taught_alone = few.task.controller(), alone.task.controller()
    for _ in range(10):
        assert torch.allclose(taught({})["drone"][here, :3], taught_alone({})["drone"][here], atol=1e-5)
        action = torch.rand(8, 6, 4, generator=rng) * 2 - 1
        _, reward, *_ = few.step(action)
        _, same, *_ = alone.step(action[:, :3])
        assert torch.allclose(reward["drone"][here, :3], same["drone"][here], atol=1e-5)


def test_every_number_of_drones_may_be_as_frequent() -> None:
    """Chi squared of 15 numbers below its 99.9th percentile, 36.1; and one policy with attention acts in all of them."""
    env = make(600, engine="rotor", num_drones=16, fewest_drones=2, between=True, neighbours=15, sight_m=20.0)
    number = env.task.number
    counts = torch.bincount(number, minlength=17)[2:].float()
    assert len(counts) == 15 and counts.sum() == 600
    assert ((counts - 40.0).square() / 40.0).sum() < 36.1
    assert torch.equal(env.active["drone"].sum(1), number)
    seen = env.task.observe()["drone"]["neighbour_seen"]
    assert torch.equal(seen[:, 0].sum(1).long(), number - 1)
    group = env.groups["drone"]
    (link,) = encoder_links(PPOConfig(encoder="attention"), group, 1)
    attention = link.branches[1][0]
    assert (attention.neighbors, [n for _, n in attention.parts]) == (15, [3, 3])
    own = sum(t.size for t in group.observation if not t.neighbors)
    assert link.outputs == own + attention.outputs


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_drones": 1}, "at least 2 drones"),
        ({"num_drones": 0}, "num_drones must be from 1 to 200"),
        ({"num_drones": 200}, "200 drones do not fit into the arena"),
        ({"spacing_m": 0.7}, "start in collision.*raise spacing_m"),
        ({"drone": "iris", "start_box_m": 0.3}, "start in collision"),
        ({"starts": "publisht"}, "unknown value of starts 'publisht': did you mean 'published'"),
        ({"starts": "published", "num_drones": 5}, "published starts are for 4 drones"),
        ({"neighbours": 0}, "at least 1 neighbor"),
        ({"fewest_drones": 5}, "fewest_drones must be 0 or lie between 2 and num_drones, 4, got 5"),
        ({"fewest_drones": 1}, "fewest_drones must be 0"),
        ({"between": True}, "between is for episodes with fewer drones: give fewest_drones too"),
        ({"shell_width_m": 0.9}, "shell_width_m must lie between 0 and shell_m"),
    ],
)
def test_configs_that_make_no_sense(config: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        Surround(SurroundConfig(**config))


def test_drones_that_passed_through_each_other_have_met() -> None:
    """At 20 Hz two drones that close at 4 m/s are 20 cm apart before and after."""
    env = make(1, num_drones=2)
    for goal in (env.task.goal, env.task.goal_before):
        goal[:] = torch.tensor([0.0, 2.0, 1.5])
    before = torch.tensor([[0.0, 0.0, 1.0], [0.3, 0.0, 1.0]])
    for after, cause in (([[0.3, 0.0, 1.0], [0.0, 0.0, 1.0]], 2), ([[0.0, 0.3, 1.0], [0.3, 0.3, 1.0]], 0)):
        put(env, torch.tensor(after))
        env.task.before.copy_(before)
        env.task._evaluate(torch.arange(1))
        assert env.task.terminated().tolist() == [cause]
    put(env, torch.tensor([[0.0, 2.2, 1.5], [1.0, 0.0, 1.0]]))
    env.task.before.copy_(torch.tensor([[0.0, 1.8, 1.5], [1.0, 0.0, 1.0]]))
    env.task._evaluate(torch.arange(1))
    assert env.task.terminated().tolist() == [3]


def test_places_are_those_with_the_lowest_lots_and_not_beside_the_target() -> None:
    n, a = 30, 4
    g = torch.Generator().manual_seed(0)
    axis = torch.arange(5) - 2.0
    places = torch.cartesian_prod(axis, axis, axis)
    draws = torch.rand(n, 3 + len(places), generator=g)
    low, size = torch.tensor([-1.0, -2.0, 0.0]), torch.tensor([2.0, 4.0, 1.0])
    goal, target = torch.full((n, 3), math.nan), torch.full((2 * n, a, 3), math.nan)
    ids = torch.arange(0, 2 * n, 2)
    kernels.choose_places(
        ids.numpy(), draws.numpy(), places.numpy(), low.numpy(), size.numpy(), 1.5, goal.numpy(), target.numpy()
    )
    assert torch.allclose(goal, low + size * draws[:, :3])
    lots = draws[:, 3:] + ((places - goal[:, None]).abs() < 1.5).all(-1)
    assert torch.equal(target[ids], places[lots.argsort(1)[:, :a]])
    assert target[1::2].isnan().all()
