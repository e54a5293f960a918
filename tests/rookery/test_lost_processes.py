"""A training that loses a process, as a user sees it: a sentence, an exit code, a checkpoint, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

import rookery
from rookery.experiments import algorithm, training
from rookery.policies.training import checkpoint

SCRIPT = Path(__file__).parent / "losing_command.py"
SMALL = ["--num-envs", "4", "--rollout-steps", "4", "--epochs", "1", "--minibatches", "1", "--hidden", "4"]
STEPS = 16  # of an iteration
ITERATIONS = 5


def command(folder: Path, shards: int, every: int = 25) -> list[str]:
    words = ["train", "table-push", "--out", str(folder), "--shards", str(shards), "--checkpoint-every", str(every)]
    return [*words, "--steps", str(ITERATIONS * STEPS), "--task-config", "episode_s=0.25", *SMALL]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    from rookery.cli.main import main

    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert main(command(folder, 1)) == 0
    return folder


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def left_in_memory() -> set[str]:
    """Names in shared memory but those that belong to other programs, which come and go."""
    names = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return {name for name in names if name.startswith(("rookery", "tmp", "torch"))}


SLOW = [pytest.param(phase, count, marks=pytest.mark.slow) for phase, count in (("stopped", 4), ("writing", 3))]


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "iterations"), [("update", 4), *SLOW])
def test_training_ends_with_a_sentence_and_a_checkpoint(phase, iterations, undisturbed, tmp_path, monkeypatch):
    """That of the iteration in which the loss was noticed, from which a resume gives the same bits."""
    before = left_in_memory()
    folder = tmp_path / "run"
    every = 1 if phase == "writing" else 25
    done = subprocess.run(
        [sys.executable, str(SCRIPT), phase, *command(folder, 2, every)],
        capture_output=True, text=True, timeout=300, env=os.environ | {"ROOKERY_SHARD_TIMEOUT_S": "2"},
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if "the process of shard 1" in line]
    assert sentence.startswith("rookery: ") and "Traceback" not in done.stderr
    assert ("not computed for 2 s" if phase == "stopped" else "was ended by SIGKILL") in sentence
    assert f"saved whole: go on with `rookery train --resume {folder}`" in sentence
    first = [int(word) for line in done.stdout.splitlines() if line.startswith("LOST") for word in line.split()[1:]]
    assert len(first) == 2 and not any(alive(pid) for pid in first)
    assert left_in_memory() == before
    assert max(int(path.name) for path in checkpoint.complete(folder)) == iterations * STEPS
    made = rookery.make
    monkeypatch.setattr(algorithm, "make", lambda *args, shards, **more: made(*args, **more))  # one process is enough
    training.resume(folder).run()
    for name in ("algorithm", "env"):
        mine, theirs = (load_file(checkpoint.newest(run) / f"{name}.safetensors") for run in (folder, undisturbed))
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            assert (value.nan_to_num(9e9) == theirs[key].nan_to_num(9e9)).all(), key


@pytest.mark.slow
def test_a_broken_pipe_that_is_not_standard_output_is_an_error(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "broken pipe", *command(tmp_path / "run", 1)], capture_output=True, text=True, timeout=300
    )  # fmt: skip
    assert done.returncode == 2
    assert "rookery: a program that this command works with has ended before its time" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "rookery", "list", "--json"], stdout=write, stderr=subprocess.PIPE, timeout=300
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
