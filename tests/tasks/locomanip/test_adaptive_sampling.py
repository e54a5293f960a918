"""Adaptive sampling: closed forms, a toy with a known answer, frequencies, and exact resume."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rookery.sim.errors import RookeryError
from rookery.tasks.locomanip.adaptive_sampling import AdaptiveSampler, AdaptiveSamplingConfig


def sampler(K=3, **kwargs):
    return AdaptiveSampler([f"task{k}" for k in range(K)], AdaptiveSamplingConfig(**kwargs))


def test_probabilities_are_the_closed_form():
    """K - 1 tasks are mastered, one never improves: its p is a logistic function of its error."""
    K = 5
    floor = 0.2
    sharpness = 2.0
    scale = 0.05
    stuck = 0.08
    s = sampler(K, floor=floor, sharpness=sharpness, scale=scale)
    for _ in range(4):
        s.report(torch.arange(K), torch.tensor([0.0, 0.0, stuck, 0.0, 0.0]))
    pull = math.exp(sharpness * stuck / scale)
    rest = (1 - floor) / (pull + K - 1) + floor / K
    want = [rest, rest, (1 - floor) * pull / (pull + K - 1) + floor / K, rest, rest]
    np.testing.assert_allclose(s.probabilities(), want, rtol=1e-6)


def test_limits_of_the_constants():
    s = sampler(sharpness=0.0)
    s.report(torch.arange(3), torch.tensor([1.0, 0.0, 9.0]))
    np.testing.assert_allclose(s.probabilities(), 1 / 3)
    s = sampler(floor=0.3, sharpness=1e4)
    s.report(torch.arange(3), torch.tensor([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(s.probabilities(), [0.1, 0.1, 0.8], atol=1e-12)
    s = sampler(floor=1.0)
    s.report(torch.arange(3), torch.tensor([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(s.probabilities(), 1 / 3)


def test_untried_tasks_count_as_the_worst():
    s = sampler()
    np.testing.assert_allclose(s.probabilities(), 1 / 3)
    s.report(torch.tensor([0, 1]), torch.tensor([0.02, 0.3]))
    p = s.probabilities()
    assert p[2] == p[1] > p[0]


def test_toy_errors_meet_at_the_water_level():
    """Each practice takes c off a task's error. After M practices, errors that meet are at (sum E - c M) / K.

    Uniform practice would leave the hardest task at E_max - c M / K instead.
    """
    start = torch.tensor([0.2, 0.5, 0.9, 1.0], dtype=torch.float64)
    c = 0.004
    M = 500
    s = sampler(4, sharpness=20.0, scale=1.0, floor=0.0, memory=1.0)
    uniform = torch.from_numpy(np.random.default_rng(0).random(M))
    error = start.clone()
    s.report(torch.arange(4), error)
    for u in uniform:
        task = s.draw(u[None])
        error[task] -= c
        s.report(task, error[task])
    level = (start.sum().item() - c * M) / 4
    assert level == pytest.approx(0.15)
    # softmax evens out errors to within a few 1 / sharpness
    assert (error - level).abs().max() < 0.1
    assert error.max() < 0.5 * (start.max() - c * M / 4)
    np.testing.assert_allclose(s.draws, (start - error) / c, atol=1e-6)


def test_toy_with_forgetting_settles_where_practice_balances_it():
    """Errors rise by f_k a round and fall by c times the practice: at rest p_k = f_k / c, whatever the start."""
    c = 0.1
    rise = torch.tensor([0.01, 0.03, 0.06], dtype=torch.float64)
    s = sampler(3, sharpness=5.0, scale=1.0, floor=0.0, memory=0.5)
    error = torch.tensor([1.0, 0.2, 0.6], dtype=torch.float64)
    mean = torch.zeros(3, dtype=torch.float64)
    for k in range(900):
        s.report(torch.arange(3), error)
        p = s.probabilities()
        mean += p * (k >= 600) / 300
        error = error + rise - c * p
    np.testing.assert_allclose(mean, rise / c, atol=1e-3)


def test_draws_have_the_probabilities():
    s = sampler(4, floor=0.1)
    s.report(torch.arange(4), torch.tensor([0.01, 0.02, 0.05, 0.03]))
    n = 40000
    drawn = s.draw(torch.rand(n, generator=torch.Generator().manual_seed(5)))
    count = torch.bincount(drawn, minlength=4)
    assert torch.equal(count, s.draws)
    expected = s.probabilities() * n
    chi2 = ((count - expected) ** 2 / expected).sum().item()
    assert chi2 < 25.0  # 3 degrees of freedom: exceeded once in 60,000


def test_draws_follow_the_given_numbers():
    s = sampler(4, floor=1.0)
    u = torch.tensor([0.0, 0.2499, 0.2501, 0.74, 0.99999997])
    assert s.draw(u).tolist() == [0, 0, 1, 2, 3]
    assert s.draw(torch.ones(1, dtype=torch.float64)).tolist() == [3]


def test_memory_is_exponential_in_reports_and_batches_do_not_depend_on_order():
    s = sampler(2, memory=10.0)
    s.report(torch.tensor([0]), torch.tensor([1.0]))
    assert s.error.tolist() == [1.0, 0.0]
    s.report(torch.zeros(5, dtype=torch.int64), torch.zeros(5))
    assert s.error[0].item() == pytest.approx(math.exp(-0.5))
    a, b = sampler(), sampler()
    task = torch.tensor([2, 0, 2, 1])
    error = torch.tensor([0.1, 0.2, 0.5, 0.4])
    a.report(task, error)
    b.report(task.flip(0), error.flip(0))
    np.testing.assert_allclose(a.error, b.error)
    np.testing.assert_allclose(a.error, [0.2, 0.4, 0.3], atol=1e-7)
    assert a.reports.tolist() == [1, 1, 2]


def test_errors_that_are_not_finite_are_left_out_and_counted():
    s = sampler()
    s.report(torch.tensor([0, 0, 1]), torch.tensor([0.5, math.nan, math.inf]))
    assert s.error.tolist() == [0.5, 0.0, 0.0] and s.reports.tolist() == [1, 0, 0]
    assert torch.isfinite(s.probabilities()).all()
    assert s.log()["sampling/dropped"] == 2


def test_state_resumes_exactly_and_log_names_everything():
    a = sampler()
    u = torch.rand(300, generator=torch.Generator().manual_seed(1))
    a.report(a.draw(u[:100]), u[100:200])
    b = sampler()
    b.load_state_dict(a.state_dict())
    assert torch.equal(a.draw(u[200:]), b.draw(u[200:]))
    assert a.log() == b.log()
    row = a.log()
    assert sum(row[f"sampling/task{k}/p"] for k in range(3)) == pytest.approx(1.0)
    assert sum(row[f"sampling/task{k}/draws"] for k in range(3)) == 200
    assert row["sampling/task1/error"] == a.error[1].item()


@pytest.mark.parametrize("wrong", [{"floor": 1.1}, {"floor": -0.1}, {"scale": 0.0}, {"memory": 0.0}])
def test_wrong_constants(wrong):
    with pytest.raises(RookeryError, match="floor from 0 to 1"):
        sampler(**wrong)


def test_no_tasks():
    with pytest.raises(RookeryError, match="at least one task"):
        sampler(0)
