"""Which files of tasks a stored policy, run or dataset may have run.

A task in a file is a program. Where a person names it, ``rookery train my_task.py:Land``, it is run; where only a stored file
names it, it may be a stranger's. It is run then if a training with it was begun here by the same user, which is remembered, or
if the user says so.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rookery.sim.errors import RookeryError
from rookery.tasks.plugins import is_file_task

TRUSTED = "ROOKERY_TRUST_TASKS"
"""Environment variable: files that may be run, separated as in PATH; "*" for all. `--trust-task` sets that for one command."""


def remember(task: str) -> None:
    """Trust a task's file on this machine from now on; where nothing can be written, nothing is remembered."""
    path = _file_of(task)
    if path is None or "\n" in str(path) or path in _remembered():
        return
    with contextlib.suppress(OSError, RuntimeError):
        _record().parent.mkdir(parents=True, exist_ok=True)
        with open(_record(), "a") as opened:
            opened.write(f"{path}\n")


def refuse_untrusted(task: object, what: str = "task") -> None:
    """Refuse a task, or something else of this name, that a stored file names and that would run a file which is not trusted.

    Raises:
        RookeryError: naming the file, and the way to trust it.
    """
    path = _file_of(task)
    if path is None:
        return
    said = os.environ.get(TRUSTED, "").split(os.pathsep)
    if "*" in said or path in [Path(s).resolve() for s in said if s] or path in _remembered():
        return
    raise RookeryError(
        f"the stored {what} is {str(task)!r:.200}, a program that would run with your rights, and no training with it was "
        f"begun here: look at {path}, and if you trust it, add --trust-task, or set {TRUSTED}={path}."
    )


def _file_of(task: object) -> Path | None:
    """The file of a task that is named by it, in full; None for other tasks."""
    if not isinstance(task, str) or not is_file_task(task):
        return None
    return Path(task.rpartition(":")[0]).resolve()


def _record() -> Path:
    """The file that has the path of one trusted file in each line."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rookery" / "trained_tasks"


def _remembered() -> list[Path]:
    try:
        return [Path(line) for line in _record().read_text().splitlines()]
    except (OSError, RuntimeError, UnicodeDecodeError):  # nothing yet, or a user without a home
        return []
