"""Pictures of a league, as SVG: who wins against whom, ratings, and exploitability over the iterations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
CELL, MARGIN, LETTER = 44, 14, 7.2
"""Pixels: of a cell, around everything, and of a letter's width."""
WIDTH, HEIGHT = 640, 360
"""Pixels of the diagrams."""
COLORS = ("#1f6fb4", "#d2691e", "#2e8b57", "#8a4fbf")


@dataclass(frozen=True)
class Series:
    """A line of a diagram.

    Args:
        label: in the legend.
        x, y: of its points.
        half: half-widths of their intervals; empty for none.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float] = ()


def svg_document(width: float, height: float, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
    head += f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *parts, "</svg>\n"])


def svg_text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def cross_play(score: Array, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """A table of colors: how often the row's member wins against the column's.

    Args:
        score: [R, C] between 0 and 1.
        rows, columns: names.
        title: above it.
    """
    left = MARGIN + LETTER * max(map(len, rows)) + 8
    top = 3 * MARGIN + LETTER * max(map(len, columns)) + 8
    parts = [svg_text(MARGIN, 1.6 * MARGIN, title)]
    for i, name in enumerate(rows):
        parts.append(svg_text(left - 6, top + CELL * (i + 0.6), name, "end"))
    for j, name in enumerate(columns):
        x, y = left + CELL * (j + 0.6), top - 6
        parts.append(svg_text(x, y, name, "start", f' transform="rotate(-90 {x:.1f} {y:.1f})"'))
    for i in range(len(rows)):
        for j in range(len(columns)):
            x, y, value = left + CELL * j, top + CELL * i, float(score[i, j])
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{CELL}" height="{CELL}" fill="{_color(value)}"/>')
            parts.append(svg_text(x + CELL / 2, y + CELL * 0.6, f"{100 * value:.0f}", "middle"))
    width = max(left + CELL * len(columns) + MARGIN, 2 * MARGIN + LETTER * len(title))
    return svg_document(width, top + CELL * len(rows) + MARGIN, parts)


def _color(value: float) -> str:
    """Red for 0, white for a half, blue for 1."""
    far = np.array((31, 111, 180) if value > 0.5 else (200, 60, 50))
    mixed = 255 + (far - 255) * 1.6 * abs(value - 0.5)
    return "#" + "".join(f"{round(c):02x}" for c in mixed)


def diagram(series: Sequence[Series], title: str, x_label: str, y_label: str) -> str:
    """Lines with intervals over whole numbers.

    Args:
        series: at least one point in all.
        title, x_label, y_label: texts.
    """
    points = [(x, y - h, y + h) for s in series for x, y, h in zip(s.x, s.y, s.half or [0.0] * len(s.x), strict=True)]
    low_x, high_x = min(p[0] for p in points), max(p[0] for p in points)
    low, high = min(0.0, *(p[1] for p in points)), max(0.0, *(p[2] for p in points))
    step = round_step(high - low)
    low, high = step * math.floor(low / step), step * math.ceil(high / step + 1e-9)
    left, right, top, bottom = 64.0, WIDTH - 24.0, 52.0, HEIGHT - 48.0

    def across(x: float) -> float:
        return 0.5 * (left + right) if high_x == low_x else left + (right - left) * (x - low_x) / (high_x - low_x)

    def up(y: float) -> float:
        return bottom - (bottom - top) * (y - low) / ((high - low) or 1.0)

    parts = [svg_text(MARGIN, 1.6 * MARGIN, title), svg_text(0.5 * (left + right), HEIGHT - 12, x_label, "middle")]
    parts.append(
        svg_text(16, 0.5 * (top + bottom), y_label, "middle", f' transform="rotate(-90 16 {0.5 * (top + bottom):.0f})"')
    )
    for k in range(round((high - low) / step) + 1):
        y = low + k * step
        parts.append(
            f'<path d="M{left} {up(y):.1f}H{right}" stroke="#ddd"/>' + svg_text(left - 6, up(y) + 4, f"{y:g}", "end")
        )
    for tick in range(math.ceil(low_x), math.floor(high_x) + 1):
        parts.append(svg_text(across(tick), bottom + 18, str(tick), "middle"))
    for k, s in enumerate(series):
        color = COLORS[k % len(COLORS)]
        line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(s.x, s.y, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, y, h in zip(s.x, s.y, s.half or [0.0] * len(s.x), strict=True):
            parts.append(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{color}"/>')
            if h:
                parts.append(f'<path d="M{across(x):.1f} {up(y - h):.1f}V{up(y + h):.1f}" stroke="{color}"/>')
        x = left + 8 + sum(LETTER * len(other.label) + 40 for other in series[:k])
        parts.append(f'<path d="M{x:.0f} 38h18" stroke="{color}" stroke-width="2"/>' + svg_text(x + 22, 42, s.label))
    return svg_document(WIDTH, HEIGHT, parts)


def round_step(width: float) -> float:
    """A round distance between lines."""
    if width <= 0.0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width / 4.0))
    return next(power * k for k in (1.0, 2.0, 5.0, 10.0) if width / (power * k) <= 6.0)
