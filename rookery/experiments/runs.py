"""Run folders: where they lie, what is in them, and the environment that a stored policy was trained for."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.assets.near_names import nearest
from rookery.experiments.zoo import zoo
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_json
from rookery.tasks.registry import is_task

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.sim2real.contract import Contract

LATEST = "latest"
"""Link beside the runs of a task to the newest one with a checkpoint."""


def find_run(run: Path) -> Path:
    """The folder that holds a policy: a run, a folder of the zoo, or the zoo's policy for a task's name.

    Raises:
        RookeryError: there is no such folder, with the nearest match; it holds no policy; or the task has none in the zoo.
    """
    if not run.exists():
        if str(run) in zoo():
            return zoo()[str(run)]
        if is_task(str(run)):
            raise RookeryError(
                f"there is no policy for {run} yet: train one with `rookery train {run}`, and give its folder."
            )
        beside = [f.parent.name for f in run.parent.glob("*/contract.json")]
        if str(run.parent) != "." and beside:
            raise unknown(f"run in {run.parent}", run.name, beside)
        near = nearest(str(run), [*zoo()])
        meant = f"did you mean {near!r}? Otherwise give" if near else "give"
        raise RookeryError(
            f"there is no folder {str(run)!r}: {meant} one that `rookery train` made, such as runs/drone-hover/{LATEST}, "
            "or the name of a zoo policy, which `rookery list` shows."
        )
    if not (run / "contract.json").is_file():
        if (run / LATEST / "contract.json").is_file():
            raise RookeryError(f"{run} is the folder of all runs of a task: give one of them, such as {run / LATEST}.")
        raise RookeryError(
            f"{run} holds no policy yet: give a run folder with a checkpoint, or the name of a zoo policy, which "
            "`rookery list` shows."
        )
    return run


def open_run(run: Path) -> tuple[dict[str, Policy], Contract]:
    """The policies of a run or zoo folder, by group, and their contract.

    Raises:
        RookeryError: the folder is missing, incomplete, damaged or of a newer version, or its contract is of version 1 and its
            task is not here to complete it.
    """
    from rookery.policies.training.store import load_policy
    from rookery.sim2real.contract import Contract
    from rookery.sim2real.upgrade import upgraded

    policies, contract = load_policy(find_run(run))
    return policies, Contract.from_json(upgraded(contract))


def new_run(task: str, out: Path | None) -> Path:
    """An empty folder for a run: `out`, or ``runs/<task>/<time>``.

    Raises:
        RookeryError: `out` holds something already, or the place cannot be written.
    """
    time = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    from rookery.policies.training import checkpoint, lock

    folder = out or Path("runs") / task.rpartition(":")[2] / time  # of my_task.py:Land, the class
    try:
        if out is None:
            return _made(folder)
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / lock.FILE).touch(exist_ok=False)
            return folder
    except FileExistsError:  # of two processes that begin at once, the other was first
        pass
    except OSError as e:
        with contextlib.suppress(OSError):
            folder.rmdir()  # where it is empty: another process may have begun in it
        raise RookeryError(f"cannot write to {folder} ({e.strerror}): choose another folder with --out.") from e
    resume = (
        f", or go on with the run in it by `rookery train --resume {folder}`" if checkpoint.complete(folder) else ""
    )
    raise RookeryError(f"{folder} is not empty: choose another --out{resume}.")


def link_latest(folder: Path) -> None:
    """Point the link ``latest`` beside a run folder to it; a file or folder of that name stays as it is."""
    link = folder.parent / LATEST
    if link.is_symlink() or not link.exists():
        fresh = folder.parent / f".{LATEST}-{os.getpid()}"
        with contextlib.suppress(OSError):  # a full disk: the run is whole without it
            fresh.unlink(missing_ok=True)  # of a process of the same number that was killed, as in containers
            fresh.symlink_to(folder.name)
            fresh.replace(link)


def describe_run(run: Path) -> str:
    """A run's folder with links resolved, and the control steps that its policy was trained for.

    Raises:
        RookeryError: as `find_run`.
    """
    folder = find_run(run).resolve()
    try:
        steps = read_json(folder / "contract.json")["provenance"]["steps"]
    except (OSError, ValueError, KeyError, TypeError):
        return str(folder)
    return f"{folder} ({steps:,} steps)" if isinstance(steps, int) else str(folder)


def _made(folder: Path) -> Path:
    """Make `folder`, or the first of ``folder-2``, ... that is not there: jobs of an array begin in the same second."""
    candidate = folder
    i = 1
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            if not os.path.lexists(candidate):  # a link that leads nowhere on the way
                raise
            i += 1
            candidate = folder.with_name(f"{folder.name}-{i}")


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all.

    Raises:
        RookeryError: the place cannot be written or the disk is full.
    """
    from rookery.policies.training.store import unwritable
    from rookery.sim.files import replace

    try:
        replace(file, (json.dumps(value, indent=2) + "\n").encode())
    except OSError as e:
        raise unwritable(file.parent, e) from e
