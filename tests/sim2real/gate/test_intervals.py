"""Intervals against their definitions: Wilson's ends solve their equation, those of crossed groups follow from plain sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rookery.sim2real.gate.intervals import half_width, paired_rate, wilson

QUANTILE = 1.959964  # of the standard normal at .975


@pytest.mark.parametrize(("successes", "episodes"), [(0, 5), (5, 5), (3, 7), (250, 256), (1, 1000), (12.5, 40.25)])
def test_wilsons_ends_are_the_rates_that_are_just_not_refused(successes, episodes):
    """The rates p at which |rate - p| is the quantile times the standard error that p itself has."""
    rate = successes / episodes
    low, high = wilson(successes, episodes)
    assert 0.0 <= low <= rate <= high <= 1.0
    for end in (low, high):
        if 0.0 < end < 1.0:
            assert abs(rate - end) == pytest.approx(QUANTILE * math.sqrt(end * (1.0 - end) / episodes), rel=1e-5)
    assert half_width(rate, episodes) == pytest.approx(0.5 * (high - low))


def variance_by_groups(success: np.ndarray) -> float:
    """Cameron, Gelbach and Miller 2011: the variance of the mean grouped by points and by starts, less what both count."""
    points, starts = success.shape
    mean = success.mean()
    by_point = sum((row.mean() - mean) ** 2 for row in success) / (points - 1) / points
    by_start = sum((column.mean() - mean) ** 2 for column in success.T) / (starts - 1) / starts
    alone = sum((x - mean) ** 2 for x in success.flat) / (success.size - 1) / success.size
    return max(by_point + by_start - alone, by_point, by_start, alone)


def crossed(of_points: float, of_starts: float, seed: int) -> np.ndarray:
    """[12, 20] successes whose chance differs by point and by start."""
    draw = np.random.default_rng(seed)
    chance = 0.6 + of_points * draw.normal(size=(12, 1)) + of_starts * draw.normal(size=(1, 20))
    return draw.random((12, 20)) < chance


@pytest.mark.parametrize(("of_points", "of_starts"), [(0.3, 0.0), (0.0, 0.3), (0.2, 0.2), (0.0, 0.0), (0.02, 0.02)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_paired_rates_have_the_variance_of_both_groupings(of_points, of_starts, seed):
    success = crossed(of_points, of_starts, seed)
    rate, low, high = paired_rate(success)
    assert rate == pytest.approx(success.mean())
    episodes = rate * (1.0 - rate) / variance_by_groups(success.astype(float))
    assert (low, high) == pytest.approx(wilson(rate * episodes, episodes), rel=1e-6)


@pytest.mark.parametrize(("shape", "count"), [((4, 9), 4), ((9, 4), 4), ((1, 6), 1)])
def test_where_all_end_alike_the_smaller_group_counts(shape, count):
    assert paired_rate(np.ones(shape, bool)) == (1.0, *wilson(count, count))
    assert paired_rate(np.zeros(shape, bool)) == (0.0, *wilson(0, count))


def test_one_point_counts_as_one_episode_whatever_the_starts():
    success = np.array([[True, False, True, True]])
    assert paired_rate(success) == (0.75, *wilson(0.75, 1))
