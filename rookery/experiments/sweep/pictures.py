"""Pictures of a sweep, as SVG: the objective of each trial over its steps, and over each setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rookery.experiments.league.pictures import MARGIN, round_step, svg_document, svg_text
from rookery.experiments.sweep.objective import objective, read_progress
from rookery.experiments.sweep.space import SweptInterval

if TYPE_CHECKING:
    from rookery.experiments.sweep.sweep import SettingsSweep

__all__ = ["draw_curves", "draw_settings"]

WIDTH, HEIGHT = 640, 360
"""Pixels of a diagram."""
POINTS = 60
"""Of a curve, at most."""
BEST, OTHERS = "#1f6fb4", "#b8b8b8"
"""Colors of the best trial and of the others."""


class DiagramAxes:
    """The frame of a diagram.

    Args:
        x, y: all values that must fit in.
        top: pixel of the upper edge.
        log: the horizontal axis is logarithmic.
    """

    def __init__(self, x: Sequence[float], y: Sequence[float], top: float = 52.0, log: bool = False) -> None:
        self._place: Callable[[float], float] = math.log10 if log else float
        placed = [self._place(v) for v in x]
        self.left, self.right, self.top, self.bottom = 70.0, WIDTH - 24.0, top, top + HEIGHT - 100.0
        self._low, self._high = min(placed), max(placed)
        self.step = round_step(max(y) - min(y))
        self.low = self.step * math.floor(min(y) / self.step)
        self.high = self.step * math.ceil(max(y) / self.step + 1e-9)

    def across(self, x: float) -> float:
        """Pixel of a value on the horizontal axis."""
        share = 0.5 if self._high == self._low else (self._place(x) - self._low) / (self._high - self._low)
        return self.left + (self.right - self.left) * share

    def up(self, y: float) -> float:
        """Pixel of a value on the vertical axis."""
        return self.bottom - (self.bottom - self.top) * (y - self.low) / ((self.high - self.low) or 1.0)

    def frame(self, title: str, x_label: str, ticks: dict[float, str]) -> list[str]:
        """Title, lines and labels; `ticks` are those of the horizontal axis."""
        middle = 0.5 * (self.left + self.right)
        parts = [svg_text(MARGIN, self.top - 22, title), svg_text(middle, self.bottom + 36, x_label, "middle")]
        for k in range(round((self.high - self.low) / self.step) + 1):
            y = self.low + k * self.step
            parts.append(f'<path d="M{self.left} {self.up(y):.1f}H{self.right}" stroke="#ddd"/>')
            parts.append(svg_text(self.left - 6, self.up(y) + 4, f"{y:g}", "end"))
        parts += [svg_text(self.across(x), self.bottom + 18, text, "middle") for x, text in ticks.items()]
        return parts


def draw_curves(sweep: SettingsSweep, rows: list[dict[str, Any]]) -> str:
    """The objective of each trial over its steps, the best one on top.

    Args:
        sweep: with its files.
        rows: of `rookery.experiments.sweep.table.rows_of`; at least one with an objective.
    """
    curves = []
    for row in (r for r in reversed(rows) if r["objective"] is not None):
        progress = read_progress(sweep.trial(row["trial"]).run)
        chosen = progress[:: max(1, len(progress) // POINTS)] + progress[-1:]
        figures = [(r["steps"], objective(progress, sweep.plan.metric, r["steps"])) for r in chosen]
        curves.append((row["trial"], [(x, y) for x, y in figures if y is not None]))
    every = [p for _, points in curves for p in points]
    axes = DiagramAxes([0.0, *(x for x, _ in every)], [y for _, y in every])
    last = max(x for x, _ in every)
    best = curves[-1][0]
    title = f"{rows[0]['metric']} over steps, {len(curves)} trials; trial {best} is the best"
    parts = axes.frame(title, "control steps", {x: f"{x:.3g}" for x in (0.0, 0.5 * last, last)})
    for number, points in curves:
        line = " ".join(f"{axes.across(x):.1f},{axes.up(y):.1f}" for x, y in points)
        color, width = (BEST, 2.5) if number == best else (OTHERS, 1.2)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="{width}"><title>trial {number}</title>'
            "</polyline>"
        )
    return svg_document(WIDTH, HEIGHT, parts)


def draw_settings(sweep: SettingsSweep, rows: list[dict[str, Any]]) -> str:
    """The objective over each setting, a point for each trial; hollow where the trial was stopped early.

    Args:
        sweep, rows: as of `draw_curves`.
    """
    having = [r for r in rows if r["objective"] is not None]
    parts = []
    for k, (name, dimension) in enumerate(sweep.plan.space.dimensions.items()):
        values: list[Any] = [r["point"].get(name) for r in having]
        interval = isinstance(dimension, SweptInterval)
        names = [] if interval else [_shown(v) for v in dimension.values]  # type: ignore[union-attr]
        places = [float(v) for v in values] if interval else [float(names.index(_shown(v))) for v in values]
        ends = list(dimension.corners()) if interval else [0.0, float(max(1, len(names) - 1))]
        log = isinstance(dimension, SweptInterval) and dimension.log
        axes = DiagramAxes([*places, *ends], [r["objective"] for r in having], 52.0 + k * HEIGHT, log)
        ticks = {float(e): f"{e:.3g}" for e in ends} if interval else {float(i): n for i, n in enumerate(names)}
        parts += axes.frame(f"{rows[0]['metric']} over {name}", name, ticks)
        for row, x in zip(having, places, strict=True):
            fill = "white" if row["status"] == "stopped" else BEST
            shown = f"trial {row['trial']}: {row['objective']:.4g} at {row['steps']} steps"
            parts.append(
                f'<circle cx="{axes.across(x):.1f}" cy="{axes.up(row["objective"]):.1f}" r="4" fill="{fill}" '
                f'stroke="{BEST}"><title>{shown}</title></circle>'
            )
    return svg_document(WIDTH, HEIGHT * len(sweep.plan.space.dimensions), parts)


def _shown(value: Any) -> str:
    """A value of a choice for people; a list of JSON is a tuple here."""
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
