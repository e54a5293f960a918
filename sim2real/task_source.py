"""Digests of a task's files, so that a report names the code that judged, and tells what has changed since a training."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.own_files import is_in_file
from rookery.sim2real.provenance import checkout_commit
from rookery.tasks.registry import find
from rookery.version import __version__

if TYPE_CHECKING:
    from rookery.sim.task import Task

FRAMEWORK = "rookery.sim."
"""Begins the modules that run every task and say nothing about one."""


@dataclass(frozen=True)
class TaskSource:
    """A task's code.

    Args:
        sha256: of the files in which its class, the bases of that and their configs stand, in hexadecimal, by module; that of a
            task in a file by the file's name.
        commit: of the checkout that holds them, with "-dirty" where something in it is changed; None outside of one.
        file: path of a task that is named by its file; "" for any other.
        rookery: version of this package.
    """

    sha256: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    file: str = ""
    rookery: str = __version__

    def to_json(self) -> dict[str, Any]:
        """As it stands in a contract's provenance and in reports."""
        return {"sha256": dict(self.sha256), "commit": self.commit, "file": self.file or None, "rookery": self.rookery}

    def changed_since(self, then: object) -> list[str]:
        """Names of modules and files that are not what they were.

        Args:
            then: `to_json` of before, as a contract keeps it; nothing is known of anything else.
        """
        before = then.get("sha256") if isinstance(then, Mapping) else None
        if not isinstance(before, Mapping) or not before:
            return []
        return [name for name, digest in self.sha256.items() if before.get(name) != digest]


def task_source(task: str) -> TaskSource:
    """The code of a task, or of all tasks of a set, as this process loaded it first.

    Raises:
        RookeryError: no such task, or one that fails to load.
    """
    entry = find(task)
    names = dict.fromkeys(entry.task_of(member) for member in entry.members) or (task,)
    classes = tuple(find(name).load() for name in names)
    return _source(classes, Path(task.rpartition(":")[0]).resolve() if is_in_file(task) else None)


@functools.cache
def _source(tasks: tuple[type[Task], ...], own: Path | None) -> TaskSource:
    """Source of task classes, the first of a file of its own or not; asked once, since a file may be edited while it runs."""
    files = {name: file for cls in tasks for name, file in _files((*cls.__mro__, *cls.Config.__mro__), own)}
    digests = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in sorted(files.items())}
    return TaskSource(digests, checkout_commit(own or _file_of(tasks[0])), "" if own is None else str(own))


def _files(classes: tuple[type, ...], own: Path | None) -> Iterator[tuple[str, Path]]:
    """Files of the classes' modules with their names; those of the framework and of the standard library are left out."""
    for cls in classes:
        module, file = cls.__module__, _file_of(cls)
        if file is None or module.partition(".")[0] in sys.stdlib_module_names or module.startswith(FRAMEWORK):
            continue
        yield file.name if file == own else module, file


def _file_of(cls: type) -> Path | None:
    """The file of a class's module; None where it has none, as in a notebook."""
    name = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return Path(name).resolve() if name and Path(name).is_file() else None
