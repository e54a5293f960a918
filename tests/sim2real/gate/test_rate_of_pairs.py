"""The interval of a match: what it is where it is known, and how often it holds the true rate."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.sim2real.gate.intervals import rate_of_pairs, wilson

EVERY = np.ones((2, 200), bool)


def test_starts_that_decide_alone_count_once():
    """Both episodes of each start end alike: 200 starts say no more than 200 episodes, up to the P - 1 of a variance."""
    won = np.repeat(np.arange(200)[None] < 60, 2, 0)
    rate, low, high = rate_of_pairs(won, EVERY)
    assert (rate, low, high) == pytest.approx((0.3, *wilson(0.3 * 199, 199)), rel=1e-9)


def test_sides_that_decide_alone_leave_all_episodes():
    """One of the two of every start: the rate is known exactly, and its interval is that of all episodes, never narrower."""
    won = np.stack((np.ones(200, bool), np.zeros(200, bool)))
    assert rate_of_pairs(won, EVERY) == pytest.approx((0.5, *wilson(200, 400)))


def test_always_and_never_are_known_from_the_starts():
    assert rate_of_pairs(EVERY, EVERY) == (1.0, *wilson(200, 200))
    assert rate_of_pairs(~EVERY, EVERY) == (0.0, *wilson(0, 200))
    one = np.zeros((2, 5), bool)
    one[0, 2] = True
    assert rate_of_pairs(one, one) == (1.0, *wilson(1, 1))


@pytest.mark.parametrize("shared", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("part", [1.0, 0.4])
def test_it_holds_the_true_rate_as_often_as_it_says(shared: float, part: float):
    """1,000 matches of 100 starts whose episodes end alike with probability `shared`, and of which a part counts. 95 % hold,
    less four standard errors of that count."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        alike = rng.random(100) < shared
        luck = rng.random((2, 100))
        won = np.where(alike, luck[:1], luck) < 0.35
        counted = rng.random((2, 100)) < part
        _, low, high = rate_of_pairs(won, counted)
        held += low <= 0.35 <= high
    assert held >= 950 - 4 * np.sqrt(1000 * 0.95 * 0.05)
