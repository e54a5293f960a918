"""Ratings: those of a game that follows the model, and what no rating can tell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from rookery.policies.multiagent.ratings import ELO, PRIOR_GAMES, bradley_terry, cycle, cyclicity, reversal

PAIRS = np.triu_indices(5, 1)


def chance(difference: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-difference))


def test_ratings_are_those_that_made_the_results() -> None:
    made = np.array([-1.2, 0.3, 0.0, 1.1, -0.2])
    first, second = PAIRS
    rated = bradley_terry(first, second, chance(made[first] - made[second]), np.full(10, 1e6), 5)
    np.testing.assert_allclose(rated.elo, ELO * made, atol=1e-2)
    assert ELO * np.log(10.0) == pytest.approx(400.0)


def test_ratings_are_the_likeliest_and_cover_the_truth() -> None:
    """Against a general optimizer; and in 95 of 100 leagues, within what chance leaves, the truth is in the interval."""
    rng = np.random.default_rng(1)
    made = np.array([-1.0, 0.5, 0.0, 0.8, -0.3])
    first, second = PAIRS
    inside = []
    for draw in range(200):
        score = rng.binomial(40, chance(made[first] - made[second])) / 40
        rated = bradley_terry(first, second, score, np.full(10, 40.0), 5)
        inside.append(np.abs(rated.elo - ELO * made) <= rated.half_width)
        if draw < 3:

            def loss(r: np.ndarray, score: np.ndarray = score) -> float:
                p = chance(r[first] - r[second])
                own = chance(r)
                data = 40.0 * (score * np.log(p) + (1.0 - score) * np.log(1.0 - p)).sum()
                return float(-data - PRIOR_GAMES * 0.5 * (np.log(own) + np.log(1.0 - own)).sum())

            best = minimize(loss, np.zeros(5), tol=1e-12).x
            np.testing.assert_allclose(rated.elo, ELO * (best - best.mean()), atol=0.05)
    assert 0.91 < np.mean(inside) < 0.99


def test_who_wins_everything_has_a_rating() -> None:
    rated = bradley_terry(np.array([0]), np.array([1]), np.array([1.0]), np.array([100.0]), 2)
    assert rated.elo[0] == -rated.elo[1] and 100.0 < rated.elo[0] < 2000.0


def test_the_cyclic_share_is_what_ratings_leave() -> None:
    rating = np.array([0.1, 0.4, -0.2])
    ranked = rating[:, None] - rating
    circle = 0.3 * np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    nothing = np.zeros((3, 3))
    assert cyclicity(ranked, nothing).share == pytest.approx(0.0, abs=1e-15)
    assert cyclicity(circle, nothing).share == pytest.approx(1.0)
    both = cyclicity(ranked + circle, nothing)
    assert both.share == pytest.approx((circle**2).sum() / ((ranked**2).sum() + (circle**2).sum())) and both.real
    a, b = np.array([0.2, -0.1, 0.5]), np.array([0.3, 0.1])
    roles = 0.2 + a[:, None] - b
    assert cyclicity(roles, np.zeros((3, 2))).share == pytest.approx(0.0, abs=1e-15)
    odd = np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])
    expected = (0.1 * odd**2 * 0.1).sum() / (((roles - roles.mean()) ** 2).sum() + (0.01 * odd**2).sum())
    assert cyclicity(roles + 0.1 * odd, np.zeros((3, 2))).share == pytest.approx(expected)


def test_chance_alone_gives_the_share_that_is_expected_of_it() -> None:
    rng = np.random.default_rng(2)
    for size in (3, 6):
        first, second = np.triu_indices(size, 1)
        shares, expected = [], []
        for _ in range(400):
            noise = np.zeros((size, size))
            noise[first, second] = rng.normal(0.0, 0.1, len(first))
            found = cyclicity(noise - noise.T, np.where(np.eye(size), 0.0, 0.01))
            shares.append(found.share * ((noise - noise.T) ** 2).sum())
            expected.append(found.by_chance * ((noise - noise.T) ** 2).sum())
        assert np.mean(shares) == pytest.approx(np.mean(expected), rel=0.15)


def test_circles_are_found_only_with_intervals_apart() -> None:
    low = np.full((4, 4), 0.4)
    low[0, 1] = low[1, 2] = low[2, 3] = low[0, 2] = 0.6
    assert cycle(low) == []
    low[3, 0] = 0.55
    found = cycle(low)
    assert len(found) == 3 and all(
        low[one, other] > 0.5 for one, other in zip(found, [*found[1:], found[0]], strict=True)
    )
    low[3, 0] = 0.5
    assert cycle(low) == []


def test_roles_reverse_only_with_intervals_apart() -> None:
    low = np.array([[0.6, 0.1, 0.5], [0.2, 0.4, 0.5]])
    assert reversal(low, low + 0.1) == (0, 1, 0, 1)
    assert reversal(low, low + 0.35) is None
