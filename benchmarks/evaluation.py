"""Figures of `rookery eval`, for benchmarks."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import commit

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


def evaluate(
    rookery: Sequence[str], folder: Path, randomize: str, episodes: int, seed: int, options: Sequence[str] = ()
) -> dict[str, Any]:
    """One row: what `rookery eval` reports of a policy, with further options.

    Raises:
        CalledProcessError: the evaluation failed.
    """
    words = ["--episodes", str(episodes), "--seed", str(seed), "--randomize", randomize, *options]
    start = time.perf_counter()
    result = eval_figures(folder, *words, rookery=rookery)
    same = {k: result[k] for k in ("metric_name", "metric", "return_std", "metrics", "causes", "engine")}
    return same | {
        "policy": folder.name, "randomize": randomize, "success": result["success_rate"],
        "length": result["episode_length_mean"], "return": result["return_mean"], "episodes": episodes, "commit": commit(),
        "wall_s": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def training_seconds(folder: Path) -> float:
    """s, of rollouts and updates of all trainings in a folder: stages of a recipe, members of a league."""
    return sum(float(_last_row(log).get("seconds") or 0.0) for log in folder.rglob("progress.csv"))


def has_learned(run: Path, steps: float) -> bool:
    """True where a run has made so many control steps."""
    log = run / "progress.csv"
    return log.exists() and int(_last_row(log).get("steps") or 0) >= steps


def _last_row(log: Path) -> dict[str, str]:
    """Nothing of a training that was stopped before its first row."""
    with log.open() as opened:
        return ([{}, *csv.DictReader(opened)])[-1]
