"""`--tracker` and `--track` on the command line: which trackers a run and its resume have, and what is refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.sim import trust

WORDS = ["train", "drone-hover", "--num-envs", "4", "--rollout-steps", "4", "--hidden", "4", "--minibatches", "1"]
WORDS += ["--epochs", "1", "--steps", "32", "--out", "run"]
BOARD = """
from rookery.policies.tracking.tracker import Opened, RunTracker


class Board(RunTracker):
    def write(self, line):
        with open({file!r}, "a") as opened:
            opened.write(line + "\\n")

    def open(self, run, state):
        self.write(f"open {{run.task}} {{run.settings['seed']}} {{state.get('id')}}")
        return Opened({{"id": "b7"}})

    def log(self, row, steps):
        self.write(f"log {{steps}}")

    def evaluated(self, figures, steps):
        self.write(f"evaluated {{steps}} {{' '.join(sorted(figures))}}")

    def video(self, file, name, steps):
        self.write(f"video {{steps}} {{file.name}} {{name}}")

    def close(self, ended):
        self.write(f"close {{ended}}")
"""


@pytest.fixture
def board(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tracker of the user's own in board.py, and the file that it writes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "state"))
    monkeypatch.setenv(trust.TRUSTED, "")
    written = in_tmp / "written.txt"
    (in_tmp / "board.py").write_text(BOARD.format(file=str(written)))
    return written


def test_a_run_and_its_resume_have_the_same_trackers(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--tracker", "board.py:Board", "--tracker", "tensorboard"]) == 0
    own = f"{board.parent}/board.py:Board"
    assert tomllib.loads(Path("run/settings.toml").read_text())["runner"]["trackers"] == [own, "tensorboard"]
    assert main(["train", "--resume", "run", "--steps", "48"]) == 0
    assert main(["eval", "run", "--episodes", "2", "--set", "mass=1.2", "--track", "--json"]) == 0
    lines = board.read_text().splitlines()
    assert lines[:7] == [
        "open drone-hover 0 None", "log 16", "log 32", "close finished",
        "open drone-hover 0 b7", "log 48", "close finished",
    ]  # fmt: skip
    assert lines[7].startswith("open ") and lines[7].endswith(" b7")
    assert lines[8].startswith("evaluated 48 eval/rotor/mass=1.2/")
    assert "eval/rotor/mass=1.2/success_rate" in lines[8].split()
    assert lines[9] == "close "
    assert json.loads(Path("run/trackers.json").read_text())[own] == {"id": "b7"}
    assert main(["train", "--resume", "run", "--steps", "64", "--tracker", "none"]) == 0
    assert board.read_text().splitlines() == lines


@pytest.mark.slow
def test_a_video_goes_to_the_trackers(board: Path) -> None:
    assert main([*WORDS, "--tracker", "board.py:Board"]) == 0
    assert main(["play", "run", "--out", "flight.gif", "--seconds", "0.2", "--draft", "--track"]) == 0
    assert "video 32 flight.gif video/flight" in board.read_text().splitlines()


def test_a_stored_tracker_in_a_file_is_not_run_because_a_run_says_so(
    board: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--tracker", "board.py:Board"]) == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(board.parent / "another"))  # somebody else
    before = board.read_text()
    for words in (["train", "--resume", "run", "--steps", "64"], ["eval", "run", "--episodes", "1", "--track"]):
        capsys.readouterr()
        assert main(words) == 2
        assert "the stored tracker is" in capsys.readouterr().err
    assert board.read_text() == before
    assert main(["train", "--resume", "run", "--steps", "48", "--tracker", "board.py:Board"]) == 0
    assert "log 48" in board.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tracker", "wandbb"], "unknown tracker 'wandbb': did you mean 'wandb'?"),
        (["--tracker", "none", "--tracker", "wandb"], "--tracker none is for no tracker at all"),
        (["--tracker", "nowhere.py:Board"], "there is no file"),
        (["--trackers", "wandb"], "did you mean --tracker?"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    words: list[str], said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not Path("run").exists()


def test_track_is_for_runs_with_trackers(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "drone-hover", "--track"]) == 2
    assert "drone-hover is no run folder" in capsys.readouterr().err
    assert main([*WORDS, "--tracker", "none"]) == 0
    assert not list(Path("run").glob("events*"))
    capsys.readouterr()
    assert main(["play", "run", "--track"]) == 2
    assert "was trained without trackers: leave out --track" in capsys.readouterr().err
