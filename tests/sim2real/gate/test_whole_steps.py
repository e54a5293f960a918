"""Delays come in whole steps of the physics: the gate runs and prints those, and brackets a requirement between two."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.sim.randomization.parameters import Parameter
from rookery.sim2real.gate.combinations import search_combinations, wider_combinations
from rookery.sim2real.gate.gate import _coarser
from rookery.sim2real.gate.intervals import paired_rate, wilson
from rookery.sim2real.gate.profile import Requirement
from rookery.sim2real.gate.sweep import search, sides_of
from rookery.sim2real.gate.trials import Outcome

DELAY = Parameter("age of observations", "s", 0.0, 0.0, 0.1, lambda ids, values: None)
STEP = 0.0125
REQUIRED = 0.033


class Fake:
    """Trials whose success falls on a straight line from one at `good` s to none at `bad` s."""

    def __init__(self, good: float, bad: float) -> None:
        self.good, self.bad = good, bad
        self.points: list[dict[str, float]] = []
        self.seed = 0

    def run(self, points, seed=None):
        self.points += points
        return [self._outcome(p.get("observation_delay", 0.0)) for p in points]

    def _outcome(self, delay: float) -> Outcome:
        rate = np.clip((self.bad - delay) / (self.bad - self.good), 0.0, 1.0)
        success = np.arange(1000) < 1000 * rate
        return Outcome(success, np.full((1000, 1), delay))


def swept(good: float, bad: float, beyond: bool = True):
    trials = Fake(good, bad)
    wanted = {"observation_delay": Requirement(0.0, REQUIRED, "")}
    sides = sides_of({"observation_delay": DELAY}, wanted, beyond, {"observation_delay": STEP})
    (side,) = sides
    nominal = search(trials, sides, 0.9, 3)
    return side, nominal, trials


@pytest.mark.parametrize("beyond", [True, False])
@pytest.mark.parametrize(("good", "bad"), [(0.02, 0.03), (0.03, 0.05), (0.0, 0.01), (0.05, 0.2)])
def test_only_whole_steps_are_run(good, bad, beyond):
    _, _, trials = swept(good, bad, beyond)
    multiples = np.array([p.get("observation_delay", 0.0) for p in trials.points]) / STEP
    assert np.allclose(multiples, np.rint(multiples), atol=1e-9)
    assert len(set(multiples.round(6))) == len(multiples), "a delay is run once"
    assert {2, 3} <= set(multiples.round()), "both neighbours of 33 ms are run"


def test_a_requirement_between_two_steps_is_met_where_both_succeed():
    side, nominal, _ = swept(0.04, 0.041)
    assert side.coverage(0.9, nominal.rate) == 1.0
    assert side.bracket(0.9)[0] == pytest.approx(3 * STEP)


def test_a_requirement_between_two_steps_is_judged_on_the_line_between_them():
    """From 1 at 25 ms to 0 at 50 ms: 0.9 at 27.5 ms."""
    side, nominal, _ = swept(0.025, 0.05)
    assert side.bracket(0.9) == pytest.approx((2 * STEP, 3 * STEP))
    assert side.coverage(0.9, nominal.rate) == pytest.approx(0.0275 / REQUIRED, abs=1e-3)


def test_without_steps_the_required_value_itself_is_run():
    wanted = {"observation_delay": Requirement(0.0, REQUIRED, "")}
    (side,) = sides_of({"observation_delay": DELAY}, wanted)
    assert REQUIRED in side.next(0.9)


def test_combinations_stay_within_the_range_in_whole_steps():
    trials = Fake(0.02, 0.03)
    steps = {"observation_delay": STEP}
    ranges = {"observation_delay": (0.0, REQUIRED)}
    found = search_combinations(trials, ranges, 64, 2, steps=steps)
    delays = {round(p["observation_delay"] / STEP, 6) for p in trials.points}
    assert delays == {0, 1, 2}
    assert found.worst["observation_delay"] == pytest.approx(2 * STEP)
    trials.points.clear()
    wider_combinations(trials, ranges, {"observation_delay": DELAY}, 64, steps=steps)
    assert {round(p["observation_delay"] / STEP, 6) for p in trials.points} == {0, 1, 2, 3, 4, 5}


def test_the_interval_of_paired_points_holds_the_mean_as_often_as_it_says():
    """Points and starts each shift the success: of the intervals that count all episodes as independent most miss."""
    rng = np.random.default_rng(0)
    paired = independent = 0
    truth = 0.5
    rounds = 400
    for _ in range(rounds):
        points = rng.standard_normal((32, 1))
        starts = 0.5 * rng.standard_normal((1, 64))
        success = points + starts + 0.3 * rng.standard_normal((32, 64)) > 0.0
        rate, low, high = paired_rate(success)
        assert low <= rate <= high
        paired += low <= truth <= high
        low, high = wilson(success.sum(), success.size)
        independent += low <= truth <= high
    # 0.95 of 400 has a standard deviation of 4.4 episodes
    assert paired >= 0.91 * rounds
    assert independent < 0.6 * rounds


def test_the_interval_of_independent_episodes_is_wilsons():
    rng = np.random.default_rng(1)
    success = rng.random((64, 64)) < 0.8
    rate, low, high = paired_rate(success)
    expected = wilson(success.sum(), success.size)
    assert rate == pytest.approx(success.mean())
    assert high - low == pytest.approx(expected[1] - expected[0], rel=0.5)


@pytest.mark.parametrize("all_end", [True, False])
def test_where_all_episodes_end_alike_the_lesser_number_counts(all_end):
    rate, low, high = paired_rate(np.full((16, 8), all_end))
    assert (low, high) == pytest.approx(wilson(8.0 * all_end, 8))
    assert rate == all_end


@pytest.mark.parametrize(
    ("steps", "factor"), [(2, 2.0), (3, 1.5), (4, 2.0), (5, 5 / 3), (7, 7 / 4), (8, 2.0), (9, 9 / 5)]
)
def test_a_longer_physics_step_is_the_nearest_to_doubled(steps, factor):
    assert _coarser(steps) == pytest.approx(factor)


def clustered_variance(success: np.ndarray) -> float:
    """Of the mean of K x E episodes: the sum over all pairs that share a point, plus those that share a start, less those that
    share both, by the definition in Cameron et al., each with its own correction n/(n - 1) for the number of its groups."""
    rest = success - success.mean()
    points, starts = success.shape
    same_point = sum(rest[k, i] * rest[k, j] for k in range(points) for i in range(starts) for j in range(starts))
    same_start = sum(rest[k, i] * rest[m, i] for i in range(starts) for k in range(points) for m in range(points))
    n = success.size
    grouped = same_point * points / (points - 1) + same_start * starts / (starts - 1) - (rest**2).sum() * n / (n - 1)
    return float(grouped) / n**2


def test_the_interval_is_that_of_the_clustered_variance():
    """A table in which points and starts both matter, worked out pair by pair."""
    rng = np.random.default_rng(0)
    table = 1.5 * rng.standard_normal((9, 1)) + rng.standard_normal((1, 7)) + 0.2 * rng.standard_normal((9, 7)) > 0.2
    variance = clustered_variance(table.astype(float))
    rate = table.mean()
    assert variance > rate * (1.0 - rate) / table.size * 3  # counted as independent it would be far off
    episodes = rate * (1.0 - rate) / variance
    assert paired_rate(table) == pytest.approx((rate, *wilson(rate * episodes, episodes)), rel=1e-9)


@pytest.mark.parametrize("axis", [0, 1])
def test_where_only_points_or_only_starts_matter_they_are_the_episodes(axis):
    """10 groups of 6 that end alike tell as much as 10 episodes, but for the n/(n - 1) of their variance."""
    ends = np.array([True] * 7 + [False] * 3)
    success = np.repeat(ends[:, None], 6, axis=1)
    rate, low, high = paired_rate(success if axis == 0 else success.T)
    episodes = 0.7 * 0.3 / (ends.astype(float).var(ddof=1) / 10)
    assert (rate, low, high) == pytest.approx((0.7, *wilson(0.7 * episodes, episodes)))
    assert episodes == pytest.approx(9.0)


def test_episodes_whose_groups_cancel_count_at_least_as_independent():
    """A chessboard: every point and start has the same rate, and the variance by groups is 0."""
    success = np.indices((8, 8)).sum(0) % 2 == 0
    rate, low, high = paired_rate(success)
    alone = 0.25 / (success.astype(float).var(ddof=1) / 64)
    assert (rate, low, high) == pytest.approx((0.5, *wilson(0.5 * alone, alone)))
