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
    root = Path(__file__).parent
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cpu}, {cores} cores, python {platform.python_version()}, mujoco {mujoco.__version__}, "
        f"torch {torch.__version__}, commit {commit or 'none'}, {datetime.date.today()}"
    )


if __name__ == "__main__":
    print(machine())
