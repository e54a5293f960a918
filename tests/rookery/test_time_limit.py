"""What a training that its time limit ended says, and how it goes on."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rookery.cli.main import main

TRAIN = [
    *("train", "drone-hover", "--num-envs", "8", "--rollout-steps", "8", "--minibatches", "1", "--hidden", "8"),
    *("--steps", "100000", "--time-limit-s", "0.01"),
]


def test_a_training_that_its_time_limit_ended_names_the_command_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main([*TRAIN, "--out", str(run)]) == 0
    said = capsys.readouterr().out
    assert "its time limit of 0.01 s ended it before all 100,000 steps" in said
    assert f"rookery train --resume {run} --time-limit-s " in said
    advised = shlex.split(said[said.index("rookery train --resume") :].splitlines()[0])[1:]
    before = sorted(p.name for p in (run / "checkpoints").iterdir())
    assert main(["train", "--resume", str(run)]) == 2
    refusal = capsys.readouterr().err
    assert "its time limit is 0.01 s in all: give a larger --time-limit-s, such as " in refusal
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == before
    assert advised[-1] == shlex.split(refusal.strip().removesuffix("."))[-1], "both give the same advice"
    assert main([*advised, "--steps", "4096"]) == 0
    assert sorted(p.name for p in (run / "checkpoints").iterdir())[-1] > before[-1]


def test_a_training_that_made_all_its_steps_says_nothing_of_a_time_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*TRAIN[:-4], "--steps", "64", "--time-limit-s", "1000"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "time limit" not in capsys.readouterr().out
