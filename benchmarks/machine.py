"""The line that stands beside every recorded figure: machine, versions, commit and date."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path


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


def commit() -> str:
    """Abbreviated commit of this checkout, "-dirty" where something is changed; "" outside a git checkout."""
    command = ["git", "describe", "--always", "--dirty"]
    root = Path(__file__).parent
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    print(machine())
