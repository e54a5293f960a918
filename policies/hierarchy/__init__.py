"""Hierarchies: skills, and high levels that decide which of them acts, and how."""

from __future__ import annotations

from pathlib import Path

from rookery.sim.numba_cache import forget_stale

_folder = Path(__file__).parent
forget_stale(_folder, _folder.parent / "storage", _folder.parents[1] / "sim")
