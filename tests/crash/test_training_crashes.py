"""Trainings that crash at any operation on the disk: nothing saved is lost, and the resumed run ends with the same bits."""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from disk import Files, Journal, crashes, restore
from policies_fake import FakeEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training import checkpoint, store
from rookery.policies.training.logging import RunLog
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

ITERATIONS = 4
CONFIG = PPOConfig(rollout_steps=2, epochs=1, minibatches=1, hidden=(4,))
WORLDS = 2
STEP = WORLDS * CONFIG.rollout_steps


def runner(folder: Path, iterations: int = ITERATIONS) -> Runner:
    """PPO with a checkpoint after each iteration, of which two stay."""
    algorithm = PPO(FakeEnv(WORLDS, horizon=7), CONFIG)
    config = RunnerConfig(total_steps=iterations * STEP, checkpoint_every=1, keep=2)
    return Runner(algorithm, config, folder, name="ppo", contract={"groups": {}, "provenance": {}})


def quiet(row: dict) -> None:
    pass


def tensors(run: Runner) -> dict[str, torch.Tensor]:
    return {f"{part}/{k}": v.clone() for part, d in run._tensors().items() for k, v in d.items()}


@pytest.fixture(scope="module", autouse=True)
def fast() -> Iterator[None]:
    """No TensorBoard, and no waiting for the real disk: what is flushed is the journal's business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.utils.tensorboard.SummaryWriter", lambda *args, **more: Mock())
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def undisturbed(fast, tmp_path_factory) -> dict[str, torch.Tensor]:
    run = runner(tmp_path_factory.mktemp("undisturbed"))
    run.run(quiet)
    return tensors(run)


@pytest.fixture
def journal(fast, tmp_path) -> Journal:
    """Of a whole training in a folder that does not exist before. Marks stand where a checkpoint and a policy are said to be
    saved: "checkpoint 8", "policy 8"."""
    (tmp_path / "journal").mkdir()
    made = Journal(tmp_path / "journal")
    write, save = checkpoint.write, store.save_policy

    def marked_write(run: Path, steps: int, *args: Any) -> Path:
        path = write(run, steps, *args)
        made.mark(f"checkpoint {steps}")
        return path

    def marked_save(folder: Path, policies: dict, contract: dict) -> None:
        save(folder, policies, contract)
        made.mark(f"policy {contract['provenance']['steps']}")

    with pytest.MonkeyPatch.context() as patch, made:
        patch.setattr(checkpoint, "write", marked_write)
        patch.setattr(store, "save_policy", marked_save)
        runner(tmp_path / "journal" / "runs" / "one").run(quiet)
    return made


Saved = dict[str, int]
"""Steps of the latest "checkpoint" and "policy" that were said to be saved."""


def intact(folder: Path, saved: Saved) -> list[Path]:
    """Complete checkpoints after a crash: whole, none missing that was saved, with their policy and log rows."""
    run = folder / "runs" / "one"
    found = checkpoint.complete(run)
    for path in found:
        checkpoint.read_tensors(path, checkpoint.read_state(path))
    newest = max((int(path.name.removeprefix(checkpoint.REPLACED)) for path in found), default=0)
    assert newest >= saved.get("checkpoint", 0)
    assert len(found) >= min(saved.get("checkpoint", 0) // STEP, 2)  # keep=2
    if "policy" in saved:
        assert store.load_policy(run)[1]["provenance"]["steps"] >= saved["policy"]
    if newest:
        rows = RunLog(run, 0, 1, quiet)._rows()
        assert [int(row["steps"]) for row in rows][: newest // STEP] == list(range(STEP, newest + 1, STEP))
    return found


def continues(folder: Path, found: list[Path], undisturbed: dict[str, torch.Tensor]) -> None:
    """The training goes on from there, or from the start, and ends as the undisturbed one; nothing else is left."""
    run = folder / "runs" / "one"
    resumed = runner(run)
    if found:
        resumed.load(run)
    resumed.run(quiet)
    assert resumed.steps == ITERATIONS * STEP
    assert all(torch.equal(value, undisturbed[name]) for name, value in tensors(resumed).items())
    with open(run / "progress.csv") as opened:
        assert [int(row["iteration"]) for row in csv.DictReader(opened)] == list(range(1, ITERATIONS + 1))
    left = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert left == [f"{i * STEP:012d}" for i in (ITERATIONS - 1, ITERATIONS)]


def ends(journal: Journal, first: int = 0) -> list[tuple[str, Saved, Files]]:
    """Different crashes: where, what was said to be saved, and what is left; from operation `first` on."""
    found = {}
    saved: Saved = {}
    for k in range(len(journal.ops) + 1):
        for loss, files in crashes(journal, k) if k >= first else ():
            found.setdefault((*saved.items(), *sorted(files.items())), (f"after {k} operations, {loss}", saved, files))
        if k < len(journal.ops) and journal.ops[k].kind == "mark":
            what, steps = journal.ops[k].path.split()
            saved = saved | {what: int(steps)}
    return list(found.values())


def test_after_a_crash_anywhere_it_ends_with_the_same_bits(tmp_path, journal, undisturbed):
    found = ends(journal)
    assert len(found) > 100
    for i, (where, saved, files) in enumerate(found):
        folder = restore(files, tmp_path / str(i))
        try:
            continues(folder, intact(folder, saved), undisturbed)
        except (AssertionError, RookeryError) as error:
            raise AssertionError(f"{where}, saved {saved}, left {sorted(files)}") from error
        shutil.rmtree(folder)


def test_a_missing_fsync_is_detected(tmp_path, journal):
    """Each fsync of the last save, and of the removal before it, is left out in turn: some crash must then lose something."""
    marks = [k for k, op in enumerate(journal.ops) if op.kind == "mark" and op.path.startswith("policy")]
    missed = []
    whole = journal.ops
    for k in range(marks[2], marks[3]):
        if whole[k].kind != "fsync":
            continue
        journal.ops = whole[:k] + whole[k + 1 :]
        try:
            for i, (_, saved, files) in enumerate(ends(journal, marks[2])):
                folder = restore(files, tmp_path / f"{k}-{i}")
                intact(folder, saved)
                shutil.rmtree(folder)
        except (AssertionError, RookeryError):
            continue
        missed.append((whole[k].path, whole[k - 1].target))
    # That of the contract's rename, a moment later, covers it.
    assert missed == [("runs/one", "runs/one/policy.safetensors")]


def refused(run: Runner) -> bool:
    """Whether a full disk stopped the training, with a sentence."""
    try:
        run.run(quiet)
    except RookeryError as error:
        return bool(re.search("the disk of .* is full", str(error)))
    return False


def test_a_full_disk_at_any_operation_costs_no_checkpoint(tmp_path, undisturbed):
    """The operation fails, the error is a sentence, and with room again the training goes on."""
    before = tmp_path / "before"
    before.mkdir()
    runner(before / "runs" / "one", 2).run(quiet)
    failures = 0
    for k in range(1000):
        folder = Path(shutil.copytree(before, tmp_path / str(k)))
        more = runner(folder / "runs" / "one", 3)
        more.load(folder / "runs" / "one")
        with Journal(folder, fail_at=k) as full:
            failures += refused(more)
        continues(folder, intact(folder, {"checkpoint": 2 * STEP, "policy": 2 * STEP}), undisturbed)
        if not full.failed:
            break
        shutil.rmtree(folder)
    assert failures > 25 and k > 40
