"""Which folders of a run are checkpoints, in which order, and of which versions, on folders made by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rookery.policies.training import checkpoint
from rookery.sim.errors import RookeryError


def folders(run: Path, *names: str) -> Path:
    for name in names:
        (run / "checkpoints" / name).mkdir(parents=True)
    return run


def names(run: Path) -> list[str]:
    return [path.name for path in checkpoint.complete(run)]


def test_checkpoints_stand_in_the_order_of_their_steps(tmp_path):
    run = folders(tmp_path, "000000000300", "000000000100", "000000002000")
    assert names(run) == ["000000000100", "000000000300", "000000002000"]
    assert checkpoint.newest(run).name == "000000002000"


def test_what_interrupted_writes_left_is_no_checkpoint(tmp_path):
    assert names(folders(tmp_path, ".writing-000000000100", ".removing-000000000200", "notes")) == []
    with pytest.raises(RookeryError, match="holds no checkpoint"):
        checkpoint.newest(tmp_path)


def test_a_replaced_checkpoint_counts_in_its_place_until_its_successor_is_there(tmp_path):
    old = checkpoint.REPLACED + "000000000200"
    run = folders(tmp_path, "000000000100", old, "000000000300")
    assert names(run) == ["000000000100", old, "000000000300"]
    folders(tmp_path, "000000000200")
    assert names(run) == ["000000000100", "000000000200", "000000000300"]


def test_a_checkpoint_or_its_run_may_be_named(tmp_path):
    run = folders(tmp_path, "000000000100", "000000000300")
    assert checkpoint.resolve(run).name == "000000000300"
    first = run / "checkpoints" / "000000000100"
    assert checkpoint.resolve(str(first)) == first


@pytest.mark.parametrize(("change", "message"), [(1, "a newer Rookery"), (-1, "an older Rookery")])
def test_other_versions_are_told_apart(tmp_path, change, message):
    run = folders(tmp_path, "000000000100")
    state = {"format": checkpoint.FORMAT, "version": checkpoint.VERSION + change}
    (run / "checkpoints" / "000000000100" / "state.json").write_text(json.dumps(state))
    with pytest.raises(RookeryError, match=message):
        checkpoint.read_state(run)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": "something else", "version": 1}'])
def test_a_state_that_is_none_is_damaged(tmp_path, text):
    run = folders(tmp_path, "000000000100")
    (run / "checkpoints" / "000000000100" / "state.json").write_text(text)
    with pytest.raises(RookeryError, match="cut short or was edited"):
        checkpoint.read_state(run)


@pytest.mark.parametrize("name", ["state.json", "algorithm.safetensors", "env.safetensors"])
def test_a_pipe_in_place_of_a_file_is_damaged_and_waited_for_by_nobody(tmp_path, name):
    path = checkpoint.write(tmp_path, 100, {part: {} for part in checkpoint.PARTS}, {})
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(RookeryError, match=f"{name} cannot be read \\(it is no ordinary file\\)"):
        checkpoint.read_tensors(path, checkpoint.read_state(path))
