"""The objective of a trial, from the progress.csv of its run folder."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.making import make
from rookery.policies.training.logging import LOG_BYTES
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_text

if TYPE_CHECKING:
    from rookery.experiments.settings import RunSettings

__all__ = ["AUTO", "SHARE", "check_metric", "column_of", "objective", "read_progress"]

SHARE = 0.1
"""Part of the steps made so far, the latest, over which a figure is averaged."""
PLAIN = (
    "return", "length", "episodes", "steps", "iteration", "seconds", "samples_per_s", "collect_s", "learn_s", "error", "reward",
    "randomization_share",
)  # fmt: skip
"""Columns of progress.csv that are no metric of a task, nor of a group or a term, whose names have a slash."""
AUTO = "auto"
"""Success where the task has it, and the return elsewhere."""
LARGEST = 3.4e38
"""Figures of a training are float32; what is infinite, no number, or beyond that is left out."""
Row = dict[str, float]


def read_progress(run: Path) -> list[Row]:
    """The rows of a run's progress.csv that are whole, without figures that are no numbers; none where there is no file."""
    try:
        text = read_text(run / "progress.csv", LOG_BYTES)
    except (OSError, ValueError):
        return []
    lines = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))
    rows = []
    while True:
        try:
            line = next(lines)
            figures = {k: float(v) for k, v in line.items() if k and v}
        except StopIteration:
            break
        except (csv.Error, TypeError, ValueError):  # a line that a crash of the machine has damaged
            continue
        rows.append({name: x for name, x in figures.items() if abs(x) <= LARGEST})
    return [row for row in rows if "steps" in row]


def column_of(metric: str, rows: list[Row]) -> str:
    """The column of progress.csv that a metric's name stands for."""
    if metric == AUTO:
        metric = "success" if any("metric/success" in row for row in rows) else "return"
    return "metric/success" if metric == "success" else metric


def check_metric(base: RunSettings, metric: str) -> None:
    """Refuse, before anything is trained, a metric that no trial can have. Names with a slash other than `metric/...` depend on
    the algorithm, and are looked for in progress.csv.

    Raises:
        RookeryError: naming it.
    """
    if metric == AUTO or metric in PLAIN or ("/" in metric and not metric.startswith("metric/")):
        return
    env = make(base.task, 1, engine=base.engine, config=base.training_config, shards=1)
    known = [f"metric/{name}" for name in env.metrics()]
    env.close()
    if metric not in known and not (metric == "success" and "metric/success" in known):
        names = [AUTO, *(["success"] if "metric/success" in known else []), *PLAIN, *known]
        told = str(unknown("--metric", metric, names)).removesuffix(".")
        raise RookeryError(f"{told}, or another column of progress.csv.")


def objective(rows: list[Row], metric: str, steps: float) -> float | None:
    """The mean of a figure over the episodes, of the exploring policy, that ended in the last SHARE of the first `steps`.

    Args:
        rows: of `read_progress`.
        metric: "success", "return", "auto", or the name of a column.
        steps: control steps.

    Returns:
        the mean, weighted by the episodes of each row; that of the latest row with the figure where none lies in the window;
        None where no row has it.
    """
    column = column_of(metric, rows)
    having = [row for row in rows if column in row and row["steps"] <= steps]
    latest = [row for row in having if row["steps"] > (1.0 - SHARE) * steps] or having[-1:]
    total = sum(row.get("episodes", 1.0) for row in latest)
    return sum(row[column] * row.get("episodes", 1.0) for row in latest) / total if total else None
