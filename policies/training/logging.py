"""Logs of a run: a line on the terminal, a row in progress.csv, and the figures for trackers."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.policies.tracking.tracking import Tracking
from rookery.policies.training import store
from rookery.policies.training.interruption import Interrupted
from rookery.policies.training.reduction import ALONE, Reduction
from rookery.sim.files import flush, make_folder, replace
from rookery.sim.untrusted import read_text

Progress = Callable[[dict[str, Any]], None]
Wanted = Callable[[], bool]
PLAIN_LINE_EVERY_S = 5.0
LOG_BYTES = 1 << 30
"""Largest log that is read."""
STOPPED_S = 3.0
"""s that trackers have after a second Ctrl-C."""


class EpisodeStatistics:
    """Figures of finished episodes: means over each iteration's, and success over a window of the latest.

    Args:
        window: number of episodes that `success` looks back on.

    Attributes:
        success: mean success of the latest `window` episodes, None before there are half as many.
        best: {"success", "steps"} of the best `success` so far.
        latest: the means of the latest iteration in which any episode ended.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.success: float | None = None
        self.best: dict[str, float] = {}
        self.latest: dict[str, float] = {}
        self._finished: list[dict[str, Tensor]] = []
        self._recent: list[tuple[float, int]] = []  # (sum of success, episodes) by iteration

    def add(self, episode: dict[str, Any]) -> None:
        """Take in an info["episode"], but of it those episodes that are `cut`; nothing is moved off the device yet."""
        columns = {"length": episode["length"]}
        columns |= {f"return/{k}": v for k, v in episode["return"].items()}
        columns |= {f"metric/{k}": v for k, v in episode["metrics"].items()}
        columns |= {f"reward/{k}": v for k, v in episode.get("reward_terms", {}).items()}
        columns |= {f"parameter/{k}": v for k, v in episode.get("parameters", {}).items()}
        columns |= {f"task/{k}": v for k, v in episode.get("task_success", {}).items()}
        if "cut" in episode:
            whole = ~episode["cut"]
            columns = {k: v[whole] for k, v in columns.items()}
        self._finished.append(columns)

    def summarize(self, steps: int, reduction: Reduction = ALONE) -> dict[str, float]:
        """Means over the episodes finished since the last call in all processes, as named log figures; empty if there were
        none, and in all processes but that of rank 0. Of each figure those episodes count that have it, for which it is finite;
        of a ConcatEnv "task/<name>" is the success of each task."""
        gathered = reduction.gather(self._table())
        self._finished = []
        tables = [own for own in gathered or () if own is not None]
        if not tables:
            return {}
        names = tables[0][0]
        table = torch.from_numpy(np.concatenate([own for _, own in tables], 1))
        count = table.shape[1]
        if not count:
            return {}
        table.masked_fill_(~table.isfinite(), torch.nan)  # what JSON has no numbers for, and so no checkpoint
        means = {k: v for k, v in zip(names, table.nanmean(1).tolist(), strict=True) if v == v}
        returns = [v for k, v in means.items() if k.startswith("return/")]
        row = {"episodes": count, **({"return": sum(returns) / len(returns)} if returns else {}), **means}
        if "metric/success" in row:
            self._recent.append((row["metric/success"] * count, count))
            while sum(n for _, n in self._recent[1:]) >= self.window:
                self._recent.pop(0)
            total = sum(n for _, n in self._recent)
            if 2 * total >= self.window:
                self.success = sum(s for s, _ in self._recent) / total
                row["success"] = self.success
                if self.success > self.best.get("success", -1.0):
                    self.best = {"success": self.success, "steps": steps}
        self.latest = row
        return row

    def _table(self) -> tuple[list[str], np.ndarray] | None:
        """Names and values [figures, episodes] of what finished, as one array: other processes would get hundreds of tensors, a
        step's each, in ten times the time of the steps. None where nothing finished."""
        if not self._finished:
            return None
        names = list(self._finished[0])
        columns = [torch.cat([f[name].double() for f in self._finished]) for name in names]
        return names, torch.stack(columns).cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"success": self.success, "best": self.best, "latest": self.latest, "recent": self._recent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put a saved state back."""
        self.success = state["success"]
        self.best = state["best"]
        self.latest = state["latest"]
        self._recent = [(s, n) for s, n in state["recent"]]
        self._finished.clear()


class RunLog:
    """The log of one training run, a context manager.

    Args:
        run_dir: where progress.csv goes.
        steps: control steps made before.
        total_steps: control steps at the end.
        progress: called with every row; None shows a line on the terminal.
        tracking: trackers that get every row; None for none.

    Raises:
        RookeryError: the folder cannot be written.
    """

    def __init__(
        self,
        run_dir: Path,
        steps: int,
        total_steps: int,
        progress: Progress | None,
        tracking: Tracking | None = None,
    ) -> None:
        self.file = run_dir / "progress.csv"
        self._columns: list[str] = []
        self._progress = progress
        self._terminal = Terminal(steps, total_steps) if progress is None else None
        self._tracking = tracking
        try:
            make_folder(run_dir)
        except OSError as error:
            raise store.unwritable(run_dir, error) from error

    def __enter__(self) -> RunLog:
        if self._terminal is not None:
            self._terminal.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal is not None:
            self._terminal.stop()
        if self._tracking is not None:
            stopped = kind is not None and issubclass(kind, (Interrupted, KeyboardInterrupt))
            ended = "interrupted" if stopped else "finished" if kind is None else "failed"
            self._tracking.close(ended, STOPPED_S if kind is KeyboardInterrupt else None)

    def resume(self, steps: int) -> None:
        """Forget rows past `steps`, which a killed run may have left, and open file and trackers.

        Raises:
            RookeryError: progress.csv cannot be written.
        """
        try:
            rows = [r for r in self._rows() if int(r["steps"]) <= steps] if steps else []
            self._columns = list(rows[0]) if rows else []
            self._rewrite(rows)
        except OSError as error:
            raise store.unwritable(self.file.parent, error) from error
        if self._tracking is not None:
            self._tracking.open()

    def write(self, row: dict[str, Any]) -> None:
        """One row, everywhere."""
        try:
            new = [k for k in row if k not in self._columns]
            if new:
                rows = self._rows()
                self._columns += new
                self._rewrite(rows)
            with open(self.file, "a", newline="") as opened:
                csv.DictWriter(opened, self._columns).writerow({k: _text(v) for k, v in row.items()})
        except OSError as error:
            raise store.unwritable(self.file.parent, error) from error
        if self._tracking is not None:
            self._tracking.log(row)
        if self._terminal is not None:
            self._terminal.show(row)
        if self._progress is not None:
            self._progress(row)

    def flush(self) -> None:
        """Wait until all rows are on the disk."""
        try:
            flush(self.file)
        except OSError as error:
            raise store.unwritable(self.file.parent, error) from error

    def _rows(self) -> list[dict[str, str]]:
        """The file's whole rows; one that a kill cut short is left out, a damaged file is set aside."""
        if not self.file.exists():
            return []
        try:
            text = read_text(self.file, LOG_BYTES)
            text = text[: text.rfind("\n") + 1]
            lines = csv.DictReader(io.StringIO(text, newline=""))
            rows = [r for r in lines if r["steps"] and None not in r.values() and None not in r]
            for row in rows:
                int(row["steps"])
        except (ValueError, KeyError, csv.Error) as error:
            aside = self.file.with_name(f"progress-damaged-{time.time_ns()}.csv")
            self.file.rename(aside)
            print(
                f"rookery: {self.file} is damaged ({error}); it is now {aside.name}, and the log begins anew.",
                file=sys.stderr,
            )
            return []
        return rows

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, self._columns)
        if self._columns:
            writer.writeheader()
        writer.writerows(rows)
        replace(self.file, out.getvalue().encode())


