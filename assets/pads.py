"""Pads for drones to land on."""

from __future__ import annotations

import mujoco

from rookery.assets.scenery import platform

THICKNESS = 0.06  # m
_PAINT = 0.001  # m, thickness of the marks
_WHITE = (0.95, 0.95, 0.95, 1.0)


def landing_pad(edge: float) -> mujoco.MjSpec:
    """A square `platform` with an H on it, its upper face THICKNESS / 2 above the origin of its body.

    Args:
        edge: m.
    """
    spec = platform((edge, edge, THICKNESS), rgba=(0.16, 0.30, 0.52, 1.0))
    base = spec.body("base")
    bars = ((-0.22, 0.0, 0.05, 0.30), (0.22, 0.0, 0.05, 0.30), (0.0, 0.0, 0.22, 0.05))
    frame = ((-0.46, 0.0, 0.02, 0.48), (0.46, 0.0, 0.02, 0.48), (0.0, -0.46, 0.48, 0.02), (0.0, 0.46, 0.48, 0.02))
    for x, y, half_x, half_y in (*bars, *frame):
        base.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX, size=[half_x * edge, half_y * edge, 0.5 * _PAINT],
            pos=[x * edge, y * edge, 0.5 * (THICKNESS + _PAINT)], rgba=list(_WHITE), contype=0, conaffinity=0, mass=0,
        )  # fmt: skip
    return spec
