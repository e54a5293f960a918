"""Figures of `rookery eval`, for benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOKERY = (sys.executable, "-m", "rookery")


def eval_figures(what: Path | str, *options: str, rookery: Sequence[str] = ROOKERY) -> dict[str, Any]:
    """What `rookery eval --json` prints.

    Args:
        what: folder of a run, or a task.
        options: of the command.
        rookery: the command, such as that of another checkout.

    Raises:
        CalledProcessError: the evaluation failed; it has said why.
    """
    command = [*rookery, "eval", str(what), "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
