"""Matches: who won from which side and why, against games whose winner is known and against worlds played one by one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from tug import Tug, head_start

import rookery
from rookery.making import make_shard
from rookery.policies.multiagent.frozen_opponent import FrozenOpponentEnv
from rookery.policies.multiagent.match import Alternating, MatchResult, Tally, match
from rookery.sim.env import Act, AgentNote
from rookery.sim.errors import RookeryError


def pull(value: float) -> Act:
    return lambda obs: {"point": torch.full((*obs["point"].shape[:2], 1), value)}


def crude(gain: float) -> Act:
    """A drone's actions that depend on what it observes; computed element by element, the same in any batch."""
    return lambda obs: {"drone": (gain * (obs["drone"][..., 3:7] + obs["drone"][..., 29:33])).tanh()}


def exchanged(played: MatchResult) -> MatchResult:
    """The same match with the names of A and B exchanged."""
    other = {"a": "b", "b": "a", "nobody": "nobody"}

    def turned(t: Tally) -> Tally:
        return Tally(t.b, t.a, t.nobody)

    return MatchResult(
        played.teams,
        -played.outcome.flip(0),
        {other[who]: n for who, n in played.causes.items()},
        {name: {other[who]: turned(t) for who, t in by.items()} for name, by in played.shares.items()},
        played.metrics,
    )


def same(one: MatchResult, other: MatchResult) -> bool:
    return torch.equal(one.outcome, other.outcome) and all(
        getattr(one, name) == getattr(other, name) for name in ("teams", "causes", "shares", "metrics")
    )


def test_who_acts_larger_wins_from_either_side():
    played = match(Tug(8, 4, advantage=0.0), pull(0.5), pull(0.2), 40)
    assert played.total == Tally(40, 0, 0)
    assert played.sides == {"near": Tally(20, 0, 0), "far": Tally(20, 0, 0)}
    assert played.causes == {"a": {"pulled over": 20, "let go": 20}, "b": {}, "nobody": {}}
    played = match(Tug(8, 4, advantage=0.0), pull(0.1), pull(0.2), 40)
    assert played.total == Tally(0, 40, 0)


def test_an_advantage_of_a_side_counts_for_both():
    """0.3 for near is more than 0.2 of pull, and less than 0.4."""
    played = match(Tug(8, 4, advantage=None), pull(0.5), pull(0.3), 40)
    assert played.sides == {"near": Tally(20, 0, 0), "far": Tally(0, 20, 0)}
    assert played.causes == {"a": {"pulled over": 20}, "b": {"pulled over": 20}, "nobody": {}}
    assert match(Tug(8, 4, advantage=None), pull(0.5), pull(0.1), 40).total == Tally(40, 0, 0)


