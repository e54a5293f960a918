"""Whom a candidate plays, what it must exceed, and what the report makes of results: against matrices that are known."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch

from rookery.experiments.league.arena import cell_of, interval, score_of
from rookery.experiments.league.mixtures import (
    CandidatePlan,
    mixture_of,
    opponents_of,
    parent_of,
    plans,
    training_mixture,
    value_of,
)
from rookery.experiments.league.report import exploitability_rows, report
from rookery.experiments.league.state import (
    BestResponse,
    Cell,
    LeagueMember,
    LeagueSettings,
    LeagueState,
    Round,
    load,
    save,
)
from rookery.policies.multiagent.match import MatchResult
from rookery.sim2real.gate.intervals import wilson

EPISODES = 100


def cell(a: str, b: str, score: float, episodes: int = EPISODES) -> Cell:
    wins = round(score * episodes)
    return Cell(a, b, wins, episodes - wins, 0, score, score * (1.0 - score) / episodes)


def alike(scores: dict[tuple[int, int], float], count: int, solver: str = "psro-nash", kinds: str = "") -> LeagueState:
    """A league of one population; member k is of iteration k."""
    names = [f"m{k}" for k in range(count)]
    marks = kinds or "f" + "m" * (count - 1)
    kind = {"f": "first", "m": "main", "e": "exploiter"}
    members = tuple(LeagueMember(n, "either", f"members/{n}", kind[marks[k]], k, 10 * k) for k, n in enumerate(names))
    cells = tuple(cell(names[i], names[j], s) for (i, j), s in scores.items())
    settings = LeagueSettings("volley-1v1", solver, episodes=EPISODES)
    return LeagueState(settings, ("either",), members=members, cells=cells)


def roles(score: np.ndarray, solver: str = "psro-nash") -> LeagueState:
    """A league of two, member k of iteration k."""
    members = [LeagueMember(f"p{k}", "pursuers", f"members/p{k}", "main", k) for k in range(score.shape[0])]
    members += [LeagueMember(f"e{k}", "evaders", f"members/e{k}", "main", k) for k in range(score.shape[1])]
    cells = tuple(cell(f"p{i}", f"e{j}", float(s)) for (i, j), s in np.ndenumerate(score))
    settings = LeagueSettings("drone-tag", solver, episodes=EPISODES)
    return LeagueState(settings, ("pursuers", "evaders"), members=tuple(members), cells=cells)


CYCLE = {(0, 1): 0.8, (1, 2): 0.8, (2, 0): 0.8}
"""m0 beats m1 beats m2 beats m0."""


def test_mixtures_are_the_solvers() -> None:
    third = {"m0": 1 / 3, "m1": 1 / 3, "m2": 1 / 3}
    plan = CandidatePlan(3, "either", "main")
    for solver, expected in (
        ("psro-nash", third),
        ("fictitious", third),
        ("self-play", {"m2": 1.0}),
        ("alpha-rank", third),
    ):
        assert training_mixture(alike(CYCLE, 3, solver), plan) == pytest.approx(expected)
    assert value_of(alike(CYCLE, 3), "either", third) == 0.5


def test_prioritized_opponents_are_those_that_the_newest_main_member_loses_to() -> None:
    state = alike({(0, 1): 0.3, (0, 2): 0.1, (1, 2): 0.5, (0, 3): 0.2, (1, 3): 0.4, (2, 3): 0.9}, 4, "pfsp", "fmme")
    mixture = training_mixture(state, CandidatePlan(4, "either", "main"))
    rates = {"m0": 0.9, "m1": 0.5, "m3": 0.9, "m2": 0.5}  # of m2, which is last
    weights = {name: (1.0 - rate) ** 2 for name, rate in rates.items()}
    expected = {name: 0.65 * w / sum(weights.values()) for name, w in weights.items()}
    expected["m2"] += 0.35
    assert list(mixture) == ["m0", "m1", "m3", "m2"] and mixture == pytest.approx(expected)
    assert training_mixture(state, CandidatePlan(4, "either", "exploiter")) == {"m2": 1.0}
    assert parent_of(state, CandidatePlan(4, "either", "main")) == "members/m2"
    assert parent_of(state, CandidatePlan(4, "either", "exploiter")) == ""
    begun = replace(state, settings=replace(state.settings, init="/somewhere/run"))
    assert parent_of(begun, CandidatePlan(4, "either", "main")) == "members/m2"
    assert parent_of(begun, CandidatePlan(4, "either", "exploiter")) == "/somewhere/run"
    alone = replace(begun, members=begun.members[:1])
    assert parent_of(alone, CandidatePlan(1, "either", "main")) == "/somewhere/run"
    found = opponents_of(state, CandidatePlan(4, "either", "main"), mixture, {m.name: m.policy for m in state.members})
    assert found.prioritized == "squared" and found.members[-1].policy == "members/m2"
    assert [p.kind for p in plans(state)[:3]] == ["main", "exploiter", "main"]


def test_two_roles_play_against_the_other_and_must_exceed_what_they_have() -> None:
    score = np.array([[0.9, 0.2, 0.4], [0.3, 0.8, 0.6]])
    state = roles(score)
    mixture = training_mixture(state, CandidatePlan(3, "pursuers", "main"))
    assert mixture == pytest.approx(mixture_of(state, "evaders")) and set(mixture) <= {"e0", "e1", "e2"}
    value = value_of(state, "pursuers", mixture)
    assert value + value_of(state, "evaders", mixture_of(state, "pursuers")) == pytest.approx(1.0)
    rows = np.array([mixture_of(state, "pursuers")[f"p{k}"] for k in range(2)])
    assert value == pytest.approx((rows @ score).min())
    newest = roles(score, "self-play")
    assert value_of(newest, "pursuers", {"e2": 1.0}) == pytest.approx(0.6)
    assert value_of(newest, "evaders", {"p1": 1.0}) == pytest.approx(0.4)


def test_scores_against_a_mixture_and_their_intervals() -> None:
    cells = [cell("m3", "m0", 0.8), cell("m1", "m3", 0.4), cell("m0", "m1", 0.1)]
    score, low, high = score_of("m3", {"m0": 0.25, "m1": 0.75}, cells)
    assert score == pytest.approx(0.25 * 0.8 + 0.75 * 0.6)
    variance = 0.25**2 * 0.16 / 100 + 0.75**2 * 0.24 / 100
    independent = score * (1.0 - score) / variance
    assert (low, high) == pytest.approx(wilson(score * independent, independent))
    assert interval(1.0, 0.0, 50, 100) == pytest.approx(wilson(50, 50))
    assert interval(0.5, 1e-9, 50, 100) == pytest.approx(wilson(50, 100)), "of no more episodes than there are"


def test_the_two_episodes_of_a_start_count_together() -> None:
    outcome = torch.tensor([[1, 1, -1, 0], [1, -1, -1, 1]])
    found = cell_of("a", "b", MatchResult(("near", "far"), outcome, {}))
    assert (found.a_wins, found.b_wins, found.nobody) == (4, 3, 1)
    starts = np.array([1.0, 0.5, 0.0, 0.75])
    assert found.score == pytest.approx(starts.mean()) and found.variance == pytest.approx(starts.var(ddof=1) / 4)


def test_repeated_episodes_count_once() -> None:
    """Where no start differs from another, hundreds of episodes tell what the two of one start do."""
    outcome = torch.tensor([[1, -1] * 64, [1, -1] * 64])
    found = {n: cell_of("a", "b", MatchResult(("near", "far"), outcome, {}, distinct=n)) for n in (256, 4, 2)}
    assert found[256].variance == pytest.approx(0.25 * 128 / 127 / 128)
    assert found[4].variance == pytest.approx(0.25 * 128 / 127 / 2)
    assert found[2].variance == 0.25
    won = cell_of("a", "b", MatchResult(("near", "far"), torch.ones(2, 128, dtype=torch.int64), {}, distinct=4))
    assert score_of("a", {"b": 1.0}, [won]) == pytest.approx((1.0, *wilson(2, 2)))
    one_team = MatchResult(("near", "far"), torch.ones(1, 128, dtype=torch.int64), {}, played=("near",), distinct=8)
    assert score_of("a", {"b": 1.0}, [cell_of("a", "b", one_team)]) == pytest.approx((1.0, *wilson(8, 8)))


def test_an_opponent_that_hardly_counts_tells_hardly_anything() -> None:
    """A match in which all ends alike shows no variance, and others of no weight must not speak for it."""
    alike = Cell("c", "x", 32, 0, 0, 1.0, 0.0)
    even = Cell("c", "y", 16, 16, 0, 0.5, 0.25 / 32)
    alone = score_of("c", {"x": 1.0}, [alike])
    assert alone == pytest.approx((1.0, *wilson(16, 16)))
    both = score_of("c", {"x": 0.999, "y": 0.001}, [alike, even])
    assert both[1] == pytest.approx(alone[1], abs=0.005)


@pytest.mark.slow
def test_the_lower_end_lies_above_the_truth_as_rarely_as_it_says() -> None:
    """Candidates are accepted by it. One opponent who counts and six who hardly do, and two who count alike."""
    rng = np.random.default_rng(0)
    for weights, chances in (
        ([0.994] + [0.001] * 6, [0.95] * 7),
        ([0.5, 0.5], [0.99, 0.4]),
        ([0.3] * 3 + [0.1], [0.6] * 4),
    ):
        mixture = {f"m{k}": w for k, w in enumerate(weights)}
        truth = float(np.dot(weights, chances)) / sum(weights)
        above = 0
        for _ in range(2000):
            outcomes = [torch.from_numpy(2 * (rng.random((1, 32)) < p).astype(np.int64) - 1) for p in chances]
            found = [
                cell_of("c", f"m{k}", MatchResult(("p", "e"), o, {}, played=("p",))) for k, o in enumerate(outcomes)
            ]
            above += score_of("c", mixture, found)[1] > truth
        assert above < 0.045 * 2000  # 2.5 % by a normal law; counts of few episodes are uneven


def test_exploitability_of_each_iteration_is_half_of_nash_conv() -> None:
    state = dataclasses.replace(
        roles(np.array([[0.5, 0.1], [0.9, 0.4]])),
        rounds=tuple(Round(1, p, "main", f"{p[0]}1", {}, attempts=()) for p in ("pursuers", "evaders")),
        best_responses=(
            BestResponse(1, "pursuers", 500, 512, 0.7, 0.65, 0.75),
            BestResponse(1, "evaders", 500, 512, 0.6, 0.52, 0.7),
            BestResponse(0, "pursuers", 500, 512, 0.9, 0.8, 1.0),
        ),
    )
    first, last = exploitability_rows(state)
    # p0 against e0: the best pursuer there is wins 0.8 of payoff, the best evader 0.8 as well
    assert first["by_members"] == pytest.approx(0.5 * (0.8 + 0.8)) and first["best_responses"] == []
    # p1 and e1 are the equilibrium: payoff -0.2 for pursuers, 0.2 for evaders
    assert last["by_members"] == pytest.approx(0.0)
    (fresh,) = last["best_responses"]
    assert fresh["exploitability"] == pytest.approx(0.5 * (0.4 + 0.2))
    assert fresh["half_width"] == pytest.approx(0.5 * (0.1**2 + 0.2**2) ** 0.5), "the wider side"
    weak = dataclasses.replace(state.best_responses[1], score=0.1, low=0.05, high=0.15)
    again = dataclasses.replace(state, best_responses=(state.best_responses[0], weak))
    (fresh,) = exploitability_rows(again)[1]["best_responses"]
    assert fresh["exploitability"] == pytest.approx(0.5 * (0.4 + 0.2)), "a member of the evaders is better than that"
    _, low, high = score_of("e1", mixture_of(state, "pursuers", 1), state.cells)
    wide = 2.0 * max(high - 0.6, 0.6 - low)
    assert fresh["half_width"] == pytest.approx(0.5 * (0.1**2 + wide**2) ** 0.5), "of the one that counts"


def test_a_fresh_response_that_loses_leaves_the_exploitability_of_a_lone_equilibrium_certain() -> None:
    rounds = (Round(1, "either", "main", "m1", {}, attempts=()),)
    weak = BestResponse(1, "either", 500, 512, 0.2, 0.1, 0.3)
    near = dataclasses.replace(weak, score=0.48, low=0.42, high=0.54)
    for fresh, half in ((weak, 0.0), (near, 0.08)):
        state = dataclasses.replace(alike({(0, 1): 0.1}, 2), rounds=rounds, best_responses=(fresh,))
        _, row = exploitability_rows(state)
        (found,) = row["best_responses"]
        assert found["exploitability"] == pytest.approx(0.0)
        assert found["half_width"] == pytest.approx(half), "how far beyond a half the response may come"


def test_the_report_names_circles_and_reversals() -> None:
    found = report(alike(CYCLE, 3))
    assert found["cyclic_share"] == pytest.approx(1.0)
    assert "m0 beats m1 beats m2 beats m0" in found["cyclic"] or "m1 beats m2 beats m0 beats m1" in found["cyclic"]
    assert all(abs(m["elo"]) < 1e-6 for m in found["members"])
    ranked = report(alike({(0, 1): 0.3, (1, 2): 0.3, (0, 2): 0.1}, 3))
    assert ranked["cyclic"].startswith("No circle is seen")
    assert [m["elo"] for m in ranked["members"]] == sorted(m["elo"] for m in ranked["members"])
    reversed_ = report(roles(np.array([[0.9, 0.2], [0.2, 0.9]])))
    assert "p0 does better than p1 against e0 and worse against e1" in reversed_["cyclic"]


def test_a_state_is_read_as_it_was_written(tmp_path) -> None:
    state = dataclasses.replace(
        alike(CYCLE, 3), current=Round(3, "either", "main", "m3", {"m0": 1.0}, cells=(cell("m3", "m0", 0.5),))
    )
    save(tmp_path, state)
    assert load(tmp_path) == state