class Terminal:
    """A line that stays in place on a terminal, and a plain line every few seconds anywhere else.

    Args:
        steps: control steps made before.
        total_steps: control steps at the end.
    """

    def __init__(self, steps: int, total_steps: int) -> None:
        self.first = steps
        self.total = total_steps
        self._from: tuple[float, int] | None = None
        self._shown = -PLAIN_LINE_EVERY_S
        self._last: dict[str, Any] = {}
        self._bar: Any = None
        self._task: Any = None
        self._pending = ""

    def start(self) -> None:
        """Begin to show."""
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(bar_width=16), TaskProgressColumn(), TextColumn("{task.description}"))
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("starting", total=self.total, completed=self.first)

    def show(self, row: dict[str, Any]) -> None:
        """Show an iteration's figures."""
        self._last |= row
        line = self.line()
        if self._from is None:  # it has waited for compilers: the time that is left follows from the other iterations
            self._from = (time.monotonic(), row["steps"])
        if self._bar is not None:
            self._bar.update(self._task, completed=row["steps"], description=line)
        elif time.monotonic() - self._shown >= PLAIN_LINE_EVERY_S:
            self._shown = time.monotonic()
            self._pending = ""
            print(line, file=sys.stderr, flush=True)
        else:
            self._pending = line

    def line(self) -> str:
        """The figures in one line; the time that is left from the second row on."""
        row = self._last
        parts = [f"{_short(row['steps'])} of {_short(self.total)} steps", f"{_short(row['samples_per_s'])} samples/s"]
        success = row.get("success", row.get("metric/success"))
        if success is not None:
            parts.append(f"success {success:.1%}")
        if "randomization_share" in row:
            parts.append(f"randomization {row['randomization_share']:.0%}")
        if "return" in row:
            parts.append(f"return {row['return']:.4g}")
        errors = [value for name, value in row.items() if name.rpartition("/")[2] == "error"]
        if errors:  # of imitation, a group each
            parts.append(f"error {sum(errors) / len(errors):.3g}")
        if "staleness" in row:
            parts.append(f"staleness {row['staleness']:g}")
        if self._from is not None:
            begin, steps = self._from
            left = (self.total - row["steps"]) / max(row["steps"] - steps, 1) * (time.monotonic() - begin)
            parts.append(f"ETA {_clock(left)}")
        return ", ".join(parts)

    def stop(self) -> None:
        """End the display, with the last figures left in view."""
        if self._bar is not None:
            self._bar.stop()
        elif self._pending:
            print(self._pending, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    """3725 as 1:02:05."""
    minutes, s = divmod(int(max(seconds, 0.0)), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m}:{s:02d}"


def _short(x: float) -> str:
    """1234567 as 1.23M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.3g}"


def _text(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float) else value
