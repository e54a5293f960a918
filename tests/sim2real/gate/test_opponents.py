"""In a game the gate plays against the task's controller: no policy brings the opponent that it is judged against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sampled import slow_but
from torch import Tensor

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim2real.gate.trials import ACTION_CHANGE, Outcome, Trials

EPISODES = 4
GAMES = {
    "drone-tag": {"pursuers": 1, "evaders": 2, "episode_s": 3.0},
    "volley-1v1": {"episode_s": 3.0},
    "drone-race-match": {"num_drones": 4, "episode_s": 3.0},
}


def played(task: str, own: float, theirs: float, change: Callable[[Any], None] = lambda env: None) -> Outcome:
    """A policy whose agents of the first team act by one constant, and all others by another."""
    env = rookery.make(task, EPISODES, config=GAMES[task], starts=EPISODES)
    change(env)
    first = next(iter(env.teams.values()))

    def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
        out = {}
        for group, spec in env.groups.items():
            out[group] = torch.full((EPISODES, spec.count, spec.action.size), theirs)
            out[group][:, list(first.get(group, ()))] = own
        return out

    trials = Trials(env, act, EPISODES)
    try:
        return trials.run([{}])[0]
    finally:
        trials.close()


@pytest.mark.parametrize("task", slow_but(["drone-race-match"], GAMES))
def test_what_a_policy_does_as_its_own_opponent_counts_for_nothing(task: str) -> None:
    want = played(task, 0.1, -1.0)
    assert played(task, 0.1, 1.0).same(want)
    assert not played(task, -0.3, -1.0).same(want)
    assert want.means[ACTION_CHANGE] == 0.0, "the controller's actions are not the policy's"


def test_a_game_without_a_controller_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RookeryError, match=r"game without a classical controller, .* `rookery match`"):
        played("drone-tag", 0.0, 0.0, lambda env: monkeypatch.setattr(type(env), "controller", lambda self: None))
