"""A disk that can lose power: a journal of what a program does to files, and what a crash after any of it may leave.

    with Journal(folder) as journal:      # every write, fsync, rename, mkdir and unlink below `folder`
        save()
    for k in range(len(journal.ops) + 1):
        for name, files in crashes(journal, k):
            restore(files, elsewhere)     # the folder after a crash behind operation k

The model is the weakest that POSIX allows. The data of a file is on the disk only after its fsync, and a folder's entries
(created, renamed, removed) only after the fsync of that folder; what was not flushed may be there or not, in any mixture, but
changes of one folder's entries keep their order and a rename is one change. See Pillai et al. 2014, "All file systems are
not created equal" (OSDI). A killed process loses nothing that it has written.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IGNORED = ("events.out.", ".lock")
"""Beginnings of file names that do not count: TensorBoard writes from a thread, at any time; a lock holds nothing."""

Files = dict[str, bytes | None]
"""Content by path relative to the folder; None for a folder."""


@dataclass(frozen=True)
class Op:
    """One change: create, write, fsync, rename, mkdir, unlink, rmdir, or a mark that the test set.

    Args:
        kind: of these.
        path: relative to the journal's folder.
        target: new path of a rename.
        data: content of the whole file after a write.
    """

    kind: str
    path: str
    target: str = ""
    data: bytes = b""


class Journal:
    """While active, records what happens below a folder, and fails one operation if asked to.

    Args:
        folder: existing folder.
        fail_at: number of the operation that raises ENOSPC instead of being made; None for none.
    """

    def __init__(self, folder: Path, fail_at: int | None = None) -> None:
        self.root = folder.resolve()
        self.before = read(folder)
        self.ops: list[Op] = []
        self.failed = False  # whether an operation was made to fail
        self._fail_at = fail_at
        self._real: list[tuple[Any, str, Any]] = []

    def mark(self, text: str) -> None:
        """Note that the program has reached a point."""
        self.ops.append(Op("mark", text))

    def __enter__(self) -> Journal:
        real_open = builtins.open
        for module, name, new in (
            (builtins, "open", self._open(real_open)),
            (io, "open", self._open(real_open)),
            (os, "fsync", self._fsync(os.fsync)),
            (os, "rename", self._two("rename", os.rename)),
            (os, "replace", self._two("rename", os.replace)),
            (os, "mkdir", self._one("mkdir", os.mkdir)),
            (os, "unlink", self._one("unlink", os.unlink)),
            (os, "remove", self._one("unlink", os.remove)),
            (os, "rmdir", self._one("rmdir", os.rmdir)),
        ):
            self._real.append((module, name, getattr(module, name)))
            setattr(module, name, new)
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, real in self._real:
            setattr(module, name, real)

    def _inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        """The path relative to the folder; None where it does not count."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        if dir_fd is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
        whole = Path(os.path.abspath(os.fsdecode(path)))
        if not whole.is_relative_to(self.root) or whole == self.root or whole.name.startswith(IGNORED):
            return "." if whole == self.root else None
        return str(whole.relative_to(self.root))

    def _note(self, op: Op) -> None:
        """Record an operation that is about to be made, or fail it."""
        if sum(o.kind != "mark" for o in self.ops) == self._fail_at:
            self.failed = True
            self._fail_at = None
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), op.path)
        self.ops.append(op)

    def _one(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, dir_fd: int | None = None, **more: Any) -> Any:
            inside = self._inside(path, dir_fd)
            possible = inside is not None and (self.root / inside).parent.is_dir()
            if possible and os.path.lexists(self.root / inside) != (kind == "mkdir"):
                self._note(Op(kind, inside))
            return real(path, *args, dir_fd=dir_fd, **more) if dir_fd is not None else real(path, *args, **more)

        return call

    def _two(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(old: Any, new: Any, **more: Any) -> Any:
            inside, target = self._inside(old), self._inside(new)
            if inside is not None and target is not None and os.path.lexists(old):
                self._note(Op(kind, inside, target))
            return real(old, new, **more)

        return call

    def _fsync(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            inside = self._inside(descriptor)
            if inside is not None:
                self._note(Op("fsync", inside))  # not made: the model alone decides what is lost
            else:
                real(descriptor)

        return call

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
            inside = None if isinstance(file, int) else self._inside(file)
            if inside is None or not set(mode) & set("wax+"):
                return real(file, mode, *args, **more)
            if "a" not in mode or not os.path.exists(file):
                self._note(Op("create", inside))
            return _Written(self, real(file, mode, *args, **more), inside)

        return call


class _Written:
    """An open file whose writes go to the journal, each in two halves."""

    def __init__(self, journal: Journal, file: Any, path: str) -> None:
        self._journal = journal
        self._file = file
        self._path = path

    def write(self, data: Any) -> int:
        half = len(data) // 2
        for part in (data[:half], data[half:]):
            before = Path(self._journal.root / self._path).read_bytes()
            raw = part.encode() if isinstance(part, str) else bytes(part)
            self._journal._note(Op("write", self._path, data=before + raw))
            self._file.write(part)
            self._file.flush()
        return len(data)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


# What a crash leaves


@dataclass
class _File:
    """Its content at the latest fsync and after each write since."""

    versions: list[bytes] = field(default_factory=lambda: [b""])


@dataclass
class _Folder:
    """Its entries at the latest fsync and after each change since."""

    versions: list[dict[str, Any]] = field(default_factory=lambda: [{}])

    def change(self, **entries: Any) -> None:
        """Set entries; None removes one."""
        after = self.versions[-1] | entries
        self.versions.append({name: node for name, node in after.items() if node is not None})


def crashes(journal: Journal, count: int, mixtures: int = 2) -> Iterator[tuple[str, Files]]:
    """What may be on the disk when the machine stops after the first `count` operations: by the name of the loss."""
    root = _replay(journal.before, journal.ops[:count])
    last = lambda versions: versions[-1]  # noqa: E731
    first = lambda versions: versions[0]  # noqa: E731
    yield "killed", _collect(root, last, last)
    yield "power cut, data lost", _collect(root, last, first)
    yield "power cut, all lost that was not flushed", _collect(root, first, first)
    for seed in range(mixtures):
        pick = random.Random(1000 * count + seed).choice
        yield f"power cut, mixture {seed}", _collect(root, pick, pick)


def _replay(before: Files, ops: list[Op]) -> _Folder:
    root = _Folder()
    for path in sorted(before):
        data = before[path]
        _parent(root, path).change(**{Path(path).name: _Folder() if data is None else _File([data])})
    _settle(root)
    for op in ops:
        _apply(root, op)
    return root


def _apply(root: _Folder, op: Op) -> None:
    if op.kind == "mark":
        return
    if op.kind == "fsync":
        node = _find(root, op.path)
        node.versions = node.versions[-1:]
    elif op.kind == "write":
        _find(root, op.path).versions.append(op.data)
    elif op.kind in ("create", "mkdir"):
        name, folder = Path(op.path).name, _parent(root, op.path)
        if name in folder.versions[-1]:  # opening an existing file only cuts it
            folder.versions[-1][name].versions.append(b"")
        else:
            folder.change(**{name: _File() if op.kind == "create" else _Folder()})
    elif op.kind == "rename":
        node = _find(root, op.path)
        old, new = _parent(root, op.path), _parent(root, op.target)
        if old is new:
            old.change(**{Path(op.path).name: None, Path(op.target).name: node})
        else:
            new.change(**{Path(op.target).name: node})
            old.change(**{Path(op.path).name: None})
    else:
        _parent(root, op.path).change(**{Path(op.path).name: None})


def _find(root: _Folder, path: str) -> Any:
    node: Any = root
    for name in Path(path).parts:
        node = node.versions[-1][name]
    return node


def _parent(root: _Folder, path: str) -> _Folder:
    return _find(root, str(Path(path).parent))


def _settle(node: Any) -> None:
    """Everything there is on the disk."""
    node.versions = node.versions[-1:]
    if isinstance(node, _Folder):
        for child in node.versions[0].values():
            _settle(child)


def _collect(folder: _Folder, entries: Callable[[list], Any], data: Callable[[list], Any], at: str = "") -> Files:
    out: Files = {}
    for name, node in sorted(entries(folder.versions).items()):
        path = f"{at}{name}"
        if isinstance(node, _File):
            out[path] = data(node.versions)
        else:
            out[path] = None
            out |= _collect(node, entries, data, f"{path}/")
    return out


def read(folder: Path) -> Files:
    """What is below a folder now, but for what a journal ignores."""
    found = [p for p in folder.rglob("*") if not p.name.startswith(IGNORED)]
    return {str(p.relative_to(folder)): None if p.is_dir() else p.read_bytes() for p in found}


def restore(files: Files, folder: Path) -> Path:
    """Make a folder of them; returns it."""
    folder.mkdir(parents=True)
    for path, data in sorted(files.items()):
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)
    return folder
