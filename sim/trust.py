"""Files of tasks, stages and trackers that a stored policy, run or dataset may have run.

A task, stage or tracker in a file is a program. Where a person names it, ``rookery train my_task.py:Land``, it is run; where
only a stored file names it, it may be a stranger's. It is run then if a training with it was begun here by the same user,
which is remembered, or if the user says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from rookery.sim.errors import RookeryError
from rookery.sim.own_files import is_in_file, is_there, resolved

TRUSTED = "ROOKERY_TRUST_TASKS"
"""Environment variable: files that may be run, separated as in PATH; "*" for all. `--trust-task` sets that for one command."""


_here: set[Path] = set()
"""Files trusted in this process, where the record cannot be written."""


def remember(name: str) -> None:
    """Trust the file of a task, stage or network on this machine from now on; in this process alone where nothing can be
    written."""
    path = _file_of(name)
    if path is None or "\n" in str(path) or path in _remembered():
        return
    try:
        _record().parent.mkdir(parents=True, exist_ok=True)
        with open(_record(), "a") as opened:
            opened.write(f"{path}\n")
    except (OSError, RuntimeError):
        _here.add(path)


def refuse_untrusted(name: object, what: str = "task") -> None:
    """Refuse what a stored file names and what would run a file which is not trusted.

    Args:
        name: of a task, stage or network; those that name no file pass.
        what: it is, in words.

    Raises:
        RookeryError: naming the file, and the way to trust it.
    """
    path = _file_of(name)
    if path is None:
        return
    said = os.environ.get(TRUSTED, "").split(os.pathsep)
    if "*" in said or path in [Path(s).resolve() for s in said if s] or path in _here or path in _remembered():
        return
    if not is_there(path):
        raise RookeryError(
            f"the stored {what} is {str(name)!r:.200}, and there is no file {path}: go to the folder where it begins."
        )
    raise RookeryError(
        f"the stored {what} is {str(name)!r:.200}, a program that would run with your rights, and no training with it was "
        f"begun here: look at {path}, and if you trust it, add --trust-task, or set {TRUSTED}={path}."
    )


def _file_of(name: object) -> Path | None:
    """The file that a name such as ``my_task.py:Land`` has, in full; None for other names."""
    if not isinstance(name, str) or not is_in_file(name):
        return None
    return resolved(Path(name.rpartition(":")[0]))


def _record() -> Path:
    """The file that has the path of one trusted file in each line."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rookery" / "trained_tasks"


def _remembered() -> list[Path]:
    try:
        return [Path(line) for line in _record().read_text().splitlines()]
    except (OSError, RuntimeError, UnicodeDecodeError):  # nothing yet, or a user without a home
        return []
