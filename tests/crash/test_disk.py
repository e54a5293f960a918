"""The model disk itself, on programs whose crashes are known."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from disk import Journal, crashes, read

OLD = {"f": b"old old"}


def outcomes(folder: Path, program: Callable[[Path], None]) -> set[bytes | None]:
    """What file f may hold after a crash at any moment; None where it is missing."""
    (folder / "f").write_bytes(OLD["f"])
    with Journal(folder) as journal:
        program(folder)
    found = [files for k in range(len(journal.ops) + 1) for _, files in crashes(journal, k, mixtures=8)]
    assert found[-11]["f"] == (folder / "f").read_bytes()  # the last "killed"
    return {files.get("f") for files in found}


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def overwrite(folder: Path) -> None:
    (folder / "f").write_bytes(b"new new")


def rename_alone(folder: Path) -> None:
    (folder / "g").write_bytes(b"new new")
    (folder / "g").rename(folder / "f")


def rename_flushed(folder: Path) -> None:
    (folder / "g").write_bytes(b"new new")
    flush(folder / "g")
    (folder / "g").replace(folder / "f")
    flush(folder)


def test_overwriting_loses_both(tmp_path):
    assert outcomes(tmp_path, overwrite) >= {b"old old", b"", b"new", b"new new"}


def test_a_rename_without_fsync_may_leave_an_empty_file(tmp_path):
    assert outcomes(tmp_path, rename_alone) >= {b"old old", b"", b"new new"}


def test_a_rename_after_fsync_leaves_the_old_or_the_new(tmp_path):
    assert outcomes(tmp_path, rename_flushed) == {b"old old", b"new new"}


def test_after_the_last_flush_nothing_is_lost(tmp_path):
    (tmp_path / "f").write_bytes(OLD["f"])
    with Journal(tmp_path) as journal:
        rename_flushed(tmp_path)
    assert {files["f"] for _, files in crashes(journal, len(journal.ops))} == {b"new new"}


@pytest.mark.parametrize("k", range(6))
def test_every_operation_can_fail(tmp_path, k):
    """create, two halves of a write, fsync, rename, fsync."""
    (tmp_path / "f").write_bytes(OLD["f"])
    with Journal(tmp_path, fail_at=k), pytest.raises(OSError, match="No space"):
        rename_flushed(tmp_path)
    assert (tmp_path / "f").read_bytes() == (b"new new" if k == 5 else OLD["f"])
    assert read(tmp_path).get("g") == {1: b"", 2: b"new", 3: b"new new", 4: b"new new"}.get(k)


def test_removed_trees_and_folders_are_seen(tmp_path):
    import shutil

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1")
    with Journal(tmp_path) as journal:
        (tmp_path / "b" / "c").mkdir(parents=True)
        shutil.rmtree(tmp_path / "a")
    assert [(op.kind, op.path) for op in journal.ops] == [
        ("mkdir", "b"), ("mkdir", "b/c"), ("unlink", "a/x"), ("rmdir", "a"),
    ]  # fmt: skip
    ends = dict(crashes(journal, 4))
    assert ends["killed"] == {"b": None, "b/c": None}
    assert ends["power cut, all lost that was not flushed"] == {"a": None, "a/x": b"1"}
