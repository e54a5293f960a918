"""The `pybullet` engine: an independent engine for sim-to-sim checks."""

from __future__ import annotations

from rookery.sim.engines.entry import Engine, register

register(
    Engine(
        "pybullet",
        "an independent engine, one client a world: for checking a finished policy",
        "rookery.sim.engines.pybullet.world:PyBulletWorld",
        batch=16,  # clients are slow to make
    )
)
