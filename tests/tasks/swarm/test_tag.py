"""Tag: who is touched and who wins, against places that are known; what each role observes; teams of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.policies.multiagent.frozen_opponent import FrozenOpponentEnv
from rookery.policies.training.evaluate import evaluate
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm.tag import Tag, TagConfig, closest_approach
from rookery.tasks.swarm.tag_controller import PILLAR_M


def make(n: int = 2, seed: int = 0, **config: Any) -> VecEnv:
    task = Tag(TagConfig(**config))
    env = VecEnv(task, make_world("rotor", task.scene(), n), seed=seed, task_id="drone-tag")
    env.reset()
    return env


def put(
    env: VecEnv, world: int, drone: int, spot: tuple[float, float, float], speed: tuple[float, ...] = (0, 0, 0)
) -> None:
    """Put a drone somewhere, upright, as it is before a control step."""
    task = env.task
    state = task.drones.bodies.state[[world]].clone()
    state[0, drone] = torch.tensor([*spot, 1.0, 0.0, 0.0, 0.0, *speed, 0.0, 0.0, 0.0])
    task.drones.reset(torch.tensor([world]), state)
    task.before[world] = task.drones.bodies.pos[world]
    task.nearest[world] = task._distances(task.drones.bodies.pos)[world]
    task.closest[world] = task.nearest[world].min()


def hover(env: VecEnv) -> dict[str, torch.Tensor]:
    return {g: torch.zeros(env.num_envs, s.count, 4) for g, s in env.groups.items()}


def test_closest_approach_is_that_of_finely_sampled_ways() -> None:
    rng = np.random.default_rng(0)
    a0, a1, b0, b1 = (torch.from_numpy(rng.normal(size=(40, k, 3))) for k in (2, 2, 3, 3))
    t = torch.linspace(0.0, 1.0, 20001, dtype=torch.float64)[:, None, None, None]
    sampled = ((a0 + t * (a1 - a0))[:, :, :, None] - (b0 + t * (b1 - b0))[:, :, None]).norm(dim=-1).min(0).values
    torch.testing.assert_close(closest_approach(a0, a1, b0, b1), sampled, atol=1e-4, rtol=0.0)
    same = torch.zeros(1, 1, 3)
    assert closest_approach(same, same, same, same + 2.0).item() == pytest.approx(0.0)


def test_pursuers_are_slower_as_their_actions_say() -> None:
    env = make(1, pursuer_speed=0.5)
    specs = {g: s.action for g, s in env.groups.items()}
    assert specs["pursuer"].high[:3] == tuple(0.5 * v for v in specs["evader"].high[:3])
    assert specs["pursuer"].high[3] == specs["evader"].high[3]
    put(env, 0, 0, (-1.0, -1.9, 1.2))
    put(env, 0, 1, (-1.0, 1.9, 1.2))
    ahead = torch.tensor([[[0.5, 0.0, 0.0, 0.0]]])
    for _ in range(25):
        env.step({"pursuer": ahead, "evader": ahead})
    pursuer, evader = env.task.drones.bodies.lin_vel[0, :, 0].tolist()
    assert pursuer == pytest.approx(0.5 * evader, rel=0.1) and evader == pytest.approx(1.0, rel=0.15)


def test_a_tag_ends_the_episode_and_wins() -> None:
    env = make(3)
    put(env, 0, 0, (0.0, 0.0, 1.2))
    put(env, 0, 1, (0.45, 0.0, 1.2))  # within reach
    put(env, 1, 0, (0.0, 0.0, 1.2))
    put(env, 1, 1, (0.6, 0.0, 1.2))  # out of it
    put(env, 2, 0, (-0.7, 0.25, 1.2), (28.0, 0.0, 0.0))
    put(env, 2, 1, (0.0, 0.0, 1.2))  # passed within the step, out of reach before and after
    _, reward, terminated, _, info = env.step(hover(env))
    assert terminated.tolist() == [True, False, True]
    episode = info["episode"]
    assert [Tag.causes[c - 1] for c in episode["cause"].tolist()] == ["tag", "tag"]
    assert episode["metrics"]["pursuers_wins"].tolist() == episode["metrics"]["success"].tolist() == [1.0, 1.0]
    assert episode["metrics"]["evaders_wins"].tolist() == [0.0, 0.0]
    assert episode["metrics"]["tag_s"].tolist() == pytest.approx([0.05, 0.05])
    assert episode["metrics"]["closest_m"][1] == pytest.approx(0.25, abs=0.03)
    assert info["events"]["tag"].tolist() == [True, False, True]
    assert (reward["pursuer"][[0, 2]] > 9.0).all() and (reward["evader"][[0, 2]] < -9.0).all()
    assert reward["pursuer"][1].abs() < 1.0


@pytest.mark.parametrize(("who", "winner"), [((0,), "evaders"), ((1,), "pursuers"), ((0, 1), None)])
def test_who_crashes_loses(who: tuple[int, ...], winner: str | None) -> None:
    env = make(1)
    for drone in range(2):
        put(env, 0, drone, (4.0 if drone in who else 0.0, 2.0 * drone - 1.0, 1.2))
    _, _, terminated, _, info = env.step(hover(env))
    metrics = info["episode"]["metrics"]
    assert terminated[0] and metrics["crash"][0] == 1.0
    assert [n for n in ("pursuers", "evaders") if metrics[f"{n}_wins"][0]] == ([winner] if winner else [])


def test_the_evaders_win_when_the_time_is_up() -> None:
    env = make(4, episode_s=0.5)
    for _ in range(9):
        assert "episode" not in env.step(hover(env))[4]
        assert not env.task.metrics()["evaders_wins"].any()
    _, reward, terminated, truncated, info = env.step(hover(env))
    assert truncated.all() and not terminated.any()
    assert info["episode"]["metrics"]["evaders_wins"].all() and not info["episode"]["metrics"]["success"].any()
    assert info["episode"]["metrics"]["tag_s"].tolist() == [0.5] * 4
    assert (reward["evader"] > 9.0).all() and (reward["pursuer"] < -9.0).all()


def test_mates_that_touch_crash_and_pillars_are_hit() -> None:
    env = make(2, pursuers=2, evaders=1, pillars=1)
    put(env, 0, 0, (-1.0, 0.0, 1.2))
    put(env, 0, 1, (-1.0, 0.05, 1.2))
    put(env, 0, 2, (1.5, 0.0, 1.2))
    spot = env.task.pillars.pos[1, 0].tolist()
    put(env, 1, 0, (spot[0], spot[1] + 0.5, 1.2), (0.0, -8.0, 0.0))
    put(env, 1, 1, (-1.8, -1.8, 1.2))
    put(env, 1, 2, (1.8, 1.8, 1.2))
    info: dict[str, Any] = {}
    ended = {}
    for _ in range(3):
        info = env.step(hover(env))[4]
        if "episode" in info:
            for world, cause in zip(info["episode"]["ids"].tolist(), info["episode"]["cause"].tolist(), strict=True):
                ended.setdefault(world, Tag.causes[cause - 1])
    assert ended == {0: "collision", 1: "obstacle"}


@pytest.mark.parametrize(("off", "touches"), [(0.0005, True), (0.02, False)])
def test_who_stands_at_a_pillar_or_a_mate_has_crashed_and_who_is_two_centimetres_off_has_not(off, touches) -> None:
    """Beside one another without a push, which contacts alone would not notice."""
    env = make(2, pursuers=2, evaders=2, pillars=1)
    task, radius = env.task, env.task.drone.body_radius
    x, y, _ = task.pillars.pos[0, 0].tolist()
    for drone, spot in enumerate(
        ((x - PILLAR_M - radius - off, y, 1.2), (-1.9, -1.9, 1.2), (1.9, 1.9, 1.2), (1.9, -1.9, 1.2))
    ):
        put(env, 0, drone, spot)
    for drone, spot in enumerate(
        ((-1.9, -1.9, 1.2), (1.9, 1.9, 1.2), (1.9, 0.0, 1.2), (1.9, 0.0, 1.2 + 2.0 * radius + off))
    ):
        put(env, 1, drone, spot)
    task.detect_crashes(torch.zeros(2, 4, dtype=torch.bool))
    assert task.crashed.tolist() == [[touches, False, False, False], [False, False, touches, touches]]


def test_each_role_observes_its_opponents_nearest_first() -> None:
    env = make(8, seed=4, pursuers=3, evaders=2, pillars=2, action="velocity")
    env.step({g: torch.rand(8, s.count, 4) - 0.5 for g, s in env.groups.items()})
    task, terms = env.task, env.task.observe()
    pos, vel = task.drones.bodies.pos, task.drones.bodies.lin_vel
    for role, own, other in (("pursuer", range(3), range(3, 5)), ("evader", range(3, 5), range(3))):
        for i, me in enumerate(own):
            for label, others in (("opponent", list(other)), ("mate", [k for k in own if k != me])):
                for world in range(8):
                    order = sorted(others, key=lambda k: float((pos[world, k] - pos[world, me]).norm()))
                    offset = torch.cat([pos[world, k] - pos[world, me] for k in order])
                    speed = torch.cat([vel[world, k] - vel[world, me] for k in order])
                    torch.testing.assert_close(terms[role][f"{label}_offset"][world, i], offset)
                    torch.testing.assert_close(terms[role][f"{label}_velocity"][world, i], speed)
        left = 1.0 - 1.0 / env.max_episode_steps
        torch.testing.assert_close(terms[role]["time_left"], torch.full((8, len(own), 1), left))
        assert terms[role]["pillar_offset"].shape == (8, len(own), 6)


def test_starts_are_turned_at_random_and_teams_apart() -> None:
    env = make(256, seed=1, pursuers=3, evaders=2, pillars=4)
    pos = env.task.drones.bodies.pos
    assert torch.cdist(pos[:, :3], pos[:, 3:]).min() > 0.8 and env.task.closest.min() > 0.8
    bearing = torch.atan2(*pos[:, :3, :2].mean(1).flip(1).unbind(1))
    assert bearing.histc(8, -np.pi, np.pi).min() > 10
    apart = torch.cdist(pos[..., :2], env.task.pillars.pos[..., :2])
    assert apart.min() > 0.3, "nobody begins in a pillar"


@pytest.mark.slow
def test_controllers_play_and_do_not_crash() -> None:
    for config in ({"pursuer_speed": 1.0}, {"pursuers": 3, "evaders": 2, "pillars": 2, "arena_m": 3.5}):
        env = rookery.make("drone-tag", 64, config=config)
        result = evaluate(env, env.controller(), 64)
        assert result["metrics"]["crash"] < 0.1
        assert result["metrics"]["pursuers_wins"] > 0.2, "the pursuers' script catches some"
        neutral = {g: torch.zeros(64, s.count, 4) for g, s in env.groups.items()}
        pilot = env.controller()
        still = evaluate(
            env, lambda obs, pilot=pilot, neutral=neutral: neutral | {"pursuer": pilot(obs)["pursuer"]}, 64
        )
        assert still["metrics"]["pursuers_wins"] > 0.95, "who stands still is caught"
        assert still["metrics"]["tag_s"] < result["metrics"]["tag_s"], "fleeing pays"
        env.close()


@pytest.mark.parametrize(("team", "own", "size"), [("pursuers", "pursuer", 3), ("evaders", "evader", 2)])
def test_a_learner_of_one_role_has_that_group_alone(team: str, own: str, size: int) -> None:
    match = rookery.make("drone-tag-3v2", 4)
    env = FrozenOpponentEnv(match, match.controller(), team)
    obs, _ = env.reset()
    assert obs.keys() == env.groups.keys() == {own} and env.groups[own].count == size
    for _ in range(3):
        obs, reward, *_ = env.step(torch.zeros(4, size, 4))
    assert obs[own].shape == (4, size, env.groups[own].observation_size) and reward[own].shape == (4, size)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"pursuers": 0}, "a pursuer and an evader at least, got 0 and 1"),
        ({"num_drones": 5}, "num_drones is pursuers and evaders together, 2, got 5"),
        ({"pillars": 5}, "pillars must be from 0 to 4"),
        ({"tag_m": 0.05}, "tag_m must lie between"),
        ({"tag_m": 1.6}, "tag_m must lie between"),
        ({"start_box_m": 0.29}, "would start in collision"),
        ({"pursuers": 9}, "a team of 9 does not fit"),
        ({"height_m": 0.2}, "would start in the ground"),
        ({"obs": "depth"}, "observe each other's places, got obs=depth"),
    ],
)  # fmt: skip
def test_games_that_cannot_be_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(RookeryError, match=said):
        rookery.make("drone-tag", 1, config=config)


@pytest.mark.slow
def test_neither_role_of_three_against_two_wins_by_its_script() -> None:
    """Of 192 games a share of 0.5 is between 0.39 and 0.61 with a probability of 0.998; 0.3 and 0.7 are asked for."""
    env = rookery.make("drone-tag-3v2", 192, seed=3)
    metrics = evaluate(env, env.controller(), 192, seed=3)["metrics"]
    env.close()
    assert 0.3 < metrics["pursuers_wins"] < 0.7 and 0.3 < metrics["evaders_wins"] < 0.7
