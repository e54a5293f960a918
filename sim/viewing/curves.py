"""Figures of a training's log over its steps, as a chart on a page."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.viewing.values import read

if TYPE_CHECKING:
    from viser import ViserServer

STEPS = "steps"
FIRST = ("metric/success", "return")
"""Columns that are shown first where there are such."""


def read_log(file: Path) -> dict[str, NDArray[np.float64]]:
    """The columns of a run's progress.csv, [T] each; nan where a row has nothing.

    Raises:
        RookeryError: it is damaged.
    """
    try:
        with file.open(newline="") as lines:
            names, *rows = csv.reader(lines)
        values = [[float(v) if v else np.nan for v in row] for row in rows if len(row) == len(names)]
    except (OSError, ValueError) as error:
        raise RookeryError(f"{file} is no log of a training, or damaged: {error}.") from error
    if STEPS not in names:
        raise RookeryError(f"{file} is no log of a training: it has no column {STEPS!r}.")
    return dict(zip(names, np.array(values).reshape(-1, len(names)).T, strict=True))


class Curves:
    """One chart of a training's log, and a choice of the column that it shows.

    Args:
        server: of the page.
        log: see `read_log`.
    """

    def __init__(self, server: ViserServer, log: dict[str, NDArray[np.float64]]) -> None:
        self._server = server
        self._log = log
        names = [n for n in FIRST if n in log] + sorted(set(log) - {STEPS, *FIRST})
        self._folder = server.gui.add_folder("Training", order=100.0)
        self._chart: Any = None
        with self._folder:
            choice = server.gui.add_dropdown("Show", names, initial_value=names[0])
        choice.on_update(lambda _: self.show(read(choice, names[0])))
        self.show(names[0])

    def show(self, name: str) -> None:
        """Draw a column over the steps."""
        from viser import uplot

        data = self._log[STEPS], self._log[name]
        series = (uplot.Series(label=STEPS), uplot.Series(label=name, stroke="#1c6dd0", width=1.5))
        if self._chart is not None:
            self._chart.remove()
        with self._folder:
            self._chart = self._server.gui.add_uplot(
                data, series, scales={"x": uplot.Scale(time=False)}, axes=(uplot.Axis(label=STEPS), uplot.Axis(size=48)),
                height=220,
            )  # fmt: skip
