"""Simulation: worlds, scenes, tasks, environments."""

from __future__ import annotations

from pathlib import Path

from rookery.sim.numba_cache import forget_stale

forget_stale(Path(__file__).parent)
