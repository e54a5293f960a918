"""The line that stands beside every recorded figure: machine, versions, commit and date."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path

PACKAGE = ("assets", "policies", "robots", "rookery", "sim", "sim2real", "tasks")
"""Folders of the package, with the policies of the zoo."""


def machine() -> str:
    """One line: processor, cores, python, mujoco, torch, commit, date."""
    import mujoco
    import torch

    cpu = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":")[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cpu}, {cores} cores, python {platform.python_version()}, mujoco {mujoco.__version__}, "
        f"torch {torch.__version__}, commit {commit() or 'none'}, {datetime.date.today()}"
    )


def commit(*paths: str) -> str:
    """Abbreviated commit that last changed the package, "-dirty" where the package differs from it; "" outside a git checkout.
    With `paths`, of these in its place.

    Commits of benchmarks and pages alone do not count: they change no figure, and results that a script has written would
    make its next ones dirty.
    """
    root = Path(__file__).resolve().parents[1]

    def git(*args: str) -> str:
        command = ["git", *args, "--", *(paths or PACKAGE)]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()

    last = git("log", "-1", "--format=%h")
    return f"{last}-dirty" if last and git("status", "--porcelain") else last


if __name__ == "__main__":
    print(machine())
