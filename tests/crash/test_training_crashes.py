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
from crash_cases import CASES, ITERATIONS, KEEP, Case, until
from disk import Files, Journal, crashes, restore

from rookery.policies.training import checkpoint, store
from rookery.policies.training.logging import Progress, RunLog
from rookery.policies.training.runner import Runner
from rookery.sim.errors import RookeryError


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


@pytest.fixture(scope="module", params=[n if n == "ppo" else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def case(request) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def undisturbed(fast, case, tmp_path_factory) -> dict[str, torch.Tensor]:
    run = case.runner(tmp_path_factory.mktemp("undisturbed"))
    run.run(quiet)
    return tensors(run)


def journal_of(case: Case, folder: Path) -> Journal:
    """Of a whole training in a folder that does not exist before. Marks stand where a checkpoint and a policy are said to be
    saved: "checkpoint 8", "policy 8"."""
    (folder / "journal").mkdir()
    made = Journal(folder / "journal")
    write, save = checkpoint.write, store.save_policy

    def marked_write(run: Path, steps: int, *args: Any) -> Path:
        path = write(run, steps, *args)
        made.mark(f"checkpoint {steps}")
        return path

    def marked_save(run: Path, policies: dict, contract: dict) -> None:
        save(run, policies, contract)
        made.mark(f"policy {contract['provenance']['steps']}")

    with pytest.MonkeyPatch.context() as patch, made:
        patch.setattr(checkpoint, "write", marked_write)
        patch.setattr(store, "save_policy", marked_save)
        case.runner(folder / "journal" / "runs" / "one").run(quiet)
    return made


Saved = dict[str, int]
"""Steps of the latest "checkpoint" and "policy" that were said to be saved."""


def intact(case: Case, folder: Path, saved: Saved) -> list[Path]:
    """Complete checkpoints after a crash: whole, none missing that was saved, with their policy and log rows."""
    run = folder / "runs" / "one"
    found = checkpoint.complete(run)
    for path in found:
        checkpoint.read_tensors(path, checkpoint.read_state(path))
    newest = max((int(path.name.removeprefix(checkpoint.REPLACED)) for path in found), default=0)
    assert newest >= saved.get("checkpoint", 0)
    assert len(found) >= min(saved.get("checkpoint", 0) // case.step, KEEP)
    if "policy" in saved:
        assert store.load_policy(run)[1]["provenance"]["steps"] >= saved["policy"]
    if newest:
        rows = RunLog(run, 0, 1, quiet)._rows()
        steps = [int(row["steps"]) for row in rows]
        assert steps[: newest // case.step] == list(range(case.step, newest + 1, case.step))
    return found


def continues(case: Case, folder: Path, found: list[Path], undisturbed: dict[str, torch.Tensor]) -> None:
    """The training goes on from there, or from the start, and ends as the undisturbed one; nothing else is left."""
    run = folder / "runs" / "one"
    resumed = case.runner(run)
    if found:
        resumed.load(run)
    resumed.run(quiet)
    assert resumed.steps == ITERATIONS * case.step
    assert all(torch.equal(value, undisturbed[name]) for name, value in tensors(resumed).items())
    with open(run / "progress.csv") as opened:
        assert [int(row["iteration"]) for row in csv.DictReader(opened)] == list(range(1, ITERATIONS + 1))
    left = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert left == [f"{i * case.step:012d}" for i in (ITERATIONS - 1, ITERATIONS)]


def ends(journal: Journal, first: int = 0, mixtures: int = 2) -> list[tuple[str, Saved, Files]]:
    """Different crashes: where, what was said to be saved, and what is left; from operation `first` on."""
    found = {}
    saved: Saved = {}
    for k in range(len(journal.ops) + 1):
        for loss, files in crashes(journal, k, mixtures) if k >= first else ():
            found.setdefault((*saved.items(), *sorted(files.items())), (f"after {k} operations, {loss}", saved, files))
        if k < len(journal.ops) and journal.ops[k].kind == "mark":
            what, steps = journal.ops[k].path.split()
            saved = saved | {what: int(steps)}
    return list(found.values())


@pytest.mark.slow
def test_after_a_crash_anywhere_it_ends_with_the_same_bits(tmp_path, case, undisturbed):
    found = ends(journal_of(case, tmp_path), mixtures=2 if case.name == "ppo" else 0)  # all save alike
    assert len(found) > 100
    for i, (where, saved, files) in enumerate(found):
        folder = restore(files, tmp_path / str(i))
        try:
            continues(case, folder, intact(case, folder, saved), undisturbed)
        except (AssertionError, RookeryError) as error:
            raise AssertionError(f"{where}, saved {saved}, left {sorted(files)}") from error
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_missing_fsync_is_detected(tmp_path):
    """Each fsync of the last save, and of the removal before it, is left out in turn: some crash must then lose something."""
    case = CASES["ppo"]  # all save alike
    journal = journal_of(case, tmp_path)
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
                intact(case, folder, saved)
                shutil.rmtree(folder)
        except (AssertionError, RookeryError):
            continue
        missed.append((whole[k].path, whole[k - 1].target))
    # That of the contract's rename, a moment later, covers it.
    assert missed == [("runs/one", "runs/one/policy.safetensors")]


def refused(run: Runner, progress: Progress) -> bool:
    """Whether a full disk stopped the training, with a sentence."""
    try:
        run.run(progress)
    except RookeryError as error:
        return bool(re.search("the disk of .* is full", str(error)))
    return False


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 13])
def test_a_full_disk_at_any_operation_costs_no_checkpoint(tmp_path, case, undisturbed, every):
    """The operation fails, the error is a sentence, and with room again the training goes on."""
    before = tmp_path / "before"
    before.mkdir()
    first = case.runner(before / "runs" / "one")
    first.run(until(first, 2))
    failures = 0
    for k in range(0, 1000, every):
        folder = Path(shutil.copytree(before, tmp_path / str(k)))
        more = case.runner(folder / "runs" / "one")
        more.load(folder / "runs" / "one")
        with Journal(folder, fail_at=k) as full:
            failures += refused(more, until(more, 3))
        saved = {"checkpoint": 2 * case.step, "policy": 2 * case.step}
        continues(case, folder, intact(case, folder, saved), undisturbed)
        if not full.failed:
            break
        shutil.rmtree(folder)
    assert failures > 25 // every and k > 40


def resumed_from_the_second(case: Case, run: Path, keep: int) -> Runner:
    """Four iterations, all of whose checkpoints stay, and a runner that goes on from the second."""
    case.runner(run, keep=ITERATIONS).run(quiet)
    resumed = case.runner(run, keep=keep)
    resumed.load(run / "checkpoints" / f"{2 * case.step:012d}")
    return resumed


@pytest.mark.slow
def test_after_a_crash_of_a_resume_from_an_older_checkpoint_log_and_checkpoints_agree(fast, tmp_path):
    """The later checkpoints go before the log forgets their rows."""
    case = CASES["ppo"]
    undisturbed = case.runner(tmp_path / "undisturbed")
    undisturbed.run(quiet)
    run = tmp_path / "journal" / "runs" / "one"
    resumed = resumed_from_the_second(case, run, KEEP)
    with Journal(tmp_path / "journal") as journal:
        resumed.run(quiet)
    for i, (where, _, files) in enumerate(ends(journal)):
        folder = restore(files, tmp_path / str(i))
        try:
            found = intact(case, folder, {"checkpoint": 2 * case.step})
            continues(case, folder, found, tensors(undisturbed))
        except (AssertionError, RookeryError) as error:
            raise AssertionError(f"{where}, left {sorted(files)}") from error
        shutil.rmtree(folder)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_resume_from_an_older_checkpoint_keeps_what_it_writes(fast, tmp_path, keep):
    case = CASES["ppo"]
    resumed = resumed_from_the_second(case, tmp_path, keep)
    resumed.run(until(resumed, 3))
    assert [int(path.name) // case.step for path in checkpoint.complete(tmp_path)] == [3, 2][:keep][::-1]
    assert checkpoint.read_state(tmp_path)["steps"] == 3 * case.step
