"""Success against the value of a factor, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rookery.sim2real.gate.report import Case, Margin
from rookery.sim2real.gate.sweep import Tried

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 14, 10, 44
TICKS = 5
Place = Callable[[float], float]


def ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """About `count` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1.0 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def factor_plot(sides: Sequence[Margin], nominal: Case, required: float) -> str:
    """The SVG of one factor.

    Args:
        sides: its one or two directions.
        nominal: the success at its nominal value.
        required: the least success.
    """
    scale = 1000.0 if sides[0].unit == "s" else 1.0
    unit = {"s": "ms", "1": "times nominal" if sides[0].nominal == 1.0 else ""}.get(sides[0].unit, sides[0].unit)
    tried = _points(sides, nominal)
    low, high = tried[0].value * scale, tried[-1].value * scale
    if low == high:
        return ""

    def x(value: float) -> float:
        return LEFT + (value * scale - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(rate: float) -> float:
        return TOP + (1.0 - rate) * (HEIGHT - TOP - BOTTOM)

    parts = [*_band(sides, x), *_axes(low, high, scale, x, y)]
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(required):.1f}" y2="{y(required):.1f}"'
    parts.append(f'{line} stroke="#b3261e" stroke-dasharray="5 4" stroke-width="1"/>')
    parts.append(_line(x(sides[0].nominal), TOP, x(sides[0].nominal), HEIGHT - BOTTOM, "#9aa4ae", 1.0))
    parts += [_line(x(t.value), y(t.low), x(t.value), y(t.high), "#7d9cc4", 1.5) for t in tried]
    path = " ".join(f"{x(t.value):.1f},{y(t.success):.1f}" for t in tried)
    parts.append(f'<polyline points="{path}" fill="none" stroke="#1f4e8c" stroke-width="1.5"/>')
    parts += [f'<circle cx="{x(t.value):.1f}" cy="{y(t.success):.1f}" r="2.6" fill="#1f4e8c"/>' for t in tried]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, unit, "middle"))
    label = f"Success rate against {sides[0].factor}"
    body = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}" font-size="11" fill="#5b6470">{body}</svg>'


def _points(sides: Sequence[Margin], nominal: Case) -> list[Tried]:
    """Nominal and all values tried, from the least to the greatest."""
    assert nominal.success is not None and nominal.low is not None and nominal.high is not None
    middle = Tried(sides[0].nominal, nominal.success, nominal.low, nominal.high)
    return sorted([middle, *(t for m in sides for t in m.tried)], key=lambda t: t.value)


def _band(sides: Sequence[Margin], x: Place) -> list[str]:
    """The required range."""
    ends = [m.required for m in sides if m.required is not None]
    if not ends:
        return []
    ends.append(sides[0].nominal)
    left, right = x(min(ends)), x(max(ends))
    height = HEIGHT - TOP - BOTTOM
    return [f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{height}" fill="#dcefe3"/>']


def _axes(low: float, high: float, scale: float, x: Place, y: Place) -> list[str]:
    parts = [_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#5b6470", 1.0)]
    parts.append(_line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#5b6470", 1.0))
    for rate in (0.0, 0.5, 1.0):
        parts.append(_text(LEFT - 6, y(rate) + 4, f"{rate:g}", "end"))
    for value in ticks(low, high):
        at = x(value / scale)
        parts.append(_line(at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 4, "#5b6470", 1.0))
        parts.append(_text(at, HEIGHT - BOTTOM + 16, f"{value:.4g}", "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">success</text>')
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, color: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
