"""The sweep's arithmetic on outcomes made by hand: places, brackets, next values, coverage, and the search by a known law."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rookery.sim.randomization.parameters import Parameter
from rookery.sim2real.gate.combinations import search_combinations, wider_combinations
from rookery.sim2real.gate.intervals import wilson
from rookery.sim2real.gate.profile import Requirement
from rookery.sim2real.gate.sweep import Side, search, sides_of, without_effect
from rookery.sim2real.gate.trials import Outcome

E = 100


def outcome(rate: float, mark: float = 0.0) -> Outcome:
    success = np.arange(E) < round(rate * E)
    return Outcome(success, np.full((E, 1), mark))


class Law:
    """Trials whose success rate is a function of the point."""

    def __init__(self, rate) -> None:
        self.rate = rate
        self.episodes = E
        self.seed = 4
        self.batches: list[tuple[list[dict[str, float]], int | None]] = []

    def run(self, points, seed=None):
        self.batches.append(([dict(p) for p in points], seed))
        return [outcome(self.rate(p), sum(p.values())) for p in points]


def test_places_are_linear_and_of_positive_factors_logarithmic():
    linear = Side("delay", "s", 0.01, 0.05, None)
    assert linear.place(0.03) == pytest.approx(0.5) and linear.at(0.25) == pytest.approx(0.02)
    ratio = Side("mass", "1", 0.5, 2.0, None)
    assert ratio.place(1.0) == pytest.approx(0.5) and ratio.at(0.25) == pytest.approx(math.sqrt(0.5))
    down = Side("mass", "1", 1.0, 0.25, None)
    assert down.place(0.5) == pytest.approx(0.5) and down.at(1.0) == pytest.approx(0.25)
    for nominal, limit in ((0.0, 2.0), (1.0, 0.0), (1.0, -1.0)):  # without logarithm
        assert Side("x", "1", nominal, limit, None).at(0.5) == pytest.approx(0.5 * (nominal + limit))


def test_brackets_end_at_the_first_failure():
    side = Side("x", "m", 0.0, 4.0, 2.0)
    assert side.bracket(0.9) == (0.0, None)
    side.outcomes = {3.0: outcome(0.95), 1.0: outcome(0.9), 2.0: outcome(0.89), 4.0: outcome(0.0)}
    assert side.bracket(0.9) == (1.0, 2.0)
    assert side.bracket(0.8) == (3.0, 4.0)
    assert side.bracket(0.0) == (4.0, None)
    tried = side.tried()
    assert [t.value for t in tried] == [1.0, 2.0, 3.0, 4.0]
    assert (tried[0].success, tried[0].low, tried[0].high) == (0.9, *wilson(90, E))


def test_the_next_values():
    assert Side("x", "m", 0.0, 4.0, None).next(0.9) == [1.0, 2.0, 3.0, 4.0]
    side = Side("x", "m", 0.0, 4.0, 1.0)
    assert side.next(0.9) == [0.5, 1.0, 4.0]
    assert Side("x", "m", 0.0, 1.0, 1.0).next(0.9) == [0.5, 1.0]
    side.outcomes = {0.5: outcome(1.0), 1.0: outcome(1.0), 4.0: outcome(0.0)}
    assert side.next(0.9) == pytest.approx([1.75, 2.5, 3.25])
    side.outcomes[4.0] = outcome(1.0)
    assert side.next(0.9) == []


def test_coverage_is_interpolated_between_the_last_success_and_the_first_failure():
    side = Side("x", "m", 1.0, 9.0, 5.0)
    side.outcomes = {2.0: outcome(1.0), 4.0: outcome(0.6), 5.0: outcome(0.0)}
    assert side.coverage(0.9, 1.0) == pytest.approx((2.0 + 2.0 * 0.1 / 0.4 - 1.0) / 4.0)
    assert side.coverage(0.6, 1.0) == pytest.approx(3.0 / 4.0)
    assert side.coverage(0.9, 0.89) == 0.0
    side.outcomes = {2.0: outcome(0.5)}
    assert side.coverage(0.9, 1.0) == pytest.approx(0.2 / 4.0)
    side.outcomes = {5.0: outcome(1.0), 9.0: outcome(0.0)}
    assert side.coverage(0.9, 1.0) == 1.0
    assert Side("x", "m", 0.0, 4.0, None).coverage(0.9, 0.0) == 1.0


@pytest.mark.parametrize("tried", [(4.0,), (1.0, 4.0), (2.0, 3.0), (1.0, 2.0, 3.0, 4.0)])
def test_coverage_of_a_linear_law_is_where_it_crosses_whatever_was_tried(tried):
    """The rate falls from 0.96 at nominal by 0.04 per unit, through 0.9 at 1.5: nominal itself is a point of the line."""
    side = Side("x", "m", 0.0, 8.0, 6.0)
    side.outcomes = {x: outcome(0.96 - 0.04 * x) for x in tried}
    assert side.coverage(0.9, 0.96) == pytest.approx(1.5 / 6.0)


def parameter(nominal: float, low: float, high: float, typical=None) -> Parameter:
    return Parameter("what", "m", nominal, low, high, lambda ids, values: None, (), typical)


def test_sides_go_to_four_times_what_is_required_as_far_as_the_factor_goes():
    parameters = {
        "a": parameter(1.0, -10.0, 10.0), "b": parameter(0.0, 0.0, 3.0), "c": parameter(0.0, -1.0, 1.0, (-0.1, 0.2)),
        "d": parameter(0.0, -math.inf, 5.0),
    }  # fmt: skip
    required = {"a": Requirement(0.5, 1.25, ""), "b": Requirement(0.0, 1.0, "")}
    found = {(s.factor, round(s.limit, 9)): s.required for s in sides_of(parameters, required)}
    assert found == {
        ("a", -1.0): 0.5, ("a", 3.0): 1.25, ("b", 3.0): 1.0, ("c", -0.8): None,
        ("c", 0.8): None, ("d", 5.0): None,
    }  # fmt: skip
    needed = [(s.factor, s.nominal, s.limit, s.required, s.unit) for s in sides_of(parameters, required, False)]
    assert needed == [("a", 1.0, 0.5, 0.5, "m"), ("a", 1.0, 1.25, 1.25, "m"), ("b", 0.0, 1.0, 1.0, "m")]


@pytest.mark.parametrize("step", [0.0, 0.03, 0.25])
@pytest.mark.parametrize("beyond", [True, False])
def test_no_side_goes_past_what_the_factor_takes_whatever_is_required(step, beyond):
    rng = np.random.default_rng(5)
    for _ in range(200):
        low, high = 0.0 if step else -rng.uniform(0.0, 2.0), rng.uniform(0.3, 2.0)
        factor = parameter(0.0, low, high, (0.0, 0.5 * high))
        wanted = Requirement(-rng.uniform(0.0, 3.0), rng.uniform(0.3, 3.0), "")
        sides = sides_of({"x": factor}, {"x": wanted}, beyond, {"x": step})
        assert {s.required for s in sides} == {end for end in (max(wanted.low, low), min(wanted.high, high)) if end}
        for side in sides:
            assert low <= side.required <= high and low <= side.limit <= high
            assert all(low <= v <= high for v in side.next(0.9))


def test_the_search_narrows_a_margin_to_a_quarter_in_each_round():
    """Success up to 1.3, of a limit of 4: within 4, 1 after the first values, then 1/4, 1/16 of a stretch."""
    law = Law(lambda p: 1.0 if p.get("x", 0.0) <= 1.3 else 0.0)
    widths = []
    for rounds in range(4):
        side = Side("x", "m", 0.0, 4.0, None)
        nominal = search(law, [side], 0.9, rounds)
        last, failed = side.bracket(0.9)
        assert nominal.rate == 1.0 and last <= 1.3 < failed
        widths.append(failed - last)
    assert widths == pytest.approx([1.0, 1 / 4, 1 / 16, 1 / 64])
    assert law.batches[0][0] == [{"x": 1.0}, {"x": 2.0}, {"x": 3.0}, {"x": 4.0}, {}]


def test_a_policy_that_fails_at_nominal_is_searched_no_farther():
    law = Law(lambda p: 0.5)
    side = Side("x", "m", 0.0, 4.0, None)
    assert search(law, [side], 0.9, 3).rate == 0.5
    assert len(law.batches) == 1 and len(side.outcomes) == 4


def test_a_limit_that_succeeds_ends_the_search():
    law = Law(lambda p: 0.9)
    assert search(law, [Side("x", "m", 0.0, 4.0, None)], 0.9, 3).rate == 0.9
    assert len(law.batches) == 1


def test_factors_whose_every_value_changes_nothing():
    same, other = outcome(1.0, 0.0), outcome(1.0, 1.0)
    sides = [Side("a", "m", 0.0, 1.0, None, {1.0: same}), Side("a", "m", 0.0, -1.0, None, {-1.0: same, -0.5: other}),
             Side("b", "m", 0.0, 1.0, None, {0.5: same, 1.0: same})]  # fmt: skip
    assert without_effect(sides, same) == ["b"]


def test_combinations_go_on_from_the_worst_and_measure_it_anew():
    """The rate falls towards the corner (3, 10); the search comes nearer to it than the draws did."""
    law = Law(lambda p: 1.0 - 0.4 * (p["x"] - 1.0) / 2.0 - 0.4 * (p["y"] - 8.0) / 2.0)
    ranges = {"x": (1.0, 3.0), "y": (8.0, 10.0)}
    found = search_combinations(law, ranges, 16, 3, seed=2)
    sizes = [len(points) for points, _ in law.batches]
    assert sizes == [16, 8, 8, 8, 1]
    assert [seed for _, seed in law.batches] == [None] * 4 + [law.seed + 1]
    drawn = [p for points, _ in law.batches[:4] for p in points]
    assert all(ranges[k][0] <= v <= ranges[k][1] for p in drawn for k, v in p.items())
    assert found.worst == law.batches[4][0][0] == min(drawn, key=lambda p: round(law.rate(p) * E))
    rates = [round(law.rate(p) * E) / E for p in drawn]
    assert found.worst_success == min(rates) < min(rates[:16])
    assert found.success == pytest.approx(sum(rates[:16]) / 16)
    independent = wilson(round(sum(rates[:16]) * E), 16 * E)
    assert found.low < independent[0] < independent[1] < found.high, "combinations share their starts"
    assert (found.worst_low, found.worst_high) == wilson(round(min(rates) * E), E)
    assert found.drawn == 16
    near = law.batches[3][0]
    parents = sorted(drawn[:32], key=law.rate)[:4]
    spread = torch.tensor([[p["x"] - q["x"] for q in parents] for p in near]).abs().amin(1)
    assert spread.max() < 3 * 0.35 * 2.0 / 4.0, "steps of the third round are a quarter of those of the first"
    assert search_combinations(Law(lambda p: 1.0), ranges, 1, 1).drawn == 1


def test_wider_combinations_go_farther_from_nominal_and_end_at_the_limits():
    """x succeeds up to 2.5; its range from nominal 1 is 1 to 2, then 1 to 2.5 and 1 to 3. y ends at its limit of 10."""
    law = Law(lambda p: float(p["x"] <= 2.5))
    ranges = {"x": (1.0, 2.0), "y": (8.0, 9.9)}
    parameters = {"x": parameter(1.0, 0.0, 9.0), "y": parameter(8.0, 7.0, 10.0)}
    found = wider_combinations(law, ranges, parameters, 400, seed=3)
    assert [(w.width, w.drawn) for w in found] == [(1.5, 400), (2.0, 400)]
    assert found[0].success == 1.0 and abs(found[1].success - 0.75) < 0.09
    # the episodes of a combination all end alike: it counts as one
    assert (found[1].low, found[1].high) == pytest.approx(wilson(round(found[1].success * 400), 400), abs=1e-3)
    for (points, _), width in zip(law.batches, (1.5, 2.0), strict=True):
        x, y = (torch.tensor([p[name] for p in points]) for name in ("x", "y"))
        assert x.min() >= 1.0 and 1.0 + 0.98 * width < x.max() <= 1.0 + width
        assert y.min() >= 8.0 and 9.95 < y.max() <= 10.0
    a, b = (points for points, _ in law.batches)
    assert (b[7]["x"] - 1.0) / 2.0 == pytest.approx((a[7]["x"] - 1.0) / 1.5), "the same combinations, farther out"
