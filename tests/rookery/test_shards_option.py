"""`--shards` on a run that goes on: another number of processes gives the same bits."""

from __future__ import annotations

import shutil
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
