"""Weights, intervals, profiles and trade-offs against closed forms of linear problems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.estimate import estimate
from rookery.sim2real.sysid.held import held
from rookery.sim2real.sysid.identifiability import identifiability, sparse_basis
from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.intervals import curvature, profile, threshold
from rookery.sim2real.sysid.problem import FitParameter, Problem, make_blocks
from rookery.sim2real.sysid.weights import autocorrelation


class Line(Problem):
    """y = A x + noise."""

    def __init__(self, matrix, y, names, prior=None, low=-100.0, high=100.0):
        prior = prior or {}
        self.matrix, self.y = matrix, y
        self.parameters = tuple(
            FitParameter(n, "", "1", 0.0, low, high, 0.1, prior.get(n), (n,)) for n in names
        )  # fmt: skip
        self.names = ("y",)
        self.stretches = (len(y),)
        self.channels = np.zeros(len(y), np.int64)
        self.blocks = make_blocks(np.zeros(1, np.int64), self.stretches)

    def residuals(self, points):
        return points @ self.matrix.T - self.y


def line(seed=0, count=400, **options):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((count, 3))
    return Line(matrix, matrix @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(count), ("a", "b", "c"), **options)


class Stepped(Line):
    """A line whose simulation in finer steps predicts y + change."""

    def __init__(self, *args, change, **options):
        super().__init__(*args, **options)
        self.change = change

    def finer_residuals(self, x):
        return self.residuals(x[None])[0] + self.change


def least_squares(problem):
    """Solution, standard errors."""
    a, y = problem.matrix, problem.y
    x, *_ = np.linalg.lstsq(a, y, rcond=None)
    s2 = ((a @ x - y) ** 2).mean()
    return x, np.sqrt(s2 * np.diag(np.linalg.inv(a.T @ a)))


def test_intervals_allow_for_the_steps_of_the_simulation():
    """As wide as the root of the sum of squares of the width without steps and of what finer steps move the value by."""
    plain = line()
    shift = np.array([0.4, 0.0, -0.1])  # of the best fit
    stepped = Stepped(plain.matrix, plain.y, ("a", "b", "c"), change=-plain.matrix @ shift)
    narrow, wide = identify(plain), identify(stepped)
    for a, b, moved in zip(narrow.parameters, wide.parameters, shift, strict=True):
        assert b.value == a.value
        for end in ("low", "high"):
            before, after = (abs(getattr(e.interval, end) - e.value) for e in (a, b))
            assert after == pytest.approx(np.hypot(before, moved), rel=1e-6)


def test_estimates_and_intervals_are_those_of_linear_least_squares():
    problem = line()
    fit = estimate(problem)
    x, error = least_squares(problem)
    assert fit.x == pytest.approx(x, abs=1e-4)
    width = np.array([i.high - i.low for i in curvature(fit)])
    classic = 2 * student.ppf(0.975, len(problem.y) - 3) * error
    # white noise: the autocorrelation is judged, and the blocks may differ a little more than noise does
    assert (width > 0.95 * classic).all()
    assert (width < 1.9 * classic).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_profile_of_a_linear_problem_is_no_shorter_than_its_classic_interval(seed):
    problem = line(seed)
    fit = estimate(problem)
    x, error = least_squares(problem)
    start = curvature(fit)[1]
    found, better = profile(fit, 1, start)
    assert better is None
    quantile = threshold(fit)
    tolerance = np.sqrt(quantile**2 + fit.weights.tolerance)
    time = np.sqrt(fit.weights.time[0])
    for end, side in ((found.low, -1), (found.high, 1)):
        distance = side * (end - x[1]) / error[1] / time
        assert distance > 0.9 * quantile
        assert distance < 2.2 * tolerance


def test_intervals_cover_the_truth_as_often_as_they_say():
    truth = np.array([1.0, -2.0, 0.5])
    hits = []
    for seed in range(60):
        for interval, value in zip(curvature(estimate(line(seed, 200))), truth, strict=True):
            hits.append(interval.low <= value <= interval.high)
    assert np.mean(hits) > 0.93


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, 0.97])
def test_the_autocorrelation_time_is_that_of_an_autoregression(phi):
    """(1 + phi) / (1 - phi) for x_t = phi x_(t - 1) + noise."""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((20000, 8))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        x[t] = phi * x[t - 1] + noise[t]
    time, first = autocorrelation(x, (12000, 8000))
    assert time.mean() == pytest.approx((1 + phi) / (1 - phi), rel=0.15)
    assert first.mean() == pytest.approx(phi, abs=0.02)


def test_correlated_residuals_widen_intervals():
    """By the root of the autocorrelation time of the noise times that of the regressor, at least."""
    rng = np.random.default_rng(2)
    slow = np.convolve(rng.standard_normal(4100), np.ones(100) / 10.0, "valid")[:4000]
    matrix = np.sin(np.arange(4000) / 300.0)[:, None]
    problem = Line(matrix, matrix[:, 0] + slow, ("a",))
    fit = estimate(problem)
    _, error = least_squares(problem)
    width = curvature(fit)[0].high - curvature(fit)[0].low
    assert width > 6.0 * 2 * 1.96 * error[0]


@pytest.mark.parametrize("seed", range(2))
def test_blocks_that_disagree_widen_intervals(seed):
    """Each block has a value of its own, as with a model that errs: their mean is as sure as their spread says."""
    rng = np.random.default_rng(seed)
    matrix = rng.choice((-1.0, 1.0), (4000, 1))  # residuals are white, whatever the block's value
    blocks = make_blocks(np.zeros(1, np.int64), (4000,))
    own = 1.0 + rng.standard_normal(blocks.max() + 1)
    fit = estimate(Line(matrix, own[blocks] * matrix[:, 0] + 0.1 * rng.standard_normal(4000), ("a",)))
    start = curvature(fit)[0]
    found, _ = profile(fit, 0, start)
    width = 2 * 1.96 * own.std(ddof=1) / np.sqrt(len(own))
    assert start.high - start.low > 0.9 * width
    assert found.high - found.low > 0.9 * width


def test_slow_residuals_leave_values_that_the_model_may_err_by():
    """The cost at both ends rises by what chance explains and by the tolerance, which white noise does not have."""
    rng = np.random.default_rng(6)
    noise = rng.standard_normal(8000)
    for t in range(1, len(noise)):
        noise[t] += 0.9 * noise[t - 1]
    matrix = rng.choice((-1.0, 1.0), (8000, 1))
    fit = estimate(Line(matrix, matrix[:, 0] + noise, ("a",)))
    weights = fit.weights
    assert weights.effective == pytest.approx(8000 * 0.1 / 1.9, rel=0.2)
    assert weights.tolerance > 0.5 * threshold(fit) ** 2, "they are of one size here"
    start = curvature(fit)[0]
    for interval in (start, profile(fit, 0, start)[0]):
        for end in (interval.low, interval.high):
            residuals = fit.problem.residuals(np.array([[end]]))[0]
            rise = (weights.rows(fit.problem.channels) ** 2 * (residuals**2 - fit.residuals**2)).sum()
            assert rise > 0.9 * (threshold(fit) ** 2 + weights.tolerance)
    white = estimate(line(count=4000)).weights
    assert white.tolerance < 0.05 * white.effective * 0.01 * 2


def test_a_profile_ends_at_a_bound_on_its_side():
    fit = estimate(line())
    _, error = least_squares(fit.problem)
    bound = float(fit.x[1] - 0.5 * error[1])
    near = estimate(line(low=bound))
    found, _ = profile(near, 1, curvature(near)[1])
    assert (found.low, found.low_bound, found.high_bound) == (pytest.approx(bound), True, False)
    assert found.high > near.x[1] + 1.5 * error[1]


def test_the_autocorrelation_is_that_of_pairs_within_stretches():
    rng = np.random.default_rng(7)
    stretches = (6, 9, 4, 11)
    table = rng.standard_normal((sum(stretches), 3)) + 1.0
    pairs = []
    for first, length in zip(np.cumsum((0, *stretches[:-1])), stretches, strict=True):
        part = table[first : first + length]
        pairs += [a * b for a, b in zip(part[:-1], part[1:], strict=True)]
    expected = np.mean(pairs, axis=0) / (table**2).mean(axis=0)
    assert autocorrelation(table, stretches)[1] == pytest.approx(np.maximum(expected, 0.0))


def correlated(prior=None, factor=-3.0):
    """Two columns that are nearly alike, but for size and sign."""
    rng = np.random.default_rng(8)
    matrix = rng.standard_normal((600, 3))
    matrix[:, 1] = factor * (matrix[:, 0] + 0.2 * matrix[:, 1])
    return estimate(Line(matrix, matrix.sum(axis=1) + 0.3 * rng.standard_normal(600), ("a", "b", "c"), prior=prior))


@pytest.mark.parametrize("factor", [-3.0, 3.0])
def test_changes_of_a_tradeoff_hide_each_other(factor):
    fit = correlated(factor=factor)
    (found,) = identifiability(fit).tradeoffs
    assert found.names == ("a", "b")
    moved = fit.problem.matrix[:, :2] * np.array(found.changes)
    assert np.linalg.norm(moved.sum(axis=1)) < 0.3 * np.linalg.norm(moved, axis=0).max()
    rng = np.random.default_rng(9)
    matrix = rng.standard_normal((300, 3))
    matrix[:, 1] = factor * matrix[:, 0]
    y = matrix.sum(axis=1) + rng.standard_normal(300)
    exact = identifiability(estimate(Line(matrix, y, ("a", "b", "c"), prior={"b": 0.2})))
    (found,) = (t for t in exact.tradeoffs if set(t.names) == {"a", "b"})
    moved = matrix[:, :2] * np.array(found.changes)
    assert np.linalg.norm(moved.sum(axis=1)) < 1e-3 * np.linalg.norm(moved)


def test_what_is_known_before_ends_a_tradeoff():
    assert identifiability(correlated()).tradeoffs
    assert not identifiability(correlated(prior={"a": 1e-3, "b": 1e-3})).tradeoffs


def test_a_singular_value_counts_standard_deviations_of_a_change_that_matters():
    problem = line()
    problem.matrix = problem.matrix[:, :1]
    problem.y, problem.parameters = problem.y + 2.0 * np.sin(np.arange(len(problem.y))), problem.parameters[:1]
    fit = estimate(problem)
    _, error = least_squares(problem)
    expected = problem.parameters[0].size / error[0] / np.sqrt(fit.weights.time[0])
    assert identifiability(fit).singular == pytest.approx((expected,), rel=0.02)


def test_collinear_parameters_are_named_and_unseen_ones_too():
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((300, 5))
    matrix[:, 1] = 2.0 * matrix[:, 0]
    matrix[:, 4] = 0.0
    y = matrix @ [1.0, 0.5, 1.0, -1.0, 0.0] + 0.1 * rng.standard_normal(300)
    found = identify(Line(matrix, y, ("a", "b", "c", "d", "e"), prior={"b": 0.2}))
    shows = found.shows
    assert shows.unseen == ("e",)
    assert [set(t.names) for t in shows.tradeoffs] == [{"a", "b"}]
    assert shows.condition > 1e6
    by_name = {e.parameter.quantity: e for e in found.parameters}
    assert not by_name["e"].identified and not by_name["b"].identified
    assert by_name["c"].identified and by_name["c"].notes == ()
    assert any("b" in note and note.startswith("trades") for note in by_name["a"].notes)
    # what the log shows is their combination
    assert by_name["a"].value + 2.0 * by_name["b"].value == pytest.approx(2.0, abs=0.03)


def test_a_dependency_of_three_is_named():
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((300, 4))
    matrix[:, 2] = matrix[:, 0] - matrix[:, 1]
    problem = Line(matrix, matrix.sum(axis=1), ("a", "b", "c", "d"), prior=dict.fromkeys("abcd", 10.0))
    problem.y = problem.y + 0.1 * rng.standard_normal(300)
    assert {"a", "b", "c"} in [set(t.names) for t in identifiability(estimate(problem)).tradeoffs]


def test_the_sparse_basis_spans_the_same_space():
    rng = np.random.default_rng(5)
    plain = np.zeros((6, 2))
    plain[[0, 1], 0] = 1.0, -1.0
    plain[[2, 5], 1] = 1.0, 2.0
    mixed = plain @ rng.standard_normal((2, 2))
    basis = sparse_basis(np.linalg.qr(mixed)[0])
    assert sorted(tuple(np.flatnonzero(np.abs(b) > 1e-9)) for b in basis.T) == [(0, 1), (2, 5)]
    assert np.linalg.matrix_rank(np.hstack((basis, plain)), tol=1e-9) == 2


def test_a_minimum_at_a_bound_is_told():
    problem = line(low=-1.0, high=1.0)
    found = identify(problem)
    (b,) = (e for e in found.parameters if e.parameter.quantity == "b")
    assert b.value == pytest.approx(-1.0)
    assert any(note.startswith("bound") for note in b.notes)


def test_too_few_samples_are_refused():
    with pytest.raises(RookeryError, match=r"too few for 3 parameters"):
        estimate(line(count=3))
    with pytest.raises(RookeryError, match=r"nothing in this log depends on a, b"):
        estimate(Line(np.zeros((50, 2)), np.ones(50), ("a", "b")))


def test_held_values_are_averaged_over_steps():
    time, values = np.array([0.0, 1.0, 2.0]), np.array([[1.0], [3.0], [5.0]])
    means = held(time, values, np.array([-1.0, 0.5, 1.5, 2.0, 4.0]))[:, 0]
    assert means == pytest.approx([1.0, 2.0, 3.0, 5.0])
