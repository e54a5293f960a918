"""Players in one environment: one that observes fewer frames acts as it does in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.match_env import find_player, open_match

SMALL = ["--steps", "512", "--num-envs", "8"]


def trained(out: Path, *words: str) -> str:
    assert main(["train", "volley-1v1", "--out", str(out), *SMALL, *words]) == 0
    return str(out)


@pytest.mark.parametrize("memory", [pytest.param((), marks=pytest.mark.slow), ("--memory", "gru")])
def test_fewer_frames_are_the_newest(tmp_path: Path, memory: tuple[str, ...]) -> None:
    few = trained(tmp_path / "few", "--task-config", "history=2", *memory)
    many = trained(tmp_path / "many", "--task-config", "history=5")
    players = find_player(few, "volley-1v1"), find_player(many, "volley-1v1")
    for a, b in (players, players[::-1]):
        found = open_match("volley-1v1", a, b, 4, seed=3)
        own = open_match("volley-1v1", players[0], find_player("controller", "volley-1v1"), 4, seed=3)
        wide = rookery.make("volley-1v1", 4, config={"history": 5}, seed=3, starts=2)
        act = found.a if a is players[0] else found.b
        obs, narrow, given = (env.reset()[0] for env in (found.env, own.env, wide))
        for _ in range(30):
            torch.testing.assert_close(obs["drone"], given["drone"], rtol=0, atol=0)
            action: Any = own.a(narrow)
            torch.testing.assert_close(act(obs), action, rtol=1e-5, atol=1e-6)
            obs, narrow, given = (env.step(action)[0] for env in (found.env, own.env, wide))
        for env in (found.env, own.env, wide):
            env.close()


def test_the_controller_changes_nothing_of_what_is_observed(tmp_path: Path) -> None:
    many = find_player(trained(tmp_path / "many", "--task-config", "history=5"), "volley-1v1")
    pilot = find_player("controller", "volley-1v1")
    for pair in ((many, pilot), (pilot, many)):
        found = open_match("volley-1v1", *pair, 2)
        assert found.env.groups["drone"].history == 5
        found.env.close()
