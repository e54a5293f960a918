"""Obstacles that each world and each episode can put elsewhere."""

from __future__ import annotations

import mujoco

from rookery.assets.scenery import fixture, platform

FLOOR_GAP = 0.02  # m, between a pillar's foot and the ground: engines with contacts would push heavy bodies about


def pillar(radius: float, height: float) -> mujoco.MjSpec:
    """An upright cylinder that moves as it is told, its origin in its middle: body `base`, geom `obstacle`. It touches what may
    touch everything, such as drones, but no other pillar.

    Args:
        radius, height: m.
    """
    spec = platform((1.0, 1.0, 1.0), rgba=(0.72, 0.42, 0.24, 1.0))
    geom = spec.body("base").geoms[0]
    geom.name = "obstacle"
    geom.type = mujoco.mjtGeom.mjGEOM_CYLINDER
    geom.size = [radius, 0.5 * height, 0.0]
    geom.contype = 0
    geom.conaffinity = 1
    return spec


def post(radius: float, height: float) -> mujoco.MjSpec:
    """An upright cylinder on the ground that nothing moves, its origin in its middle: mocap body `base`, geom `obstacle`. It
    touches robots.

    Args:
        radius, height: m.
    """
    spec, base = fixture()
    geom = base.add_geom(name="obstacle", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[radius, 0.5 * height, 0.0])
    geom.rgba = [0.72, 0.42, 0.24, 1.0]
    return spec
