"""Opponents from a population: who plays where, when that changes, and exact resumes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies_fake import FakeEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.multiagent.frozen_opponent import FrozenOpponentEnv
from rookery.policies.training.evaluate import act_with
from rookery.sim.errors import RookeryError

WORLDS = 12


class Duel(FakeEnv):
    """Two points that play against each other; it keeps the actions that it got."""

    teams = {"near": {"point": (0,)}, "far": {"point": (1,)}}  # noqa: RUF012

    def __init__(self, horizon: int = 7) -> None:
        super().__init__(WORLDS, agents=2, horizon=horizon, limit=100.0)
        self.got = torch.zeros(0)

    @property
    def episode_start(self):
        return self.clock == 0

    def step(self, actions):
        self.got = actions["point"].clone()
        return super().step(actions)


def constant(value: float):
    return lambda obs: {"point": torch.full((*obs["point"].shape[:2], 1), value)}


def learnt(env: Duel, seed: int, memory: str) -> object:
    """A policy of random weights, with memory or without."""
    size = {"memory": "gru", "memory_size": 6} if memory == "gru" else {}
    ppo = PPO(env, PPOConfig(hidden=(8,), minibatches=1, **size), seed=seed)
    ppo.learners["point"].parameters += 0.5 * torch.randn(
        ppo.learners["point"].parameters.shape, generator=torch.Generator().manual_seed(seed)
    )
    return act_with(ppo.policies(), env)


def test_seeds_are_whole_numbers_of_python_or_numpy():
    members = [constant(0.1 * k) for k in range(4)]
    one, other = (FrozenOpponentEnv(Duel(), members, "near", seed=s) for s in (5, np.int64(5)))
    begun = one.population.assignment.clone()
    assert len(set(begun.tolist())) > 1 and torch.equal(other.population.assignment, begun)
    one.population.reset(9)
    other.population.reset(np.int64(9))
    assert not torch.equal(one.population.assignment, begun)
    assert torch.equal(one.population.assignment, other.population.assignment)
    for seed in ("x", 1.5, True, 2**64):
        with pytest.raises(RookeryError, match="seed must be from"):
            FrozenOpponentEnv(Duel(), members, "near", seed=seed)
        with pytest.raises(RookeryError, match="seed must be from"):
            one.population.reset(seed)


def test_each_world_has_its_opponent_until_its_episode_ends():
    env = FrozenOpponentEnv(Duel(), [constant(0.1 * k) for k in range(4)], "near", seed=2)
    env.reset(seed=3)
    env.stagger()
    changed = set()
    for _ in range(40):
        before = env.population.assignment.clone()
        _, _, terminated, truncated, info = env.step(torch.full((WORLDS, 1, 1), -0.7))
        torch.testing.assert_close(env.env.got[:, 1, 0], 0.1 * before)
        assert (env.env.got[:, 0] == -0.7).all()
        moved = env.population.assignment != before
        ended = terminated | truncated
        assert not (moved & ~ended).any()
        changed |= set(moved.nonzero().flatten().tolist())
        if "episode" in info:
            assert torch.equal(info["episode"]["opponent"], before[info["episode"]["ids"]])
    assert changed == set(range(WORLDS))


def test_they_are_drawn_by_their_weights():
    env = FrozenOpponentEnv(Duel(horizon=1), [constant(0.1 * k) for k in range(3)], "near", weights=[3.0, 0.0, 1.0])
    env.reset()
    counts = torch.zeros(3)
    for _ in range(400):
        counts += env.population.assignment.bincount(minlength=3)
        env.step(torch.zeros(WORLDS, 1, 1))
    torch.testing.assert_close(counts / counts.sum(), torch.tensor([0.75, 0.0, 0.25]), atol=0.02, rtol=0.0)
    env.population.set_weights([0.0, 1.0, 0.0])
    env.step(torch.zeros(WORLDS, 1, 1))
    assert (env.population.assignment == 1).all()


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_policies_act_in_their_worlds_as_they_would_alone(memory):
    inner = Duel()
    members = [learnt(inner, k, memory) for k in range(3)]
    alone = [learnt(inner, k, memory) for k in range(3)]
    env = FrozenOpponentEnv(inner, members, "near", seed=1)
    env.reset(seed=1)
    for _ in range(20):
        obs = {"point": inner.x.clone()}
        # alone each acts everywhere and remembers what it saw there; where it does not play, nobody looks
        every = torch.stack([act(obs)["point"] for act in alone])
        who = env.population.assignment.clone()
        env.step(torch.zeros(WORLDS, 1, 1))
        torch.testing.assert_close(inner.got[:, 1], every[who, torch.arange(WORLDS), 1], rtol=1e-5, atol=1e-6)
    assert len(who.unique()) > 1
    assert every.std(0).mean() > 0.05, "they differ"


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_saved_state_continues_exactly(memory):
    def make(seed: int) -> FrozenOpponentEnv:
        inner = Duel()
        return FrozenOpponentEnv(inner, [learnt(inner, k, memory) for k in range(3)], "near", [1.0, 2.0, 3.0], seed)

    one, other = make(1), make(2)
    one.reset(seed=4)
    for _ in range(10):
        one.step(torch.zeros(WORLDS, 1, 1))
    one.population.set_weights([1.0, 1.0, 5.0])
    other.load_state_dict(one.state_dict())
    for _ in range(20):
        assert torch.equal(one.population.assignment, other.population.assignment)
        a, b = (e.step(torch.full((WORLDS, 1, 1), 0.2)) for e in (one, other))
        assert torch.equal(a[0]["point"], b[0]["point"])
    mine, its = one.state_dict(), other.state_dict()
    assert mine.keys() == its.keys() and all(torch.equal(mine[k], its[k]) for k in mine)
    if memory == "gru":
        assert mine["opponent.memory.2.point"].any()


class Judged(Duel):
    """The near side wins against members that act positively."""

    def step(self, actions):
        *result, info = super().step(actions)
        if "episode" in info:
            lost = actions["point"][info["episode"]["ids"], 1, 0] < 0.0
            metrics = {"near_wins": (~lost).float(), "far_wins": lost.float()}
            info["episode"] = info["episode"] | {"metrics": info["episode"]["metrics"] | metrics}
        return (*result, info)


def test_it_knows_how_often_the_learner_wins_against_each_member():
    env = FrozenOpponentEnv(Judged(horizon=2), [constant(0.5), constant(-0.5), constant(0.2)], "near", [1.0, 1.0, 0.0])
    env.reset()
    assert env.population.win_rates.tolist() == [0.5, 0.5, 0.5]
    for _ in range(100):
        env.step(torch.zeros(WORLDS, 1, 1))
    rates = env.population.win_rates
    assert rates[0] > 0.95 and rates[1] < 0.05 and rates[2] == 0.5
    population = env.population
    population.games[:] = population.points[:] = 0.0
    population.record(torch.tensor([0, 2, 0]), torch.tensor([1.0, 0.5, 0.0]))
    population.record(torch.tensor([0]), torch.tensor([1.0]))
    assert population.games.tolist() == [2 * 0.99 + 1, 0.0, 1.0] and population.points.tolist() == [1.99, 0.0, 0.5]


def test_episodes_that_began_in_the_middle_do_not_count():
    class Cut(Judged):
        def step(self, actions):
            *result, info = super().step(actions)
            if "episode" in info:
                info["episode"]["cut"] = info["episode"]["ids"] % 2 == 1
            return (*result, info)

    env = FrozenOpponentEnv(Cut(horizon=1), [constant(0.5), constant(-0.5)], "near", seed=1)
    env.reset()
    played = env.population.assignment[::2].bincount(minlength=2)
    env.step(torch.zeros(WORLDS, 1, 1))
    assert env.population.games.tolist() == played.tolist() and played.sum() == WORLDS // 2
    assert env.population.points.tolist() == [played[0], 0.0]


def test_the_same_seed_gives_the_same_opponents():
    env = FrozenOpponentEnv(Duel(), [constant(0.0), constant(0.1)], "near")
    drawn = []
    for _ in range(2):
        env.reset(seed=9)
        drawn.append([])
        for _ in range(15):
            env.step(torch.zeros(WORLDS, 1, 1))
            drawn[-1].append(env.population.assignment.tolist())
    assert drawn[0] == drawn[1]


def test_what_cannot_be_is_refused():
    with pytest.raises(RookeryError, match="at least one opponent"):
        FrozenOpponentEnv(Duel(), [], "near")
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(RookeryError, match="2 opponents need as many weights"):
            FrozenOpponentEnv(Duel(), [constant(0.0), constant(0.1)], "near", weights)
