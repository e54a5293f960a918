"""The `rotor` engine: a compiled batch of worlds of multirotors, balls and static shapes."""

from __future__ import annotations

from pathlib import Path

from rookery.sim.engines.entry import Engine, register
from rookery.sim.numba_cache import forget_stale

_folder = Path(__file__).parent
forget_stale(_folder, _folder.parents[1] / "multirotor", _folder.parents[2] / "sim")

register(
    Engine(
        "rotor",
        "multirotors, balls and static shapes, compiled, with rotors, onboard controllers and air inside",
        "rookery.sim.engines.rotor.world:RotorWorld",
        batch=1024,
    )
)
