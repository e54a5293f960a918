"""Curves with bands, as an SVG that needs no library: learning_curves.py draws with it."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rookery.sim2real.gate.plots import ticks

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d1f")
"""Told apart with any color vision: Okabe and Ito, Color Universal Design (2008); the last stands in for their yellow."""
WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 46
LEGEND_ROW = 18
LEGEND_COLUMNS = 3
GREY = "#5b6470"


@dataclass(frozen=True)
class Line:
    """One curve of a panel.

    Args:
        label: in the legend; lines of one label have one color.
        x, middle, low, high: the curve and its band, of one length.
    """

    label: str
    x: Sequence[float]
    middle: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Args:
        x_label, y_label: with their units.
        lines: at most as many labels as there are colors.
        log: a logarithmic x axis.
        y_range: None takes that of the bands.
    """

    x_label: str
    y_label: str
    lines: Sequence[Line]
    log: bool = False
    y_range: tuple[float, float] | None = None


def figure(title: str, panels: Sequence[Panel]) -> str:
    """The SVG of panels side by side above one legend."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    if len(labels) > len(COLORS):
        raise ValueError(f"{len(labels)} curves, and there are {len(COLORS)} colors")
    colors = dict(zip(labels, COLORS, strict=False))
    width = WIDTH * len(panels)
    height = HEIGHT + LEGEND_ROW * math.ceil(len(labels) / LEGEND_COLUMNS) + 8
    parts = [f'<rect width="{width}" height="{height}" fill="white"/>', _text(width / 2, 18, title, "middle", 13)]
    for i, panel in enumerate(panels):
        parts.append(f'<g transform="translate({i * WIDTH} 0)">{_panel(panel, colors)}</g>')
    column = (width - LEFT) / LEGEND_COLUMNS
    for i, label in enumerate(labels):
        x = LEFT + i % LEGEND_COLUMNS * column
        y = HEIGHT + LEGEND_ROW * (i // LEGEND_COLUMNS) + 4
        parts.append(
            f'<line x1="{x:.1f}" x2="{x + 22:.1f}" y1="{y}" y2="{y}" stroke="{colors[label]}" stroke-width="2.5"/>'
        )
        parts.append(_text(x + 28, y + 4, label, "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="sans-serif" font-size="11"'
    return (
        f'{head} {font} fill="{GREY}" role="img" aria-label="{html.escape(title)}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(panel: Panel, colors: dict[str, str]) -> str:
    low, high = _range([v for line in panel.lines for v in line.x])
    bottom, top = panel.y_range or _range([v for line in panel.lines for v in (*line.low, *line.high)])
    if not panel.log:
        low = min(low, 0.0)
    scale = math.log10 if panel.log else float
    first, last = scale(low), scale(high)

    def x(value: float) -> float:
        return LEFT + (scale(value) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (top - value) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    x_ticks = log_ticks(low, high) if panel.log else ticks(low, high)
    parts = _axes(panel, x_ticks, ticks(bottom, top), x, y)
    for line in panel.lines:
        edge = [*zip(line.x, line.high, strict=True), *reversed(list(zip(line.x, line.low, strict=True)))]
        color = colors[line.label]
        parts.append(f'<polygon points="{_points(edge, x, y)}" fill="{color}" fill-opacity="0.18"/>')
        curve = _points(list(zip(line.x, line.middle, strict=True)), x, y)
        parts.append(f'<polyline points="{curve}" fill="none" stroke="{color}" stroke-width="1.8"/>')
    return "\n".join(parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Least and greatest, some way apart."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5 * abs(low) - 0.5, high + 0.5 * abs(high) + 0.5)


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high; over less than two decades twice and five times these as well."""
    steps = (1.0, 2.0, 5.0) if high / low < 100.0 else (1.0,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for p in powers for m in steps if low <= (value := m * 10.0**p) <= high]


def _axes(
    panel: Panel,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[str]:
    base, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in y_ticks:
        parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e3e7eb"/>')
        parts.append(_text(LEFT - 6, y(value) + 4, short(value), "end"))
    for value in x_ticks:
        parts.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{base}" y2="{base + 4}" stroke="{GREY}"/>')
        parts.append(_text(x(value), base + 16, short(value), "middle"))
    parts.append(f'<path d="M{LEFT} {TOP}V{base}H{end}" fill="none" stroke="{GREY}"/>')
    parts.append(_text((LEFT + end) / 2, base + 34, panel.x_label, "middle"))
    middle = (TOP + base) / 2
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{html.escape(panel.y_label)}</text>')
    return parts


def short(value: float) -> str:
    """A number in few characters: 1500000 as 1.5M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def _points(pairs: Sequence[tuple[float, float]], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in pairs)


def _text(x: float, y: float, text: str, anchor: str, size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(text)}</text>'
