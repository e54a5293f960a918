"""Trainings that fail: what is left of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rookery.experiments.recipes import preset
from rookery.experiments.training import Training, resume, start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training.lock import RunLock
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.tasks.drones.hover import Hover

PPO = PPOConfig(hidden=(8,), rollout_steps=4, epochs=1, minibatches=1)


def training(folder: Path) -> Training:
    """Four updates of four control steps."""
    small = replace(preset("drone-hover"), num_envs=4, algorithm_config=PPO, runner=RunnerConfig(total_steps=64))
    return start(small, folder)


@pytest.fixture
def fails_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets the task fail in its k-th control step."""
    rewards, made = Hover.rewards, []

    def failing(k: int) -> None:
        def fail(self: Hover) -> Any:
            made.append(self)
            if len(made) == k:
                raise AttributeError("drfit")
            return rewards(self)

        monkeypatch.setattr(Hover, "rewards", fail)

    return failing


def test_one_that_fails_before_its_first_update_leaves_no_folder_in_the_way(fails_in: Any, tmp_path: Path) -> None:
    """So that the same command, after the task's file was mended, is not told that its folder is not empty."""
    first = training(tmp_path / "run")
    fails_in(3)
    with pytest.raises(AttributeError, match="drfit"):
        first.run()
    assert not (tmp_path / "run").exists()
    assert training(tmp_path / "run").run(lambda row: None)["steps"] == 64


def test_one_that_fails_later_keeps_its_log(fails_in: Any, tmp_path: Path) -> None:
    first = training(tmp_path / "run")
    fails_in(7)
    with pytest.raises(AttributeError, match="drfit"):
        first.run(lambda row: None)
    assert len((tmp_path / "run" / "progress.csv").read_text().splitlines()) == 2  # the heading and an update


def test_one_that_finds_another_in_its_folder_leaves_it_alone(tmp_path: Path) -> None:
    second = training(tmp_path / "run")
    with RunLock(tmp_path / "run"), pytest.raises(RookeryError, match="is being trained by another process"):
        second.run()
    assert (tmp_path / "run" / "settings.toml").is_file()


CHANGES: dict[str, tuple[Any, str]] = {
    "order": (lambda g: replace(g, observation=(*g.observation[1:], g.observation[0])), r"observation\[0\].name"),
    "scale": (lambda g: replace(g, observation=(replace(g.observation[0], scale=3.0), *g.observation[1:])), "scale"),
    "limits": (
        lambda g: replace(g, action=replace(g.action, high=tuple(2.0 * x for x in g.action.high))),
        "action.high",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_run_does_not_go_on_in_a_task_whose_numbers_mean_something_else(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would, with observations in another order and of the same sizes, and its contract would say the old one."""
    training(tmp_path / "run").run(lambda row: None)
    groups, (change, line) = Hover.groups, CHANGES[what]
    monkeypatch.setattr(Hover, "groups", lambda self: {name: change(g) for name, g in groups(self).items()})
    with pytest.raises(
        RookeryError, match=rf"at contract line groups.drone.*{line}.*begin a new run from this policy with --init"
    ):
        resume(tmp_path / "run", {"total_steps": 128})
    monkeypatch.undo()
    assert resume(tmp_path / "run", {"total_steps": 128}).run(lambda row: None)["steps"] == 128


@pytest.mark.parametrize(
    ("steps", "said"),
    [(32, "interrupted and saved; resume with: rookery train --resume {}"), (64, "{} has all its 64 steps.")],
)
def test_an_interrupted_one_says_what_is_left_to_do(steps: int, said: str, tmp_path: Path, capsys: Any) -> None:
    made = training(tmp_path / "run")
    assert made.run(wanted=lambda: made.runner.steps >= steps)["interrupted"]
    assert capsys.readouterr().err.strip().endswith(said.format(tmp_path / "run"))
