"""Worlds on PyBullet from MJCF, closed when a test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mujoco
import pytest

from rookery.sim.engines.pybullet.world import PyBulletWorld
from rookery.sim.scene import Scene

Make = Callable[..., PyBulletWorld]


@pytest.fixture
def make() -> Iterator[Make]:
    worlds: list[PyBulletWorld] = []

    def build(xml: str, n: int = 1, dt: float = 0.002) -> PyBulletWorld:
        worlds.append(PyBulletWorld(Scene(lambda: mujoco.MjSpec.from_string(f"<mujoco>{xml}</mujoco>"), dt=dt), n))
        return worlds[-1]

    yield build
    for w in worlds:
        w.close()
