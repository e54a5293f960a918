"""A full disk, or a power cut, at any operation on datasets, bundles and videos: whole or not there, and a sentence."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from crash_cases import SHORT
from disk import Journal, crashes, read, restore
from sampled import slow_but

import rookery
from rookery.experiments.demonstrations import record
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import resume, start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.video import decode, encode
from rookery.policies.datasets.writer import Writer
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.policies.training import checkpoint
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import DrawLog
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.bundle import export_bundle


@pytest.fixture(autouse=True)
def fast(monkeypatch) -> None:
    """No waiting for the real disk: what is flushed is the journal's business."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def failures(
    place: Path, program: Callable[[Path], Any], old: Path | None = None, every: int = 1
) -> Iterator[tuple[Journal, str, Path]]:
    """Runs the program in a copy of `old` with operation 0, `every`, ... failing, until none does: the journal, what it raised
    ("" for nothing), and the folder."""
    for k in range(0, 1000, every):
        folder = place / str(k)
        if old is None:
            folder.mkdir()
        else:
            shutil.copytree(old, folder)
        said = ""
        with Journal(folder, fail_at=k) as journal:
            try:
                program(folder)
            except RookeryError as error:
                said = str(error)
        yield journal, said, folder
        if not journal.failed:
            return
        shutil.rmtree(folder)


# Datasets


@pytest.fixture(scope="module")
def demos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("demos") / "hover"
    record(Path("drone-hover"), folder, 2, num_envs=2, config=SHORT)
    return folder


def write_again(data: Dataset, folder: Path) -> None:
    """A dataset's episodes into a new folder."""
    with Writer(folder, data.contract, data.recording) as writer:
        for i in range(len(data)):
            writer.add(data.episode(i))


def same(folder: Path, data: Dataset) -> bool:
    """Whether a folder holds the same episodes; it must be whole or refused with a sentence."""
    try:
        found = Dataset(folder)
    except RookeryError:
        return False
    assert [e.length for e in found.episodes] == [e.length for e in data.episodes]
    for i in range(len(data)):
        ours, theirs = data.episode(i).columns, found.episode(i).columns
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    return True


def test_a_dataset_on_a_full_disk_is_whole_or_none(demos, tmp_path):
    data = Dataset(demos)
    count = 0
    for journal, said, folder in failures(tmp_path, lambda folder: write_again(data, folder / "copy")):
        if not journal.failed:
            assert said == "" and same(folder / "copy", data)
            continue
        count += 1
        assert "is full: make room" in said
        named = (folder / "copy" / "meta.json").exists()  # only the last flush came after it
        assert same(folder / "copy", data) == named
        assert not list(folder.rglob("*.writing"))
    assert count > 15


def test_a_dataset_after_a_power_cut_is_whole_or_none(demos, tmp_path):
    data = Dataset(demos)
    (tmp_path / "journal").mkdir()
    with Journal(tmp_path / "journal") as journal:
        write_again(data, tmp_path / "journal" / "made" / "copy")
    states = {}
    for k in range(len(journal.ops) + 1):
        for loss, files in crashes(journal, k):
            states[tuple(sorted(files.items()))] = (k, loss, files)
    assert len(states) > 12
    for i, (k, loss, files) in enumerate(states.values()):
        folder = restore(files, tmp_path / str(i))
        there = same(folder / "made" / "copy", data)
        assert there or k < len(journal.ops), f"the finished dataset is lost: {loss}"


# Bundles


@pytest.fixture(scope="module")
def export() -> Callable[[Path, int], None]:
    """Writes <folder>/bundle with the policy of a seed."""
    env = rookery.make("drone-hover", 1, config=SHORT)
    contract = build_contract(env)
    group = env.groups["drone"]

    def write(folder: Path, seed: int) -> None:
        torch.manual_seed(seed)
        policy = Policy(standard(group.observation_size, group.action.size, (4,)))
        export_bundle({"drone": policy.eval()}, contract, folder / "bundle", overwrite=True)

    return write


@pytest.fixture
def small_onnx(monkeypatch) -> None:
    """In place of the real export, which takes a second."""

    def write(policy: Policy, contract: Any, group: str, path: Path) -> None:
        path.write_bytes(layers_of(policy)[0].weight.detach().numpy().tobytes())

    monkeypatch.setattr("rookery.sim2real.export.onnx.export_onnx", write)


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 7])
@pytest.mark.parametrize("replaced", slow_but([True], [False, True]))
@pytest.mark.usefixtures("small_onnx")
def test_a_bundle_on_a_full_disk_is_the_old_or_the_new(export, tmp_path, replaced, every):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    if replaced:
        export(old, 0)
    export(new, 1)
    refused = 0
    for journal, said, folder in failures(tmp_path / "k", lambda folder: export(folder, 1), old, every):
        found = read(folder)
        left = {path for path in found if not path.startswith("bundle")}
        if journal.failed and said:
            refused += 1
            assert "No space left on device" in said
            assert {path: data for path, data in found.items() if path not in left} == read(old)
            assert not left
        else:  # what replaced it could not be removed, or nothing failed
            assert {path: data for path, data in found.items() if path not in left} == read(new)
            assert not left or journal.failed
    assert refused > 15 // every


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.usefixtures("small_onnx")
def test_a_bundle_after_a_power_cut_is_whole(export, tmp_path, replaced):
    """Where it stands, it is the old or the new; once written, it is the new; and the old is not lost before that."""
    old, new, folder = (tmp_path / name for name in ("old", "new", "journal"))
    folder.mkdir()
    for place, seed in ((old, 0), (new, 1)):
        export(place, seed)
    if replaced:
        export(folder, 0)
    with Journal(folder) as journal:
        export(folder, 1)
    wholes = [inside(read(place), "bundle") for place in (old, new)]
    stages = set()
    for k in range(len(journal.ops) + 1):
        for loss, files in crashes(journal, k, 4):
            found = inside(files, "bundle")
            assert not found or found in wholes, (k, loss)
            assert k < len(journal.ops) or found == wholes[1], f"the finished bundle is lost: {loss}"
            at = {path for path, data in files.items() if data is None}
            assert not replaced or any(inside(files, path) in wholes for path in at), f"both are lost: {k}, {loss}"
            stages.add(wholes.index(found) if found else None)
    assert stages >= ({0, 1} if replaced else {None, 1})


