"""Matches of a league are played in worlds like those of its trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.experiments.league.arena import LeagueMatches
from rookery.experiments.league.run import new_league, open_league
from rookery.experiments.league.state import LeagueSettings


@pytest.mark.parametrize("randomize", ["none", "default"])
def test_worlds_are_randomized_as_those_of_the_trainings(randomize: str, tmp_path: Path) -> None:
    """What is drawn differs between the worlds of the matches, or nothing is drawn."""
    training: dict[str, Any] = {"num_envs": 16, "randomize": randomize, "ppo": {"hidden": [8], "rollout_steps": 8}}
    settings = LeagueSettings("drone-tag", iterations=1, steps=640, episodes=8, training=training)
    folder, _ = new_league(settings, tmp_path / "league")
    league = open_league(folder, lambda line: None)
    with LeagueMatches(folder, league.state, league.training) as arena:
        arena.env.reset(seed=0)
        drawn = {tuple(world) for world in arena.env.randomization.values.tolist()}
    assert (len(drawn) > 1) == (randomize == "default")
