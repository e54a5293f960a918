"""Looks of a Go2: generated shells around its physics, closed meshes in m in the frame of their body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rookery.assets.meshes import join, loft, tube

if TYPE_CHECKING:
    import trimesh

LIGHT = (0.86, 0.87, 0.88, 1.0)
DARK = (0.22, 0.23, 0.25, 1.0)
BLACK = (0.07, 0.07, 0.08, 1.0)
GLASS = (0.10, 0.20, 0.30, 1.0)


@dataclass(frozen=True)
class Go2Look:
    """One shell: `make(side, end)` for a left (1) or right (-1) leg at the front (1) or rear (-1)."""

    make: Callable[[int, int], trimesh.Trimesh]
    rgba: tuple[float, float, float, float]


def _bar(stations: Sequence[tuple[float, float, float, float, float]], axis: int) -> trimesh.Trimesh:
    """A loft along `axis` (0: x, 2: z) over rounded rectangles: (along, middle, half-width, middle, half-height) each."""
    angle = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    power = 0.45  # of a superellipse: 1 is an ellipse, 0 a rectangle
    u = np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** power
    v = np.sign(np.sin(angle)) * np.abs(np.sin(angle)) ** power
    rings = []
    for along, mid_u, half_u, mid_v, half_v in stations:
        a, b = mid_u + half_u * u, mid_v + half_v * v
        level = np.full_like(a, along)
        rings.append(np.stack((level, a, b) if axis == 0 else (a, b, level), axis=1))
    return loft(rings)


def _trunk(side: int, end: int) -> trimesh.Trimesh:
    return _bar(
        [(-0.20, 0, 0.045, 0.0, 0.035), (-0.185, 0, 0.065, 0.0, 0.052), (-0.10, 0, 0.072, 0.002, 0.057),
         (0.10, 0, 0.072, 0.002, 0.057), (0.20, 0, 0.066, 0.0, 0.052), (0.23, 0, 0.052, -0.002, 0.043)], 0,
    )  # fmt: skip


def _head(side: int, end: int) -> trimesh.Trimesh:
    return _bar(
        [(0.225, 0, 0.045, -0.005, 0.038), (0.26, 0, 0.058, -0.008, 0.046), (0.30, 0, 0.056, -0.012, 0.045),
         (0.325, 0, 0.042, -0.018, 0.032)], 0,
    )  # fmt: skip


def _face(side: int, end: int) -> trimesh.Trimesh:
    return _bar([(0.315, 0, 0.046, -0.014, 0.022), (0.330, 0, 0.036, -0.016, 0.016)], 0)


def _lidar(side: int, end: int) -> trimesh.Trimesh:
    return tube((0.28945, 0.0, -0.05), (0.28945, 0.0, -0.095), (0.03, 0.033, 0.024), 20)


def _saddle(side: int, end: int) -> trimesh.Trimesh:
    return _bar([(-0.16, 0, 0.05, 0.052, 0.01), (-0.14, 0, 0.056, 0.055, 0.01), (0.14, 0, 0.056, 0.055, 0.01),
                 (0.16, 0, 0.05, 0.052, 0.01)], 0)  # fmt: skip


def _shoulders(side: int, end: int) -> trimesh.Trimesh:
    """The blocks at both ends of the trunk that hold the hips' motors."""
    blocks = [_bar([(x - 0.045, 0, 0.060, 0, 0.040), (x - 0.03, 0, 0.083, 0, 0.047), (x + 0.012, 0, 0.083, 0, 0.045),
                    (x + 0.022, 0, 0.070, 0, 0.036)], 0) for x in (-0.185, 0.195)]  # fmt: skip
    return join(blocks)


def _panel(side: int, end: int) -> trimesh.Trimesh:
    """Dark strips along both flanks."""
    strips = [_bar([(-0.12, y, 0.004, 0.004, 0.012), (-0.11, y, 0.006, 0.004, 0.018), (0.11, y, 0.006, 0.004, 0.018),
                    (0.12, y, 0.004, 0.004, 0.012)], 0) for y in (-0.070, 0.070)]  # fmt: skip
    return join(strips)


def _hip_motor(side: int, end: int) -> trimesh.Trimesh:
    """Along x, half inside the trunk: it swings the leg sideways."""
    return tube((-end * 0.030, 0, 0), (end * 0.056, 0, 0), (0.036, 0.042, 0.042, 0.042, 0.034), 28)


def _hip_link(side: int, end: int) -> trimesh.Trimesh:
    """From the hip's motor out to the thigh's."""
    return tube((0, side * 0.005, 0), (0, side * 0.064, 0), (0.036, 0.039, 0.043, 0.046), 28)


def _thigh_motor(side: int, end: int) -> trimesh.Trimesh:
    return tube((0, side * 0.056, 0), (0, side * 0.080, 0), (0.046, 0.048, 0.048, 0.046), 28)


def _thigh_drum(side: int, end: int) -> trimesh.Trimesh:
    """At the thigh's top, outside of its motor: the knee's."""
    return tube((0, -side * 0.016, 0), (0, side * 0.028, 0), (0.044, 0.047, 0.047, 0.047, 0.042), 28)


def _thigh_cap(side: int, end: int) -> trimesh.Trimesh:
    return tube((0, side * 0.027, 0), (0, side * 0.033, 0), (0.034, 0.030), 28)


def _thigh(side: int, end: int) -> trimesh.Trimesh:
    return _bar([(0.012, -0.004, 0.040, 0, 0.019), (-0.05, -0.010, 0.034, 0, 0.019), (-0.10, -0.010, 0.026, 0, 0.017),
                 (-0.16, -0.004, 0.020, 0, 0.015), (-0.205, 0.0, 0.018, 0, 0.014), (-0.226, 0.0, 0.012, 0, 0.012)],
                2)  # fmt: skip


def _knee(side: int, end: int) -> trimesh.Trimesh:
    return tube((0, -0.019, -0.213), (0, 0.019, -0.213), (0.015, 0.018, 0.018, 0.015), 20)


def _calf(side: int, end: int) -> trimesh.Trimesh:
    return _bar([(0.012, 0.0, 0.014, 0, 0.011), (-0.02, 0.010, 0.013, 0, 0.011), (-0.10, 0.018, 0.010, 0, 0.010),
                 (-0.17, 0.010, 0.010, 0, 0.010), (-0.205, 0.0, 0.011, 0, 0.011)], 2)  # fmt: skip


def _foot(side: int, end: int) -> trimesh.Trimesh:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2, radius=0.022)
    ball.apply_translation((-0.002, 0.0, -0.213))
    return ball


TRUNK_LOOKS = (
    Go2Look(_trunk, LIGHT), Go2Look(_saddle, DARK), Go2Look(_head, DARK), Go2Look(_face, GLASS), Go2Look(_lidar, BLACK),
    Go2Look(_shoulders, DARK), Go2Look(_panel, BLACK),
)  # fmt: skip
LEG_LOOKS = {
    "hip": (Go2Look(_hip_motor, BLACK), Go2Look(_hip_link, DARK), Go2Look(_thigh_motor, LIGHT)),
    "thigh": (Go2Look(_thigh_drum, DARK), Go2Look(_thigh_cap, BLACK), Go2Look(_thigh, LIGHT), Go2Look(_knee, BLACK)),
    "calf": (Go2Look(_calf, DARK), Go2Look(_foot, BLACK)),
}
