"""Intervals of a league's pairs, which play each start from both sides."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from rookery.experiments.league.report import _intervals
from rookery.experiments.league.state import LeagueState

EPISODES = 64


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson (1927): the shares for which the observed one is 1.96 standard deviations off."""
    z = norm.ppf(0.975)
    middle, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_start_counts_once_where_all_episodes_end_alike(symmetric: bool) -> None:
    """Two sides of one start that is always won are one observation, not two; others count by their variance."""
    state = SimpleNamespace(settings=SimpleNamespace(episodes=EPISODES), symmetric=symmetric)
    score = np.array([[0.5, 1.0], [0.3, 0.5]])
    variance = np.array([[0.25 / EPISODES, 0.0], [0.3 * 0.7 / 16, 0.25 / EPISODES]])
    low, high = _intervals(state, score, variance, np.full((2, 2), EPISODES // 2))
    assert (low[0, 1], high[0, 1]) == pytest.approx(wilson(1.0, EPISODES / 2))
    assert (low[1, 0], high[1, 0]) == pytest.approx(wilson(0.3, 16))
    own = (0.5, 0.5) if symmetric else wilson(0.5, EPISODES)
    assert (low[0, 0], high[0, 0]) == pytest.approx(own)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_member_against_itself_is_a_draw_without_variance(symmetric: bool) -> None:
    """In a game of one population a pair that played is there from both sides; what did not play is a hole."""
    members = [SimpleNamespace(name=name) for name in "abc"]
    cells = [
        SimpleNamespace(a="a", b="b", score=0.8, variance=0.002, starts=32),
        SimpleNamespace(a="a", b="gone", score=0.1, variance=0.1, starts=5),
    ]
    state = SimpleNamespace(symmetric=symmetric, sides=lambda until: (members, members), cells=cells)
    score, variance, starts = LeagueState.results(state)
    own, other = (0.5, 0.2) if symmetric else (np.nan, np.nan)
    np.testing.assert_allclose(score, [[own, 0.8, np.nan], [other, own, np.nan], [np.nan, np.nan, own]])
    own, other = (0.0, 0.002) if symmetric else (np.nan, np.nan)
    np.testing.assert_allclose(variance, [[own, 0.002, np.nan], [other, own, np.nan], [np.nan, np.nan, own]])
    own, other = (0, 32) if symmetric else (np.nan, np.nan)
    np.testing.assert_allclose(starts, [[own, 32, np.nan], [other, own, np.nan], [np.nan, np.nan, own]])
