"""The `rotor` engine: a compiled batch of worlds of multirotors, balls and static shapes."""

from __future__ import annotations

from pathlib import Path

from rookery.sim.numba_cache import forget_stale

_folder = Path(__file__).parent
forget_stale(_folder, _folder.parents[1] / "multirotor", _folder.parents[2] / "sim")