def inside(files: dict[str, bytes | None], folder: str) -> dict[str, bytes | None]:
    """What is in a folder, by names from there."""
    return {path.removeprefix(f"{folder}/"): data for path, data in files.items() if path.startswith(f"{folder}/")}


# Videos


def pictures(count: int = 40) -> Iterator[np.ndarray]:
    """That no encoder makes small."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 256, (32, 48, 3), dtype=np.uint8)


def film(folder: Path) -> None:
    encode(folder / "a.mp4", pictures(), 25.0, 48, 32)


def test_a_video_on_a_disk_of_any_size_is_the_old_or_the_new(tmp_path, monkeypatch):
    """The real encoder with files of at most so many bytes, and every operation of ours that fails."""
    film(tmp_path)
    size = (tmp_path / "a.mp4").stat().st_size
    (tmp_path / "a.mp4").unlink()
    real = imageio_ffmpeg.get_ffmpeg_exe()
    fake = tmp_path / "ffmpeg"
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(fake))
    for most in (0, 1, 48, size // 4, size // 2, size - 1, 2 * size):
        lines = (
            f"#!{sys.executable}",
            "import os, resource, signal, sys",
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))",
            f"os.execv({real!r}, ['ffmpeg', *sys.argv[1:]])",
        )
        fake.write_text("\n".join(lines) + "\n")
        fake.chmod(0o755)
        folder = tmp_path / str(most)
        folder.mkdir()
        (folder / "a.mp4").write_bytes(b"of yesterday")
        if most > size:
            film(folder)
            assert len(list(decode(folder / "a.mp4"))) == 40
        else:
            with pytest.raises(RookeryError, match=r"cannot write .*a\.mp4: the encoder failed"):
                film(folder)
            assert read(folder) == {"a.mp4": b"of yesterday"}


def test_a_video_whose_flush_or_rename_fails_is_the_old_one(tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    (old / "a.mp4").write_bytes(b"of yesterday")
    kinds = []
    for journal, said, folder in failures(tmp_path / "k", film, old):
        kinds = [op.kind for op in journal.ops]
        if journal.failed:
            assert "cannot write" in said and "No space left on device" in said
            renamed = "rename" in kinds
            assert (len(list(decode(folder / "a.mp4"))) == 40) if renamed else read(folder) == read(old)
        else:
            assert said == ""
    assert kinds == ["fsync", "rename", "fsync"]


# Logs of draws


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_log_of_draws_is_the_old_or_the_new_one(tmp_path, suffix):
    file = f"draws{suffix}"
    logs = [DrawLog("t", 0, 1, ("a",), np.zeros(1, int), np.zeros(1, int), np.full((1, 1), v)) for v in (1.0, 2.0)]
    (tmp_path / "old").mkdir()
    logs[0].write(tmp_path / "old" / file)
    seen = set()
    for journal, said, folder in failures(tmp_path / "full", lambda f: logs[1].write(f / file), tmp_path / "old"):
        assert not journal.failed or "make room there, or choose another file" in said
        found = float(DrawLog.read(folder / file).values[0, 0])
        assert found == (1.0 if not any(op.kind == "rename" for op in journal.ops) else 2.0)
        assert [p.name for p in folder.iterdir()] == [file]
        seen.add(found)
    assert seen == {1.0, 2.0}


# Trainings


@pytest.mark.slow
def test_a_training_that_saved_nothing_leaves_no_folder(tmp_path, capsys):
    settings = RunSettings(
        task="drone-hover",
        num_envs=2,
        runner=RunnerConfig(total_steps=2 * 4),
        algorithm_config=PPOConfig(rollout_steps=4, minibatches=1, epochs=1, hidden=(4,)),
    )
    left = []
    for journal, said, folder in failures(tmp_path, lambda f: start(settings, f / "run").run()):
        run = folder / "run"
        told = capsys.readouterr().err  # of a tracker that gets no more, while the training goes on
        assert (
            not journal.failed or "full" in said or "cannot write" in said or "the tracker tensorboard failed" in told
        )
        assert not run.exists() or checkpoint.complete(run)
        left.append(run.exists())
    assert left[-1] and not left[1]


def test_a_run_without_a_checkpoint_says_how_to_begin_anew(tmp_path):
    (tmp_path / "settings.toml").write_text('task = "drone-hover"\n')
    with pytest.raises(
        RookeryError, match=r"stopped before its first checkpoint: begin anew with .* --config .*settings"
    ):
        resume(tmp_path)
