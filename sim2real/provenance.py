"""Origin of a policy: the facts that a contract keeps so that a result can be found again."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def gather_provenance(steps: int | None, seed: int | None, engine: str, randomisation: str | None) -> dict[str, Any]:
    """The provenance of a training that runs in this process, now.

    Args:
        steps: agent steps learned from so far; None where it is not known, as of a policy of another library.
        seed: seed of the run, or None.
        engine: physics engine.
        randomisation: "none", "default" or the file it came from, or None.

    Returns:
        The provenance lines of a contract; `commit` is None outside a git checkout, and `files` has the SHA-256 of each file
        that the command or the randomization names, by its path there.
    """
    return {
        "steps": steps,
        "seed": seed,
        "command": shlex.join([_program(), *sys.argv[1:]]),
        "commit": checkout_commit(Path(__file__)),
        "machine": f"{platform.node()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "engine": engine,
        "randomisation": randomisation,
        "files": _digests([*sys.argv[1:], randomisation or ""]),
    }


def _digests(words: Iterable[str]) -> dict[str, str]:
    """SHA-256 of those words' files that there are and can be read."""
    out = {}
    for word in sorted(set(words)):
        with contextlib.suppress(OSError, ValueError):  # most words are no paths, and some cannot be one
            if Path(word).is_file():
                with Path(word).open("rb") as file:
                    out[word] = hashlib.file_digest(file, "sha256").hexdigest()
    return out


@functools.cache
def checkout_commit(file: Path | None) -> str | None:
    """Commit of the git checkout that a file belongs to, with "-dirty" when something in it is changed; None outside of one.
    Asked for once: what a process runs is what it imported, and git takes 10 ms and more."""
    # The first command fails for an installed copy that merely lies inside somebody's repository.
    if file is None or not tracked(file):
        return None
    return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def tracked(file: Path) -> bool:
    """True where git knows the file in the checkout that it lies in."""
    return _git(file.parent, "ls-files", "--error-unmatch", file.name) is not None


def _git(folder: Path, *args: str) -> str | None:
    """Output of a git command in a folder; None when it fails or there is no git."""
    command = ["git", "-C", str(folder.resolve()), *args]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _program() -> str:
    """Name of the running program; `python -m rookery` is `rookery`."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name