@pytest.mark.parametrize("worlds", [2, 6, 10, 60])
def test_every_start_is_counted_as_computed_by_hand(worlds: int):
    """Starts and episodes by a loop; nobody wins a lead below 0.1; the serve is that of the start."""
    episodes, half = 46, worlds // 2
    played = match(Tug(worlds, half, draw_below=0.1), pull(0.4), pull(0.1), episodes)
    tallies = {"near": [0, 0, 0], "far": [0, 0, 0]}
    serves = {"a": [0, 0, 0], "b": [0, 0, 0]}
    leads = []
    for start in range(half):
        for episode in range(episodes // 2 // half + (start < episodes // 2 % half)):
            head = float(head_start(torch.tensor(start), torch.tensor(episode)))
            for side, sign in (("near", 1.0), ("far", -1.0)):
                ahead = sign * head + 0.3  # of A
                who = 2 if abs(ahead) <= 0.1 else int(ahead < 0.0)
                tallies[side][who] += 1
                near_serves = (start + episode) % 2 == 0
                serves["a" if near_serves == (side == "near") else "b"][who] += 1
                leads.append(sign * ahead)
    assert played.sides == {side: Tally(*counts) for side, counts in tallies.items()}
    assert played.shares == {"serves": {who: Tally(*counts) for who, counts in serves.items()}}
    assert played.total.episodes == episodes and min(played.total.a, played.total.b, played.total.nobody) > 0
    assert played.metrics == pytest.approx({"lead": sum(leads) / len(leads)}, abs=1e-6)


@pytest.mark.parametrize("team", ["near", "far"])
@pytest.mark.parametrize("worlds", [1, 5, 8])
def test_one_team_throughout_is_counted_as_computed_by_hand(team: str, worlds: int):
    """Of groups in which a player has no agent it need not say anything."""
    episodes = 23
    played = match(Tug(worlds, worlds, draw_below=0.1), pull(0.4), pull(0.1), episodes, team=team)
    counts = [0, 0, 0]
    for world in range(worlds):
        for episode in range(episodes // worlds + (world < episodes % worlds)):
            head = float(head_start(torch.tensor(world), torch.tensor(episode)))
            ahead = (head if team == "near" else -head) + 0.3  # of A
            counts[2 if abs(ahead) <= 0.1 else int(ahead < 0.0)] += 1
    assert played.total == Tally(*counts) and played.sides == {team: played.total}
    assert tuple(played.outcome.shape) == (1, episodes)


class Begins(Tug):
    """It says where episodes begin."""

    @property
    def episode_start(self):
        return self.clock == 0


@pytest.mark.parametrize("team", ["near", "far"])
def test_who_has_no_agent_in_a_group_need_not_say_anything_of_it(team: str):
    """As pursuers and evaders, each of a group of its own; A and B are asked for theirs alone."""
    groups = {name: SimpleNamespace(count=2) for name in ("left", "right")}
    teams = {"near": {"left": [0, 1]}, "far": {"right": [0, 1]}}
    env = SimpleNamespace(
        teams=teams,
        groups=groups,
        num_envs=3,
        device="cpu",
        task_id="fake",
        episode_start=torch.ones(3, dtype=torch.bool),
    )
    own, other = ("left", "right") if team == "near" else ("right", "left")
    act = Alternating(env, lambda obs: {own: obs[own] + 1.0}, lambda obs: {other: obs[other] + 2.0}, team)
    found = act({name: torch.zeros(3, 2, 1) for name in groups})
    assert {name: found[name].unique().tolist() for name in groups} == {own: [1.0], other: [2.0]}


def test_sides_change_with_every_episode_and_are_counted():
    env = Begins(6, 6, advantage=0.0)
    act = Alternating(env, pull(0.5), pull(0.2))
    obs, _ = env.reset()
    played: dict[int, list[str]] = {world: [] for world in range(6)}
    for _ in range(60):
        obs, _, _, _, info = env.step(act(obs))
        if "episode" in info:
            for world, won in zip(
                info["episode"]["ids"].tolist(), info["episode"]["metrics"]["near_wins"], strict=True
            ):
                played[world].append("near" if won else "far")  # A wins wherever it plays
    for world, sides in played.items():
        assert sides[:4] == (["near", "far"] * 2 if world % 2 == 0 else ["far", "near"] * 2)
        assert len(sides) > 15
    assert abs(act.episodes["near"] - act.episodes["far"]) <= 6
    assert sum(act.episodes.values()) == sum(map(len, played.values())) + int(env.episode_start.logical_not().sum())
    env = Begins(5, 5, advantage=0.0)
    always = Alternating(env, pull(0.5), pull(0.2), "far")
    obs, _ = env.reset()
    for _ in range(9):
        obs, _, _, _, info = env.step(always(obs))
        assert "episode" not in info or info["episode"]["metrics"]["far_wins"].all()
    assert always.episodes["near"] == 0 and always.episodes["far"] > 5


class Says:
    """Pulls, and has a note on every agent."""

    def __init__(self, name: str, value: float) -> None:
        self.name = name
        self.act = pull(value)

    def __call__(self, obs):
        return self.act(obs)

    def notes(self, world: int) -> list[AgentNote]:
        return [AgentNote("point", agent, f"{self.name} in {world}") for agent in (0, 1)]


def test_each_player_speaks_of_its_own_agents():
    env = Begins(4, 4, advantage=0.0)
    near = {world: [] for world in range(4)}
    act = Alternating(env, Says("A", 0.5), Says("B", 0.2))
    obs, _ = env.reset()
    for _ in range(30):
        obs = env.step(act(obs))[0]
        for world, seen in near.items():
            said = {note.agent: note.text for note in act.notes(world)}
            assert sorted(said.values()) == [f"A in {world}", f"B in {world}"]
            seen.append(said[0][0])
    assert [seen[0] for seen in near.values()] == ["A", "B", "A", "B"]
    assert all({"A", "B"} == set(seen) for seen in near.values())  # sides change
    alone = Alternating(env, Says("A", 0.5), pull(0.2), "far")
    alone(env.reset()[0])
    assert [note.agent for note in alone.notes(2)] == [1]


@pytest.mark.parametrize("team", [None, "far"])
def test_it_names_who_plays_a_team_in_the_episode_that_goes_on(team: str | None):
    env = Begins(5, 5, advantage=0.0)
    act = Alternating(env, pull(0.5), pull(0.2), team, ("strong", "weak"))
    obs, _ = env.reset()
    ended = 0
    for _ in range(40):
        told = [act.playing(world) for world in range(5)]
        obs, _, _, _, info = env.step(act(obs))
        episode = info.get("episode", {"ids": torch.tensor([]), "metrics": {"near_wins": torch.tensor([])}})
        for world, won in zip(episode["ids"].tolist(), episode["metrics"]["near_wins"].tolist(), strict=True):
            ended += 1
            assert told[world] == dict(zip(("near", "far"), ("strong", "weak")[:: 1 if won else -1], strict=True))
    assert ended > 20


def test_what_diverged_nobody_won():
    played = match(Tug(4, 2, diverges=True), pull(0.5), pull(0.2), 8)
    assert played.total == Tally(0, 0, 8)
    assert played.causes == {"a": {}, "b": {}, "nobody": {"diverged": 8}}


def test_exchanging_the_players_exchanges_the_figures():
    one, other = (match(Tug(12, 6, draw_below=0.1), pull(a), pull(b), 54) for a, b in ((0.4, 0.1), (0.1, 0.4)))
    assert same(exchanged(one), other) and not same(one, other)


def test_each_player_is_asked_once_a_step_for_all_worlds():
    asked = []

    def counting(name: str, act: Act) -> Act:
        def call(obs):
            asked.append((name, len(obs["point"])))
            return act(obs)

        return call

    match(Tug(6, 3), counting("a", pull(0.4)), counting("b", pull(0.1)), 6)
    assert asked == [("a", 6), ("b", 6)] * (len(asked) // 2) and len(asked) == 6
    asked.clear()
    alone = counting("a", pull(0.4))
    match(Tug(6, 3), alone, alone, 6)
    assert asked == [("a", 6)] * 3


@pytest.mark.parametrize("task", ["volley-1v1", "volley-3v3"])
def test_worlds_together_play_as_they_do_one_by_one(task: str):
    pairs, seed = 4, 5
    a, b = crude(0.9), crude(0.8)
    env = rookery.make(task, 2 * pairs, seed=seed, starts=pairs)
    played = match(env, a, b, 2 * pairs, seed)
    half = env.groups["drone"].count // 2
    env.close()
    serves = 0
    for world in range(2 * pairs):
        alone = make_shard(task, 1, "rotor", seed, "none", None, {}, first=world, total=2 * pairs, starts=pairs)
        obs, _ = alone.reset(seed)
        info = {}
        first, second = (a, b) if world < pairs else (b, a)
        while "episode" not in info:
            action = torch.cat((first(obs)["drone"][:, :half], second(obs)["drone"][:, half:]), 1)
            obs, _, _, _, info = alone.step({"drone": action})
        metrics = {name: float(value[0]) for name, value in info["episode"]["metrics"].items()}
        won = int(metrics["near_wins"] - metrics["far_wins"]) * (1 if world < pairs else -1)
        serves += metrics["near_serves"] == (world < pairs)
        assert int(played.outcome[world // pairs, world % pairs]) == won
        alone.close()
    assert played.shares["serves"]["a"].episodes == serves == pairs, "every serve is played by both"
    assert len(played.outcome.unique()) > 1


@pytest.mark.parametrize("task", ["volley-1v1", "volley-3v3"])
def test_a_policy_against_itself_wins_half(task: str):
    """Exactly with the same starts for both sides; within four standard deviations where every world has its own."""
    a, b = crude(0.9), crude(0.9)
    env = rookery.make(task, 64, seed=1, starts=32)
    played = match(env, a, b, 128, 1)
    env.close()
    assert torch.equal(played.outcome[0], -played.outcome[1])
    assert played.total.a == played.total.b > 20
    env = rookery.make(task, 256, seed=2)
    total = match(env, a, b, 2048, 2).total
    env.close()
    decided = total.a + total.b
    assert decided > 1000
    assert abs(total.a - decided / 2) <= 4.0 * (decided / 4) ** 0.5


def test_rallies_that_repeat_each_other_are_told():
    """Without randomization only who serves is drawn in 3v3, and for each side there is one rally."""
    for randomize, most in (("none", 4), ("default", 32)):
        env = rookery.make("volley-3v3", 16, starts=8, randomize=randomize, config={"episode_s": 3.0})
        played = match(env, crude(0.9), crude(0.8), 32, 3)
        env.close()
        assert played.distinct is not None and played.distinct <= most
    assert played.distinct == 32


def test_the_same_seed_gives_the_same_match():
    env = rookery.make("volley-1v1", 16, starts=8)
    one, other, third = (match(env, crude(0.9), crude(0.8), 32, seed) for seed in (3, 3, 4))
    env.close()
    assert same(one, other) and not same(one, third)


def test_a_better_player_wins():
    env = rookery.make("volley-1v1", 16, starts=8)
    played = match(env, env.controller(), crude(0.9), 32, 0)
    env.close()
    assert played.total.a == 32
    assert played.sides["far"].a == 16


class Nameless(Tug):
    """It does not say who wins."""

    def metrics(self):
        return {name: value for name, value in super().metrics().items() if not name.endswith("wins")}


def test_what_cannot_be_is_refused():
    env = Tug(4, 2)
    for episodes, said in ((3, "episodes must be even"), (0, "episodes must be even and at least 2, got 0")):
        with pytest.raises(RookeryError, match=said):
            match(env, pull(0.1), pull(0.2), episodes)
    with pytest.raises(RookeryError, match="num_envs must be even"):
        match(Tug(3, 1), pull(0.1), pull(0.2), 4)
    with pytest.raises(RookeryError, match="unknown team of tug 'nera': did you mean 'near'"):
        match(env, pull(0.1), pull(0.2), 4, team="nera")
    with pytest.raises(RookeryError, match=r"give near_wins and far_wins"):
        match(Nameless(4, 2), pull(0.1), pull(0.2), 4)
    for teams, said in (
        ({}, "has no teams"),
        ({"a": {"point": (0,)}, "b": {"point": (1,)}, "c": {"point": (2, 3, 4)}}, "has 3 teams"),
        ({"near": {"point": (0,)}, "far": {"point": (1,)}}, "not every agent"),
    ):
        env.teams = teams
        with pytest.raises(RookeryError, match=said):
            match(env, pull(0.1), pull(0.2), 4)


class Scores(Tug):
    """A tug whose measures of who wins are others than 0 and 1 to one of both."""

    def __init__(self, near: float, far: float, diverges: bool = False) -> None:
        super().__init__(4, 2, diverges=diverges)
        self.said = {"near_wins": near, "far_wins": far}

    def metrics(self):
        return super().metrics() | {name: torch.full((4,), value) for name, value in self.said.items()}


@pytest.mark.parametrize(
    ("near", "far", "said"),
    [
        (0.5, 0.5, "near_wins 0.5 in an episode"),
        (0.0, 2.0, "far_wins 2 in an episode"),
        (1.0, -1.0, "far_wins -1 in an episode"),
        (float("nan"), 0.0, "near_wins nan in an episode"),
        (1.0, 1.0, "near_wins and far_wins 1 in one episode"),
    ],
)
def test_wins_that_say_nothing_are_refused_in_matches_and_against_frozen_opponents(near: float, far: float, said: str):
    with pytest.raises(RookeryError, match=f"tug gives {said}"):
        match(Scores(near, far), pull(0.5), pull(0.2), 8)
    env = FrozenOpponentEnv(Scores(near, far), pull(0.2), "near")
    env.reset()
    with pytest.raises(RookeryError, match=f"tug gives {said}"):
        env.step(pull(0.5)({"point": torch.zeros(4, 2, 1)}))  # an episode of one step ends


def test_wins_of_episodes_that_diverged_are_not_read():
    assert match(Scores(float("nan"), 1.0, diverges=True), pull(0.5), pull(0.2), 8).total == Tally(0, 0, 8)
