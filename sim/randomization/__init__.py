"""Domain randomization: parameters, ranges and visual randomization."""

from __future__ import annotations

from pathlib import Path

from rookery.sim.numba_cache import forget_stale

_here = Path(__file__).parent
forget_stale(_here, _here.parent)  # kernels here call those of rookery.sim
