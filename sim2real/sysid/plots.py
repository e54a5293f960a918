"""Predicted against logged signals, as a page of SVG curves."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.gate.plots import ticks

Array = NDArray[np.float64]
WIDTH, HEIGHT = 620, 170
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 18, 24
SECONDS = 6.0
"""s, shown of each signal: those in which the identified model errs most."""
POINTS = 900
COLORS = {"logged": "#1b1f24", "nominal": "#c9701a", "identified": "#1f4e8c"}


@dataclass(frozen=True)
class Signal:
    """Curves of one measured signal.

    Args:
        name: of it. unit: of the values.
        time: [S] s.
        curves: [S] each, by the names in COLORS.
    """

    name: str
    unit: str
    time: Array
    curves: dict[str, Array]


def page(title: str, signals: Sequence[Signal], lines: Sequence[str]) -> str:
    """An HTML page with the curves and the lines of the report."""
    legend = " ".join(f'<span style="color:{c}">&#9644; {name}</span>' for name, c in COLORS.items())
    text = html.escape("\n".join(lines))
    body = "\n".join(chart(signal) for signal in signals)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font:14px sans-serif;max-width:1320px;margin:24px auto;color:#1b1f24}svg{width:620px;max-width:100%}"
        "pre{overflow-x:auto;background:#f4f6f8;padding:12px}</style></head>"
        f"<body><h1>{html.escape(title)}</h1><pre>{text}</pre><p>{legend}</p>{body}</body></html>\n"
    )


def chart(signal: Signal) -> str:
    """The SVG of one signal where the identified model errs most."""
    first, last = _worst(signal)
    every = max(1, (last - first) // POINTS)
    time = signal.time[first:last:every]
    curves = {name: values[first:last:every] for name, values in signal.curves.items()}
    low = min(float(v.min()) for v in curves.values())
    high = max(float(v.max()) for v in curves.values())
    if high - low < 1e-9:
        low, high = low - 1e-6, high + 1e-6

    def x(value: float) -> float:
        return LEFT + (value - time[0]) / max(time[-1] - time[0], 1e-9) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 12, f"{signal.name}, {signal.unit}", "start")]
    for value in ticks(low, high, 4):
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e3e8ed"/>'
        )
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:.4g}", "end"))
    for value in ticks(float(time[0]), float(time[-1]), 6):
        parts.append(_text(x(value), HEIGHT - 6, f"{value:.4g} s", "middle"))
    for name, values in curves.items():
        points = " ".join(
            f"{x(t):.1f},{y(v):.1f}" for t, v in zip(time.tolist(), values.tolist(), strict=True) if math.isfinite(v)
        )
        width = 2.2 if name == "logged" else 1.2
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[name]}" stroke-width="{width}"/>')
    label = html.escape(f"{signal.name}: predicted and logged")
    body = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}" font-size="11" fill="#5b6470">{body}</svg>'


def _worst(signal: Signal) -> tuple[int, int]:
    """First and last sample of the stretch of SECONDS in which predicted and logged differ most."""
    period = float(np.median(np.diff(signal.time)))
    length = min(len(signal.time), max(2, round(SECONDS / period)))
    squares = np.cumsum(np.append(0.0, (signal.curves["identified"] - signal.curves["logged"]) ** 2))
    first = int((squares[length:] - squares[:-length]).argmax())
    return first, first + length


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
