"""The table of a sweep: its trials, best first, from the files in its folder."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.sweep.objective import column_of, objective, read_progress
from rookery.experiments.sweep.trial import BAD
from rookery.sim.files import replace

if TYPE_CHECKING:
    from rookery.experiments.sweep.sweep import SettingsSweep

__all__ = ["best_of", "row_of", "rows_of", "tied", "write_table"]


def row_of(sweep: SettingsSweep, number: int) -> dict[str, Any]:
    """A trial: its number, status, objective (None before an episode has ended), metric, return, steps, seconds, point, reason
    and run folder."""
    trial = sweep.trial(number)
    point, status, reason = trial.read()
    rows = read_progress(trial.run)
    steps = int(rows[-1]["steps"]) if rows else 0
    return {
        "trial": number,
        "status": status,
        "objective": objective(rows, sweep.plan.metric, steps),
        "metric": column_of(sweep.plan.metric, rows),
        "return": objective(rows, "return", steps),
        "steps": steps,
        "seconds": rows[-1].get("seconds", 0.0) if rows else 0.0,
        "point": point,
        "reason": reason,
        "run": str(trial.run),
    }


def rows_of(sweep: SettingsSweep) -> list[dict[str, Any]]:
    """All trials that have begun, best first, those with the same objective by their return; then those without an
    objective."""
    rows = [row_of(sweep, number) for number in sweep.numbers()]
    sign = 1.0 if sweep.plan.minimize else -1.0

    def order(row: dict[str, Any]) -> tuple[bool, float, float, int]:
        gained = -math.inf if row["return"] is None else row["return"]
        return row["objective"] is None, sign * (row["objective"] or 0.0), -gained, row["trial"]

    return sorted(rows, key=order)


def tied(sweep: SettingsSweep, rows: list[dict[str, Any]]) -> str | None:
    """A sentence that the metric does not tell the trials apart; None where it does, or where there are fewer than two.

    Args:
        sweep: with its files.
        rows: of `rows_of`.
    """
    good = [row for row in rows if row["objective"] is not None and row["status"] not in BAD]
    if len(good) < 2 or len({row["objective"] for row in good}) > 1:
        return None
    metric = good[0]["metric"]
    said = f"all {len(good)} trials have {metric} {good[0]['objective']:.4g}, which does not tell them apart"
    if metric == "return":
        return f"{said}: give a new sweep more --steps."
    return (
        f"{said}, and stand in the order of their return: rank by that with `rookery sweep --resume {sweep.folder} --metric "
        "return`, or give a new sweep more --steps."
    )


def best_of(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The best trial that has not failed or diverged; None without one."""
    good = [row for row in rows if row["objective"] is not None and row["status"] not in BAD]
    return good[0] if good else None


def write_table(sweep: SettingsSweep, rows: list[dict[str, Any]]) -> None:
    """Write table.csv, and point the link `best` to the best trial's run folder."""
    out = io.StringIO(newline="")
    names = list(sweep.plan.space.dimensions)
    writer = csv.writer(out)
    writer.writerow(["trial", "status", "objective", "metric", "steps", "seconds", *names, "reason"])
    for r in rows:
        values = [r["point"].get(name) for name in names]
        value = "" if r["objective"] is None else f"{r['objective']:.7g}"
        writer.writerow(
            [r["trial"], r["status"], value, r["metric"], r["steps"], f"{r['seconds']:.4g}", *values, r["reason"]]
        )
    replace(sweep.folder / "table.csv", out.getvalue().encode())
    best = best_of(rows)
    if best is not None:
        fresh = sweep.folder / ".best"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path("trials") / f"{best['trial']:03d}")
        fresh.replace(sweep.folder / "best")
