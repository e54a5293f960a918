"""One side of a match learns, the other is fixed: whose numbers the learner gets, and the whole way to a bundle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from policies_fake import FakeEnv

import rookery
from rookery.cli.main import main
from rookery.policies.multiagent.frozen_opponent import EITHER, FrozenOpponentEnv
from rookery.policies.training.evaluate import evaluate
from rookery.sim.errors import RookeryError


def react(obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """An opponent that depends on what it observes."""
    return {"drone": 0.2 * obs["drone"][..., :4].tanh()}


@pytest.mark.parametrize(("team", "own", "other"), [("near", 0, 1), ("far", 1, 0)])
def test_the_learner_gets_its_own_agents_and_the_opponent_acts_for_the_others(team: str, own: int, other: int) -> None:
    """As the match itself, in which both sides get the same actions as here."""
    match = rookery.make("volley-1v1", 6, seed=3)
    env = FrozenOpponentEnv(rookery.make("volley-1v1", 6, seed=3), react, team)
    assert env.groups["drone"].count == 1
    assert env.teams == {}
    obs = match.reset()[0]["drone"]
    mine = env.reset()[0]["drone"]
    total = torch.zeros(6)
    ended = 0
    for t in range(150):
        assert torch.equal(mine, obs[:, [own]])
        action = torch.full((6, 1, 4), 0.1 * (t % 5) - 0.2)
        both = torch.empty(6, 2, 4)
        both[:, [own]] = action
        both[:, [other]] = react({"drone": obs})["drone"][:, [other]]
        full, reward, terminated, truncated, info = match.step(both)
        part, r, te, tr, i = env.step(action)
        obs = full["drone"]
        mine = part["drone"]
        assert torch.equal(r["drone"], reward["drone"][:, [own]])
        assert torch.equal(te, terminated) and torch.equal(tr, truncated)
        total += r["drone"][:, 0]
        assert torch.equal(i["events"]["hit"], info["events"]["hit"][:, [own]])
        assert torch.equal(i["events"]["crossed_net"], info["events"]["crossed_net"])
        if "episode" in info:
            ids = info["episode"]["ids"]
            assert torch.equal(i["final_observation"]["drone"], info["final_observation"]["drone"][:, [own]])
            torch.testing.assert_close(i["episode"]["return"]["drone"], total[ids])
            total[ids] = 0.0
            ended += len(ids)
    assert ended > 3


class Pair(FakeEnv):
    """Two points that play against each other, of whom one takes part."""

    teams = {"near": {"point": (0,)}, "far": {"point": (1,)}}  # noqa: RUF012

    @property
    def active(self):
        return {"point": torch.tensor([[True, False]]).expand(self.num_envs, 2)}

    @property
    def privileged_targets(self):
        return {"point": 2.0 * self.x}

    def observation_set(self, name):
        return {"point": 3.0 * self.x}


@pytest.mark.parametrize(("team", "own"), [("near", 0), ("far", 1)])
def test_everything_that_trainers_read_is_of_the_learners_agents(team: str, own: int) -> None:
    env = FrozenOpponentEnv(Pair(agents=2), lambda obs: {"point": torch.zeros(8, 2, 1)}, team)
    env.reset()
    x = env.env.x[:, [own]]
    assert torch.equal(env.privileged_targets["point"], 2.0 * x)
    assert torch.equal(env.observation_set("critic")["point"], 3.0 * x)
    assert env.active["point"].tolist() == [[own == 0]] * 8


def test_either_side_is_played_evenly_and_every_number_is_that_sides() -> None:
    """Against the match itself: each world changes sides with its episodes, sides and serves come out even."""
    match = rookery.make("volley-1v1", 6, seed=3)
    env = FrozenOpponentEnv(rookery.make("volley-1v1", 6, seed=3), react, EITHER)
    obs = match.reset()[0]["drone"]
    mine = env.reset()[0]["drone"]
    side, every = torch.arange(6) % 2, torch.arange(6)
    total = torch.zeros(6)
    sides, serves, wins = [], [], []
    for t in range(600):
        assert torch.equal(mine[:, 0], obs[every, side])
        assert torch.equal(env.state[:, :-1], match.state) and torch.equal(env.state[:, -1].long(), side)
        action = torch.full((6, 1, 4), 0.1 * (t % 5) - 0.2)
        both = react({"drone": obs})["drone"]
        both[every, side] = action[:, 0]
        full, reward, _, _, info = match.step(both)
        part, r, _, _, i = env.step(action)
        obs, mine = full["drone"], part["drone"]
        assert torch.equal(r["drone"][:, 0], reward["drone"][every, side])
        assert torch.equal(i["events"]["hit"][:, 0], info["events"]["hit"][every, side])
        total += r["drone"][:, 0]
        if "episode" not in info:
            continue
        ids = info["episode"]["ids"]
        last = info["final_observation"]["drone"]
        assert torch.equal(i["final_observation"]["drone"][:, 0], last[every, side])
        assert torch.equal(i["final_state"], torch.cat((info["final_state"], side[:, None].float()), 1))
        torch.testing.assert_close(i["episode"]["return"]["drone"], total[ids])
        metrics = info["episode"]["metrics"]
        own = torch.where(side[ids] == 0, metrics["near_wins"], metrics["far_wins"])
        assert torch.equal(i["episode"]["metrics"]["success"], own)
        assert torch.equal(i["episode"]["side"], side[ids])
        sides += side[ids].tolist()
        serves += torch.where(side[ids] == 0, metrics["near_serves"], metrics["far_serves"]).tolist()
        wins += own.tolist()
        total[ids] = 0.0
        side[ids] = 1 - side[ids]
    assert len(sides) > 40 and abs(sum(sides) - len(sides) / 2) <= 3, "worlds change sides"
    assert abs(sum(serves) - len(serves) / 2) < 3.0 * (len(serves) / 4) ** 0.5
    assert env.population.games[0] > 20 and 0 < sum(wins) < len(wins)
    assert env.state_size == match.state_size + 1


def test_sides_continue_from_a_saved_state() -> None:
    env, other = (FrozenOpponentEnv(rookery.make("volley-1v1", 4, seed=s), react, EITHER) for s in (1, 2))
    action = torch.full((4, 1, 4), 0.1)
    other.reset()
    env.reset()
    for _ in range(90):
        env.step(action)
    other.load_state_dict(env.state_dict())
    assert env.side.tolist() == other.side.tolist() != [0, 1, 0, 1]
    for _ in range(60):
        a, b = (e.step(action) for e in (env, other))
        assert torch.equal(a[0]["drone"], b[0]["drone"])
    assert torch.equal(env.population.games, other.population.games)


def test_the_controller_beats_a_drone_that_does_nothing() -> None:
    env = rookery.make("volley-1v1-frozen", 8)
    neutral = torch.tensor(env.groups["drone"].action.neutral).expand(8, 1, -1)
    result = evaluate(env, lambda obs: {"drone": neutral}, 8)
    assert result["metrics"]["far_wins"] == 1.0
    assert result["metrics"]["success"] == result["metrics"]["near_wins"] == 0.0


def test_a_saved_state_continues_exactly() -> None:
    env, other = (FrozenOpponentEnv(rookery.make("volley-1v1", 3, seed=s), react, "far") for s in (1, 2))
    action = torch.full((3, 1, 4), 0.1)
    for e in (env, other):
        e.reset()
        e.step(action)
    other.load_state_dict(env.state_dict())
    for _ in range(3):
        assert torch.equal(env.step(action)[0]["drone"], other.step(action)[0]["drone"])
    with pytest.raises(ValueError, match=r"lacks 'opponent.observation.drone'"):
        other.load_state_dict(env.env.state_dict())


def test_what_has_no_such_team_is_refused() -> None:
    with pytest.raises(RookeryError, match="unknown team of volley-1v1 'nera': did you mean 'near'"):
        FrozenOpponentEnv(rookery.make("volley-1v1"), react, "nera")
    with pytest.raises(RookeryError, match="unknown team of drone-hover 'near'"):
        FrozenOpponentEnv(rookery.make("drone-hover"), react, "near")


class Uneven(Pair):
    teams = {"near": {"point": (0,)}, "far": {"point": (1, 2)}}  # noqa: RUF012


def test_teams_that_differ_have_no_either_side() -> None:
    with pytest.raises(
        RookeryError, match="the teams of fake differ, so nobody plays either of them: choose one of near"
    ):
        FrozenOpponentEnv(Uneven(agents=3), react, EITHER)
    with pytest.raises(RookeryError, match=r"unknown team of fake 'nera'.* Known: far, near\."):
        FrozenOpponentEnv(Uneven(agents=3), react, "nera")
    with pytest.raises(RookeryError, match="unknown team of drone-hover 'either'"):
        FrozenOpponentEnv(rookery.make("drone-hover"), react, EITHER)


@pytest.mark.slow
def test_it_is_trained_evaluated_filmed_and_exported_and_then_an_opponent(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--steps", "2048", "--num-envs", "16", "--task-config", "episode_s=1", "--json"]
    assert main(["train", "volley-1v1-frozen", "--out", "run", *small]) == 0
    assert main(["eval", "run", "--episodes", "4", "--json"]) == 0
    assert main(["play", "run", "--seconds", "0.2", "--size", "64", "48", "--out", "film.mp4"]) == 0
    assert main(["export", "run", "--out", "bundle"]) == 0
    assert main(["train", "volley-1v1-frozen", "--out", "second", *small, "--task-config", "frozen=run"]) == 0
    capsys.readouterr()
    contract = json.loads((in_tmp / "bundle" / "contract.json").read_text())
    assert contract["groups"]["drone"]["count"] == 1
    assert contract["task_config"]["frozen"] == "controller"
    assert json.loads((in_tmp / "second" / "contract.json").read_text())["task_config"]["frozen"] == "run"
