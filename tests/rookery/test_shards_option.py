"""`--shards` of a training: a run goes on with another number of processes, and a signal to all of them saves it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rookery.cli.main import main
from rookery.policies.training import checkpoint

WORDS = ["train", "table-reach", "--num-envs", "8", "--rollout-steps", "8", "--hidden", "16", "--minibatches", "2"]
WORDS += ["--seed", "3", "--randomize", "default"]


def _tensors(run: Path) -> dict[str, torch.Tensor]:
    newest = checkpoint.newest(run)
    found = checkpoint.read_tensors(newest, checkpoint.read_state(newest))
    return {f"{part}/{name}": x for part in ("algorithm", "env") for name, x in found[part].items()}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("2", "1"), ("1", "4")])
def test_a_run_goes_on_with_another_number_of_processes(first: str, then: str, in_tmp: Path) -> None:
    assert main([*WORDS, "--shards", first, "--steps", "128", "--out", "same"]) == 0
    shutil.copytree("same", "other")
    assert main(["train", "--resume", "same", "--steps", "256"]) == 0
    assert main(["train", "--resume", "other", "--steps", "256", "--shards", then]) == 0
    same, other = _tensors(Path("same")), _tensors(Path("other"))
    assert same.keys() == other.keys()
    assert [name for name, x in same.items() if not torch.equal(x, other[name])] == []
    assert checkpoint.read_state(checkpoint.newest(Path("other")))["settings"]["shards"] == then


@pytest.mark.slow
def test_workers_go_on_where_shards_stopped(in_tmp: Path) -> None:
    assert main([*WORDS, "--shards", "2", "--steps", "128", "--out", "run"]) == 0
    resume = ["train", "--resume", "run", "--steps", "256", "--workers", "1"]
    assert main([*resume, "--shards", "2"]) == 2
    assert main(resume) == 0
    assert int(checkpoint.newest(Path("run")).name) == 256


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_whole_group_saves(number: signal.Signals, tmp_path: Path) -> None:
    """`timeout`, batch systems and a terminal that closes send it to all processes at once."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "rookery", *WORDS, "--shards", "2", "--steps", "100000000", "--out", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    rows = (line for line in process.stderr if " steps, " in line and "samples/s" in line)
    next(rows)
    os.killpg(process.pid, number)
    said = process.stderr.read()
    assert process.wait(120) == 130
    assert "interrupted and saved" in said and "the process of shard" not in said
    assert checkpoint.complete(folder)
