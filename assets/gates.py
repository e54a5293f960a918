"""Racing gates, and courses of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco

from rookery.assets.errors import RookeryError

Rgba = Sequence[float]
BLUE: Rgba = (0.13, 0.32, 0.72, 1.0)
OPENING, BAR, DEPTH = 1.0, 0.1, 0.06  # m


def gate(*, opening: float = OPENING, bar: float = BAR, depth: float = DEPTH, rgba: Rgba = BLUE) -> mujoco.MjSpec:
    """A square frame of four boxes that stands still; flown through along its x axis, with y to the left and z up.

    Names: body `gate`, geoms `top`, `bottom`, `left` and `right`. The origin is the middle of the opening.

    Args:
        opening: m, inner edge.
        bar: m, width of the frame's bars across the way through.
        depth: m, of the bars along the way through.
        rgba: color.

    Raises:
        RookeryError: a length that is not positive.
    """
    if not (opening > 0 and bar > 0 and depth > 0):
        raise RookeryError(f"a gate's opening, bar and depth must be positive, got {opening}, {bar} and {depth} m")
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="gate")
    middle = 0.5 * (opening + bar)
    outer = 0.5 * opening + bar
    boxes = {
        "top": ((0, 0, middle), (0.5 * depth, outer, 0.5 * bar)),
        "bottom": ((0, 0, -middle), (0.5 * depth, outer, 0.5 * bar)),
        "left": ((0, middle, 0), (0.5 * depth, 0.5 * bar, 0.5 * opening)),
        "right": ((0, -middle, 0), (0.5 * depth, 0.5 * bar, 0.5 * opening)),
    }
    for name, (pos, half) in boxes.items():
        body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, pos=list(pos), size=list(half), rgba=list(rgba))
    return spec


@dataclass(frozen=True)
class GatePose:
    """Pose of a gate: its middle in m, and the heading in rad of the way through it."""

    x: float
    y: float
    z: float
    yaw: float

    @property
    def quat(self) -> tuple[float, float, float, float]:
        """wxyz, of the gate's body."""
        return math.cos(0.5 * self.yaw), 0.0, 0.0, math.sin(0.5 * self.yaw)


def _along(x: Sequence[float], y: Sequence[float], z: Sequence[float]) -> tuple[GatePose, ...]:
    """Six gates on the closed curve (a sin(t + b), ...) with a, multiple of t, and b for x and y; z is middle and swing."""
    out = []
    for k in range(6):
        t = (k + 0.5) * math.pi / 3
        dx, dy = x[0] * x[1] * math.cos(x[1] * t + x[2]), y[0] * y[1] * math.cos(y[1] * t + y[2])
        place = x[0] * math.sin(x[1] * t + x[2]), y[0] * math.sin(y[1] * t + y[2])
        out.append(GatePose(*place, z[0] + z[1] * math.cos(t), math.atan2(dy, dx)))
    return tuple(out)


COURSES: dict[str, tuple[GatePose, ...]] = {
    # anticlockwise, rising on one side and sinking on the other
    "oval": _along((3.0, 1.0, math.pi / 2), (2.0, 1.0, 0.0), (1.5, 0.4)),
    # the two ways through the middle are a meter above each other
    "figure-eight": _along((3.0, 1.0, 0.0), (1.5, 2.0, 0.0), (1.6, 0.5)),
    # three lanes; in the third, a gate flown through high is above the next one, flown through low the other way
    "split-s": (
        GatePose(0.0, -2.0, 1.2, 0.0),
        GatePose(3.0, 0.0, 2.2, 0.5 * math.pi),
        GatePose(0.0, 2.0, 3.0, math.pi),
        GatePose(0.0, 2.0, 1.2, 0.0),
        GatePose(0.0, 0.0, 1.2, math.pi),
    ),
}
"""Closed courses by name: gates in the order in which they are flown through, m and rad in world axes."""
